/* safetensors: a 64-bit header length, a JSON header, and the tensors' bytes one after another without holes. */
#include "weights/checkpoint.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER_BYTES = 100 << 20 }; /* the format's own limit */

/* A dtype: how many bits an element has and which format reads it. */
typedef struct dtype {
    const char *name;
    ls_format format;
    int bits;
} dtype;

static const dtype *find_dtype(const char *name) {
    static const dtype all[] = {
        {"F32", LS_F32, 32},      {"F16", LS_F16, 16},   {"BF16", LS_BF16, 16},    {"I32", LS_I32, 32},
        {"I64", LS_I64, 64},      {"U32", LS_OTHER, 32}, {"U64", LS_OTHER, 64},    {"F64", LS_OTHER, 64},
        {"C64", LS_OTHER, 64},    {"I16", LS_OTHER, 16}, {"U16", LS_OTHER, 16},    {"I8", LS_OTHER, 8},
        {"U8", LS_OTHER, 8},      {"BOOL", LS_OTHER, 8}, {"F8_E4M3", LS_OTHER, 8}, {"F8_E5M2", LS_OTHER, 8},
        {"F8_E8M0", LS_OTHER, 8}, {"F4", LS_OTHER, 4},   {"F6_E2M3", LS_OTHER, 6}, {"F6_E3M2", LS_OTHER, 6},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i].name, name)) return &all[i];
    return NULL;
}

/* The data section and what has been seen of it. */
typedef struct section {
    const uint8_t *data;
    size_t size;
    const char *path;
} section;

static ls_code read_shape(ls_tensor *t, const json_t *shape, ls_error *e) {
    if (!json_is_array(shape)) LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\": \"shape\" is not an array", t->name);
    if (json_array_size(shape) > LS_TENSOR_MAX_RANK)
        LS_FAIL(e, LS_UNIMPLEMENTED, "tensor \"%s\" has %zu dimensions; at most %d are supported", t->name,
                json_array_size(shape), LS_TENSOR_MAX_RANK);
    t->rank = (int)json_array_size(shape);
    for (int i = 0; i < t->rank; i++) {
        const json_t *d = json_array_get(shape, (size_t)i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\": dimension %d is not an integer of 0 or more", t->name, i);
        t->shape[i] = json_integer_value(d);
    }
    return LS_OK;
}

static ls_code read_offsets(const ls_tensor *t, const json_t *offsets, const section *s, size_t *begin, size_t *end,
                            ls_error *e) {
    size_t at[2];
    if (!json_is_array(offsets) || json_array_size(offsets) != 2)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\": \"data_offsets\" is not a pair", t->name);
    for (size_t i = 0; i < 2; i++) {
        const json_t *o = json_array_get(offsets, i);
        if (!json_is_integer(o) || json_integer_value(o) < 0)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\": \"data_offsets\" are not integers of 0 or more", t->name);
        at[i] = (size_t)json_integer_value(o);
    }
    if (at[0] > at[1])
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\": data ends at %zu, before its begin %zu", t->name, at[1], at[0]);
    if (at[1] > s->size)
        LS_FAIL(e, LS_DATA_LOSS,
                "tensor \"%s\": data ends at byte %zu, but \"%s\" has %zu bytes of data; the file is truncated",
                t->name, at[1], s->path, s->size);
    *begin = at[0];
    *end = at[1];
    return LS_OK;
}

