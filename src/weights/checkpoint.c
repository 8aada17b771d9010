/* The checkpoint object: opening by kind of path, the sorted tensor table, lookups, and identities. */
#include "weights/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"

void ls_shape_text(const ls_tensor *t, char out[LS_SHAPE_TEXT]) {
    *out = 0;
    for (int i = 0, n = 0; i < t->rank && n < LS_SHAPE_TEXT - 24; i++)
        n += snprintf(out + n, (size_t)(LS_SHAPE_TEXT - n), "%s%lld", i ? ", " : "", (long long)t->shape[i]);
}

bool ls_shape_elements(const int64_t *shape, int rank, int64_t *out) {
    int64_t n = 1; /* without the axes of size 0: an empty tensor's rows must count too */
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0 || (shape[i] && n > INT64_MAX / shape[i])) return false;
        if (shape[i]) n *= shape[i];
        else empty = true;
    }
    *out = empty ? 0 : n;
    return true;
}

ls_code ls_checkpoint_create(ls_checkpoint **out, ls_error *e) {
    ls_checkpoint *c;
    LS_TRY(ls_calloc(&c, 1, sizeof *c, "checkpoint", e));
    ls_code rc = ls_arena_create(&c->arena, e);
    c->config = json_object();
    c->generation = json_object();
    if (!rc && (!c->config || !c->generation))
        rc = ls_error_set(e, LS_RESOURCE_EXHAUSTED, __FILE__, __LINE__, "checkpoint: out of memory");
    if (rc) {
        ls_checkpoint_close(c);
        return rc;
    }
    *out = c;
    return LS_OK;
}

void ls_checkpoint_close(ls_checkpoint *c) {
    if (!c) return;
    for (size_t i = 0; i < c->n_files; i++) ls_map_close(&c->files[i].map);
    ls_free(c->files);
    ls_free(c->entries);
    json_decref(c->config);
    json_decref(c->generation);
    json_decref(c->metadata);
    ls_arena_destroy(c->arena);
    ls_free(c);
}

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

ls_code ls_checkpoint_add_file(ls_checkpoint *c, const char *path, ls_error *e) {
    bool gguf = ends_with(path, ".gguf"), safetensors = ends_with(path, ".safetensors");
    LS_TRY(ls_grow(&c->files, c->n_files, &c->cap_files, sizeof *c->files, LS_MAX_FILES, "weight files", e));
    ls_weight_file *f = &c->files[c->n_files];
    LS_TRY(ls_map_open(&f->map, path, e));
    f->path = path;
    c->n_files++;
    if (ls_packfile_is(f->map.data, f->map.size)) {
        ls_map_prefer_huge(&f->map);
        return ls_packfile_parse(c, f->map.data, f->map.size, path, e);
    }
    if (!gguf && !safetensors)
        LS_FAIL(e, LS_INVALID_ARGUMENT,
                "\"%s\" is no checkpoint: give a .gguf file, a .safetensors file, a model folder or what lockstep pack made", path);
    return gguf ? ls_gguf_parse(c, f->map.data, f->map.size, path, e)
                : ls_safetensors_parse(c, f->map.data, f->map.size, path, e);
}

ls_code ls_checkpoint_add(ls_checkpoint *c, const ls_tensor *t, const char *path, ls_error *e) {
    LS_TRY(ls_grow(&c->entries, c->n, &c->cap, sizeof *c->entries, LS_MAX_TENSORS, "tensors", e));
    c->entries[c->n++] = (ls_entry){.t = *t, .path = path};
    return LS_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const ls_entry *)a)->t.name, ((const ls_entry *)b)->t.name);
}

ls_code ls_checkpoint_seal(ls_checkpoint *c, ls_error *e) {
    size_t kept = 0;
    for (size_t i = 0; i < c->n; i++)
        if (!c->entries[i].dropped) c->entries[kept++] = c->entries[i];
    c->n = kept;
    if (kept) qsort(c->entries, kept, sizeof *c->entries, by_name);
    for (size_t i = 1; i < kept; i++) {
        const ls_entry *a = &c->entries[i - 1], *b = &c->entries[i];
        if (!strcmp(a->t.name, b->t.name))
            LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\" occurs twice, in \"%s\" and \"%s\"; keep one of them",
                    a->t.name, a->path, b->path);
    }
    return LS_OK;
}

ls_code ls_checkpoint_finish(ls_checkpoint *c, ls_error *e) {
    if (c->pack) return LS_OK; /* in order, folded and translated when it was made */
    LS_TRY(ls_checkpoint_seal(c, e));
    if (c->metadata) return ls_gguf_config(c, e);
    LS_TRY(ls_mlx_fold(c, e));
    return ls_checkpoint_seal(c, e);
}

/* A file on its own: safetensors may have its configuration beside it. */
static ls_code add_single(ls_checkpoint *c, const char *path, ls_error *e) {
    const char *own;
    LS_TRY(ls_arena_strdup(c->arena, &own, path, SIZE_MAX, e));
    if (ends_with(own, ".safetensors")) {
        const char *slash = strrchr(own, '/');
        size_t len = slash ? (size_t)(slash - own) + (slash == own) : 1;
        LS_TRY(ls_arena_strdup(c->arena, &c->folder, slash ? own : ".", len, e));
        LS_TRY(ls_folder_configs(c, c->folder, false, e));
    }
    return ls_checkpoint_add_file(c, own, e);
}

ls_code ls_checkpoint_open(ls_checkpoint **out, const char *path, ls_error *e) {
    ls_checkpoint *c;
    LS_TRY(ls_checkpoint_create(&c, e));
    ls_code rc = ls_is_folder(path) ? ls_folder_add(c, path, e) : add_single(c, path, e);
    if (!rc) rc = ls_checkpoint_finish(c, e);
    if (rc) {
        ls_checkpoint_close(c);
        return rc;
    }
    *out = c;
    return LS_OK;
}

