/* Tensor types and the identity line that all engines share. */
#include "xla/engine.h"

static const struct {
    const char *name;
    size_t bytes;
} dtypes[LS_DT_COUNT] = {{"f32", 4}, {"f16", 2}, {"bf16", 2}, {"f64", 8}, {"i1", 1}, {"i8", 1}, {"i16", 2}, {"i32", 4}, {"i64", 8}, {"ui8", 1}, {"ui32", 4}};

const char *ls_dtype_name(ls_dtype t) { return (unsigned)t < LS_DT_COUNT ? dtypes[t].name : "unknown"; }
size_t ls_dtype_bytes(ls_dtype t) { return (unsigned)t < LS_DT_COUNT ? dtypes[t].bytes : 0; }

ls_code ls_tensor_type_bytes(const ls_tensor_type *t, size_t *bytes, ls_error *e) {
    size_t n = ls_dtype_bytes(t->dtype);
    if (!n) LS_FAIL(e, LS_INVALID_ARGUMENT, "element type %d is unknown", (int)t->dtype);
    if (t->rank < 0 || t->rank > LS_XLA_MAX_RANK) LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor of rank %d; allowed are 0 to %d", t->rank, LS_XLA_MAX_RANK);
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] < 0) LS_FAIL(e, LS_INVALID_ARGUMENT, "dimension %d is %lld; it must not be negative", i, (long long)t->dim[i]);
        if (!ls_size_mul(n, (size_t)t->dim[i], &n)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "tensor of rank %d has more bytes than an address can count", t->rank);
    }
    *bytes = n;
    return LS_OK;
}

static ls_code add_field(ls_str *out, const char *key, const char *value, ls_error *e) {
    LS_TRY(ls_str_printf(out, e, "%s=", key));
    size_t begin = out->len;
    LS_TRY(ls_str_append(out, value, SIZE_MAX, e));
    for (size_t i = begin; i < out->len; i++)
        if (out->data[i] == ';' || out->data[i] == '\n' || out->data[i] == '\r') out->data[i] = ',';
    return LS_OK;
}

ls_code ls_engine_identity_text(const ls_engine_identity *id, ls_str *out, ls_error *e) {
    const char *const keys[] = {"runtime", ";platform", ";version", ";library", ";sha256", ";compiler", ";flags", ";target", ";device"};
    const char *const values[] = {id->runtime, id->platform, id->version, id->library, id->library_sha256, id->compiler, id->flags, id->target, id->device};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) LS_TRY(add_field(out, keys[i], values[i], e));
    return LS_OK;
}
