/* Exact integer dot products by whichever arithmetic the compiler is good at: integers are split into balanced digits so
 * small that every partial sum is exact in f32 (24 bits), in f64 (53 bits) or in int32 from int8. All ways give the same
 * integers, so a contract's bits do not depend on the choice. */
#include "xla/emit/lower.h"

/* n balanced digits of integers up to |bound|, with the smallest largest digit. The lower ones lie in [-2^(bits-1), 2^(bits-1)),
 * the top one in [-top, top]. */
static ls_digits split_into(int n, int64_t bound) {
    ls_digits best = {.n = n, .largest = INT64_MAX};
    for (int bits = 1; bits < 31; bits++) {
        int64_t half = n > 1 ? (int64_t)1 << (bits - 1) : 0, rest = bound;
        for (int i = 1; i < n; i++) rest = (rest + half) >> bits;
        int64_t largest = rest > half ? rest : half;
        if (largest < best.largest) best = (ls_digits){n, n > 1 ? bits : 0, largest, rest};
        if (n == 1) break;
    }
    return best;
}

static bool fits(ls_digits d, int64_t limit) { return d.top <= limit && d.largest <= limit + 1; }

/* Cheapest plan whose digits keep |width| products within |limit| and whose digits fit [-digit_limit - 1, digit_limit]. */
static ls_dot_plan plan_within(ls_dtype dtype, double limit, int64_t digit_limit, double price, int64_t bound_a, int64_t bound_b, int64_t width) {
    ls_dot_plan best = {.dtype = dtype, .cost = 1e30};
    for (int na = 1; na <= LS_MAX_DIGITS; na++)
        for (int nb = 1; nb <= LS_MAX_DIGITS; nb++) {
            ls_digits a = split_into(na, bound_a), b = split_into(nb, bound_b);
            if ((double)a.largest * (double)b.largest * (double)width > limit || !fits(a, digit_limit) || !fits(b, digit_limit)) continue;
            double cost = price * na * nb;
            if (cost < best.cost) best = (ls_dot_plan){a, b, dtype, cost};
        }
    return best;
}

ls_dot_plan ls_plan_dot(ls_carrier carrier, int64_t bound_a, int64_t bound_b, int64_t width) {
    if (carrier == LS_CARRIER_I8) return plan_within(LS_DT_I8, 0x1p31 - 1, INT8_MAX, 0.5, bound_a, bound_b, width);
    ls_dot_plan narrow = plan_within(LS_DT_F32, 0x1p24, INT32_MAX, 1, bound_a, bound_b, width);
    if (carrier == LS_CARRIER_F32) return narrow;
    ls_dot_plan wide = plan_within(LS_DT_F64, 0x1p53, INT32_MAX, 2, bound_a, bound_b, width);
    return wide.cost < narrow.cost ? wide : narrow;
}

/* v = high * 2^bits + low with low in [-2^(bits-1), 2^(bits-1)). On f32 high = floor(v * 2^-bits + 1/2): exact, since mantissas
 * have at most 24 significant bits and the half adds none below them. */
static ls_val split_off(ls_mlir *m, ls_val v, int bits, ls_val *high) {
    if (v.t.dtype == LS_DT_F32) {
        float up = (float)((int64_t)1 << bits);
        *high = ls_m_unary(m, "stablehlo.floor", ls_m_with_f32(m, "add", ls_m_with_f32(m, "multiply", v, 1.0f / up), 0.5f));
        return ls_m_binary(m, "subtract", v, ls_m_with_f32(m, "multiply", *high, up));
    }
    *high = ls_m_rshift_by(m, v, bits);
    return ls_m_binary(m, "subtract", v, ls_m_with_int(m, "shift_left", *high, bits));
}

void ls_m_digits(ls_mlir *m, ls_val v, ls_digits d, ls_dtype dtype, ls_val *out) {
    for (int i = 0; i < d.n - 1; i++) {
        ls_val high;
        out[i] = ls_m_convert(m, split_off(m, v, d.bits, &high), dtype);
        v = high;
    }
    out[d.n - 1] = ls_m_convert(m, v, dtype);
}

ls_val ls_m_dot_digits(ls_mlir *m, const ls_dot_plan *plan, const ls_val *a, const ls_val *b, int n_batch, const int *batch_a, const int *batch_b,
                       int contract_a,
                       int contract_b, double bound) {
    ls_dtype to = bound < 0x1p31 ? LS_DT_I32 : LS_DT_I64;
    ls_val sum = {0};
    for (int i = 0; i < plan->a.n; i++)
        for (int j = 0; j < plan->b.n; j++) {
            ls_val p = ls_m_dot(m, a[i], b[j], n_batch, batch_a, batch_b, contract_a, contract_b, plan->dtype == LS_DT_I8 ? LS_DT_I32 : plan->dtype);
            int shift = i * plan->a.bits + j * plan->b.bits;
            p = ls_m_convert(m, p, to);
            if (shift) p = ls_m_with_int(m, "shift_left", p, shift);
            sum = sum.kind ? ls_m_binary(m, "add", sum, p) : p;
        }
    return sum;
}