const json_t *ls_checkpoint_config(const ls_checkpoint *c) { return c->config; }
const json_t *ls_checkpoint_generation_config(const ls_checkpoint *c) { return c->generation; }
const json_t *ls_checkpoint_gguf_metadata(const ls_checkpoint *c) { return c->metadata; }
const char *ls_checkpoint_folder(const ls_checkpoint *c) { return c->folder; }

ls_entry *ls_checkpoint_entry(const ls_checkpoint *c, const char *name) {
    ls_entry key = {.t.name = name};
    return c->n ? bsearch(&key, c->entries, c->n, sizeof key, by_name) : NULL;
}

const ls_tensor *ls_checkpoint_find(ls_checkpoint *c, const char *name) {
    ls_entry *entry = ls_checkpoint_entry(c, name);
    if (!entry) return NULL;
    entry->used = true;
    return &entry->t;
}

size_t ls_checkpoint_count(const ls_checkpoint *c) { return c->n; }
const ls_tensor *ls_checkpoint_at(const ls_checkpoint *c, size_t i) { return i < c->n ? &c->entries[i].t : NULL; }

size_t ls_checkpoint_index(const ls_checkpoint *c, const ls_tensor *t) {
    const ls_entry *found = ls_checkpoint_entry(c, t->name);
    return found && &found->t == t ? (size_t)(found - c->entries) : SIZE_MAX;
}

const char *ls_checkpoint_unused(const ls_checkpoint *c, size_t i) {
    for (size_t k = 0; k < c->n; k++)
        if (!c->entries[k].used && !i--) return c->entries[k].t.name;
    return NULL;
}

static void forget(const ls_checkpoint *c, const void *data, size_t bytes) {
    for (size_t i = 0; c && data && i < c->n_files; i++) {
        const ls_map *m = &c->files[i].map;
        uintptr_t first = (uintptr_t)m->data, at = (uintptr_t)data;
        if (m->data && at >= first && at - first < m->size) ls_map_forget(m, at - first, bytes);
    }
}

void ls_checkpoint_forget(ls_checkpoint *c, const ls_tensor *t) {
    forget(c, t->data, t->bytes);
    forget(c, t->scales, t->scale_bytes);
    forget(c, t->biases, t->scale_bytes);
}

void ls_checkpoint_forget_rows(ls_checkpoint *c, const ls_tensor *t, int64_t begin, int64_t n) {
    size_t rows = (size_t)ls_tensor_rows(t), first = (size_t)begin, count = (size_t)n;
    if (!rows) return;
    const struct {
        const uint8_t *data;
        size_t bytes;
    } part[] = {{t->data, t->bytes / rows}, {t->scales, t->scale_bytes / rows}, {t->biases, t->scale_bytes / rows}};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (part[i].data) forget(c, part[i].data + first * part[i].bytes, count * part[i].bytes);
}

void ls_checkpoint_forget_files(ls_checkpoint *c) {
    for (size_t i = 0; c && i < c->n_files; i++) ls_map_forget(&c->files[i].map, 0, c->files[i].map.size);
}

void ls_checkpoint_drop_metadata(ls_checkpoint *c) {
    if (!c || !c->metadata) return;
    json_decref(c->metadata);
    c->metadata = NULL;
    ls_checkpoint_forget_files(c);
}

static void finish_hex(ls_sha256 *h, char hex[65]) {
    uint8_t digest[32];
    ls_sha256_final(h, digest);
    ls_sha256_hex(digest, hex);
}

ls_code ls_checkpoint_schema_sha256(const ls_checkpoint *c, char hex[65], ls_error *e) {
    ls_sha256 h;
    ls_sha256_init(&h);
    ls_str line = {0};
    ls_code rc = LS_OK;
    for (size_t i = 0; i < c->n; i++) {
        const ls_tensor *t = &c->entries[i].t;
        ls_str_clear(&line);
        LS_GOTO(ls_str_printf(&line, e, "%s %s", t->name,
                              t->format == LS_OTHER ? t->dtype : ls_format_get(t->format)->name));
        if (t->format == LS_MLX_AFFINE)
            LS_GOTO(
                ls_str_printf(&line, e, "/%d/%d/%s", t->mlx_bits, t->mlx_group, ls_format_get(t->scale_format)->name));
        for (int d = 0; d < t->rank; d++) LS_GOTO(ls_str_printf(&line, e, " %lld", (long long)t->shape[d]));
        LS_GOTO(ls_str_append(&line, "\n", 1, e));
        ls_sha256_update(&h, line.data, line.len);
    }
    finish_hex(&h, hex);
out:
    ls_str_deinit(&line);
    return rc;
}

ls_code ls_checkpoint_bytes_sha256(const ls_checkpoint *c, char hex[65], ls_error *e) {
    (void)e;
    if (c->pack) {
        ls_sha256_hex(c->pack->id.weights, hex);
        return LS_OK;
    }
    ls_sha256 h;
    ls_sha256_init(&h);
    for (size_t i = 0; i < c->n; i++) {
        const ls_tensor *t = &c->entries[i].t;
        ls_sha256_update(&h, t->name, strlen(t->name) + 1);
        if (t->bytes) ls_sha256_update(&h, t->data, t->bytes);
        if (t->scales && t->scale_bytes) {
            ls_sha256_update(&h, t->scales, t->scale_bytes);
            ls_sha256_update(&h, t->biases, t->scale_bytes);
        }
    }
    finish_hex(&h, hex);
    return LS_OK;
}
