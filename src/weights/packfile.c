/* Reading a pack file: the header and the section table, then each section, everything through bounded cursors. See packfile.h and docs/pack.md. */
#include "weights/packfile.h"

#include <string.h>

#include "base/sha256.h"
#include "weights/checkpoint.h"
#include "weights/packfile_layout.h"

static const char *const section_names[LS_SECTION_COUNT] = {"config",        "generation_config", "tensors",        "matrices",       "tokenizer",
                                                            "chat_template", "tensor_data",       "packed_weights", "image_processor"};

const char *ls_section_name(ls_section s) { return (unsigned)s < LS_SECTION_COUNT ? section_names[s] : "unknown"; }

bool ls_packfile_is(const uint8_t *data, size_t size) { return size >= 8 && !memcmp(data, LS_PACK_MAGIC, 8); }

const ls_packfile *ls_checkpoint_pack(const ls_checkpoint *c) { return c ? c->pack : NULL; }

/* A pack file that is being read. */
typedef struct packing {
    ls_checkpoint *c;
    ls_packfile *p;
    uint8_t sha256[LS_SECTION_COUNT][32]; /* of the section table */
} packing;

/* ---- Header and section table ------------------------------------------------------------------------------------- */

static ls_code check_header(const ls_packfile *p, uint32_t *sections, ls_error *e) {
    const uint8_t *h = p->file.data;
    if (!ls_packfile_is(h, p->file.size)) LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\" does not begin as a pack file does", p->path);
    if (p->file.size < LS_PACK_HEADER)
        LS_FAIL(e, LS_DATA_LOSS, "\"%s\": the header has %zu of %d bytes; the file is truncated", p->path, p->file.size, LS_PACK_HEADER);
    uint32_t version = ls_load_u32(h + LS_AT_FORMAT);
    if (version != LS_PACK_FORMAT)
        LS_FAIL(e, LS_FAILED_PRECONDITION, "\"%s\": header: pack format %u; this lockstep reads format %d: pack the model again", p->path, version,
                LS_PACK_FORMAT);
    *sections = ls_load_u32(h + LS_AT_SECTIONS);
    if (*sections < 1 || *sections > LS_SECTION_COUNT)
        LS_FAIL(e, LS_DATA_LOSS, "\"%s\": header: %u sections; a pack file has 1 to %d", p->path, *sections, LS_SECTION_COUNT);
    size_t end = LS_PACK_HEADER + (size_t)*sections * LS_PACK_ENTRY;
    if (p->file.size < end)
        LS_FAIL(e, LS_DATA_LOSS, "\"%s\": the section table ends at byte %zu, the file at %zu; it is truncated", p->path, end, p->file.size);
    uint8_t digest[32];
    ls_packfile_header_sha256(h, *sections, digest);
    if (memcmp(digest, h + LS_AT_DIGEST, 32))
        LS_FAIL(e, LS_DATA_LOSS, "\"%s\": header: its checksum is wrong; the file is damaged: pack the model again", p->path);
    uint64_t size = ls_load_u64(h + LS_AT_SIZE);
    if (size != p->file.size)
        LS_FAIL(e, LS_DATA_LOSS, "\"%s\" has %zu bytes; its header says %llu: %s", p->path, p->file.size, (unsigned long long)size,
                size > p->file.size ? "it is truncated" : "something was appended");
    return LS_OK;
}

static void read_identity(ls_packfile *p) {
    const uint8_t *h = p->file.data;
    p->id.layout = ls_load_u32(h + LS_AT_LAYOUT);
    p->id.contract = ls_load_u32(h + LS_AT_CONTRACT);
    p->id.contract_version = ls_load_u32(h + LS_AT_CONTRACT_VERSION);
    memcpy(p->id.fingerprint, h + LS_AT_FINGERPRINT, 32);
    memcpy(p->id.schema, h + LS_AT_SCHEMA, 32);
    memcpy(p->id.weights, h + LS_AT_WEIGHTS, 32);
}

