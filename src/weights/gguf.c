/* GGUF 2 and 3: metadata as JSON, then tensor infos, then aligned data. Everything is read through a bounded cursor. */
#include <stdlib.h>
#include <string.h>

#include "weights/gguf_arch.h"

enum {
    MAX_KEYS = 1 << 16,
    MAX_ITEMS = 1 << 22, /* array elements of all metadata together; a vocabulary with scores and types has 3 a token */
    MAX_ALIGNMENT = 1 << 20,
    MAX_ARRAY_DEPTH = 4
};

typedef enum value_type {
    V_U8, V_I8, V_U16, V_I16, V_U32, V_I32, V_F32, V_BOOL, V_STRING, V_ARRAY, V_U64, V_I64, V_F64, V_COUNT
} value_type;

static const uint8_t value_bytes[V_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8}; /* least size of one value */

/* The bytes left to read. */
typedef struct cursor {
    const uint8_t *data;
    size_t size, at;
    const char *path;
    size_t items; /* array elements read so far */
} cursor;

static ls_code take(cursor *c, size_t n, const uint8_t **p, const char *what, ls_error *e) {
    if (n > c->size - c->at)
        LS_FAIL(e, LS_DATA_LOSS, "\"%s\": %s needs %zu bytes at byte %zu, the file has %zu; it is truncated", c->path,
                what, n, c->at, c->size);
    *p = c->data + c->at;
    c->at += n;
    return LS_OK;
}

static ls_code take_u32(cursor *c, uint32_t *v, const char *what, ls_error *e) {
    const uint8_t *p = NULL;
    LS_TRY(take(c, 4, &p, what, e));
    *v = ls_load_u32(p);
    return LS_OK;
}

static ls_code take_u64(cursor *c, uint64_t *v, const char *what, ls_error *e) {
    const uint8_t *p = NULL;
    LS_TRY(take(c, 8, &p, what, e));
    *v = ls_load_u64(p);
    return LS_OK;
}

/* A length-prefixed string; *s points into the file and is not terminated. */
static ls_code take_string(cursor *c, const char **s, size_t *len, const char *what, ls_error *e) {
    uint64_t n = 0;
    const uint8_t *p = NULL;
    LS_TRY(take_u64(c, &n, what, e));
    LS_TRY(take(c, n > SIZE_MAX ? SIZE_MAX : (size_t)n, &p, what, e));
    *s = (const char *)p;
    *len = (size_t)n;
    return LS_OK;
}

/* A key or tensor name: copied, not empty, printable UTF-8 without NUL. */
static ls_code take_name(cursor *c, ls_arena *arena, const char **name, const char *what, ls_error *e) {
    const char *s = NULL;
    size_t len = 0;
    LS_TRY(take_string(c, &s, &len, what, e));
    if (!len || len >= LS_MAX_NAME_BYTES)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": %s has %zu bytes; allowed are 1 to %d", c->path, what, len,
                LS_MAX_NAME_BYTES - 1);
    for (size_t i = 0; i < len;) {
        int n = ls_utf8_decode(s + i, len - i, NULL);
        if (!n || (unsigned char)s[i] < 32)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": %s is not printable UTF-8", c->path, what);
        i += (size_t)n;
    }
    return ls_arena_strdup(arena, name, s, len, e);
}

/* ---- Metadata -------------------------------------------------------------------------------------------------- */

static json_t *number_value(value_type type, const uint8_t *p) {
    float f;
    double d;
    uint32_t u32 = type == V_F32 ? ls_load_u32(p) : 0;
    uint64_t u64 = type == V_F64 || type == V_U64 ? ls_load_u64(p) : 0;
    memcpy(&f, &u32, sizeof f);
    memcpy(&d, &u64, sizeof d);
    switch (type) {
    case V_U8: return json_integer(p[0]);
    case V_I8: return json_integer((int8_t)p[0]);
    case V_U16: return json_integer(ls_load_u16(p));
    case V_I16: return json_integer((int16_t)ls_load_u16(p));
    case V_U32: return json_integer(ls_load_u32(p));
    case V_I32: return json_integer((int32_t)ls_load_u32(p));
    case V_I64: return json_integer((int64_t)ls_load_u64(p));
    case V_U64: return u64 > INT64_MAX ? json_real((double)u64) : json_integer((int64_t)u64);
    case V_F32: return json_real(f);
    case V_F64: return json_real(d);
    default: return json_boolean(p[0]);
    }
}

