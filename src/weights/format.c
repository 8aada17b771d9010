/* Formats: their constants, and the exact conversions between f32 and the half-precision types. */
#include <string.h>

#include "base/bits.h"
#include "weights/checkpoint.h"

const ls_format_info *ls_format_get(ls_format f) {
    static const ls_format_info info[LS_FORMAT_COUNT] = {
        /*                 name     bits grp zero min   block bytes */
        [LS_F32]        = {"F32",    32, 0,   0, false,   1,   4},
        [LS_F16]        = {"F16",    16, 0,   0, false,   1,   2},
        [LS_BF16]       = {"BF16",   16, 0,   0, false,   1,   2},
        [LS_Q4_0]       = {"Q4_0",    4, 32,  8, false,  32,  18},
        [LS_Q4_1]       = {"Q4_1",    4, 32,  0, true,   32,  20},
        [LS_Q5_0]       = {"Q5_0",    5, 32, 16, false,  32,  22},
        [LS_Q5_1]       = {"Q5_1",    5, 32,  0, true,   32,  24},
        [LS_Q8_0]       = {"Q8_0",    8, 32, 128, false, 32,  34},
        [LS_Q2_K]       = {"Q2_K",    2, 16,  0, true,  256,  84},
        [LS_Q3_K]       = {"Q3_K",    3, 16,  4, false, 256, 110},
        [LS_Q4_K]       = {"Q4_K",    4, 32,  0, true,  256, 144},
        [LS_Q5_K]       = {"Q5_K",    5, 32,  0, true,  256, 176},
        [LS_Q6_K]       = {"Q6_K",    6, 16, 32, false, 256, 210},
        [LS_IQ4_NL]     = {"IQ4_NL",  8, 32, 128, false, 32,  18},
        [LS_MLX_AFFINE] = {"MLX_AFFINE", 8, 0, 0, true,   0,   0},
        [LS_I32]        = {"I32",    32, 0,   0, false,   1,   4},
        [LS_I64]        = {"I64",    64, 0,   0, false,   1,   8},
        [LS_OTHER]      = {"OTHER",   0, 0,   0, false,   0,   0},
    };
    return &info[(unsigned)f < LS_FORMAT_COUNT ? f : LS_OTHER];
}

int ls_tensor_group(const ls_tensor *t) {
    return t->format == LS_MLX_AFFINE ? t->mlx_group : ls_format_get(t->format)->group;
}

int64_t ls_tensor_rows(const ls_tensor *t) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < t->rank; i++) rows *= t->shape[i];
    return rows;
}

float ls_bf16_to_f32(uint16_t h) { return ls_from_bits((uint32_t)h << 16); }

/* Selects by masks, since gcc 12 makes branches of conditional operators here and then no vectors of the loop. The exponent 31 becomes 255; a subnormal is
 * a multiple of 2^-24, which is normal in f32. */
static inline float widen(uint16_t h) {
    const uint32_t bias = 112u << 23;
    const uint32_t a = h & 0x7FFFu, small = 0u - (uint32_t)(a < 0x400), large = 0u - (uint32_t)(a >= 0x7C00);
    const uint32_t normal = (a << 13) + bias + (bias & large), subnormal = ls_bits((float)(int32_t)a * 0x1p-24f);
    return ls_from_bits((uint32_t)(h & 0x8000) << 16 | (subnormal & small) | (normal & ~small));
}

float ls_f16_to_f32(uint16_t h) { return widen(h); }

void ls_f16_row_to_f32(const uint8_t *p, int64_t n, float *out) {
    enum { RUN = 32 };
    for (; n >= RUN; n -= RUN, p += 2 * RUN, out += RUN) {
        uint16_t h[RUN];
        float f[RUN];
        for (int i = 0; i < RUN; i++) h[i] = ls_load_u16(p + 2 * i);
        for (int i = 0; i < RUN; i++) f[i] = widen(h[i]);
        memcpy(out, f, sizeof f);
    }
    for (int64_t i = 0; i < n; i++) out[i] = widen(ls_load_u16(p + 2 * i));
}

/* NaN keeps its sign and top payload bits and becomes quiet. */
uint16_t ls_f32_to_bf16(float f) {
    uint32_t u = ls_bits(f);
    if ((u & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

uint16_t ls_f32_to_f16(float f) {
    uint32_t u = ls_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7FFFFFFF;
    if (a > 0x7F800000) return (uint16_t)(sign | 0x7E00 | (a >> 13 & 0x3FF));
    if (a >= 0x477FF000) return (uint16_t)(sign | 0x7C00); /* 65520 and above round to infinity */
    if (a >= 0x38800000) return (uint16_t)(sign | ((a - 0x38000000 + 0xFFF + (a >> 13 & 1)) >> 13));
    if (a < 0x33000000) return (uint16_t)sign; /* below 2^-25 */
    uint32_t mantissa = (a & 0x7FFFFF) | 0x800000, shift = 126 - (a >> 23); /* 14 to 24: the unit is 2^-24 */
    uint32_t kept = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
    return (uint16_t)(sign | (kept + (rest > half || (rest == half && (kept & 1)))));
}