/* Sections come in the order of their numbers, each at the first multiple of the alignment after the one before: so none can overlap, and nothing
 * can hide between them. */
static ls_code read_sections(packing *x, uint32_t sections, ls_error *e) {
    ls_packfile *p = x->p;
    uint64_t end = LS_PACK_HEADER + (uint64_t)sections * LS_PACK_ENTRY;
    int last = -1;
    for (uint32_t i = 0; i < sections; i++) {
        const uint8_t *entry = p->file.data + LS_PACK_HEADER + (size_t)i * LS_PACK_ENTRY;
        uint32_t number = ls_load_u32(entry);
        uint64_t offset = ls_load_u64(entry + LS_AT_OFFSET), size = ls_load_u64(entry + LS_AT_BYTES);
        if (number < 1 || number > LS_SECTION_COUNT || (int)number - 1 <= last)
            LS_FAIL(e, LS_DATA_LOSS, "\"%s\": entry %u of the section table has number %u; allowed are 1 to %d in ascending order", p->path, i, number,
                    LS_SECTION_COUNT);
        last = (int)number - 1;
        const char *name = section_names[last];
        if (offset % LS_PACK_ALIGN)
            LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section %s begins at byte %llu, which is no multiple of %d", p->path, name, (unsigned long long)offset,
                    LS_PACK_ALIGN);
        if (offset < end) LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section %s overlaps what is before it", p->path, name);
        if (offset - end >= LS_PACK_ALIGN)
            LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section %s leaves a gap of %llu bytes", p->path, name, (unsigned long long)(offset - end));
        if (!size || offset > p->file.size || size > p->file.size - offset)
            LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section %s has %llu bytes at byte %llu; the file has %zu", p->path, name, (unsigned long long)size,
                    (unsigned long long)offset, p->file.size);
        p->section[last] = (ls_pack_span){p->file.data + offset, (size_t)size};
        memcpy(x->sha256[last], entry + LS_AT_SHA256, 32);
        end = offset + size;
    }
    if (end != p->file.size) LS_FAIL(e, LS_DATA_LOSS, "\"%s\": %llu bytes after the last section", p->path, (unsigned long long)(p->file.size - end));
    return LS_OK;
}

static bool is_optional(int s) { return s == LS_SECTION_TOKENIZER || s == LS_SECTION_CHAT_TEMPLATE || s == LS_SECTION_IMAGES; }
static bool is_large(int s) { return s == LS_SECTION_TENSOR_DATA || s == LS_SECTION_WEIGHTS; }

static ls_code check_sections(const packing *x, ls_error *e) {
    const ls_packfile *p = x->p;
    for (int s = 0; s < LS_SECTION_COUNT; s++) {
        uint8_t digest[32];
        if (!p->section[s].data && is_optional(s)) continue;
        if (!p->section[s].data) LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section %s is missing", p->path, section_names[s]);
        if (is_large(s)) continue;
        ls_sha256_of(p->section[s].data, p->section[s].size, digest);
        if (memcmp(digest, x->sha256[s], 32))
            LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section %s: its checksum is wrong; the file is damaged: pack the model again", p->path, section_names[s]);
    }
    if (p->section[LS_SECTION_CHAT_TEMPLATE].data && !p->section[LS_SECTION_TOKENIZER].data)
        LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section chat_template without section tokenizer", p->path);
    return LS_OK;
}

/* ---- Records ------------------------------------------------------------------------------------------------------- */

/* What is left of a section of records. */
typedef struct cursor {
    const uint8_t *at;
    size_t left;
    const char *path, *section;
} cursor;

static cursor cursor_of(const ls_packfile *p, ls_section s) { return (cursor){p->section[s].data, p->section[s].size, p->path, section_names[s]}; }

