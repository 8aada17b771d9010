/* Activations, soft cap and experts under the exact contracts (docs/contracts.md, sections 7 and 8). */
#include "contract/exact.h"
#include "reference/exact_ops.h"
#include "xla/emit/lower.h"

static const float log2e = 0x1.715476p+0f, quick = 0x1.3a4cbep+1f;

static ls_val round_i64(ls_mlir *m, ls_val x) { return ls_m_convert(m, ls_m_unary(m, "stablehlo.round_nearest_even", x), LS_DT_I64); }
static ls_val times(ls_mlir *m, ls_val a, ls_val b) { return ls_m_binary(m, "multiply", a, b); }

/* round(min(|x|, 8) * 2^bits). */
static ls_val magnitude(ls_mlir *m, ls_val x, float scale) {
    return round_i64(m, ls_m_with_f32(m, "multiply", ls_m_with_f32(m, "minimum", ls_m_unary(m, "stablehlo.abs", x), 8.0f), scale));
}

static ls_val gelu_tanh_argument(ls_mlir *m, ls_val x) {
    ls_val i = magnitude(m, x, 0x1p24f), i2 = ls_m_rshift_by(m, times(m, i, i), 26);
    ls_val w = ls_m_with_int(m, "shift_right_arithmetic", ls_m_with_int(m, "multiply", i2, 0x6969F3DD), 30);
    w = ls_m_with_int(m, "add", w, 0x9357611);
    return ls_m_with_int(m, "shift_right_arithmetic", times(m, i, w), 26);
}

static ls_val gelu_exact(ls_mlir *m, ls_val x) {
    static const int64_t g[15] = {250760106, 409113249, 184597739, 4610155, -2454309, 1291434, -652221, 306625, -125654, 41108, -11597, -1015, 11198, -10435,
                                  3076};
    ls_val t = ls_m_with_int(m, "subtract", magnitude(m, x, 0x1p28f), (int64_t)1 << 30), h = ls_m_int(m, t.t, g[14]);
    for (int i = 13; i >= 0; i--) h = ls_m_with_int(m, "add", ls_m_with_int(m, "shift_right_arithmetic", times(m, h, t), 30), g[i]);
    ls_val n = ls_m_with_int(m, "shift_right_arithmetic", h, 24);
    ls_val e = ls_m_exp2_neg(m, ls_m_with_int(m, "shift_left", ls_m_with_int(m, "and", h, 0xFFFFFF), 8));
    ls_val power = ls_m_pow2_biased(m, ls_m_convert(m, ls_m_binary(m, "subtract", ls_m_int(m, n.t, 127), n), LS_DT_I32));
    ls_val below = times(m, ls_m_with_f32(m, "multiply", ls_m_convert(m, e, LS_DT_F32), 0x1p-31f), power);
    ls_val rest = ls_m_binary(m, "subtract", ls_m_int(m, e.t, (int64_t)1 << 31), ls_m_rshift(m, e, n));
    ls_val above = ls_m_with_f32(m, "multiply", ls_m_convert(m, rest, LS_DT_F32), 0x1p-31f);
    return ls_m_canon(m, times(m, x, ls_m_select(m, ls_m_signbit(m, x), below, above)));
}

ls_val ls_lower_exact_act(ls_lower *l, ls_act act, ls_val x) {
    ls_mlir *m = &l->m;
    switch (act) {
    case LS_ACT_SILU: return ls_m_canon(m, times(m, x, ls_m_sigmoid(m, ls_m_sigmoid_argument(m, x, log2e), x)));
    case LS_ACT_SIGMOID: return ls_m_canon(m, ls_m_sigmoid(m, ls_m_sigmoid_argument(m, x, log2e), x));
    case LS_ACT_GELU_QUICK: return ls_m_canon(m, times(m, x, ls_m_sigmoid(m, ls_m_sigmoid_argument(m, x, quick), x)));
    case LS_ACT_GELU_TANH: return ls_m_canon(m, times(m, x, ls_m_sigmoid(m, gelu_tanh_argument(m, x), x)));
    case LS_ACT_GELU: return gelu_exact(m, x);
    case LS_ACT_RELU: {
        ls_val zero = ls_m_f32(m, x.t, 0);
        return ls_m_select(m, ls_m_compare(m, "GT", x, zero), x, zero);
    }
    default: ls_mlir_fail(m, LS_UNIMPLEMENTED, "activation without a lowering"); return (ls_val){0};
    }
}

ls_val ls_lower_exact_softcap(ls_lower *l, ls_val x, float cap) {
    ls_val t = ls_m_exact_tanh(&l->m, x, ls_exact_softcap_factor(1.0f, cap));
    return ls_m_canon(&l->m, ls_m_with_f32(&l->m, "multiply", t, cap));
}

/* ---- Average pool ----------------------------------------------------------------------------------------------------- */

ls_val ls_lower_exact_pool(ls_lower *l, const ls_node *n, ls_val x) {
    ls_mlir *m = &l->m;
    ls_val e = ls_m_block_exponent(m, x), q = ls_m_convert(m, ls_m_mantissa(m, x, e, LS_EXACT_POOL_P), LS_DT_I64);
    ls_val sum = ls_m_with_f32(m, "multiply", ls_m_convert(m, ls_m_reduce(m, "add", q, 2), LS_DT_F32), ls_exact_pool_share(n->pool));
    return ls_m_canon(m, times(m, sum, ls_m_pow2_biased(m, ls_m_with_int(m, "subtract", e, LS_EXACT_POOL_P))));
}

/* ---- Experts -------------------------------------------------------------------------------------------------------------- */

