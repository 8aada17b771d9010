/* The text of StableHLO operations. Spelling follows the StableHLO specification's pretty form, which every plugin from
 * PJRT API 0.81 on and IREE read alike. */
#include "xla/emit/mlir.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void ls_mlir_fail(ls_mlir *m, ls_code code, const char *text) {
    if (!m->rc) m->rc = ls_error_set(m->e, code, __FILE__, __LINE__, "emitting \"%s\": %s", m->loc ? m->loc : "-", text);
}

void ls_mlir_deinit(ls_mlir *m) { ls_str_deinit(&m->body); }

/* ---- Types and names -------------------------------------------------------------------------------------------- */

ls_tensor_type ls_type_of(ls_dtype d, int rank, const int64_t *dim) {
    ls_tensor_type t = {.dtype = d, .rank = rank};
    for (int i = 0; i < rank && i < LS_XLA_MAX_RANK; i++) t.dim[i] = dim[i];
    return t;
}

bool ls_type_equal(const ls_tensor_type *a, const ls_tensor_type *b) {
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

int64_t ls_type_count(const ls_tensor_type *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    return n;
}

void ls_val_name(const ls_val *v, char out[24]) {
    if (v->kind == 'v') snprintf(out, 24, "%%%d", v->id);
    else snprintf(out, 24, "%%%c%d", v->kind ? v->kind : '?', v->id);
}

ls_code ls_mlir_type(ls_str *s, const ls_tensor_type *t, ls_error *e) {
    LS_TRY(ls_str_append(s, "tensor<", 7, e));
    for (int i = 0; i < t->rank; i++) LS_TRY(ls_str_printf(s, e, "%" PRId64 "x", t->dim[i]));
    return ls_str_printf(s, e, "%s>", ls_dtype_name(t->dtype));
}

/* Appends formatted text where %V is a value's name (ls_val *) and %T a type (ls_tensor_type *), %s and %d as usual. */
static void put(ls_mlir *m, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    for (const char *p = fmt; *p && !m->rc; p++) {
        char name[24];
        if (*p != '%') {
            size_t run = strcspn(p, "%");
            m->rc = ls_str_append(&m->body, p, run, m->e);
            p += run - 1;
            continue;
        }
        switch (*++p) {
        case 'V':
            ls_val_name(va_arg(args, const ls_val *), name);
            m->rc = ls_str_append(&m->body, name, SIZE_MAX, m->e);
            break;
        case 'T': m->rc = ls_mlir_type(&m->body, va_arg(args, const ls_tensor_type *), m->e); break;
        case 's': m->rc = ls_str_append(&m->body, va_arg(args, const char *), SIZE_MAX, m->e); break;
        case 'd': m->rc = ls_str_printf(&m->body, m->e, "%" PRId64, va_arg(args, int64_t)); break;
        default: m->rc = ls_str_append(&m->body, "%", 1, m->e); break;
        }
    }
    va_end(args);
}

static ls_val begin(ls_mlir *m, ls_tensor_type t) {
    ls_val v = {'v', m->next++, t};
    put(m, "    %V = ", &v);
    return v;
}

static ls_val end(ls_mlir *m, ls_val v) {
    if (m->named && m->loc) put(m, " loc(\"%s\")", m->loc);
    put(m, "\n");
    return m->rc ? (ls_val){0} : v;
}

static bool usable(ls_mlir *m, const ls_val *v) {
    if (!m->rc && !v->kind) ls_mlir_fail(m, LS_INTERNAL, "an operand that does not exist");
    return !m->rc;
}

static bool same_shape(const ls_val *a, const ls_val *b) {
    ls_tensor_type t = b->t;
    t.dtype = a->t.dtype;
    return ls_type_equal(&a->t, &t);
}

static void list(ls_mlir *m, const int *axes, int n) {
    put(m, "[");
    for (int i = 0; i < n; i++) put(m, "%s%d", i ? ", " : "", (int64_t)axes[i]);
    put(m, "]");
}

/* ---- Constants ----------------------------------------------------------------------------------------------------- */

static uint64_t bits_of(ls_dtype d, float value) {
    if (d == LS_DT_F64) {
        double wide = value;
        uint64_t u;
        memcpy(&u, &wide, sizeof u);
        return u;
    }
    uint32_t u;
    memcpy(&u, &value, sizeof u);
    return u;
}

ls_val ls_m_f32(ls_mlir *m, ls_tensor_type t, float value) {
    char text[24];
    snprintf(text, sizeof text, t.dtype == LS_DT_F64 ? "0x%016" PRIX64 : "0x%08" PRIX64, bits_of(t.dtype, value));
    ls_val v = begin(m, t);
    put(m, "stablehlo.constant dense<%s> : %T", text, &t);
    return end(m, v);
}

ls_val ls_m_int(ls_mlir *m, ls_tensor_type t, int64_t value) {
    ls_val v = begin(m, t);
    if (t.dtype == LS_DT_I1) put(m, "stablehlo.constant dense<%s> : %T", value ? "true" : "false", &t);
    else put(m, "stablehlo.constant dense<%d> : %T", value, &t);
    return end(m, v);
}

ls_val ls_m_iota(ls_mlir *m, ls_tensor_type t, int axis) {
    ls_val v = begin(m, t);
    put(m, "stablehlo.iota dim = %d : %T", (int64_t)axis, &t);
    return end(m, v);
}

/* ---- Elementwise --------------------------------------------------------------------------------------------------- */

ls_val ls_m_unary(ls_mlir *m, const char *op, ls_val a) {
    if (!usable(m, &a)) return (ls_val){0};
    ls_val v = begin(m, a.t);
    put(m, "%s %V : %T", op, &a, &a.t);
    if (!strncmp(op, "chlo.", 5)) put(m, " -> %T", &a.t);
    return end(m, v);
}

ls_val ls_m_binary(ls_mlir *m, const char *op, ls_val a, ls_val b) {
    if (!usable(m, &a) || !usable(m, &b)) return (ls_val){0};
    if (!ls_type_equal(&a.t, &b.t)) {
        ls_mlir_fail(m, LS_INTERNAL, "operands of different types");
        return (ls_val){0};
    }
    ls_val v = begin(m, a.t);
    put(m, "stablehlo.%s %V, %V : %T", op, &a, &b, &a.t);
    return end(m, v);
}

ls_val ls_m_with_f32(ls_mlir *m, const char *op, ls_val a, float b) { return ls_m_binary(m, op, a, ls_m_f32(m, a.t, b)); }
ls_val ls_m_with_int(ls_mlir *m, const char *op, ls_val a, int64_t b) { return ls_m_binary(m, op, a, ls_m_int(m, a.t, b)); }

ls_val ls_m_compare(ls_mlir *m, const char *direction, ls_val a, ls_val b) {
    if (!usable(m, &a) || !usable(m, &b)) return (ls_val){0};
    if (!ls_type_equal(&a.t, &b.t)) {
        ls_mlir_fail(m, LS_INTERNAL, "comparison of different types");
        return (ls_val){0};
    }
    bool real = a.t.dtype <= LS_DT_F64, is_unsigned = a.t.dtype == LS_DT_U8 || a.t.dtype == LS_DT_U32 || a.t.dtype == LS_DT_I1;
    ls_tensor_type t = a.t;
    t.dtype = LS_DT_I1;
    ls_val v = begin(m, t);
    put(m, "stablehlo.compare %s, %V, %V, %s : (%T, %T) -> %T", direction, &a, &b, real ? "FLOAT" : is_unsigned ? "UNSIGNED" : "SIGNED", &a.t, &b.t, &t);
    return end(m, v);
}

ls_val ls_m_select(ls_mlir *m, ls_val p, ls_val a, ls_val b) {
    if (!usable(m, &p) || !usable(m, &a) || !usable(m, &b)) return (ls_val){0};
    if (!ls_type_equal(&a.t, &b.t) || !same_shape(&p, &a)) {
        ls_mlir_fail(m, LS_INTERNAL, "select of different shapes");
        return (ls_val){0};
    }
    ls_val v = begin(m, a.t);
    put(m, "stablehlo.select %V, %V, %V : %T, %T", &p, &a, &b, &p.t, &a.t);
    return end(m, v);
}

static ls_val cast(ls_mlir *m, const char *op, ls_val a, ls_dtype to) {
    if (!usable(m, &a)) return (ls_val){0};
    ls_tensor_type t = a.t;
    t.dtype = to;
    ls_val v = begin(m, t);
    put(m, "stablehlo.%s %V : (%T) -> %T", op, &a, &a.t, &t);
    return end(m, v);
}

ls_val ls_m_convert(ls_mlir *m, ls_val a, ls_dtype to) { return a.t.dtype == to ? a : cast(m, "convert", a, to); }
ls_val ls_m_bitcast(ls_mlir *m, ls_val a, ls_dtype to) { return cast(m, "bitcast_convert", a, to); }

/* ---- Shapes --------------------------------------------------------------------------------------------------------- */

ls_val ls_m_broadcast(ls_mlir *m, ls_val a, ls_tensor_type t, const int *map) {
    if (!usable(m, &a)) return (ls_val){0};
    t.dtype = a.t.dtype;
    ls_val v = begin(m, t);
    put(m, "stablehlo.broadcast_in_dim %V, dims = ", &a);
    list(m, map, a.t.rank);
    put(m, " : (%T) -> %T", &a.t, &t);
    return end(m, v);
}

ls_val ls_m_reshape(ls_mlir *m, ls_val a, int rank, const int64_t *dim) {
    if (!usable(m, &a)) return (ls_val){0};
    ls_tensor_type t = ls_type_of(a.t.dtype, rank, dim);
    if (ls_type_equal(&t, &a.t)) return a;
    if (ls_type_count(&t) != ls_type_count(&a.t)) {
        ls_mlir_fail(m, LS_INTERNAL, "reshape to another number of elements");
        return (ls_val){0};
    }
    ls_val v = begin(m, t);
    put(m, "stablehlo.reshape %V : (%T) -> %T", &a, &a.t, &t);
    return end(m, v);
}

ls_val ls_m_transpose(ls_mlir *m, ls_val a, const int *permutation) {
    if (!usable(m, &a)) return (ls_val){0};
    ls_tensor_type t = a.t;
    for (int i = 0; i < a.t.rank; i++) t.dim[i] = a.t.dim[permutation[i]];
    ls_val v = begin(m, t);
    put(m, "stablehlo.transpose %V, dims = ", &a);
    list(m, permutation, a.t.rank);
    put(m, " : (%T) -> %T", &a.t, &t);
    return end(m, v);
}

ls_val ls_m_slice(ls_mlir *m, ls_val a, int axis, int64_t from, int64_t to) {
    if (!usable(m, &a)) return (ls_val){0};
    if (!from && to == a.t.dim[axis]) return a;
    ls_tensor_type t = a.t;
    t.dim[axis] = to - from;
    ls_val v = begin(m, t);
    put(m, "stablehlo.slice %V [", &a);
    for (int i = 0; i < a.t.rank; i++) put(m, "%s%d:%d", i ? ", " : "", i == axis ? from : 0, i == axis ? to : a.t.dim[i]);
    put(m, "] : (%T) -> %T", &a.t, &t);
    return end(m, v);
}

ls_val ls_m_concat(ls_mlir *m, const ls_val *a, int n, int axis) {
    for (int i = 0; i < n; i++)
        if (!usable(m, &a[i])) return (ls_val){0};
    if (n == 1) return a[0];
    ls_tensor_type t = a[0].t;
    for (int i = 1; i < n; i++) t.dim[axis] += a[i].t.dim[axis];
    ls_val v = begin(m, t);
    put(m, "stablehlo.concatenate ");
    for (int i = 0; i < n; i++) put(m, "%s%V", i ? ", " : "", &a[i]);
    put(m, ", dim = %d : (", (int64_t)axis);
    for (int i = 0; i < n; i++) put(m, "%s%T", i ? ", " : "", &a[i].t);
    put(m, ") -> %T", &t);
    return end(m, v);
}

ls_val ls_m_pad(ls_mlir *m, ls_val a, int axis, int64_t low, int64_t high) {
    if (!usable(m, &a) || (!low && !high)) return a;
    ls_tensor_type t = a.t, scalar = {.dtype = a.t.dtype};
    t.dim[axis] += low + high;
    ls_val zero = a.t.dtype <= LS_DT_F64 ? ls_m_f32(m, scalar, 0) : ls_m_int(m, scalar, 0), v = begin(m, t);
    put(m, "stablehlo.pad %V, %V, low = [", &a, &zero);
    for (int i = 0; i < t.rank; i++) put(m, "%s%d", i ? ", " : "", i == axis ? low : (int64_t)0);
    put(m, "], high = [");
    for (int i = 0; i < t.rank; i++) put(m, "%s%d", i ? ", " : "", i == axis ? high : (int64_t)0);
    put(m, "], interior = [");
    for (int i = 0; i < t.rank; i++) put(m, "%s0", i ? ", " : "");
    put(m, "] : (%T, %T) -> %T", &a.t, &scalar, &t);
    return end(m, v);
}

ls_val ls_m_pad_end(ls_mlir *m, ls_val a, int axis, int64_t amount) { return ls_m_pad(m, a, axis, 0, amount); }

static void put_starts(ls_mlir *m, const ls_val *starts, int rank) {
    for (int i = 0; i < rank; i++) put(m, ", %V", &starts[i]);
}

static void put_start_types(ls_mlir *m, const ls_val *starts, int rank) {
    for (int i = 0; i < rank; i++) put(m, ", %T", &starts[i].t);
}

ls_val ls_m_dynamic_slice(ls_mlir *m, ls_val a, const ls_val *starts, const int64_t *sizes) {
    if (!usable(m, &a)) return (ls_val){0};
    ls_tensor_type t = ls_type_of(a.t.dtype, a.t.rank, sizes);
    ls_val v = begin(m, t);
    put(m, "stablehlo.dynamic_slice %V", &a);
    put_starts(m, starts, a.t.rank);
    put(m, ", sizes = [");
    for (int i = 0; i < a.t.rank; i++) put(m, "%s%d", i ? ", " : "", sizes[i]);
    put(m, "] : (%T", &a.t);
    put_start_types(m, starts, a.t.rank);
    put(m, ") -> %T", &t);
    return end(m, v);
}

ls_val ls_m_dynamic_update(ls_mlir *m, ls_val a, ls_val update, const ls_val *starts) {
    if (!usable(m, &a) || !usable(m, &update)) return (ls_val){0};
    ls_val v = begin(m, a.t);
    put(m, "stablehlo.dynamic_update_slice %V, %V", &a, &update);
    put_starts(m, starts, a.t.rank);
    put(m, " : (%T, %T", &a.t, &update.t);
    put_start_types(m, starts, a.t.rank);
    put(m, ") -> %T", &a.t);
    return end(m, v);
}

ls_val ls_m_gather_rows(ls_mlir *m, ls_val table, ls_val index) {
    if (!usable(m, &table) || !usable(m, &index)) return (ls_val){0};
    int64_t n = index.t.dim[0], cols = table.t.dim[1];
    ls_val column = LS_RESHAPE(m, index, n, 1);
    ls_tensor_type t = LS_TYPE(table.t.dtype, n, cols);
    ls_val v = begin(m, t);
    put(m, "\"stablehlo.gather\"(%V, %V) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
           "index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, %d>}> : (%T, %T) -> %T",
        &table, &column, cols, &table.t, &column.t, &t);
    return end(m, v);
}

/* ---- Sums and products ------------------------------------------------------------------------------------------------ */

static ls_val initial(ls_mlir *m, const char *op, ls_tensor_type scalar) {
    bool max = !strcmp(op, "maximum");
    if (scalar.dtype == LS_DT_I1) return ls_m_int(m, scalar, 0);
    if (scalar.dtype <= LS_DT_F64) return ls_m_f32(m, scalar, max ? -1.0f / 0.0f : 0.0f);
    return ls_m_int(m, scalar, !max ? 0 : scalar.dtype == LS_DT_I64 ? INT64_MIN : INT32_MIN);
}

ls_val ls_m_reduce(ls_mlir *m, const char *op, ls_val a, int axis) {
    if (!usable(m, &a)) return (ls_val){0};
    ls_tensor_type scalar = {.dtype = a.t.dtype}, t = {.dtype = a.t.dtype, .rank = a.t.rank - 1};
    for (int i = 0, j = 0; i < a.t.rank; i++)
        if (i != axis) t.dim[j++] = a.t.dim[i];
    ls_val init = initial(m, op, scalar), v = begin(m, t);
    put(m, "stablehlo.reduce(%V init: %V) applies stablehlo.%s across dimensions = [%d] : (%T, %T) -> %T", &a, &init, op, (int64_t)axis, &a.t, &scalar, &t);
    return end(m, v);
}

static bool contains(const int *axes, int n, int axis) {
    for (int i = 0; i < n; i++)
        if (axes[i] == axis) return true;
    return false;
}

ls_val ls_m_dot(ls_mlir *m, ls_val a, ls_val b, int n_batch, const int *batch_a, const int *batch_b, int contract_a, int contract_b, ls_dtype result) {
    if (!usable(m, &a) || !usable(m, &b)) return (ls_val){0};
    ls_tensor_type t = {.dtype = result, .rank = a.t.rank + b.t.rank - n_batch - 2};
    if (t.rank > LS_XLA_MAX_RANK || a.t.dim[contract_a] != b.t.dim[contract_b]) {
        ls_mlir_fail(m, LS_INTERNAL, "product of unequal widths");
        return (ls_val){0};
    }
    int n = 0;
    for (int i = 0; i < n_batch; i++) t.dim[n++] = a.t.dim[batch_a[i]];
    for (int i = 0; i < a.t.rank; i++)
        if (i != contract_a && !contains(batch_a, n_batch, i)) t.dim[n++] = a.t.dim[i];
    for (int i = 0; i < b.t.rank; i++)
        if (i != contract_b && !contains(batch_b, n_batch, i)) t.dim[n++] = b.t.dim[i];
    ls_val v = begin(m, t);
    put(m, "stablehlo.dot_general %V, %V, ", &a, &b);
    if (n_batch) {
        put(m, "batching_dims = ");
        list(m, batch_a, n_batch);
        put(m, " x ");
        list(m, batch_b, n_batch);
        put(m, ", ");
    }
    put(m, "contracting_dims = [%d] x [%d], precision = [HIGHEST, HIGHEST] : (%T, %T) -> %T", (int64_t)contract_a, (int64_t)contract_b, &a.t, &b.t, &t);
    return end(m, v);
}

ls_val ls_m_convolution(ls_mlir *m, ls_val x, ls_val w, ls_tensor_type t) {
    if (!usable(m, &x) || !usable(m, &w)) return (ls_val){0};
    ls_val v = begin(m, t);
    put(m, "stablehlo.convolution(%V, %V) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]]} ", &x, &w);
    put(m, "{batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}");
    put(m, " : (%T, %T) -> %T", &x.t, &w.t, &t);
    return end(m, v);
}
