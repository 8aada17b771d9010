/* Writing a pack file. Every size is known before a byte is written, so the large sections stream to their final places, each part with its digest; the
 * tables of digests and the header follow, and the file gets its name last. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.h"
#include "base/temporary.h"
#include "weights/checkpoint.h"
#include "weights/packfile_layout.h"

/* A file that is being written. */
typedef struct writing {
    const ls_pack_source *s;
    const char *path;                 /* for messages */
    int fd;
    ls_str text[LS_SECTION_COUNT];    /* the small sections */
    uint64_t offset[LS_SECTION_COUNT], size[LS_SECTION_COUNT]; /* size 0: absent */
    uint8_t (*tensor_sha256)[32], (*matrix_sha256)[32];
    double done, total;
} writing;

static uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

/* ---- Records ------------------------------------------------------------------------------------------------------- */

static ls_code put_number(ls_str *s, uint64_t v, int bytes, ls_error *e) {
    char p[8];
    for (int i = 0; i < bytes; i++) p[i] = (char)(v >> 8 * i & 255);
    return ls_str_append(s, p, (size_t)bytes, e);
}

static ls_code put_name(ls_str *s, const char *name, ls_error *e) {
    LS_TRY(put_number(s, strlen(name), 4, e));
    return ls_str_append(s, name, strlen(name), e);
}

static ls_code put_tensor(ls_str *s, const ls_tensor *t, bool stored, const uint8_t sha256[32], ls_error *e) {
    LS_TRY(put_name(s, t->name, e));
    LS_TRY(put_name(s, t->dtype, e));
    LS_TRY(put_name(s, ls_format_get(t->format)->name, e));
    LS_TRY(put_number(s, (uint64_t)t->rank, 4, e));
    for (int i = 0; i < t->rank; i++) LS_TRY(put_number(s, (uint64_t)t->shape[i], 8, e));
    if (t->format == LS_MLX_AFFINE) {
        LS_TRY(put_number(s, (uint64_t)t->mlx_bits, 4, e));
        LS_TRY(put_number(s, (uint64_t)t->mlx_group, 4, e));
        LS_TRY(put_name(s, ls_format_get(t->scale_format)->name, e));
    }
    LS_TRY(put_number(s, stored, 4, e));
    return stored ? ls_str_append(s, (const char *)sha256, 32, e) : LS_OK;
}

/* Both tables, with the digests known so far: the sizes do not depend on them. */
static ls_code make_tables(writing *w, ls_error *e) {
    const ls_pack_source *s = w->s;
    const ls_checkpoint *c = s->checkpoint;
    ls_str *tensors = &w->text[LS_SECTION_TENSORS], *matrices = &w->text[LS_SECTION_MATRICES];
    ls_str_clear(tensors);
    ls_str_clear(matrices);
    LS_TRY(put_number(tensors, c->n, 4, e));
    for (size_t i = 0; i < c->n; i++) LS_TRY(put_tensor(tensors, &c->entries[i].t, s->stored[i], w->tensor_sha256[i], e));
    LS_TRY(put_number(matrices, s->n_matrices, 4, e));
    for (size_t i = 0; i < s->n_matrices; i++) {
        const ls_pack_matrix *m = &s->matrices[i];
        const ls_entry *entry = ls_checkpoint_entry(c, m->tensor->name);
        LS_TRY(put_number(matrices, (uint64_t)(entry - c->entries), 4, e));
        LS_TRY(put_number(matrices, (uint64_t)m->row_begin, 8, e));
        LS_TRY(put_number(matrices, (uint64_t)m->rows, 8, e));
        LS_TRY(put_number(matrices, m->bytes, 8, e));
        LS_TRY(ls_str_append(matrices, (const char *)w->matrix_sha256[i], 32, e));
    }
    return LS_OK;
}

static int append(const char *bytes, size_t n, void *user) { return ls_str_append(user, bytes, n, NULL) ? -1 : 0; }

static ls_code make_json(writing *w, ls_section s, const json_t *v, ls_error *e) {
    if (json_dump_callback(v, append, &w->text[s], JSON_COMPACT))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "section %s: the model's configuration has text that is no valid UTF-8", ls_section_name(s));
    return LS_OK;
}

/* ---- Plan ---------------------------------------------------------------------------------------------------------- */

static uint64_t tensor_data_bytes(const ls_pack_source *s) {
    uint64_t at = 0;
    for (size_t i = 0; i < s->checkpoint->n; i++) {
        const ls_tensor *t = &s->checkpoint->entries[i].t;
        if (!s->stored[i]) continue;
        at = round_up(at, LS_PACK_PART_ALIGN) + t->bytes;
        if (t->format != LS_MLX_AFFINE) continue;
        for (int k = 0; k < 2; k++) at = round_up(at, LS_PACK_PART_ALIGN) + t->scale_bytes;
    }
    return at;
}