/* jansson holds no NaN or infinity; such a number becomes null. */
static ls_code read_number(cursor *c, value_type type, json_t **out, const char *key, ls_error *e) {
    const uint8_t *p = NULL;
    LS_TRY(take(c, value_bytes[type], &p, key, e));
    bool special = (type == V_F32 && (ls_load_u32(p) & 0x7F800000) == 0x7F800000) ||
                   (type == V_F64 && (ls_load_u64(p) >> 52 & 0x7FF) == 0x7FF);
    if (type == V_BOOL && p[0] > 1)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": key \"%s\": a boolean is %u; allowed are 0 and 1", c->path, key, p[0]);
    *out = special ? json_null() : number_value(type, p);
    return LS_OK;
}

static ls_code read_value(cursor *c, uint32_t type, json_t **out, const char *key, int depth, ls_error *e);

static ls_code read_array(cursor *c, json_t **out, const char *key, int depth, ls_error *e) {
    uint32_t type = 0;
    uint64_t n = 0;
    LS_TRY(take_u32(c, &type, key, e));
    LS_TRY(take_u64(c, &n, key, e));
    if (type >= V_COUNT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": key \"%s\": unknown element type %u", c->path, key, type);
    if (depth >= MAX_ARRAY_DEPTH)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": key \"%s\": arrays nest deeper than %d", c->path, key,
                MAX_ARRAY_DEPTH);
    if (n > (c->size - c->at) / value_bytes[type])
        LS_FAIL(e, LS_DATA_LOSS, "\"%s\": key \"%s\": %llu elements do not fit the file's %zu bytes", c->path, key,
                (unsigned long long)n, c->size);
    if (n > MAX_ITEMS - c->items)
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "\"%s\": key \"%s\": metadata arrays have more than %d elements", c->path,
                key, MAX_ITEMS);
    c->items += (size_t)n;
    json_t *array = json_array();
    ls_code rc = LS_OK;
    for (uint64_t i = 0; array && !rc && i < n; i++) {
        json_t *v = NULL;
        rc = read_value(c, type, &v, key, depth + 1, e);
        if (!rc && json_array_append_new(array, v))
            rc = ls_error_set(e, LS_RESOURCE_EXHAUSTED, __FILE__, __LINE__, "key \"%s\": out of memory", key);
    }
    if (rc) json_decref(array);
    else *out = array;
    return rc;
}

static ls_code read_value(cursor *c, uint32_t type, json_t **out, const char *key, int depth, ls_error *e) {
    *out = NULL;
    if (type >= V_COUNT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": key \"%s\": unknown value type %u", c->path, key, type);
    if (type == V_ARRAY) {
        LS_TRY(read_array(c, out, key, depth, e));
    } else if (type == V_STRING) {
        const char *s = NULL;
        size_t len = 0;
        LS_TRY(take_string(c, &s, &len, key, e));
        *out = json_stringn_nocheck(s, len);
    } else {
        LS_TRY(read_number(c, type, out, key, e));
    }
    if (!*out) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "\"%s\": key \"%s\": out of memory", c->path, key);
    return LS_OK;
}

static ls_code read_metadata(ls_checkpoint *cp, cursor *c, uint64_t n_keys, ls_error *e) {
    if (n_keys > MAX_KEYS || n_keys > (c->size - c->at) / 13)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": %llu metadata keys do not fit the file (at most %d are read)", c->path,
                (unsigned long long)n_keys, MAX_KEYS);
    cp->metadata = json_object();
    if (!cp->metadata) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "\"%s\": out of memory", c->path);
    for (uint64_t i = 0; i < n_keys; i++) {
        const char *key = NULL;
        uint32_t type = 0;
        json_t *v = NULL;
        LS_TRY(take_name(c, cp->arena, &key, "a metadata key", e));
        if (json_object_get(cp->metadata, key))
            LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": key \"%s\" occurs twice", c->path, key);
        LS_TRY(take_u32(c, &type, key, e));
        LS_TRY(read_value(c, type, &v, key, 0, e));
        if (json_object_set_new(cp->metadata, key, v))
            LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "\"%s\": key \"%s\": out of memory", c->path, key);
    }
    return LS_OK;
}

