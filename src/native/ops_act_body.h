/* Functions on integers and activations over the vector vocabulary of the including file. Formulas and ranges: docs/contracts.md section 7; reference:
 * reference/exact_act.c.
 *
 * Most take |n| <= IN_STEP vectors and do each operation on all of them before the next: one vector alone is a long chain of products that wait for
 * each other. */
#include "contract/exact.h"
#include "graph/graph.h"

enum { IN_STEP = 4 };

/* 2^-x in Q31 of x in Q32, which it replaces. */
static inline void exp2_neg(vi *x, int n) {
    static const int32_t factor[] = {0x002a5451, 0x013a7ae4, 0x071a99af, 0x1ebfba90, 0x58b90bf0, INT32_MIN};
    vi y[IN_STEP];
    for (int i = 0; i < n; i++) y[i] = vi_set(0x0003c488);
    for (size_t k = 0; k < sizeof factor / sizeof *factor; k++)
        for (int i = 0; i < n; i++) y[i] = vi_sub(vi_set(factor[k]), vi_mulhi(y[i], x[i]));
    for (int i = 0; i < n; i++) x[i] = y[i];
}

/* 1 / d in Q30 of d in Q31, which it replaces. */
static inline void reciprocal(vi *d, int n) {
    vi y[IN_STEP];
    for (int i = 0; i < n; i++) y[i] = vi_sub(vi_set((int32_t)0xB4B4B4B5u), vi_mulhi(vi_set((int32_t)0xF0F0F0F1u), d[i]));
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < n; i++) y[i] = vi_mul_shift(y[i], vi_sub(vi_set(1 << 30), vi_mulhi(d[i], y[i])), 0, 29);
    for (int i = 0; i < n; i++) d[i] = y[i];
}

/* rshift(v, n) for lanes v <= 2^31 and n >= 1: the bit below the last one kept decides. */
static inline vi round_shift(vi v, vi n) { return vi_srl(vi_add(vi_srlv(v, vi_sub(n, vi_set(1))), vi_set(1)), 1); }

/* The same for n >= 0, where a shift of 0 keeps v: srlv by -1 gives 0. */
static inline vi round_shift_or_none(vi v, vi n) {
    return vi_add(vi_srlv(v, n), vi_and(vi_srlv(v, vi_sub(n, vi_set(1))), vi_set(1)));
}

/* Lowers m <= 2^31 by one where n is 32, so that the shifts above give 0 for every n over 31. */
static inline vi below(vi m, vi n) { return vi_sub(m, vi_srl(n, 5)); }

/* 2^30 + rshift(m, n + 1), the divisor of the logistic function. */
static inline vi logistic_divisor(vi m, vi n) {
    vi n1 = vi_add(n, vi_set(1));
    return vi_add(vi_set(1 << 30), round_shift(below(m, n1), n1));
}

/* 2^-n for lanes n in [0, 126]. */
static inline vf power_down(vi n) { return vi_as_float(vi_sll(vi_sub(vi_set(127), n), 23)); }

/* The power 2^31 * 2^-a of arguments a in units of 2^-24 is m * 2^-whole. */
static inline void powers(vi *whole, vi *m, const vi *a, int n) {
    for (int i = 0; i < n; i++) whole[i] = vi_srl(a[i], 24);
    for (int i = 0; i < n; i++) m[i] = vi_sll(a[i], 8);
    exp2_neg(m, n);
}

static inline vi argument(vf x, vf c) { return vf_round(vf_mul(vf_min(vf_mul(vf_abs(x), c), vf_set(92.0f)), vf_set(0x1p24f))); }

/* x becomes x * logistic(a, sign x), or the logistic alone; the factor of a negative x is scaled by 2^-whole. */
static inline void times_logistic(vf *x, const vi *a, bool alone, int n) {
    const vf unit = vf_set(0x1p-31f);
    vi whole[IN_STEP], m[IN_STEP], y[IN_STEP];
    powers(whole, m, a, n);
    for (int i = 0; i < n; i++) y[i] = logistic_divisor(m[i], whole[i]);
    reciprocal(y, n);
    for (int i = 0; i < n; i++) {
        vf pos = vf_mul(vi_float_unsigned(y[i]), unit);
        vf neg = vf_mul(vf_mul(vi_float_unsigned(vi_mul_shift(m[i], y[i], 0, 31)), unit), power_down(whole[i]));
        x[i] = vf_canon(vf_mul(alone ? vf_set(1.0f) : x[i], vf_if_negative(x[i], neg, pos)));
    }
}