static uint64_t matrix_bytes(const ls_pack_source *s) {
    uint64_t at = 0;
    for (size_t i = 0; i < s->n_matrices; i++) at = round_up(at, LS_PACK_PART_ALIGN) + s->matrices[i].bytes;
    return at;
}

static uint32_t count_sections(const writing *w) {
    uint32_t n = 0;
    for (int s = 0; s < LS_SECTION_COUNT; s++) n += w->size[s] > 0;
    return n;
}

static ls_code plan(writing *w, ls_error *e) {
    const ls_pack_source *s = w->s;
    LS_TRY(ls_calloc(&w->tensor_sha256, s->checkpoint->n, 32, "digests", e));
    LS_TRY(ls_calloc(&w->matrix_sha256, s->n_matrices, 32, "digests", e));
    LS_TRY(make_json(w, LS_SECTION_CONFIG, ls_checkpoint_config(s->checkpoint), e));
    LS_TRY(make_json(w, LS_SECTION_GENERATION, ls_checkpoint_generation_config(s->checkpoint), e));
    LS_TRY(make_tables(w, e));
    for (int i = 0; i < LS_SECTION_COUNT; i++) w->size[i] = w->text[i].len;
    w->size[LS_SECTION_TOKENIZER] = s->tokenizer.data ? s->tokenizer.size : 0;
    w->size[LS_SECTION_CHAT_TEMPLATE] = s->chat_template.data ? s->chat_template.size : 0;
    w->size[LS_SECTION_IMAGES] = s->image_processor.data ? s->image_processor.size : 0;
    w->size[LS_SECTION_TENSOR_DATA] = tensor_data_bytes(s);
    w->size[LS_SECTION_WEIGHTS] = matrix_bytes(s);
    w->total = (double)w->size[LS_SECTION_TENSOR_DATA] + (double)w->size[LS_SECTION_WEIGHTS];
    uint64_t at = LS_PACK_HEADER + (uint64_t)count_sections(w) * LS_PACK_ENTRY;
    for (int i = 0; i < LS_SECTION_COUNT; i++) {
        if (!w->size[i]) continue;
        w->offset[i] = round_up(at, LS_PACK_ALIGN);
        at = w->offset[i] + w->size[i];
    }
    return LS_OK;
}

/* ---- Bytes --------------------------------------------------------------------------------------------------------- */