/* ---- Tensors --------------------------------------------------------------------------------------------------- */

/* GGUF's type numbers. Those without a format are known by name only, to say what a file uses. */
static const struct {
    const char *name;
    ls_format format;
} tensor_types[] = {
    [0] = {"F32", LS_F32},        [1] = {"F16", LS_F16},        [2] = {"Q4_0", LS_Q4_0},
    [3] = {"Q4_1", LS_Q4_1},      [4] = {"Q4_2", LS_OTHER},     [5] = {"Q4_3", LS_OTHER},
    [6] = {"Q5_0", LS_Q5_0},      [7] = {"Q5_1", LS_Q5_1},      [8] = {"Q8_0", LS_Q8_0},
    [9] = {"Q8_1", LS_OTHER},     [10] = {"Q2_K", LS_Q2_K},     [11] = {"Q3_K", LS_Q3_K},
    [12] = {"Q4_K", LS_Q4_K},     [13] = {"Q5_K", LS_Q5_K},     [14] = {"Q6_K", LS_Q6_K},
    [15] = {"Q8_K", LS_OTHER},    [16] = {"IQ2_XXS", LS_OTHER}, [17] = {"IQ2_XS", LS_OTHER},
    [18] = {"IQ3_XXS", LS_OTHER}, [19] = {"IQ1_S", LS_OTHER},   [20] = {"IQ4_NL", LS_IQ4_NL},
    [21] = {"IQ3_S", LS_OTHER},   [22] = {"IQ2_S", LS_OTHER},   [23] = {"IQ4_XS", LS_OTHER},
    [24] = {"I8", LS_OTHER},      [25] = {"I16", LS_OTHER},     [26] = {"I32", LS_OTHER},
    [27] = {"I64", LS_OTHER},     [28] = {"F64", LS_OTHER},     [29] = {"IQ1_M", LS_OTHER},
    [30] = {"BF16", LS_BF16},     [31] = {"type 31", LS_OTHER}, [32] = {"type 32", LS_OTHER},
    [33] = {"type 33", LS_OTHER}, [34] = {"TQ1_0", LS_OTHER},   [35] = {"TQ2_0", LS_OTHER},
    [36] = {"type 36", LS_OTHER}, [37] = {"type 37", LS_OTHER}, [38] = {"type 38", LS_OTHER},
    [39] = {"MXFP4", LS_OTHER},   [40] = {"NVFP4", LS_OTHER},   [41] = {"Q1_0", LS_OTHER},
};

/* A tensor as the file lists it. */
typedef struct info {
    ls_tensor t; /* under its GGUF name; data not yet set */
    uint64_t offset;
} info;

static ls_code read_type(ls_tensor *t, uint32_t type, ls_error *e) {
    bool known = type < sizeof tensor_types / sizeof *tensor_types;
    t->dtype = known ? tensor_types[type].name : "an unknown type";
    t->format = known ? tensor_types[type].format : LS_OTHER;
    if (t->format == LS_OTHER)
        LS_FAIL(e, LS_UNIMPLEMENTED,
                "tensor \"%s\": type %u (%s) is not supported; requantise the file to one of F32 F16 BF16 Q4_0 Q4_1 "
                "Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL",
                t->name, type, t->dtype);
    return LS_OK;
}

