/* Helpers of the weight tests: fixture files, the generator shared with tools/make_weight_goldens.py, temporary
 * folders. */
#ifndef LS_TESTS_WEIGHTS_SUPPORT_H
#define LS_TESTS_WEIGHTS_SUPPORT_H

#include <stdlib.h>
#include <unistd.h>

#include "test.h"

#include "weights/checkpoint.h"

/* A whole file in malloc'd memory; fails the test when absent. */
static inline uint8_t *slurp(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    uint8_t *p = malloc(*size + 1);
    assert_non_null(p);
    assert_int_equal(fread(p, 1, *size, f), *size);
    p[*size] = 0;
    fclose(f);
    return p;
}

/* splitmix64, as in the golden script. */
static inline uint64_t splitmix(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static inline void random_bytes(uint64_t seed, uint8_t *out, size_t n) {
    for (size_t i = 0; i < n;) {
        uint64_t z = splitmix(&seed);
        for (int b = 0; b < 8 && i < n; b++, z >>= 8) out[i++] = (uint8_t)z;
    }
}

static inline void store_u64(uint8_t *p, uint64_t v) {
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> 8 * i);
}

/* A temporary folder that the caller empties with drop_folder. */
typedef struct folder {
    char path[64];
    char files[16][128];
    int n;
} folder;

static inline void make_folder(folder *f) {
    f->n = 0;
    strcpy(f->path, "/tmp/ls_weights_XXXXXX");
    assert_non_null(mkdtemp(f->path));
}

static inline const char *put_file(folder *f, const char *name, const void *data, size_t size) {
    char full[128];
    snprintf(full, sizeof full, "%s/%s", f->path, name);
    char *path = memcpy(f->files[f->n++], full, sizeof full);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    if (size) assert_int_equal(fwrite(data, 1, size, out), size);
    fclose(out);
    return path;
}

static inline void drop_folder(folder *f) {
    for (int i = 0; i < f->n; i++) unlink(f->files[i]);
    rmdir(f->path);
}

/* A safetensors file image: length, |header|, |n_data| bytes counting up from 0. */
static inline uint8_t *make_safetensors(const char *header, size_t n_data, size_t *size) {
    size_t n = strlen(header);
    *size = 8 + n + n_data;
    uint8_t *p = malloc(*size);
    assert_non_null(p);
    store_u64(p, n);
    memcpy(p + 8, header, n);
    for (size_t i = 0; i < n_data; i++) p[8 + n + i] = (uint8_t)i;
    return p;
}

#endif
