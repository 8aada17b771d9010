/* Norms, rotary embedding, activations and elementwise operators over the vector vocabulary of the including file. Formulas
 * and ranges: docs/contracts.md sections 2, 4, 5 and 7; reference: reference/exact_norm.c, exact_rope.c, exact_act.c. */
#include "contract/exact.h"
#include "native/kernels/kernel.h"
#include "native/ops_table.h"
#include "reference/exact_ops.h"

/* Lanes k .. k + W - 1 of an array of n; zeros past its end. */
static inline vf get(const float *p, int64_t n, int64_t k) { return n - k >= W ? vf_load(p + k) : vf_load_n(p + k, n - k); }
static inline void put(float *p, int64_t n, int64_t k, vf a) {
    if (n - k >= W) vf_store(p + k, a);
    else vf_store_n(p + k, a, n - k);
}

static int exponent_of(const float *x, int64_t n) {
    vi max = vi_set(0);
    for (int64_t k = 0; k < n; k += W) max = vi_max(max, vf_bits(vf_abs(get(x, n, k))));
    return ls_block_exponent((uint32_t)vi_largest(max));
}

/* What brings values of a block of exponent e to mantissas of p bits. */
static inline vf mantissa_unit(int e, int p) { return vf_set(ls_pow2_biased(127 + p + 127 - e)); }

static int quantise(int32_t *q, const float *x, int64_t n, int p) {
    int e = exponent_of(x, n);
    vf unit = mantissa_unit(e, p);
    for (int64_t k = 0; k < n; k += W) {
        vi m = vf_round(vf_mul(get(x, n, k), unit));
        if (n - k >= W) vi_store(q + k, m);
        else vi_store_n(q + k, m, n - k);
    }
    return e;
}

/* ---- Norms ---------------------------------------------------------------------------------------------------- */

/* The estimate is off by at most one; the tests decide. */
static int64_t integer_sqrt(int64_t v) {
    int64_t n = (int64_t)sqrt((double)v);
    while (n * n > v) n--;
    while ((n + 1) * (n + 1) <= v) n++;
    return n;
}

static float inverse_rms(const float *x, int64_t n, float eps) {
    int pe = (int)(ls_bits(eps) >> 23) - 127, e0 = 127 + ((pe + 1) >> 1), e = exponent_of(x, n);
    if (e < e0) e = e0;
    vf unit = mantissa_unit(e, 22);
    vq sum = vq_zero();
    for (int64_t k = 0; k < n; k += W) {
        vi i = vf_round(vf_mul(get(x, n, k), unit));
        sum = vq_add(sum, vi_mul_wide(i, i));
    }
    int eps_exp = 44 - 2 * (e - 127);
    int64_t u = vq_sum(sum) / n + llrintf(eps * ls_pow2(eps_exp < -126 ? -126 : eps_exp));
    int s = 0;
    for (; u < INT64_C(1) << 60; s++) u <<= 2;
    int64_t r = (INT64_C(1) << 61) / integer_sqrt(u);
    return ((float)r * 0x1p-31f) * ls_pow2(s - 8 - (e - 127));
}

static void rms_norm(float *y, const float *x, int64_t cols, int64_t group, const float *w, int64_t w_len, float eps) {
    for (int64_t g = 0; g < cols; g += group) {
        vf inv = vf_set(inverse_rms(x + g, group, eps));
        const float *wg = w ? w + g % w_len : NULL;
        for (int64_t k = 0; k < group; k += W) {
            vf v = vf_canon(vf_mul(get(x + g, group, k), inv));
            if (wg) v = vf_canon(vf_mul(v, get(wg, group, k)));
            put(y + g, group, k, v);
        }
    }
}

static float mean_of(const float *x, int64_t n) {
    int e = exponent_of(x, n);
    vf unit = mantissa_unit(e, 22);
    vq sum = vq_zero();
    for (int64_t k = 0; k < n; k += W) sum = vq_mac(sum, vf_round(vf_mul(get(x, n, k), unit)), 1);
    int64_t t = vq_sum(sum) * 256 + (n >> 1), m = t / n - (t % n < 0);
    return ls_canon(((float)m * 0x1p-8f) * ls_pow2(e - 149));
}

static void layer_norm(float *y, const float *x, int64_t cols, int64_t group, const float *w, int64_t w_len, const float *b, int64_t b_len,
                       float eps) {
    for (int64_t g = 0; g < cols; g += group) {
        vf mean = vf_set(mean_of(x + g, group));
        for (int64_t k = 0; k < group; k += W) put(y + g, group, k, vf_canon(vf_sub(get(x + g, group, k), mean)));
        rms_norm(y + g, y + g, group, group, w ? w + g % w_len : NULL, group, eps);
        const float *bg = b ? b + g % b_len : NULL;
        for (int64_t k = 0; bg && k < group; k += W) put(y + g, group, k, vf_canon(vf_add(get(y + g, group, k), get(bg, group, k))));
    }
}