/* Dimensions come fastest first; ls_tensor keeps them slowest first. */
static ls_code read_info(cursor *c, ls_arena *arena, info *out, ls_error *e) {
    ls_tensor *t = &out->t;
    uint32_t rank = 0, type = 0;
    LS_TRY(take_name(c, arena, &t->name, "a tensor name", e));
    LS_TRY(take_u32(c, &rank, t->name, e));
    if (rank > 4) LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\" has %u dimensions; GGUF allows 4", t->name, rank);
    t->rank = (int)rank;
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t d = 0;
        LS_TRY(take_u64(c, &d, t->name, e));
        if (d > INT64_MAX) LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\": dimension %u is too large", t->name, i);
        t->shape[rank - 1 - i] = (int64_t)d;
    }
    LS_TRY(take_u32(c, &type, t->name, e));
    LS_TRY(take_u64(c, &out->offset, t->name, e));
    LS_TRY(read_type(t, type, e));
    const ls_format_info *f = ls_format_get(t->format);
    int64_t n, in = rank ? t->shape[rank - 1] : 1;
    if (!ls_shape_elements(t->shape, t->rank, &n) || n > INT64_MAX / 8)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\": its dimensions multiply to more than the address space holds",
                t->name);
    if (in % f->block)
        LS_FAIL(e, LS_INVALID_ARGUMENT,
                "tensor \"%s\": a row of %lld weights is not a multiple of the %d in a %s block", t->name,
                (long long)in, f->block, f->name);
    t->bytes = (size_t)(n / f->block) * (size_t)f->block_bytes;
    return LS_OK;
}

static int by_offset(const void *a, const void *b) {
    uint64_t x = ((const info *)a)->offset, y = ((const info *)b)->offset;
    return (x > y) - (x < y);
}

/* Every tensor is aligned, inside the data section and clear of the others. Padding between tensors is free. */
static ls_code place_tensors(info *infos, size_t n, const cursor *c, size_t alignment, ls_error *e) {
    size_t start = c->at + (alignment - c->at % alignment) % alignment, size = start > c->size ? 0 : c->size - start;
    uint64_t end = 0;
    if (n) qsort(infos, n, sizeof *infos, by_offset);
    for (size_t i = 0; i < n; i++) {
        ls_tensor *t = &infos[i].t;
        uint64_t offset = infos[i].offset;
        if (offset % alignment)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\": offset %llu is not a multiple of the alignment %zu",
                    t->name, (unsigned long long)offset, alignment);
        if (!t->bytes) continue;
        if (offset > size || t->bytes > size - offset)
            LS_FAIL(
                e, LS_DATA_LOSS,
                "tensor \"%s\" needs %zu bytes at offset %llu, but \"%s\" has %zu bytes of data; the file is truncated",
                t->name, t->bytes, (unsigned long long)offset, c->path, size);
        if (offset < end) LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\" overlaps the tensor before it", t->name);
        end = offset + t->bytes;
        t->data = c->data + start + offset;
    }
    return LS_OK;
}

/* One GGUF tensor that stacks a tensor per head becomes that many tensors. */
static ls_code add_split(ls_checkpoint *cp, const ls_tensor *t, const char *pattern, const char *path, ls_error *e) {
    int64_t heads = t->shape[0];
    const char *mark = strstr(pattern, "%d");
    if (!mark || t->rank < 2 || heads < 1 || heads > 4096)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\" does not stack 1 to 4096 heads", t->name);
    for (int64_t h = 0; h < heads; h++) {
        ls_tensor one = *t;
        one.rank = t->rank - 1;
        for (int i = 0; i < one.rank; i++) one.shape[i] = t->shape[i + 1];
        one.bytes = t->bytes / (size_t)heads;
        one.data = t->data ? (const uint8_t *)t->data + (size_t)h * one.bytes : NULL;
        LS_TRY(ls_arena_printf(cp->arena, &one.name, e, "%.*s%lld%s", (int)(mark - pattern), pattern, (long long)h,
                               mark + 2));
        LS_TRY(ls_checkpoint_add(cp, &one, path, e));
    }
    return LS_OK;
}

static ls_code add_tensors(ls_checkpoint *cp, info *infos, size_t n, const ls_gguf_arch *arch, const char *path,
                           ls_error *e) {
    for (size_t i = 0; i < n; i++) {
        ls_tensor t = infos[i].t;
        char name[LS_MAX_NAME_BYTES];
        bool split = false;
        LS_TRY(ls_gguf_name(arch, t.name, name, &split, e));
        if (split) {
            LS_TRY(add_split(cp, &t, name, path, e));
            continue;
        }
        if (t.rank == 1 && strstr(name, ".shared_expert_gate.")) { /* the converter drops axes of size 1 */
            t.shape[1] = t.shape[0];
            t.shape[0] = 1;
            t.rank = 2;
        }
        LS_TRY(ls_arena_strdup(cp->arena, &t.name, name, SIZE_MAX, e));
        LS_TRY(ls_checkpoint_add(cp, &t, path, e));
    }
    return LS_OK;
}

