/* Fixed-point functions of the exact contracts, defined on integers (docs/contracts.md, section 2). */
#include "contract/exact.h"

/* Horner with alternating signs; coefficients of a least-error polynomial of degree 6 for 2^-x on [0, 1), in Q31;
 * relative error below 2^-26. Every intermediate is below 2^32 since each partial value lies in (0, 2^31]. */
uint32_t ls_exp2_neg(uint32_t x) {
    static const uint32_t c[7] = {0x80000000u, 0x58b90bf0u, 0x1ebfba90u, 0x071a99afu, 0x013a7ae4u, 0x002a5451u, 0x0003c488u};
    uint32_t p = c[6];
    for (int i = 5; i >= 0; i--) p = c[i] - (uint32_t)((uint64_t)p * x >> 32);
    return p;
}

/* Newton's iteration from the best linear estimate 48/17 - 32/17 d, three steps. */
uint32_t ls_recip(uint32_t d) {
    uint32_t y = 0xB4B4B4B5u - (uint32_t)((uint64_t)0xF0F0F0F1u * d >> 32);
    for (int i = 0; i < 3; i++) {
        uint32_t t = (uint32_t)((uint64_t)d * y >> 32);
        y = (uint32_t)((uint64_t)y * ((1u << 30) - t) >> 29);
    }
    return y;
}

ls_sigmoid_value ls_sigmoid(uint32_t a, int negative) {
    int n = (int)(a >> 24);
    uint32_t m = ls_exp2_neg(a << 8);
    uint32_t d = (1u << 30) + (n + 1 > 31 ? 0u : (uint32_t)(((uint64_t)m + (1u << n)) >> (n + 1)));
    uint32_t y = ls_recip(d);
    if (!negative) return (ls_sigmoid_value){y, -31};
    return (ls_sigmoid_value){(uint32_t)((uint64_t)m * y >> 31), -31 - n};
}

uint32_t ls_sigmoid_argument(float x, float c) {
    float a = fabsf(x) * c;
    return (uint32_t)lrintf((a < 92.0f ? a : 92.0f) * 0x1p24f);
}

uint32_t ls_isqrt(uint64_t v) {
    uint32_t n = 0;
    for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
        uint64_t t = n | bit;
        if (t * t <= v) n |= bit;
    }
    return n;
}

void ls_recip_wide(int64_t d, float *r, int *k) {
    uint32_t u = ls_bits((float)d);
    int64_t m = (int64_t)((u & 0x7FFFFFu) | 0x800000u);
    *r = (float)((INT64_C(1) << 54) / m);
    *k = -54 - ((int)(u >> 23) - 150);
}

int64_t ls_scaled_score(int64_t j, float k, int e) {
    uint32_t u = ls_bits(k);
    int64_t t = j * (int64_t)((u & 0x7FFFFFu) | 0x800000u);
    int s = e + (int)(u >> 23) - 150;
    if (s < 0) return s < -62 ? 0 : ls_rshift(t, -s);
    int n = s < 40 ? s : 40;
    int64_t top = INT64_C(1) << 58, limit = top >> n;
    return t > limit ? top : t < -limit ? -top : t * (INT64_C(1) << n);
}

void ls_rotate(float *y, int32_t *q, int d, int e, int down) {
    int n = ls_rotated_columns(d);
    for (int half = 1; half < n; half *= 2)
        for (int run = 0; run < d; run += 2 * half)
            for (int i = run; i < run + half; i++) {
                int32_t a = q[i], b = q[i + half];
                q[i] = a + b;
                q[i + half] = a - b;
            }
    float unit = ls_pow2(e - 127 - LS_EXACT_P16 - down);
    for (int i = 0; i < d; i++) y[i] = (float)q[i] * unit;
}
