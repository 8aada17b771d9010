/* RMSNorm, LayerNorm and rotary embedding under the exact contracts (docs/contracts.md, sections 4 and 5). */
#include <math.h>

#include "contract/exact.h"
#include "xla/emit/lower.h"

static ls_val vector(ls_lower *l, const ls_node *n, const ls_param *w, float offset) {
    int64_t len = w->rows * w->cols;
    return ls_lower_weight(l, (ls_emit_weight){.name = w->name, .role = LS_W_VECTOR, .type = LS_TYPE(LS_DT_F32, len), .contract = n->contract, .param = w,
                                               .n_params = 1, .offset = offset});
}

/* A vector as long as a group or a row, over x [T, groups, group]. */
static ls_val over_groups(ls_lower *l, ls_val v, ls_val x) {
    int64_t groups = x.t.dim[1], group = x.t.dim[2];
    if (v.t.dim[0] == group) return LS_BROADCAST(&l->m, v, x.t, 2);
    return LS_BROADCAST(&l->m, LS_RESHAPE(&l->m, v, groups, group), x.t, 1, 2);
}

/* rne(x * 2^(149 - e)) as i64. */
static ls_val integers(ls_lower *l, ls_val x, ls_val e) { return ls_m_convert(&l->m, ls_m_mantissa(&l->m, x, e, 22), LS_DT_I64); }

/* u + the eps term, u = floor(sum of squares / n): i64 of e's shape. */
static ls_val mean_square(ls_lower *l, ls_val x, ls_val e, float eps) {
    ls_mlir *m = &l->m;
    ls_val i = integers(l, x, e);
    ls_val v = ls_m_with_int(m, "divide", ls_m_reduce(m, "add", ls_m_binary(m, "multiply", i, i), 2), x.t.dim[2]);
    /* 44 - 2 (e - 127) + 127 biased, at least 1 */
    ls_val biased = ls_m_binary(m, "subtract", ls_m_int(m, e.t, 44 + 254 + 127), ls_m_with_int(m, "multiply", e, 2));
    ls_val power = ls_m_pow2_biased(m, ls_m_with_int(m, "maximum", biased, 1));
    ls_val term = ls_m_unary(m, "stablehlo.round_nearest_even", ls_m_with_f32(m, "multiply", power, eps));
    return ls_m_binary(m, "add", v, ls_m_convert(m, term, LS_DT_I64));
}

/* 1 / sqrt(mean(x^2) + eps) of each group: f32 [T, groups]. */
static ls_val inverse_rms(ls_lower *l, ls_val x, float eps) {
    ls_mlir *m = &l->m;
    int pe = (int)(ls_bits(eps) >> 23) - 127, e0 = 127 + ((pe + 1) >> 1);
    ls_val e = ls_m_with_int(m, "maximum", ls_m_block_exponent(m, x), e0 > LS_EXACT_MIN_EXP ? e0 : LS_EXACT_MIN_EXP);
    ls_val u = mean_square(l, x, e, eps);
    ls_val s = ls_m_with_int(m, "subtract", ls_m_unary(m, "stablehlo.count_leading_zeros", u), 2);
    s = ls_m_with_int(m, "shift_right_arithmetic", s, 1);
    ls_val scaled = ls_m_binary(m, "shift_left", u, ls_m_with_int(m, "multiply", s, 2));
    ls_val r = ls_m_binary(m, "divide", ls_m_int(m, u.t, (int64_t)1 << 61), ls_m_isqrt(m, scaled));
    ls_val k = ls_m_binary(m, "subtract", ls_m_with_int(m, "add", ls_m_convert(m, s, LS_DT_I32), 127 + 127 - 8), e);
    return ls_m_binary(m, "multiply", ls_m_with_f32(m, "multiply", ls_m_convert(m, r, LS_DT_F32), 0x1p-31f), ls_m_pow2_biased(m, k));
}

static ls_val rms(ls_lower *l, const ls_node *n, ls_val x, float offset) {
    ls_mlir *m = &l->m;
    ls_val y = ls_m_canon(m, ls_m_binary(m, "multiply", x, ls_m_along_last(m, inverse_rms(l, x, n->eps), x.t)));
    if (!n->w[0]) return y;
    return ls_m_canon(m, ls_m_binary(m, "multiply", y, over_groups(l, vector(l, n, n->w[0], offset), y)));
}

/* floor(t / c) for a constant c > 0; StableHLO's division truncates. */
static ls_val floor_divide(ls_mlir *m, ls_val t, int64_t c) {
    ls_val q = ls_m_with_int(m, "divide", t, c);
    ls_val rest = ls_m_binary(m, "subtract", t, ls_m_with_int(m, "multiply", q, c));
    return ls_m_binary(m, "subtract", q, ls_m_convert(m, ls_m_compare(m, "LT", rest, ls_m_int(m, rest.t, 0)), LS_DT_I64));
}

static ls_val centred(ls_lower *l, ls_val x) {
    ls_mlir *m = &l->m;
    ls_val e = ls_m_block_exponent(m, x);
    ls_val sum = ls_m_reduce(m, "add", integers(l, x, e), 2);
    int64_t c = x.t.dim[2];
    ls_val t = ls_m_with_int(m, "add", ls_m_with_int(m, "multiply", sum, 256), c >> 1);
    ls_val mean = ls_m_with_f32(m, "multiply", ls_m_convert(m, floor_divide(m, t, c), LS_DT_F32), 0x1p-8f);
    mean = ls_m_canon(m, ls_m_binary(m, "multiply", mean, ls_m_pow2_biased(m, ls_m_with_int(m, "subtract", e, 22))));
    return ls_m_canon(m, ls_m_binary(m, "subtract", x, ls_m_along_last(m, mean, x.t)));
}

