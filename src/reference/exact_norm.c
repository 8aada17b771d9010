/* RMSNorm and LayerNorm under the exact contracts (docs/contracts.md section 4). */
#include "contract/exact.h"
#include "reference/exact_ops.h"

static int group_exponent(const float *x, int64_t n) {
    uint32_t max = 0;
    for (int64_t k = 0; k < n; k++) {
        uint32_t b = ls_bits(x[k]) & 0x7FFFFFFFu;
        if (b > max) max = b;
    }
    return ls_block_exponent(max);
}

/* 1 / sqrt(mean(x^2) + eps). */
static float inverse_rms(const float *x, int64_t n, float eps) {
    int pe = (int)(ls_bits(eps) >> 23) - 127, e0 = 127 + ((pe + 1) >> 1), e = group_exponent(x, n);
    if (e < e0) e = e0;
    int64_t sum = 0;
    for (int64_t k = 0; k < n; k++) {
        int64_t i = ls_mantissa(x[k], e, 22);
        sum += i * i;
    }
    int eps_exp = 44 - 2 * (e - 127);
    int64_t u = sum / n + llrintf(eps * ls_pow2(eps_exp < -126 ? -126 : eps_exp));
    int s = 0;
    while (u < INT64_C(1) << 60) {
        u <<= 2;
        s++;
    }
    int64_t r = (INT64_C(1) << 61) / ls_isqrt((uint64_t)u);
    return ((float)r * 0x1p-31f) * ls_pow2(s - 8 - (e - 127));
}

void ls_exact_rms_norm(float *y, const float *x, int64_t cols, int64_t group, const float *w, int64_t w_len, float w_offset, float eps) {
    for (int64_t g = 0; g < cols; g += group) {
        float inv = inverse_rms(x + g, group, eps);
        for (int64_t k = g; k < g + group; k++) {
            y[k] = ls_canon(x[k] * inv);
            if (!w) continue;
            float wk = ls_canon(w[k % w_len]);
            y[k] = ls_canon(y[k] * (w_offset != 0 ? ls_canon(w_offset + wk) : wk));
        }
    }
}

void ls_exact_layer_norm(float *y, const float *x, int64_t cols, int64_t group, const float *w, int64_t w_len, const float *b, int64_t b_len,
                         float eps) {
    for (int64_t g = 0; g < cols; g += group) {
        int e = group_exponent(x + g, group);
        int64_t sum = 0;
        for (int64_t k = g; k < g + group; k++) sum += ls_mantissa(x[k], e, 22);
        int64_t t = sum * 256 + (group >> 1), m = t / group - (t % group < 0);
        float mean = ls_canon(((float)m * 0x1p-8f) * ls_pow2(e - 149));
        for (int64_t k = g; k < g + group; k++) y[k] = ls_canon(x[k] - mean);
        ls_exact_rms_norm(y + g, y + g, group, group, w ? w + g % w_len : NULL, group, 0, eps);
        for (int64_t k = g; b && k < g + group; k++) y[k] = ls_canon(y[k] + ls_canon(b[k % b_len]));
    }
}
