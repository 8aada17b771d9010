/* The vocabulary of the exact contracts as StableHLO. Unsigned 32-bit arithmetic of the definitions is done in i64: every
 * product stays below 2^63, as noted at each. */
#include "xla/emit/exact_math.h"

#include "contract/exact.h"

ls_val ls_m_canon(ls_mlir *m, ls_val x) {
    ls_val a = ls_m_unary(m, "stablehlo.abs", x);
    ls_val small = ls_m_compare(m, "LT", a, ls_m_f32(m, x.t, 0x1p-100f));
    ls_val y = ls_m_with_f32(m, "minimum", x, 0x1p100f);
    y = ls_m_with_f32(m, "maximum", y, -0x1p100f);
    return ls_m_select(m, small, ls_m_f32(m, x.t, 0), y);
}

ls_val ls_m_pow2_biased(ls_mlir *m, ls_val e) { return ls_m_bitcast(m, ls_m_with_int(m, "shift_left", e, 23), LS_DT_F32); }

ls_val ls_m_block_exponent(ls_mlir *m, ls_val x) {
    ls_val max = ls_m_reduce(m, "maximum", ls_m_unary(m, "stablehlo.abs", x), x.t.rank - 1);
    ls_val bits = ls_m_with_int(m, "add", ls_m_bitcast(m, max, LS_DT_I32), 0x20000);
    return ls_m_with_int(m, "maximum", ls_m_with_int(m, "shift_right_logical", bits, 23), LS_EXACT_MIN_EXP);
}

ls_val ls_m_along_last(ls_mlir *m, ls_val a, ls_tensor_type t) {
    static const int axes[] = {0, 1, 2, 3, 4, 5};
    return ls_m_broadcast(m, a, t, axes);
}

ls_val ls_m_mantissa(ls_mlir *m, ls_val x, ls_val e, int p) {
    ls_val biased = ls_m_binary(m, "subtract", ls_m_int(m, e.t, 254 + p), e);
    ls_val scaled = ls_m_binary(m, "multiply", x, ls_m_along_last(m, ls_m_pow2_biased(m, biased), x.t));
    return ls_m_unary(m, "stablehlo.round_nearest_even", scaled);
}

ls_val ls_m_rshift_by(ls_mlir *m, ls_val v, int n) {
    if (!n) return v;
    return ls_m_with_int(m, "shift_right_arithmetic", ls_m_with_int(m, "add", v, (int64_t)1 << (n - 1)), n);
}

/* The addend (1 << n) >> 1 is 0 for n = 0. */
ls_val ls_m_rshift(ls_mlir *m, ls_val v, ls_val n) {
    ls_val half = ls_m_with_int(m, "shift_right_arithmetic", ls_m_binary(m, "shift_left", ls_m_int(m, n.t, 1), n), 1);
    return ls_m_binary(m, "shift_right_arithmetic", ls_m_binary(m, "add", v, half), n);
}

/* (a * b) >> n for factors whose product is below 2^63. */
static ls_val mul_shift(ls_mlir *m, ls_val a, ls_val b, int n) {
    return ls_m_with_int(m, "shift_right_arithmetic", ls_m_binary(m, "multiply", a, b), n);
}

/* Partial values are at most 2^31, x is below 2^32. */
ls_val ls_m_exp2_neg(ls_mlir *m, ls_val x) {
    static const int64_t c[7] = {0x80000000, 0x58b90bf0, 0x1ebfba90, 0x071a99af, 0x013a7ae4, 0x002a5451, 0x0003c488};
    ls_val y = ls_m_int(m, x.t, c[6]);
    for (int i = 5; i >= 0; i--) y = ls_m_binary(m, "subtract", ls_m_int(m, x.t, c[i]), mul_shift(m, y, x, 32));
    return y;
}

/* d <= 2^31, y <= 2^31, t <= 2^30. */
ls_val ls_m_recip(ls_mlir *m, ls_val d) {
    ls_val y = ls_m_binary(m, "subtract", ls_m_int(m, d.t, 0xB4B4B4B5), mul_shift(m, d, ls_m_int(m, d.t, 0xF0F0F0F1), 32));
    for (int i = 0; i < 3; i++) {
        ls_val t = mul_shift(m, d, y, 32);
        y = mul_shift(m, y, ls_m_binary(m, "subtract", ls_m_int(m, d.t, (int64_t)1 << 30), t), 29);
    }
    return y;
}

static ls_val round_to_i64(ls_mlir *m, ls_val x) { return ls_m_convert(m, ls_m_unary(m, "stablehlo.round_nearest_even", x), LS_DT_I64); }

ls_val ls_m_sigmoid_argument(ls_mlir *m, ls_val x, float c) {
    ls_val a = ls_m_with_f32(m, "minimum", ls_m_with_f32(m, "multiply", ls_m_unary(m, "stablehlo.abs", x), c), 92.0f);
    return round_to_i64(m, ls_m_with_f32(m, "multiply", a, 0x1p24f));
}