static ls_code take(cursor *c, size_t n, const uint8_t **p, ls_error *e) {
    if (n > c->left) LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section %s ends in the middle of a record", c->path, c->section);
    *p = c->at;
    c->at += n;
    c->left -= n;
    return LS_OK;
}

static ls_code take_u32(cursor *c, uint32_t *v, ls_error *e) {
    const uint8_t *p = NULL;
    LS_TRY(take(c, 4, &p, e));
    *v = ls_load_u32(p);
    return LS_OK;
}

static ls_code take_u64(cursor *c, uint64_t *v, ls_error *e) {
    const uint8_t *p = NULL;
    LS_TRY(take(c, 8, &p, e));
    *v = ls_load_u64(p);
    return LS_OK;
}

/* A name: copied, not empty, printable UTF-8. */
static ls_code take_name(cursor *c, ls_arena *arena, const char **name, ls_error *e) {
    uint32_t len = 0;
    const uint8_t *p = NULL;
    LS_TRY(take_u32(c, &len, e));
    if (!len || len >= LS_MAX_NAME_BYTES)
        LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section %s: a name has %u bytes; allowed are 1 to %d", c->path, c->section, len, LS_MAX_NAME_BYTES - 1);
    LS_TRY(take(c, len, &p, e));
    for (size_t i = 0; i < len;) {
        int n = ls_utf8_decode((const char *)p + i, len - i, NULL);
        if (!n || p[i] < 32) LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section %s: a name is not printable UTF-8", c->path, c->section);
        i += (size_t)n;
    }
    return ls_arena_strdup(arena, name, (const char *)p, len, e);
}

static ls_code at_end(const cursor *c, ls_error *e) {
    if (c->left) LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section %s has %zu bytes after its last record", c->path, c->section, c->left);
    return LS_OK;
}

/* ---- Tensors ------------------------------------------------------------------------------------------------------- */

static bool format_named(const char *name, ls_format *out) {
    for (int f = 0; f < LS_FORMAT_COUNT; f++)
        if (!strcmp(ls_format_get((ls_format)f)->name, name)) {
            *out = (ls_format)f;
            return true;
        }
    return false;
}

static ls_code bad_tensor(const cursor *c, const ls_tensor *t, const char *what, ls_error *e) {
    LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section %s: tensor \"%s\": %s", c->path, c->section, t->name, what);
}

/* Sizes of MLX's three arrays. */
static ls_code size_mlx(const cursor *c, ls_tensor *t, int64_t n, ls_error *e) {
    bool bits = t->mlx_bits == 2 || t->mlx_bits == 3 || t->mlx_bits == 4 || t->mlx_bits == 6 || t->mlx_bits == 8;
    bool group = t->mlx_group == 32 || t->mlx_group == 64 || t->mlx_group == 128;
    bool scales = t->scale_format == LS_F16 || t->scale_format == LS_BF16 || t->scale_format == LS_F32;
    if (!bits || !group || !scales || t->rank < 2 || t->shape[t->rank - 1] % t->mlx_group)
        return bad_tensor(c, t, "its MLX quantisation is none that exists", e);
    t->bytes = (size_t)(n / 32) * 4 * (size_t)t->mlx_bits;
    t->scale_bytes = (size_t)(n / t->mlx_group) * (size_t)ls_format_get(t->scale_format)->block_bytes;
    return LS_OK;
}

static ls_code size_tensor(const cursor *c, ls_tensor *t, ls_error *e) {
    int64_t n, cols = t->rank ? t->shape[t->rank - 1] : 1;
    if (!ls_shape_elements(t->shape, t->rank, &n) || n > INT64_MAX / 32) return bad_tensor(c, t, "its shape is larger than the address space", e);
    if (t->format == LS_MLX_AFFINE) return size_mlx(c, t, n, e);
    const ls_format_info *f = ls_format_get(t->format);
    if (!f->block) return LS_OK; /* LS_OTHER: known by name only */
    if (cols % f->block) return bad_tensor(c, t, "its rows are no multiple of its blocks", e);
    t->bytes = (size_t)(n / f->block) * (size_t)f->block_bytes;
    return LS_OK;
}

