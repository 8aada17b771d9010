/* Digests of a pack file, and the check of all that opening it leaves unread. */
#include <string.h>

#include "base/sha256.h"
#include "weights/checkpoint.h"
#include "weights/packfile_layout.h"

void ls_packfile_header_sha256(const uint8_t *file, uint32_t sections, uint8_t digest[32]) {
    ls_sha256 h;
    ls_sha256_init(&h);
    ls_sha256_update(&h, file, LS_AT_DIGEST);
    ls_sha256_update(&h, file + LS_PACK_HEADER, (size_t)sections * LS_PACK_ENTRY);
    ls_sha256_final(&h, digest);
}

void ls_packfile_tensor_sha256(const ls_tensor *t, uint8_t digest[32]) {
    ls_sha256 h;
    ls_sha256_init(&h);
    if (t->data) ls_sha256_update(&h, t->data, t->bytes);
    if (t->scales) ls_sha256_update(&h, t->scales, t->scale_bytes);
    if (t->biases) ls_sha256_update(&h, t->biases, t->scale_bytes);
    ls_sha256_final(&h, digest);
}

/* A check under way; |done| of |total| bytes. */
typedef struct check {
    const ls_checkpoint *c;
    const ls_packfile *p;
    void (*progress)(void *user, double fraction);
    void *user;
    double done, total;
} check;

/* Pages that were only read for their digest shall not stay resident. */
static void advance(check *k, const void *data, size_t bytes) {
    for (size_t i = 0; i < k->c->n_files && data; i++) {
        const ls_map *m = &k->c->files[i].map;
        if (m->data == k->p->file.data) ls_map_forget(m, (size_t)((const uint8_t *)data - m->data), bytes);
    }
    k->done += (double)bytes;
    if (k->progress) k->progress(k->user, k->total > 0 ? k->done / k->total : 1.0);
}

static ls_code differs(const check *k, ls_section s, const char *name, ls_error *e) {
    LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section %s: the checksum of \"%s\" is wrong; the file is damaged: pack the model again", k->p->path,
            ls_section_name(s), name);
}

static ls_code check_tensors(check *k, ls_error *e) {
    for (size_t i = 0; i < k->c->n; i++) {
        const ls_tensor *t = &k->c->entries[i].t;
        uint8_t digest[32];
        if (!t->data) continue;
        ls_packfile_tensor_sha256(t, digest);
        if (memcmp(digest, k->p->stored[i], 32)) return differs(k, LS_SECTION_TENSOR_DATA, t->name, e);
        advance(k, t->data, t->bytes);
    }
    return LS_OK;
}

static ls_code check_matrices(check *k, ls_error *e) {
    for (size_t i = 0; i < k->p->n_matrices; i++) {
        const ls_pack_matrix *m = &k->p->matrices[i];
        uint8_t digest[32];
        ls_sha256_of(m->data, m->bytes, digest);
        if (memcmp(digest, m->sha256, 32)) return differs(k, LS_SECTION_WEIGHTS, m->tensor->name, e);
        advance(k, m->data, m->bytes);
    }
    return LS_OK;
}

/* Bytes up to the next section, and between tensors and matrices, are zero. */
static ls_code check_zeros(const check *k, ls_section s, const uint8_t *begin, const uint8_t *end, ls_error *e) {
    for (const uint8_t *p = begin; p < end; p++)
        if (*p)
            LS_FAIL(e, LS_DATA_LOSS, "\"%s\": byte %zu before or in section %s is %u; padding must be 0", k->p->path, (size_t)(p - k->p->file.data),
                    ls_section_name(s), *p);
    return LS_OK;
}

static ls_code check_padding(const check *k, ls_error *e) {
    const ls_packfile *p = k->p;
    const uint8_t *end = p->file.data + LS_PACK_HEADER + (size_t)ls_load_u32(p->file.data + LS_AT_SECTIONS) * LS_PACK_ENTRY;
    for (int s = 0; s < LS_SECTION_COUNT; s++) {
        if (!p->section[s].data) continue;
        LS_TRY(check_zeros(k, (ls_section)s, end, p->section[s].data, e));
        end = p->section[s].data + p->section[s].size;
    }
    end = p->section[LS_SECTION_TENSOR_DATA].data;
    for (size_t i = 0; i < k->c->n; i++) {
        const ls_tensor *t = &k->c->entries[i].t;
        const struct {
            const void *data;
            size_t bytes;
        } array[] = {{t->data, t->bytes}, {t->scales, t->scale_bytes}, {t->biases, t->scale_bytes}};
        for (int a = 0; a < 3; a++) {
            if (!array[a].data) continue;
            LS_TRY(check_zeros(k, LS_SECTION_TENSOR_DATA, end, array[a].data, e));
            end = (const uint8_t *)array[a].data + array[a].bytes;
        }
    }
    end = p->section[LS_SECTION_WEIGHTS].data;
    for (size_t i = 0; i < p->n_matrices; i++) {
        LS_TRY(check_zeros(k, LS_SECTION_WEIGHTS, end, p->matrices[i].data, e));
        end = p->matrices[i].data + p->matrices[i].bytes;
    }
    return LS_OK;
}

ls_code ls_packfile_check(const ls_checkpoint *c, void (*progress)(void *user, double fraction), void *user, ls_error *e) {
    if (!ls_checkpoint_pack(c)) LS_FAIL(e, LS_INVALID_ARGUMENT, "the model is no pack file; lockstep pack makes one, with checksums to check");
    check k = {.c = c, .p = c->pack, .progress = progress, .user = user};
    k.total = (double)c->pack->section[LS_SECTION_TENSOR_DATA].size + (double)c->pack->section[LS_SECTION_WEIGHTS].size;
    LS_TRY(check_padding(&k, e));
    LS_TRY(check_tensors(&k, e));
    return check_matrices(&k, e);
}