ls_val ls_m_signbit(ls_mlir *m, ls_val x) {
    ls_val bits = ls_m_bitcast(m, x, LS_DT_I32);
    return ls_m_compare(m, "LT", bits, ls_m_int(m, bits.t, 0));
}

/* Parts of a sigmoid argument: *n = a >> 24 and *exp = 2^-fraction in Q31; returns rshift(exp, n + 1), 0 beyond 31. */
static ls_val split_argument(ls_mlir *m, ls_val a, ls_val *n, ls_val *exp) {
    *n = ls_m_with_int(m, "shift_right_arithmetic", a, 24);
    *exp = ls_m_exp2_neg(m, ls_m_with_int(m, "shift_left", ls_m_with_int(m, "and", a, 0xFFFFFF), 8));
    ls_val shift = ls_m_with_int(m, "add", *n, 1);
    ls_val kept = ls_m_rshift(m, *exp, ls_m_with_int(m, "minimum", shift, 62));
    return ls_m_select(m, ls_m_compare(m, "GT", shift, ls_m_int(m, shift.t, 31)), ls_m_int(m, kept.t, 0), kept);
}

ls_val ls_m_sigmoid(ls_mlir *m, ls_val a, ls_val x) {
    ls_val n, exp, half = split_argument(m, a, &n, &exp);
    ls_val y = ls_m_recip(m, ls_m_with_int(m, "add", half, (int64_t)1 << 30));
    ls_val minus = ls_m_signbit(m, x);
    ls_val mantissa = ls_m_select(m, minus, mul_shift(m, exp, y, 31), y);
    ls_val exponent = ls_m_select(m, minus, ls_m_unary(m, "stablehlo.negate", n), ls_m_int(m, n.t, 0));
    ls_val power = ls_m_pow2_biased(m, ls_m_convert(m, ls_m_with_int(m, "add", exponent, 127), LS_DT_I32));
    return ls_m_binary(m, "multiply", ls_m_with_f32(m, "multiply", ls_m_convert(m, mantissa, LS_DT_F32), 0x1p-31f), power);
}

ls_val ls_m_tanh_fixed(ls_mlir *m, ls_val a) {
    ls_val n, exp, half = split_argument(m, a, &n, &exp);
    ls_val y = ls_m_recip(m, ls_m_with_int(m, "add", half, (int64_t)1 << 30));
    ls_val whole = ls_m_rshift(m, exp, ls_m_with_int(m, "minimum", n, 62));
    whole = ls_m_select(m, ls_m_compare(m, "GT", n, ls_m_int(m, n.t, 31)), ls_m_int(m, n.t, 0), whole);
    return mul_shift(m, ls_m_binary(m, "subtract", ls_m_int(m, n.t, (int64_t)1 << 31), whole), y, 31);
}

ls_val ls_m_exact_tanh(ls_mlir *m, ls_val x, float factor) {
    ls_val g = ls_m_convert(m, ls_m_tanh_fixed(m, ls_m_sigmoid_argument(m, x, factor)), LS_DT_F32);
    ls_val y = ls_m_with_f32(m, "multiply", g, 0x1p-31f);
    return ls_m_select(m, ls_m_signbit(m, x), ls_m_unary(m, "stablehlo.negate", y), y);
}

/* Newton from above on integers: from 2^31 the first six steps come within one of the root, a seventh lands on it or one
 * above; the last line decides. */
ls_val ls_m_isqrt(ls_mlir *m, ls_val v) {
    ls_val n = ls_m_int(m, v.t, (int64_t)1 << 31);
    for (int i = 0; i < 7; i++) n = ls_m_with_int(m, "shift_right_arithmetic", ls_m_binary(m, "add", n, ls_m_binary(m, "divide", v, n)), 1);
    ls_val over = ls_m_compare(m, "GT", ls_m_binary(m, "multiply", n, n), v);
    return ls_m_binary(m, "subtract", n, ls_m_convert(m, over, LS_DT_I64));
}

void ls_m_recip_wide(ls_mlir *m, ls_val d, ls_val *r, ls_val *k) {
    ls_val bits = ls_m_bitcast(m, ls_m_convert(m, d, LS_DT_F32), LS_DT_I32);
    ls_val mantissa = ls_m_with_int(m, "or", ls_m_with_int(m, "and", bits, 0x7FFFFF), 0x800000);
    ls_val wide = ls_m_convert(m, mantissa, LS_DT_I64);
    *r = ls_m_convert(m, ls_m_binary(m, "divide", ls_m_int(m, wide.t, (int64_t)1 << 54), wide), LS_DT_F32);
    *k = ls_m_binary(m, "subtract", ls_m_int(m, bits.t, 150 - 54), ls_m_with_int(m, "shift_right_logical", bits, 23));
}
