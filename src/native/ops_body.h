/* Norms, rotary embedding, activations and elementwise operators over the vector vocabulary of the including file. Formulas
 * and ranges: docs/contracts.md sections 2, 4 and 5; reference: reference/exact_norm.c, exact_rope.c. */
#include "contract/exact.h"
#include "native/kernels/kernel.h"
#include "native/ops_act_body.h"
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

/* ---- Elementwise -------------------------------------------------------------------------------------------------- */

enum { STEP = IN_STEP * W };

/* IN_STEP vectors from lane k of an array of n on; zeros past its end. */
static inline void get_step(vf *v, const float *p, int64_t n, int64_t k) {
    if (n - k >= STEP)
        for (int i = 0; i < IN_STEP; i++) v[i] = vf_load(p + k + i * W);
    else
        for (int i = 0; i < IN_STEP; i++) v[i] = i * W < n - k ? get(p, n, k + i * W) : vf_set(0.0f);
}
static inline void put_step(float *p, int64_t n, int64_t k, const vf *v) {
    if (n - k >= STEP)
        for (int i = 0; i < IN_STEP; i++) vf_store(p + k + i * W, v[i]);
    else
        for (int i = 0; i * W < n - k; i++) put(p, n, k + i * W, v[i]);
}

static void act(float *y, const float *x, int64_t n, ls_act a) {
    vf v[IN_STEP];
    for (int64_t k = 0; k < n; k += STEP) {
        get_step(v, x, n, k);
        activate(v, a, IN_STEP);
        put_step(y, n, k, v);
    }
}

static void glu(float *y, const float *gate, const float *up, int64_t n, ls_act a) {
    vf v[IN_STEP], u[IN_STEP];
    for (int64_t k = 0; k < n; k += STEP) {
        get_step(v, gate, n, k);
        activate(v, a, IN_STEP);
        get_step(u, up, n, k);
        for (int i = 0; i < IN_STEP; i++) v[i] = vf_canon(vf_mul(v[i], u[i]));
        put_step(y, n, k, v);
    }
}

static void softcap(float *y, const float *x, int64_t n, float cap) {
    const vf factor = vf_set(ls_exact_softcap_factor(1.0f, cap));
    vf v[IN_STEP];
    for (int64_t k = 0; k < n; k += STEP) {
        get_step(v, x, n, k);
        tanh_of(v, factor, IN_STEP);
        for (int i = 0; i < IN_STEP; i++) v[i] = vf_canon(vf_mul(v[i], vf_set(cap)));
        put_step(y, n, k, v);
    }
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