/* An array of a stored tensor: *at becomes its place, aligned, and then its end. */
static ls_code place(const packing *x, const cursor *c, const ls_tensor *t, size_t bytes, uint64_t *at, const void **data, ls_error *e) {
    const ls_pack_span *s = &x->p->section[LS_SECTION_TENSOR_DATA];
    *at = (*at + LS_PACK_PART_ALIGN - 1) / LS_PACK_PART_ALIGN * LS_PACK_PART_ALIGN;
    if (*at > s->size || bytes > s->size - *at) return bad_tensor(c, t, "its data does not fit section tensor_data", e);
    *data = bytes ? s->data + *at : NULL;
    *at += bytes;
    return LS_OK;
}

/* Stored tensors follow each other in the order of the table. */
static ls_code place_tensor(const packing *x, const cursor *c, ls_tensor *t, uint64_t *end, const uint8_t sha256[32], ls_error *e) {
    if (t->format == LS_OTHER) return bad_tensor(c, t, "a tensor of unknown format is stored", e);
    LS_TRY(place(x, c, t, t->bytes, end, &t->data, e));
    if (t->format == LS_MLX_AFFINE) {
        LS_TRY(place(x, c, t, t->scale_bytes, end, &t->scales, e));
        LS_TRY(place(x, c, t, t->scale_bytes, end, &t->biases, e));
    }
    uint8_t digest[32];
    if (t->bytes > LS_PACK_SMALL || t->scale_bytes > LS_PACK_SMALL) return LS_OK;
    ls_packfile_tensor_sha256(t, digest);
    if (memcmp(digest, sha256, 32))
        LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section tensor_data: the checksum of \"%s\" is wrong; the file is damaged: pack the model again", c->path, t->name);
    return LS_OK;
}

static ls_code read_tensor(cursor *c, ls_arena *arena, ls_tensor *t, bool *stored, const uint8_t **sha256, ls_error *e) {
    const char *format = NULL, *scales = NULL;
    uint32_t rank = 0, bits = 0, group = 0, flag = 0;
    *t = (ls_tensor){0};
    LS_TRY(take_name(c, arena, &t->name, e));
    LS_TRY(take_name(c, arena, &t->dtype, e));
    LS_TRY(take_name(c, arena, &format, e));
    if (!format_named(format, &t->format)) return bad_tensor(c, t, "its format is unknown to this lockstep", e);
    LS_TRY(take_u32(c, &rank, e));
    if (rank > LS_TENSOR_MAX_RANK) return bad_tensor(c, t, "it has too many dimensions", e);
    t->rank = (int)rank;
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t d = 0;
        LS_TRY(take_u64(c, &d, e));
        if (d > INT64_MAX) return bad_tensor(c, t, "a dimension is too large", e);
        t->shape[i] = (int64_t)d;
    }
    if (t->format == LS_MLX_AFFINE) {
        LS_TRY(take_u32(c, &bits, e));
        LS_TRY(take_u32(c, &group, e));
        LS_TRY(take_name(c, arena, &scales, e));
        t->mlx_bits = bits <= 8 ? (int)bits : 0;
        t->mlx_group = group <= 128 ? (int)group : 0;
        if (!format_named(scales, &t->scale_format)) return bad_tensor(c, t, "the format of its scales is unknown", e);
    }
    LS_TRY(take_u32(c, &flag, e));
    if (flag > 1) return bad_tensor(c, t, "it is neither stored nor not", e);
    *stored = flag;
    if (flag) LS_TRY(take(c, 32, sha256, e));
    return size_tensor(c, t, e);
}