static inline void logistic_unit(vf *x, float c, bool alone, int n) {
    vi a[IN_STEP];
    for (int i = 0; i < n; i++) a[i] = argument(x[i], vf_set(c));
    times_logistic(x, a, alone, n);
}

static inline void gelu_tanh(vf *x, int n) {
    vi a[IN_STEP];
    for (int i = 0; i < n; i++) {
        vi v = vf_round(vf_mul(vf_min(vf_abs(x[i]), vf_set(8.0f)), vf_set(0x1p24f)));
        vi w = vi_add(vi_set(0x9357611), vi_mul_shift(vi_set(0x6969F3DD), vi_mul_shift(v, v, 1u << 25, 26), 0, 30));
        a[i] = vi_mul_shift(v, w, 0, 26);
    }
    times_logistic(x, a, false, n);
}

static inline void gelu_exact(vf *x, int n) {
    static const int32_t g[15] = {250760106, 409113249, 184597739, 4610155, -2454309, 1291434, -652221, 306625,
                                  -125654, 41108, -11597, -1015, 11198, -10435, 3076};
    const vf unit = vf_set(0x1p-31f);
    vi t[IN_STEP], h[IN_STEP], whole[IN_STEP], m[IN_STEP];
    for (int i = 0; i < n; i++) t[i] = vi_sub(vf_round(vf_mul(vf_min(vf_abs(x[i]), vf_set(8.0f)), vf_set(0x1p28f))), vi_set(1 << 30));
    for (int i = 0; i < n; i++) h[i] = vi_set(g[14]);
    for (int k = 13; k >= 0; k--)
        for (int i = 0; i < n; i++) h[i] = vi_add(vi_set(g[k]), vi_mul_shift_signed(h[i], t[i], 30));
    powers(whole, m, h, n);
    for (int i = 0; i < n; i++) {
        vf neg = vf_mul(vf_mul(vi_float_unsigned(m[i]), unit), power_down(whole[i]));
        vf pos = vf_mul(vi_float_unsigned(vi_sub(vi_set(INT32_MIN), round_shift_or_none(m[i], whole[i]))), unit);
        x[i] = vf_canon(vf_mul(x[i], vf_if_negative(x[i], neg, pos)));
    }
}

static inline void activate(vf *x, ls_act act, int n) {
    switch (act) {
        case LS_ACT_SILU: logistic_unit(x, 0x1.715476p+0f, false, n); break;
        case LS_ACT_SIGMOID: logistic_unit(x, 0x1.715476p+0f, true, n); break;
        case LS_ACT_GELU_QUICK: logistic_unit(x, 0x1.3a4cbep+1f, false, n); break;
        case LS_ACT_GELU_TANH: gelu_tanh(x, n); break;
        case LS_ACT_GELU: gelu_exact(x, n); break;
        default:
            for (int i = 0; i < n; i++) x[i] = vf_max(x[i], vf_set(0.0f));
    }
}

/* ls_exact_tanh: tanh as f32, signed like x, which it replaces. */
static inline void tanh_of(vf *x, vf factor, int n) {
    vi a[IN_STEP], whole[IN_STEP], m[IN_STEP], y[IN_STEP];
    for (int i = 0; i < n; i++) a[i] = argument(x[i], factor);
    powers(whole, m, a, n);
    for (int i = 0; i < n; i++) y[i] = logistic_divisor(m[i], whole[i]);
    reciprocal(y, n);
    for (int i = 0; i < n; i++) {
        vi rest = vi_sub(vi_set(INT32_MIN), round_shift_or_none(below(m[i], whole[i]), whole[i]));
        vf v = vf_mul(vi_float_unsigned(vi_mul_shift(rest, y[i], 0, 31)), vf_set(0x1p-31f));
        x[i] = vf_if_negative(x[i], vf_mul(v, vf_set(-1.0f)), v);
    }
}