static ls_code write_at(const writing *w, uint64_t at, const void *data, size_t bytes, ls_error *e) {
    const char *p = data;
    while (bytes) {
        ssize_t n = pwrite(w->fd, p, bytes < 1 << 30 ? bytes : 1 << 30, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "cannot write \"%s\": %s", w->path, n < 0 ? strerror(errno) : "the disk is full");
        p += n;
        at += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return LS_OK;
}

static void advance(writing *w, size_t bytes) {
    w->done += (double)bytes;
    if (w->s->progress) w->s->progress(w->s->progress_user, w->total > 0 ? w->done / w->total : 1.0);
}

static ls_code write_tensors(writing *w, ls_error *e) {
    const ls_checkpoint *c = w->s->checkpoint;
    uint64_t at = w->offset[LS_SECTION_TENSOR_DATA];
    for (size_t i = 0; i < c->n; i++) {
        const ls_tensor *t = &c->entries[i].t;
        if (!w->s->stored[i]) continue;
        ls_packfile_tensor_sha256(t, w->tensor_sha256[i]);
        at = round_up(at, LS_PACK_PART_ALIGN);
        LS_TRY(write_at(w, at, t->data, t->bytes, e));
        at += t->bytes;
        for (int k = 0; k < 2 && t->format == LS_MLX_AFFINE; k++) {
            at = round_up(at, LS_PACK_PART_ALIGN);
            LS_TRY(write_at(w, at, k ? t->biases : t->scales, t->scale_bytes, e));
            at += t->scale_bytes;
        }
        ls_checkpoint_forget((ls_checkpoint *)(uintptr_t)c, t);
        advance(w, t->bytes);
    }
    return LS_OK;
}

static ls_code write_matrices(writing *w, ls_error *e) {
    uint64_t at = w->offset[LS_SECTION_WEIGHTS];
    for (size_t i = 0; i < w->s->n_matrices; i++) {
        const ls_pack_matrix *m = &w->s->matrices[i];
        const uint8_t *data = NULL;
        LS_TRY(w->s->matrix(w->s->user, i, &data, e));
        ls_sha256_of(data, m->bytes, w->matrix_sha256[i]);
        at = round_up(at, LS_PACK_PART_ALIGN);
        LS_TRY(write_at(w, at, data, m->bytes, e));
        at += m->bytes;
        advance(w, m->bytes);
    }
    return LS_OK;
}

static void store(uint8_t *p, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(v >> 8 * i);
}

/* The text of a small section; NULL: it is a large one, whose parts have their digests in the tables. */
static const void *text_of(const writing *w, int section) {
    if (section == LS_SECTION_TOKENIZER) return w->s->tokenizer.data;
    if (section == LS_SECTION_CHAT_TEMPLATE) return w->s->chat_template.data;
    if (section == LS_SECTION_IMAGES) return w->s->image_processor.data;
    return w->text[section].data;
}

static ls_code write_head(const writing *w, ls_error *e) {
    uint8_t head[LS_PACK_HEADER + LS_SECTION_COUNT * LS_PACK_ENTRY] = {0};
    const ls_pack_identity *id = &w->s->id;
    uint32_t sections = 0;
    uint64_t end = 0;
    for (int i = 0; i < LS_SECTION_COUNT; i++) {
        if (!w->size[i]) continue;
        end = w->offset[i] + w->size[i];
        uint8_t *entry = head + LS_PACK_HEADER + sections++ * LS_PACK_ENTRY;
        store(entry, (uint64_t)i + 1, 4);
        store(entry + LS_AT_OFFSET, w->offset[i], 8);
        store(entry + LS_AT_BYTES, w->size[i], 8);
        const void *data = text_of(w, i);
        if (!data) continue;
        ls_sha256_of(data, (size_t)w->size[i], entry + LS_AT_SHA256);
        LS_TRY(write_at(w, w->offset[i], data, (size_t)w->size[i], e));
    }
    memcpy(head, LS_PACK_MAGIC, 8);
    store(head + LS_AT_FORMAT, LS_PACK_FORMAT, 4);
    store(head + LS_AT_SECTIONS, sections, 4);
    store(head + LS_AT_SIZE, end, 8);
    store(head + LS_AT_LAYOUT, id->layout, 4);
    store(head + LS_AT_CONTRACT, id->contract, 4);
    store(head + LS_AT_CONTRACT_VERSION, id->contract_version, 4);
    memcpy(head + LS_AT_FINGERPRINT, id->fingerprint, 32);
    memcpy(head + LS_AT_SCHEMA, id->schema, 32);
    memcpy(head + LS_AT_WEIGHTS, id->weights, 32);
    ls_packfile_header_sha256(head, sections, head + LS_AT_DIGEST);
    return write_at(w, 0, head, LS_PACK_HEADER + sections * LS_PACK_ENTRY, e);
}

static ls_code write_all(writing *w, ls_error *e) {
    LS_TRY(plan(w, e));
    if (!w->size[LS_SECTION_TENSOR_DATA] || !w->size[LS_SECTION_WEIGHTS]) LS_FAIL(e, LS_INVALID_ARGUMENT, "the model has no weights to pack");
    LS_TRY(write_tensors(w, e));
    LS_TRY(write_matrices(w, e));
    LS_TRY(make_tables(w, e));
    LS_TRY(write_head(w, e));
    if (fsync(w->fd)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "cannot write \"%s\": %s", w->path, strerror(errno));
    return LS_OK;
}

/* What is there may be replaced when it is a file and none of the checkpoint's own. */
static ls_code check_target(const char *path, const ls_checkpoint *c, ls_error *e) {
    struct stat st, own;
    if (stat(path, &st)) return LS_OK;
    if (!S_ISREG(st.st_mode)) LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\" is not a regular file; name a file to write", path);
    for (size_t i = 0; i < c->n_files; i++)
        if (!stat(c->files[i].path, &own) && own.st_dev == st.st_dev && own.st_ino == st.st_ino)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\" holds the weights that are to be packed; name another file", path);
    return LS_OK;
}

ls_code ls_packfile_write(const char *path, const ls_pack_source *s, ls_error *e) {
    writing w = {.s = s, .path = path};
    ls_temporary t = {0};
    ls_code rc;
    LS_GOTO(check_target(path, s->checkpoint, e));
    ls_temporary_sweep(path);
    LS_GOTO(ls_temporary_open(&t, path, 0644, e));
    w.fd = t.fd;
    LS_GOTO(write_all(&w, e));
    rc = ls_temporary_publish(&t, e);
out:
    ls_temporary_drop(&t);
    for (int i = 0; i < LS_SECTION_COUNT; i++) ls_str_deinit(&w.text[i]);
    ls_free(w.tensor_sha256);
    ls_free(w.matrix_sha256);
    return rc;
}