static ls_code read_tensors(packing *x, ls_error *e) {
    cursor c = cursor_of(x->p, LS_SECTION_TENSORS);
    uint32_t n = 0;
    uint64_t end = 0;
    uint8_t (*digests)[32];
    const char *before = "";
    LS_TRY(take_u32(&c, &n, e));
    if (n > LS_MAX_TENSORS || n > c.left / 20) LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section tensors: %u tensors do not fit it", c.path, n);
    LS_TRY(ls_arena_alloc(x->c->arena, &digests, n, sizeof *digests, e));
    for (uint32_t i = 0; i < n; i++) {
        ls_tensor t;
        bool stored = false;
        const uint8_t *sha256 = NULL;
        LS_TRY(read_tensor(&c, x->c->arena, &t, &stored, &sha256, e));
        if (strcmp(before, t.name) >= 0) return bad_tensor(&c, &t, "names are not in ascending order", e);
        before = t.name;
        if (stored) {
            LS_TRY(place_tensor(x, &c, &t, &end, sha256, e));
            memcpy(digests[i], sha256, 32);
        }
        LS_TRY(ls_checkpoint_add(x->c, &t, x->p->path, e));
    }
    if (end != x->p->section[LS_SECTION_TENSOR_DATA].size)
        LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section tensor_data has %zu bytes; its tensors end at %llu", c.path, x->p->section[LS_SECTION_TENSOR_DATA].size,
                (unsigned long long)end);
    x->p->stored = (const uint8_t (*)[32])digests;
    return at_end(&c, e);
}

static ls_code check_schema(const packing *x, ls_error *e) {
    char hex[65], wanted[65];
    LS_TRY(ls_checkpoint_schema_sha256(x->c, hex, e));
    ls_sha256_hex(x->p->id.schema, wanted);
    if (strcmp(hex, wanted))
        LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section tensors: weight schema %s; the header says %s", x->p->path, hex, wanted);
    return LS_OK;
}

/* ---- Matrices ------------------------------------------------------------------------------------------------------ */

static int by_place(uintptr_t tensor, int64_t begin, int64_t rows, const ls_pack_matrix *m) {
    if (tensor != (uintptr_t)m->tensor) return tensor < (uintptr_t)m->tensor ? -1 : 1;
    if (begin != m->row_begin) return begin < m->row_begin ? -1 : 1;
    return (rows > m->rows) - (rows < m->rows);
}

/* Matrices follow each other in the order of the table, each aligned. */
static ls_code read_matrix(const packing *x, cursor *c, ls_pack_matrix *m, uint64_t *end, ls_error *e) {
    uint32_t tensor = 0;
    uint64_t begin = 0, rows = 0, bytes = 0;
    const uint8_t *sha256 = NULL;
    const ls_pack_span *s = &x->p->section[LS_SECTION_WEIGHTS];
    LS_TRY(take_u32(c, &tensor, e));
    LS_TRY(take_u64(c, &begin, e));
    LS_TRY(take_u64(c, &rows, e));
    LS_TRY(take_u64(c, &bytes, e));
    LS_TRY(take(c, 32, &sha256, e));
    if (tensor >= x->c->n) LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section matrices: tensor %u; there are %zu", c->path, tensor, x->c->n);
    m->tensor = &x->c->entries[tensor].t;
    uint64_t most = (uint64_t)ls_tensor_rows(m->tensor);
    if (rows < 1 || begin > most || rows > most - begin) return bad_tensor(c, m->tensor, "rows that it does not have", e);
    *end = (*end + LS_PACK_PART_ALIGN - 1) / LS_PACK_PART_ALIGN * LS_PACK_PART_ALIGN;
    if (!bytes || *end > s->size || bytes > s->size - *end) return bad_tensor(c, m->tensor, "it does not fit section packed_weights", e);
    m->row_begin = (int64_t)begin;
    m->rows = (int64_t)rows;
    m->data = s->data + *end;
    m->bytes = (size_t)bytes;
    memcpy(m->sha256, sha256, 32);
    *end += bytes;
    return LS_OK;
}