static ls_code read_tensor(ls_checkpoint *c, const char *name, const json_t *entry, const section *s, ls_error *e) {
    ls_tensor t = {0};
    if (strlen(name) >= LS_MAX_NAME_BYTES)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": a tensor name has %zu bytes; allowed are %d", s->path, strlen(name),
                LS_MAX_NAME_BYTES - 1);
    LS_TRY(ls_arena_strdup(c->arena, &t.name, name, SIZE_MAX, e));
    if (!json_is_object(entry)) LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\": its entry is not an object", name);
    const json_t *type = json_object_get(entry, "dtype");
    if (!json_is_string(type)) LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\": \"dtype\" is not a string", name);
    const dtype *d = find_dtype(json_string_value(type));
    if (!d) LS_FAIL(e, LS_UNIMPLEMENTED, "tensor \"%s\": unknown dtype \"%.40s\"", name, json_string_value(type));
    t.dtype = d->name;
    t.format = d->format;
    LS_TRY(read_shape(&t, json_object_get(entry, "shape"), e));
    size_t begin = 0, end = 0;
    LS_TRY(read_offsets(&t, json_object_get(entry, "data_offsets"), s, &begin, &end, e));
    int64_t n;
    if (!ls_shape_elements(t.shape, t.rank, &n) || n > INT64_MAX / 64)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\": its dimensions multiply to more than the address space holds",
                name);
    uint64_t bits = (uint64_t)n * (uint64_t)d->bits;
    if (bits % 8 || bits / 8 != end - begin)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\": %lld elements of %s need %llu bytes, \"data_offsets\" give %zu",
                name, (long long)n, d->name, (unsigned long long)(bits / 8), end - begin);
    t.bytes = end - begin;
    t.data = t.bytes ? s->data + begin : NULL;
    return ls_checkpoint_add(c, &t, s->path, e);
}

static int by_data(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const ls_entry *)a)->t.data, y = (uintptr_t)((const ls_entry *)b)->t.data;
    return (x > y) - (x < y);
}

/* The entries from |first| on must cover the section exactly: no overlap, no hole, no tail. Empty tensors cover
 * nothing. */
static ls_code check_cover(ls_checkpoint *c, size_t first, const section *s, ls_error *e) {
    size_t n = c->n - first, at = 0;
    ls_entry *entries = n ? c->entries + first : NULL;
    if (n) qsort(entries, n, sizeof *entries, by_data);
    for (size_t i = 0; i < n; i++) {
        const ls_tensor *t = &entries[i].t;
        if (!t->data) continue;
        size_t begin = (size_t)((const uint8_t *)t->data - s->data);
        if (begin != at)
            LS_FAIL(e, LS_INVALID_ARGUMENT,
                    "tensor \"%s\" begins at byte %zu of the data, %s the previous tensor's end at %zu", t->name, begin,
                    begin < at ? "before" : "leaving a hole after", at);
        at += t->bytes;
    }
    if (at != s->size)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": tensors cover %zu of %zu bytes of data", s->path, at, s->size);
    return LS_OK;
}

static ls_code read_header(ls_checkpoint *c, json_t *header, const section *s, ls_error *e) {
    if (!json_is_object(header)) LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": the header is not a JSON object", s->path);
    if (json_object_size(header) > LS_MAX_TENSORS)
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "\"%s\" has %zu tensors; at most %d are read", s->path,
                json_object_size(header), LS_MAX_TENSORS);
    size_t first = c->n;
    const char *name;
    json_t *entry;
    json_object_foreach(header, name, entry) {
        if (strcmp(name, "__metadata__")) LS_TRY(read_tensor(c, name, entry, s, e));
        else if (!json_is_object(entry) && !json_is_null(entry)) /* MLX writes null */
            LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": \"__metadata__\" is not an object", s->path);
    }
    return check_cover(c, first, s, e);
}

ls_code ls_safetensors_parse(ls_checkpoint *c, const uint8_t *data, size_t size, const char *path, ls_error *e) {
    if (size < 8)
        LS_FAIL(e, LS_DATA_LOSS, "\"%s\" has %zu bytes, too few for a safetensors header; the file is truncated", path,
                size);
    uint64_t length = ls_load_u64(data);
    if (length > MAX_HEADER_BYTES)
        LS_FAIL(e, LS_INVALID_ARGUMENT,
                "\"%s\": header length %llu is over the format's limit of %d; not a safetensors file", path,
                (unsigned long long)length, MAX_HEADER_BYTES);
    if (length > size - 8)
        LS_FAIL(e, LS_DATA_LOSS,
                "\"%s\": the header needs %llu bytes, the file has %zu after its length; the file is truncated", path,
                (unsigned long long)length, size - 8);
    if (!length || data[8] != '{')
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": the header does not begin with '{'; not a safetensors file", path);
    json_t *header = NULL;
    LS_TRY(ls_json_parse(&header, (const char *)data + 8, (size_t)length, path, e));
    section s = {data + 8 + length, size - 8 - (size_t)length, path};
    ls_code rc = read_header(c, header, &s, e);
    json_decref(header);
    return rc;
}