/* i1 [T, E, E]: does expert j (last axis) come before expert i in the order of logits, lower index first among equals? */
ls_val ls_lower_top_k(ls_lower *l, ls_val x, int top_k) {
    ls_mlir *m = &l->m;
    int64_t t = x.t.dim[0], n = x.t.dim[1];
    ls_tensor_type full = LS_TYPE(LS_DT_F32, t, n, n), index = LS_TYPE(LS_DT_I32, n, n), counts = LS_TYPE(LS_DT_I32, t, n, n);
    ls_val mine = LS_BROADCAST(m, x, full, 0, 1), other = LS_BROADCAST(m, x, full, 0, 2);
    ls_val lower = LS_BROADCAST(m, ls_m_compare(m, "LT", ls_m_iota(m, index, 1), ls_m_iota(m, index, 0)), counts, 1, 2);
    ls_val tie = ls_m_binary(m, "and", ls_m_compare(m, "EQ", other, mine), lower);
    ls_val before = ls_m_convert(m, ls_m_binary(m, "or", ls_m_compare(m, "GT", other, mine), tie), LS_DT_I32);
    ls_val place = ls_m_reduce(m, "add", before, 2);
    return ls_m_compare(m, "LT", place, ls_m_int(m, place.t, top_k));
}

/* Scores of all experts, f32 [T, E]: softmax on integers. */
static ls_val expert_scores(ls_lower *l, const ls_moe *moe, ls_val router, ls_val kept) {
    ls_mlir *m = &l->m;
    ls_val f = ls_m_with_f32(m, "multiply", router, log2e * 0x1p28f);
    f = ls_m_with_f32(m, "maximum", ls_m_with_f32(m, "minimum", f, 0x1p58f), -0x1p58f);
    ls_val z = round_i64(m, f), d = ls_m_binary(m, "subtract", ls_m_along_last(m, ls_m_reduce(m, "maximum", z, 1), z.t), z);
    ls_val n = ls_m_with_int(m, "shift_right_arithmetic", d, 28), zero = ls_m_int(m, n.t, 0);
    ls_val e = ls_m_exp2_neg(m, ls_m_with_int(m, "shift_left", ls_m_with_int(m, "and", d, 0xFFFFFFF), 4));
    e = ls_m_rshift(m, e, ls_m_with_int(m, "minimum", n, 31));
    e = ls_m_select(m, ls_m_compare(m, "GT", n, ls_m_int(m, n.t, 31)), zero, e);
    ls_val den = ls_m_reduce(m, "add", moe->normalize ? ls_m_select(m, kept, e, zero) : e, 1), r, k;
    ls_m_recip_wide(m, den, &r, &k);
    ls_val y = times(m, ls_m_convert(m, e, LS_DT_F32), ls_m_along_last(m, ls_m_with_f32(m, "multiply", r, 0x1p-31f), router.t));
    ls_val power = ls_m_pow2_biased(m, ls_m_with_int(m, "add", k, 31 + 127));
    return ls_m_canon(m, times(m, y, ls_m_along_last(m, power, router.t)));
}

/* y = canon(y + part) over kept experts in ascending order, beginning with the first kept one's part. parts [T, E, H]. */
static ls_val add_experts(ls_lower *l, ls_val parts, ls_val kept) {
    ls_mlir *m = &l->m;
    int64_t t = parts.t.dim[0], h = parts.t.dim[2];
    ls_val y = {0}, begun = {0};
    ls_tensor_type row = LS_TYPE(LS_DT_F32, t, h);
    for (int64_t i = 0; i < parts.t.dim[1]; i++) {
        ls_val part = LS_RESHAPE(m, ls_m_slice(m, parts, 1, i, i + 1), t, h), on = LS_RESHAPE(m, ls_m_slice(m, kept, 1, i, i + 1), t);
        ls_val wide = LS_BROADCAST(m, on, row, 0);
        if (!i) {
            y = ls_m_select(m, wide, part, ls_m_f32(m, row, 0));
            begun = on;
            continue;
        }
        ls_val sum = ls_m_select(m, LS_BROADCAST(m, begun, row, 0), ls_m_canon(m, ls_m_binary(m, "add", y, part)), part);
        y = ls_m_select(m, wide, sum, y);
        begun = ls_m_binary(m, "or", begun, on);
    }
    return y;
}

/* Every expert is evaluated for every row; what the router did not keep is left out of the sum. */
ls_val ls_lower_exact_moe(ls_lower *l, const ls_node *n, ls_val x, ls_val router) {
    const ls_moe *moe = n->moe;
    ls_mlir *m = &l->m;
    int64_t t = x.t.dim[0], e = moe->experts, inner = moe->gate->rows;
    ls_val kept = ls_lower_top_k(l, router, moe->top_k), score = expert_scores(l, moe, router, kept);
    ls_val row = LS_RESHAPE(m, x, t, 1, x.t.dim[1]);
    ls_val gate = LS_RESHAPE(m, ls_lower_exact_product(l, row, moe->gate, moe->experts, 1), t, e, inner);
    ls_val up = LS_RESHAPE(m, ls_lower_exact_product(l, row, moe->up, moe->experts, 1), t, e, inner);
    ls_val mid = ls_m_canon(m, times(m, ls_lower_exact_act(l, n->act, gate), up));
    ls_val down = ls_lower_exact_product(l, mid, moe->down, moe->experts, e);
    ls_val parts = ls_m_canon(m, times(m, ls_m_along_last(m, score, down.t), down));
    return add_experts(l, parts, kept);
}