/* ---- Rotary embedding ------------------------------------------------------------------------------------------- */

static inline vf from_fixed(vq v, vf unit) { return vf_canon(vf_mul(vf_mul(vq_float(v), vf_set(0x1p-35f)), unit)); }

static inline vi get_int(const int32_t *p, int64_t n, int64_t k) { return n - k >= W ? vi_load(p + k) : vi_load_n(p + k, n - k); }

static void rotate_halves(float *y, const float *x, int64_t half, vf in, vf out, const int32_t *c, const int32_t *s) {
    for (int64_t k = 0; k < half; k += W) {
        vi a = vf_round(vf_mul(get(x, half, k), in)), b = vf_round(vf_mul(get(x + half, half, k), in));
        vi vc = get_int(c, half, k), vs = get_int(s, half, k);
        vf lo = from_fixed(vq_sub(vi_mul_wide(a, vc), vi_mul_wide(b, vs)), out);
        put(y + half, half, k, from_fixed(vq_add(vi_mul_wide(b, vc), vi_mul_wide(a, vs)), out));
        put(y, half, k, lo);
    }
}

static void rotate_pairs(float *y, const float *x, int64_t half, vf in, vf out, const int32_t *c, const int32_t *s) {
    for (int64_t k = 0; k < 2 * half; k += W) {
        int64_t pairs = 2 * half - k >= W ? W / 2 : half - k / 2;
        vi a = vf_round(vf_mul(get(x, 2 * half, k), in));
        vq straight = vi_mul_wide(a, vi_load_twice(c + k / 2, pairs)), crossed = vi_mul_wide(vi_swap_pairs(a), vi_load_twice(s + k / 2, pairs));
        put(y, 2 * half, k, from_fixed(vq_sub_add(straight, crossed), out));
    }
}

static void rope(float *y, const float *x, int heads, int head_dim, const ls_rope *r, const int32_t *c, const int32_t *s) {
    for (int h = 0; h < heads; h++, x += head_dim, y += head_dim) {
        int e = exponent_of(x, r->rot_dim);
        (r->interleaved ? rotate_pairs : rotate_halves)(y, x, r->rot_dim / 2, mantissa_unit(e, 27), vf_set(ls_pow2(e - 149)), c, s);
        if (y != x) memcpy(y + r->rot_dim, x + r->rot_dim, (size_t)(head_dim - r->rot_dim) * sizeof *y);
    }
}

/* ---- Functions on integers -------------------------------------------------------------------------------------- */

static inline vi exp2_neg(vi x) {
    vi y = vi_set(0x0003c488);
    y = vi_sub(vi_set(0x002a5451), vi_mulhi(y, x));
    y = vi_sub(vi_set(0x013a7ae4), vi_mulhi(y, x));
    y = vi_sub(vi_set(0x071a99af), vi_mulhi(y, x));
    y = vi_sub(vi_set(0x1ebfba90), vi_mulhi(y, x));
    y = vi_sub(vi_set(0x58b90bf0), vi_mulhi(y, x));
    return vi_sub(vi_set(INT32_MIN), vi_mulhi(y, x));
}