static ls_code read_matrices(packing *x, ls_error *e) {
    enum { RECORD = 60 };
    ls_packfile *p = x->p;
    cursor c = cursor_of(p, LS_SECTION_MATRICES);
    uint32_t n = 0;
    uint64_t end = 0;
    LS_TRY(take_u32(&c, &n, e));
    if (n != c.left / RECORD) LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section matrices: %u matrices do not fit it", c.path, n);
    LS_TRY(ls_arena_alloc(x->c->arena, &p->matrices, n, sizeof *p->matrices, e));
    for (; p->n_matrices < n; p->n_matrices++) {
        ls_pack_matrix *m = &p->matrices[p->n_matrices];
        LS_TRY(read_matrix(x, &c, m, &end, e));
        if (p->n_matrices && by_place((uintptr_t)m->tensor, m->row_begin, m->rows, m - 1) <= 0)
            return bad_tensor(&c, m->tensor, "matrices are not in ascending order", e);
    }
    if (end != p->section[LS_SECTION_WEIGHTS].size)
        LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section packed_weights has %zu bytes; its matrices end at %llu", c.path, p->section[LS_SECTION_WEIGHTS].size,
                (unsigned long long)end);
    return at_end(&c, e);
}

const ls_pack_matrix *ls_checkpoint_matrix(const ls_checkpoint *c, const ls_tensor *t, int64_t row_begin, int64_t rows) {
    size_t lo = 0, hi = c && c->pack ? c->pack->n_matrices : 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = by_place((uintptr_t)t, row_begin, rows, &c->pack->matrices[mid]);
        if (!order) return &c->pack->matrices[mid];
        if (order < 0) hi = mid;
        else lo = mid + 1;
    }
    return NULL;
}

/* ---- The file ------------------------------------------------------------------------------------------------------ */

static ls_code read_json(const ls_packfile *p, ls_section s, json_t **into, ls_error *e) {
    json_t *v = NULL;
    if (p->section[s].size > LS_MAX_CONFIG_BYTES)
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "\"%s\": section %s has %zu bytes; at most %d are read", p->path, section_names[s], p->section[s].size,
                LS_MAX_CONFIG_BYTES);
    ls_code rc = ls_json_parse(&v, (const char *)p->section[s].data, p->section[s].size, section_names[s], e);
    if (rc) return ls_error_wrap(e, rc, "\"%s\": section %s", p->path, section_names[s]);
    if (!json_is_object(v)) {
        json_decref(v);
        LS_FAIL(e, LS_DATA_LOSS, "\"%s\": section %s is no JSON object", p->path, section_names[s]);
    }
    json_decref(*into);
    *into = v;
    return LS_OK;
}

ls_code ls_packfile_parse(ls_checkpoint *c, const uint8_t *data, size_t size, const char *path, ls_error *e) {
    packing x = {.c = c};
    uint32_t sections = 0;
    if (c->pack || c->n) LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": a pack file is a whole checkpoint; open it by itself", path);
    LS_TRY(ls_arena_alloc(c->arena, &x.p, 1, sizeof *x.p, e));
    x.p->path = path;
    x.p->file = (ls_pack_span){data, size};
    LS_TRY(check_header(x.p, &sections, e));
    read_identity(x.p);
    LS_TRY(read_sections(&x, sections, e));
    LS_TRY(check_sections(&x, e));
    LS_TRY(read_json(x.p, LS_SECTION_CONFIG, &c->config, e));
    LS_TRY(read_json(x.p, LS_SECTION_GENERATION, &c->generation, e));
    LS_TRY(read_tensors(&x, e));
    LS_TRY(check_schema(&x, e));
    LS_TRY(read_matrices(&x, e));
    c->pack = x.p;
    return LS_OK;
}