static ls_code read_tensors(ls_checkpoint *cp, cursor *c, uint64_t n, size_t alignment, const ls_gguf_arch *arch,
                            ls_error *e) {
    if (n > LS_MAX_TENSORS || n > (c->size - c->at) / 25)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": %llu tensors do not fit the file (at most %d are read)", c->path,
                (unsigned long long)n, LS_MAX_TENSORS);
    info *infos = NULL; /* grows as infos are read: a count alone buys no memory */
    size_t cap = 0;
    ls_code rc = LS_OK;
    for (size_t i = 0; i < n && !rc; i++) {
        rc = ls_grow(&infos, i, &cap, sizeof *infos, LS_MAX_TENSORS, "tensor infos", e);
        if (rc) break;
        infos[i] = (info){0};
        rc = read_info(c, cp->arena, &infos[i], e);
    }
    if (!rc) rc = place_tensors(infos, (size_t)n, c, alignment, e);
    if (!rc) rc = add_tensors(cp, infos, (size_t)n, arch, c->path, e);
    ls_free(infos);
    return rc;
}

/* ---- The file -------------------------------------------------------------------------------------------------- */

static ls_code read_preamble(cursor *c, uint64_t *n_tensors, uint64_t *n_keys, ls_error *e) {
    const uint8_t *magic = NULL;
    uint32_t version = 0;
    LS_TRY(take(c, 4, &magic, "the magic", e));
    if (memcmp(magic, "GGUF", 4))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\" does not begin with \"GGUF\"; not a GGUF file", c->path);
    LS_TRY(take_u32(c, &version, "the version", e));
    if (version == 0x02000000 || version == 0x03000000)
        LS_FAIL(e, LS_UNIMPLEMENTED, "\"%s\" is a big-endian GGUF file; convert it to little-endian", c->path);
    if (version != 2 && version != 3)
        LS_FAIL(e, LS_UNIMPLEMENTED, "\"%s\" is GGUF version %u; supported are 2 and 3", c->path, version);
    LS_TRY(take_u64(c, n_tensors, "the tensor count", e));
    return take_u64(c, n_keys, "the key count", e);
}

static ls_code check_settings(const ls_checkpoint *cp, const char *path, int64_t *alignment, const ls_gguf_arch **arch,
                              ls_error *e) {
    int64_t parts = 1;
    const char *name = NULL;
    *alignment = 32;
    LS_TRY(ls_json_get_int(cp->metadata, "general.alignment", 8, MAX_ALIGNMENT, alignment, e));
    if (*alignment & (*alignment - 1))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": alignment %lld is not a power of two", path, (long long)*alignment);
    LS_TRY(ls_json_get_int(cp->metadata, "split.count", 0, 1 << 16, &parts, e));
    if (parts > 1)
        LS_FAIL(e, LS_UNIMPLEMENTED, "\"%s\" is one of %lld parts of a split GGUF; merge them into one file first",
                path, (long long)parts);
    LS_TRY(ls_json_get_str(cp->metadata, "general.architecture", &name, e));
    if (!name) LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": key \"general.architecture\" is missing", path);
    *arch = ls_gguf_arch_find(name);
    if (!*arch) LS_FAIL(e, LS_UNIMPLEMENTED, "\"%s\": architecture \"%.60s\" is not supported", path, name);
    return LS_OK;
}

ls_code ls_gguf_parse(ls_checkpoint *cp, const uint8_t *data, size_t size, const char *path, ls_error *e) {
    cursor c = {.data = data, .size = size, .path = path};
    uint64_t n_tensors = 0, n_keys = 0;
    int64_t alignment = 0;
    const ls_gguf_arch *arch = NULL;
    if (cp->metadata) LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": a checkpoint has one GGUF file", path);
    LS_TRY(read_preamble(&c, &n_tensors, &n_keys, e));
    LS_TRY(read_metadata(cp, &c, n_keys, e));
    LS_TRY(check_settings(cp, path, &alignment, &arch, e));
    return read_tensors(cp, &c, n_tensors, (size_t)alignment, arch, e);
}