static inline vi reciprocal(vi d) {
    vi y = vi_sub(vi_set((int32_t)0xB4B4B4B5u), vi_mulhi(vi_set((int32_t)0xF0F0F0F1u), d));
    for (int i = 0; i < 3; i++) y = vi_mul_shift(y, vi_sub(vi_set(1 << 30), vi_mulhi(d, y)), 0, 29);
    return y;
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

/* x * logistic(a, sign x); the factor of a negative x is scaled by 2^-n. |one| gives the logistic alone. */
static inline vf times_logistic(vf x, vi a, vf one) {
    vi n = vi_srl(a, 24), m = exp2_neg(vi_sll(a, 8));
    vi y = reciprocal(logistic_divisor(m, n));
    const vf unit = vf_set(0x1p-31f);
    vf pos = vf_mul(vi_float_unsigned(y), unit), neg = vf_mul(vf_mul(vi_float_unsigned(vi_mul_shift(m, y, 0, 31)), unit), power_down(n));
    return vf_canon(vf_mul(one, vf_if_negative(x, neg, pos)));
}

static inline vi argument(vf x, vf c) { return vf_round(vf_mul(vf_min(vf_mul(vf_abs(x), c), vf_set(92.0f)), vf_set(0x1p24f))); }

static inline vi gelu_tanh_argument(vf x) {
    vi i = vf_round(vf_mul(vf_min(vf_abs(x), vf_set(8.0f)), vf_set(0x1p24f)));
    vi i2 = vi_mul_shift(i, i, 1u << 25, 26);
    vi w = vi_add(vi_set(0x9357611), vi_mul_shift(vi_set(0x6969F3DD), i2, 0, 30));
    return vi_mul_shift(i, w, 0, 26);
}

static inline vf gelu_exact(vf x) {
    static const int32_t g[15] = {250760106, 409113249, 184597739, 4610155, -2454309, 1291434, -652221, 306625,
                                  -125654, 41108, -11597, -1015, 11198, -10435, 3076};
    vi t = vi_sub(vf_round(vf_mul(vf_min(vf_abs(x), vf_set(8.0f)), vf_set(0x1p28f))), vi_set(1 << 30));
    vi h = vi_set(g[14]);
    for (int i = 13; i >= 0; i--) h = vi_add(vi_set(g[i]), vi_mul_shift_signed(h, t, 30));
    vi n = vi_srl(h, 24), m = exp2_neg(vi_sll(h, 8));
    const vf unit = vf_set(0x1p-31f);
    vf neg = vf_mul(vf_mul(vi_float_unsigned(m), unit), power_down(n));
    vf pos = vf_mul(vi_float_unsigned(vi_sub(vi_set(INT32_MIN), round_shift_or_none(m, n))), unit);
    return vf_canon(vf_mul(x, vf_if_negative(x, neg, pos)));
}

static inline vf activate(vf x, ls_act act) {
    switch (act) {
        case LS_ACT_SILU: return times_logistic(x, argument(x, vf_set(0x1.715476p+0f)), x);
        case LS_ACT_SIGMOID: return times_logistic(x, argument(x, vf_set(0x1.715476p+0f)), vf_set(1.0f));
        case LS_ACT_GELU_QUICK: return times_logistic(x, argument(x, vf_set(0x1.3a4cbep+1f)), x);
        case LS_ACT_GELU_TANH: return times_logistic(x, gelu_tanh_argument(x), x);
        case LS_ACT_GELU: return gelu_exact(x);
        default: return vf_max(x, vf_set(0.0f));
    }
}

/* tanh as f32, signed like x (ls_exact_tanh). */
static inline vf tanh_of(vf x, vf factor) {
    vi a = argument(x, factor), n = vi_srl(a, 24), m = exp2_neg(vi_sll(a, 8));
    vi g = vi_mul_shift(vi_sub(vi_set(INT32_MIN), round_shift_or_none(below(m, n), n)), reciprocal(logistic_divisor(m, n)), 0, 31);
    vf v = vf_mul(vi_float_unsigned(g), vf_set(0x1p-31f));
    return vf_if_negative(x, vf_mul(v, vf_set(-1.0f)), v);
}

/* ---- Elementwise -------------------------------------------------------------------------------------------------- */

static void act(float *y, const float *x, int64_t n, ls_act a) {
    for (int64_t k = 0; k < n; k += W) put(y, n, k, activate(get(x, n, k), a));
}

static void glu(float *y, const float *gate, const float *up, int64_t n, ls_act a) {
    for (int64_t k = 0; k < n; k += W) put(y, n, k, vf_canon(vf_mul(activate(get(gate, n, k), a), get(up, n, k))));
}

static void softcap(float *y, const float *x, int64_t n, float cap) {
    vf factor = vf_set(ls_exact_softcap_factor(1.0f, cap));
    for (int64_t k = 0; k < n; k += W) put(y, n, k, vf_canon(vf_mul(tanh_of(get(x, n, k), factor), vf_set(cap))));
}

static void add(float *y, const float *a, const float *b, int64_t n) {
    for (int64_t k = 0; k < n; k += W) put(y, n, k, vf_canon(vf_add(get(a, n, k), get(b, n, k))));
}

static void mul(float *y, const float *a, const float *b, int64_t n) {
    for (int64_t k = 0; k < n; k += W) put(y, n, k, vf_canon(vf_mul(get(a, n, k), get(b, n, k))));
}

static void scale(float *y, const float *x, int64_t n, float s) {
    for (int64_t k = 0; k < n; k += W) put(y, n, k, vf_canon(vf_mul(get(x, n, k), vf_set(s))));
}

static void clamp(float *y, const float *x, int64_t n, float limit) {
    for (int64_t k = 0; k < n; k += W) put(y, n, k, vf_min(vf_max(get(x, n, k), vf_set(-limit)), vf_set(limit)));
}

static void canon(float *y, const float *x, int64_t n) {
    for (int64_t k = 0; k < n; k += W) put(y, n, k, vf_canon(get(x, n, k)));
}