ls_val ls_lower_exact_norm(ls_lower *l, const ls_node *n, ls_val x) {
    ls_mlir *m = &l->m;
    int64_t t = x.t.dim[0];
    ls_val y = LS_RESHAPE(m, x, t, n->cols / n->group, n->group);
    if (n->op == LS_OP_RMS_NORM) y = rms(l, n, y, n->weight_offset);
    else y = rms(l, n, centred(l, y), 0);
    if (n->op == LS_OP_LAYER_NORM && n->w[1]) y = ls_m_canon(m, ls_m_binary(m, "add", y, over_groups(l, vector(l, n, n->w[1], 0), y)));
    return LS_RESHAPE(m, y, t, n->cols);
}

/* ---- Rotary embedding -------------------------------------------------------------------------------------------------- */

/* Integer cos or sin of each row: i64 [rows, 1, half]. */
static ls_val turn_table(ls_lower *l, const ls_node *n, ls_weight_role role) {
    ls_mlir *m = &l->m;
    int64_t half = l->g->rope[n->rope].rot_dim / 2, rows = l->position.t.dim[0];
    ls_emit_weight w = {.name = role == LS_W_COS ? "rope.cos" : "rope.sin", .role = role, .type = LS_TYPE(LS_DT_I32, l->o->capacity, half),
                        .contract = n->contract,
                        .rope = n->rope};
    ls_val table = ls_m_gather_rows(m, ls_lower_weight(l, w), l->position);
    return LS_RESHAPE(m, ls_m_convert(m, table, LS_DT_I64), rows, 1, half);
}

/* canon((f32(v) * 2^-35) * 2^(e - 149)), e i32 [rows, heads]. The biased exponent e - 22 is at least 5. */
static ls_val from_fixed(ls_lower *l, ls_val v, ls_val e) {
    ls_mlir *m = &l->m;
    ls_val y = ls_m_with_f32(m, "multiply", ls_m_convert(m, v, LS_DT_F32), 0x1p-35f);
    ls_val power = ls_m_pow2_biased(m, ls_m_with_int(m, "subtract", e, 22));
    return ls_m_canon(m, ls_m_binary(m, "multiply", y, ls_m_along_last(m, power, y.t)));
}

/* Columns lo and hi of the pairs of x [rows, heads, rot_dim], each [rows, heads, half]. */
static void pairs(ls_lower *l, ls_val x, bool interleaved, ls_val *lo, ls_val *hi) {
    ls_mlir *m = &l->m;
    int64_t rows = x.t.dim[0], heads = x.t.dim[1], half = x.t.dim[2] / 2;
    if (!interleaved) {
        *lo = ls_m_slice(m, x, 2, 0, half);
        *hi = ls_m_slice(m, x, 2, half, 2 * half);
        return;
    }
    ls_val p = LS_RESHAPE(m, x, rows, heads, half, 2);
    *lo = LS_RESHAPE(m, ls_m_slice(m, p, 3, 0, 1), rows, heads, half);
    *hi = LS_RESHAPE(m, ls_m_slice(m, p, 3, 1, 2), rows, heads, half);
}

static ls_val joined(ls_lower *l, ls_val lo, ls_val hi, bool interleaved) {
    ls_mlir *m = &l->m;
    if (!interleaved) return ls_m_concat(m, (ls_val[]){lo, hi}, 2, 2);
    int64_t rows = lo.t.dim[0], heads = lo.t.dim[1], half = lo.t.dim[2];
    ls_val a = LS_RESHAPE(m, lo, rows, heads, half, 1), b = LS_RESHAPE(m, hi, rows, heads, half, 1);
    return LS_RESHAPE(m, ls_m_concat(m, (ls_val[]){a, b}, 2, 3), rows, heads, 2 * half);
}

ls_val ls_lower_exact_rope(ls_lower *l, const ls_node *n, ls_val x) {
    ls_mlir *m = &l->m;
    const ls_rope *r = &l->g->rope[n->rope];
    int64_t rows = x.t.dim[0];
    ls_val lo, hi, all = LS_RESHAPE(m, x, rows, n->heads, n->head_dim), turned = ls_m_slice(m, all, 2, 0, r->rot_dim);
    ls_val e = ls_m_block_exponent(m, turned);
    ls_val q = ls_m_convert(m, ls_m_mantissa(m, turned, e, 27), LS_DT_I64);
    pairs(l, q, r->interleaved, &lo, &hi);
    ls_val c = LS_BROADCAST(m, turn_table(l, n, LS_W_COS), lo.t, 0, 1, 2), s = LS_BROADCAST(m, turn_table(l, n, LS_W_SIN), lo.t, 0, 1, 2);
    ls_val y_lo = ls_m_binary(m, "subtract", ls_m_binary(m, "multiply", lo, c), ls_m_binary(m, "multiply", hi, s));
    ls_val y_hi = ls_m_binary(m, "add", ls_m_binary(m, "multiply", hi, c), ls_m_binary(m, "multiply", lo, s));
    ls_val y = joined(l, from_fixed(l, y_lo, e), from_fixed(l, y_hi, e), r->interleaved);
    if (r->rot_dim < n->head_dim) y = ls_m_concat(m, (ls_val[]){y, ls_m_slice(m, all, 2, r->rot_dim, n->head_dim)}, 2, 2);
    return LS_RESHAPE(m, y, rows, n->cols);
}
