/* Rotary embedding under the exact contracts (docs/contracts.md section 5). */
#include "base/detmath.h"
#include "contract/exact.h"
#include "reference/exact_ops.h"

static int32_t fixed30(double x) {
    double v = x * 0x1p30;
    return (int32_t)lrint(v > 2147483647.0 ? 2147483647.0 : v < -2147483647.0 ? -2147483647.0 : v);
}

void ls_exact_rope_table(const ls_rope *r, int64_t position, int32_t *c, int32_t *s) {
    for (int i = 0; i < r->rot_dim / 2; i++) {
        double a = (double)position * r->inv_freq[i];
        c[i] = fixed30(ls_det_cos(a) * (double)r->amplitude);
        s[i] = fixed30(ls_det_sin(a) * (double)r->amplitude);
    }
}

static float from_fixed(int64_t v, int e) { return ls_canon(((float)v * 0x1p-35f) * ls_pow2(e - 149)); }

void ls_exact_rope(float *x, int heads, int head_dim, const ls_rope *r, const int32_t *c, const int32_t *s) {
    int half = r->rot_dim / 2;
    for (int h = 0; h < heads; h++, x += head_dim) {
        uint32_t max = 0;
        for (int k = 0; k < r->rot_dim; k++) {
            uint32_t b = ls_bits(x[k]) & 0x7FFFFFFFu;
            if (b > max) max = b;
        }
        int e = ls_block_exponent(max);
        for (int i = 0; i < half; i++) {
            float *lo = x + (r->interleaved ? 2 * i : i), *hi = x + (r->interleaved ? 2 * i + 1 : i + half);
            int64_t a = ls_mantissa(*lo, e, 27), b = ls_mantissa(*hi, e, 27);
            *lo = from_fixed(a * c[i] - b * s[i], e);
            *hi = from_fixed(b * c[i] + a * s[i], e);
        }
    }
}
