/* The scalar vocabulary of the exact contracts (docs/contracts.md, section 1): canonical values, block exponents,
 * mantissas, rounding shifts and the fixed-point functions. The reference uses these as they stand; a kernel must give
 * the same bits by whatever means. Right shifts of negative integers are arithmetic (checked at build time below). */
#ifndef LS_CONTRACT_EXACT_H
#define LS_CONTRACT_EXACT_H

#include <math.h>
#include <stdint.h>

#include "base/bits.h"

_Static_assert((-3 >> 1) == -2, "right shift of a negative integer must be arithmetic");

enum {
    LS_EXACT_BLOCK = 64,       /* activations per block */
    LS_EXACT_MIN_EXP = 27,     /* biased exponent of 2^-100, the smallest canonical magnitude */
    LS_EXACT_MAX_DROP = 24,    /* a block this many binary orders below the row's largest still counts */
    LS_EXACT_SCALE_BITS = 23,  /* integer scales satisfy |S| <= 2^23 */
    LS_EXACT_KEY_RANGE = 256,  /* attention sums keys in absolute ranges of this many positions */
    LS_EXACT_P16 = 14,         /* p of exact16: |q| <= 127 * 2^8, two signed bytes */
    LS_EXACT_KV_BLOCK = 16,    /* columns of a key or value that share a scale under exact16-kv8 */
    LS_EXACT_P24 = 24,         /* p of exact24: |q| <= 127 * 2^18, a 25-bit magnitude and a sign */
    LS_EXACT_ATTN_P24 = 26,    /* p of queries, keys and values under exact24 */
    LS_EXACT_WEIGHT_P24 = 22,  /* p of float weights under exact24: |u| <= 127 * 2^16, three signed bytes */
    LS_EXACT_MIN_FLOAT_EXP = 32, /* least e_max of a row of float weights: 2^(R + c + h) stays above 2^-126 */
    LS_EXACT_POOL_P = 26,      /* p of averaged values: more bits than one of them has */
    LS_EXACT_MAX_COLS = 32768, /* widest row of an exact operator (overflow arguments rest on it) */
    /* Attention (section 6): bits of the score J, PB of the weights, G of the sums. */
    LS_EXACT_SCORE_BITS16 = 30,
    LS_EXACT_SCORE_BITS24 = 38,
    LS_EXACT_WEIGHT_BITS16 = 15,
    LS_EXACT_WEIGHT_BITS24 = 25,
    LS_EXACT_SUM_SHIFT16 = 8,
    LS_EXACT_SUM_SHIFT24 = -10
};

/* 2^(e - 127) for a biased exponent e in [1, 254]. */
static inline float ls_pow2_biased(int e) { return ls_from_bits((uint32_t)e << 23); }

/* 2^k for k in [-126, 127]. */
static inline float ls_pow2(int k) { return ls_pow2_biased(k + 127); }

/* Canonical value: +0 below 2^-100 in magnitude, otherwise clamped to +-2^100. NaN, which only damaged weights give, becomes +0 as at every level of the
 * native executor. */
static inline float ls_canon(float x) {
    float a = fabsf(x);
    if (!(a >= 0x1p-100f)) return 0.0f;
    return a > 0x1p100f ? copysignf(0x1p100f, x) : x;
}

/* Biased exponent of a block whose largest magnitude has the bits |max_bits| (sign cleared). The addend moves magnitudes
 * from 1.984375 * 2^k on to the next exponent, so that mantissas split into signed bytes. */
static inline int ls_block_exponent(uint32_t max_bits) {
    int e = (int)((max_bits + 0x20000u) >> 23);
    return e > LS_EXACT_MIN_EXP ? e : LS_EXACT_MIN_EXP;
}

/* Mantissa of x in a block of exponent e: x * 2^(p + 127 - e) to nearest even, p in [0, 27]. */
static inline int32_t ls_mantissa(float x, int e, int p) { return (int32_t)lrintf(x * ls_pow2_biased(127 + p + 127 - e)); }

/* Scale of a block of keys or values under exact16-kv8, whose mantissas have magnitudes of at most |largest| <= 127 * 2^8: in [1, 256]. */
static inline int ls_kv_scale(int32_t largest) { return largest ? (largest + 126) / 127 : 1; }

/* Mantissa q of a block in units of its scale, to nearest, halves away from zero: |result| <= 127. */
static inline int32_t ls_kv_step(int32_t q, int scale) {
    int32_t m = ((q < 0 ? -q : q) + scale / 2) / scale;
    return q < 0 ? -m : m;
}

/* Columns that exact16-kv8 rotates together in heads of |d|: the largest power of two up to a block of scales that divides it. */
static inline int ls_rotated_columns(int d) { return (d | LS_EXACT_KV_BLOCK) & -(d | LS_EXACT_KV_BLOCK); }

/* y [d] = the Walsh-Hadamard transforms of runs of ls_rotated_columns(d) of the mantissas q [d] <= 512, which are lost, p LS_EXACT_P16, times
 * 2^(e - 127 - p - down). Exact: 16 * 32512 < 2^24. */
void ls_rotate(float *y, int32_t *q, int d, int e, int down);

/* floor((v + 2^(n-1)) / 2^n), n in [0, 62]; v for n = 0. */
static inline int64_t ls_rshift(int64_t v, int n) { return n ? (v + ((int64_t)1 << (n - 1))) >> n : v; }

/* Smallest n with 2^n >= v, v >= 1. */
static inline int ls_ceil_log2(uint64_t v) {
    int n = 0;
    while (((uint64_t)1 << n) < v) n++;
    return n;
}

/* 2^-x in Q31 for x in Q32, [0, 1): in (2^30, 2^31], exactly 2^31 at 0. */
uint32_t ls_exp2_neg(uint32_t x);

/* 1 / d in Q30 for d in Q31, [2^30, 2^31] (d in [1/2, 1]). */
uint32_t ls_recip(uint32_t d);

/* A logistic value as mantissa * 2^exponent, the mantissa below 2^32. */
typedef struct ls_sigmoid_value {
    uint32_t mantissa;
    int exponent;
} ls_sigmoid_value;

/* sigmoid of a number whose magnitude times log2(e) is a * 2^-24, negative when |negative|; a in [0, 2^31). */
ls_sigmoid_value ls_sigmoid(uint32_t a, int negative);

/* round(min(|x| * c, 92) * 2^24): argument for ls_sigmoid. c > 0. */
uint32_t ls_sigmoid_argument(float x, float c);

/* Largest n with n * n <= v. */
uint32_t ls_isqrt(uint64_t v);

/* j * k * 2^e to the nearest integer (halves upwards), clamped to +-2^58; |j| <= 2^38, k > 0 a normal f32. The score of
 * exact24 attention: one rounding, where f32 products would lose the low bits of large scores. */
int64_t ls_scaled_score(int64_t j, float k, int e);

/* 1 / d as f32 mantissa r in [2^30, 2^31] and exponent k: 1 / d is about r * 2^k. d > 0. */
void ls_recip_wide(int64_t d, float *r, int *k);

#endif
