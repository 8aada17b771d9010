/* Sixteen 32-bit lanes in two AVX2 registers. lanes_c.h explains every operation. */
#ifndef LS_NATIVE_KERNELS_LANES_AVX2_H
#define LS_NATIVE_KERNELS_LANES_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "contract/exact.h"
#include "native/kernels/kernel.h"

/* Register blocking of the product: one tile (two registers) by 4 rows is half of the 16 registers. */
enum { V_TILES = 1, V_ROWS = 4, V_ROWS_WIDE = 2 };

#define V_DIRECT 0
#define V_ASSEMBLY 0
#define V_BODY LS_INLINE
#define V_UNROLL LS_UNROLL

typedef struct lanes {
    __m256i a, b;
} lanes;
typedef struct floats {
    __m256 a, b;
} floats;
typedef struct wide {
    __m256i even_a, odd_a, even_b, odd_b;
} wide;

/* Shifts by a count that is a constant once the kernels are specialised, and is not otherwise (see kernel.h). */
#if defined(__GNUC__) && defined(__OPTIMIZE__) && !defined(LS_SANITIZED)
LS_INLINE __m256i srl32(__m256i a, int n) { return _mm256_srli_epi32(a, n); }
LS_INLINE __m256i sll16(__m256i a, int n) { return _mm256_slli_epi16(a, n); }
LS_INLINE __m256i sra16(__m256i a, int n) { return _mm256_srai_epi16(a, n); }
#else
LS_INLINE __m256i srl32(__m256i a, int n) { return _mm256_srl_epi32(a, _mm_cvtsi32_si128(n)); }
LS_INLINE __m256i sll16(__m256i a, int n) { return _mm256_sll_epi16(a, _mm_cvtsi32_si128(n)); }
LS_INLINE __m256i sra16(__m256i a, int n) { return _mm256_sra_epi16(a, _mm_cvtsi32_si128(n)); }
#endif

/* As in lanes_avx512.h. */
#if defined(__GNUC__) && defined(__OPTIMIZE__) && !defined(LS_SANITIZED)
#define V_PIN(x) __asm__("" : "+x"((x).a), "+x"((x).b))
#else
#define V_PIN(x) ((void)(x))
#endif

LS_INLINE lanes v_load(const void *p) {
    return (lanes){_mm256_loadu_si256(p), _mm256_loadu_si256((const void *)((const char *)p + 32))};
}
LS_INLINE void v_store(void *p, lanes x) {
    _mm256_storeu_si256(p, x.a);
    _mm256_storeu_si256((void *)((char *)p + 32), x.b);
}
LS_INLINE lanes v_twice(__m256i x) { return (lanes){x, x}; }
LS_INLINE lanes v_set(int32_t x) { return v_twice(_mm256_set1_epi32(x)); }
LS_INLINE lanes v_pair(const int16_t *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return v_set(x);
}
LS_INLINE __m128i load8(const uint8_t *p) { return _mm_loadl_epi64((const void *)p); }
LS_INLINE __m128i load16(const uint8_t *p) { return _mm_loadu_si128((const void *)p); }
LS_INLINE lanes v_bytes(const uint8_t *p) { return (lanes){_mm256_cvtepu8_epi32(load8(p)), _mm256_cvtepu8_epi32(load8(p + 8))}; }
LS_INLINE lanes v_add(lanes x, lanes y) { return (lanes){_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
LS_INLINE lanes v_sub(lanes x, lanes y) { return (lanes){_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
LS_INLINE lanes v_or(lanes x, lanes y) { return (lanes){_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
LS_INLINE lanes v_add16(lanes x, lanes y) { return (lanes){_mm256_add_epi16(x.a, y.a), _mm256_add_epi16(x.b, y.b)}; }
LS_INLINE lanes v_sub16(lanes x, lanes y) { return (lanes){_mm256_sub_epi16(x.a, y.a), _mm256_sub_epi16(x.b, y.b)}; }
LS_INLINE lanes v_field(lanes x, int shift, int mask) {
    __m256i m = _mm256_set1_epi32((int32_t)((uint32_t)mask | (uint32_t)mask << 16));
    return (lanes){_mm256_and_si256(srl32(x.a, shift), m), _mm256_and_si256(srl32(x.b, shift), m)};
}
LS_INLINE lanes v_field_or(lanes x, int shift, int mask, lanes y) { return v_or(v_field(x, shift, mask), y); }
LS_INLINE lanes v_shl16(lanes x, int n) { return (lanes){sll16(x.a, n), sll16(x.b, n)}; }
LS_INLINE lanes v_sar16(lanes x, int n) { return (lanes){sra16(x.a, n), sra16(x.b, n)}; }
LS_INLINE lanes v_field_xor(lanes x, int mask, lanes y) {
    x = v_field(x, 0, mask);
    return (lanes){_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)};
}
LS_INLINE __m256i exponents_of(__m256i field) { return _mm256_subs_epu16(field, _mm256_set1_epi16(1)); }
LS_INLINE __m256i small_powers(__m256i k) { return _mm256_shuffle_epi8(_mm256_setr_epi64x(0x8040201008040201, 0, 0x8040201008040201, 0), k); }
/* 2^k, k <= 7; 2^k, k <= 15, a byte each from the table and 0 where the index is 0x80. */
LS_INLINE __m256i powers7(__m256i k) { return _mm256_and_si256(small_powers(k), _mm256_set1_epi16(255)); }
LS_INLINE __m256i powers15(__m256i k) {
    __m256i low = _mm256_or_si256(k, _mm256_set1_epi16((int16_t)0x8000)), high = _mm256_slli_epi16(_mm256_xor_si256(k, _mm256_set1_epi16(8)), 8);
    return _mm256_or_si256(small_powers(low), small_powers(_mm256_or_si256(high, _mm256_set1_epi16(0x0080))));
}
/* The upper 16 bits of signed by unsigned products, rounded; |low|: the lower ones. */
LS_INLINE __m256i mulhi_rounded(__m256i a, __m256i p, __m256i low) {
    __m256i high = _mm256_add_epi16(_mm256_mulhi_epi16(a, p), _mm256_and_si256(a, _mm256_srai_epi16(p, 15)));
    return _mm256_sub_epi16(high, _mm256_srai_epi16(low, 15));
}
LS_INLINE lanes v_scaled(lanes x, lanes code, int shift, int bits) {
    lanes field = v_field(code, shift, (1 << bits) - 1);
    return (lanes){_mm256_mullo_epi16(x.a, powers7(exponents_of(field.a))), _mm256_mullo_epi16(x.b, powers7(exponents_of(field.b)))};
}
LS_INLINE lanes v_scaled_wide(lanes x, lanes code, int shift, int bits, lanes *low) {
    lanes field = v_field(code, shift, (1 << bits) - 1);
    __m256i a = powers15(exponents_of(field.a)), b = powers15(exponents_of(field.b));
    *low = (lanes){_mm256_mullo_epi16(x.a, a), _mm256_mullo_epi16(x.b, b)};
    return (lanes){mulhi_rounded(x.a, a, low->a), mulhi_rounded(x.b, b, low->b)};
}
LS_INLINE lanes v_where(lanes x, int shift, int bits, int value) {
    lanes field = v_field(x, shift, (1 << bits) - 1);
    const __m256i zero = _mm256_setzero_si256(), v = _mm256_set1_epi16((int16_t)value);
    return (lanes){_mm256_andnot_si256(_mm256_cmpeq_epi16(field.a, zero), v), _mm256_andnot_si256(_mm256_cmpeq_epi16(field.b, zero), v)};
}
LS_INLINE lanes v_shl(lanes x, int n) {
    __m128i count = _mm_cvtsi32_si128(n);
    return (lanes){_mm256_sll_epi32(x.a, count), _mm256_sll_epi32(x.b, count)};
}
LS_INLINE lanes v_sar(lanes x, int n) {
    __m128i count = _mm_cvtsi32_si128(n);
    return (lanes){_mm256_sra_epi32(x.a, count), _mm256_sra_epi32(x.b, count)};
}
LS_INLINE lanes v_sar_each(lanes x, lanes n) { return (lanes){_mm256_srav_epi32(x.a, n.a), _mm256_srav_epi32(x.b, n.b)}; }
LS_INLINE lanes v_shr_each(lanes x, lanes n) { return (lanes){_mm256_srlv_epi32(x.a, n.a), _mm256_srlv_epi32(x.b, n.b)}; }
LS_INLINE lanes v_lookup16(const uint8_t *table, lanes index) {
    __m256i t = _mm256_broadcastsi128_si256(load16(table)), m = _mm256_set1_epi16(255);
    return (lanes){_mm256_and_si256(_mm256_shuffle_epi8(t, index.a), m), _mm256_and_si256(_mm256_shuffle_epi8(t, index.b), m)};
}
LS_INLINE lanes v_dot(lanes acc, lanes w, lanes x) {
    return (lanes){_mm256_add_epi32(acc.a, _mm256_madd_epi16(w.a, x.a)), _mm256_add_epi32(acc.b, _mm256_madd_epi16(w.b, x.b))};
}
LS_INLINE lanes v_dot_pair(lanes acc, lanes w, const int16_t *x) { return v_dot(acc, w, v_pair(x)); }
LS_INLINE lanes v_abs_max(lanes m, floats x) {
    __m256i clear = _mm256_set1_epi32(0x7FFFFFFF);
    return (lanes){_mm256_max_epi32(m.a, _mm256_and_si256(_mm256_castps_si256(x.a), clear)),
                   _mm256_max_epi32(m.b, _mm256_and_si256(_mm256_castps_si256(x.b), clear))};
}
LS_INLINE int32_t v_max_across(lanes x) {
    __m256i m = _mm256_max_epi32(x.a, x.b);
    __m128i h = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(h, _mm_shuffle_epi32(h, 0xB1)));
}
LS_INLINE void v_sums_across(const lanes x[4], int32_t sum[4]) {
    __m256i s[4];
    for (int i = 0; i < 4; i++) s[i] = _mm256_add_epi32(x[i].a, x[i].b);
    __m256i t = _mm256_hadd_epi32(_mm256_hadd_epi32(s[0], s[1]), _mm256_hadd_epi32(s[2], s[3]));
    _mm_storeu_si128((void *)sum, _mm_add_epi32(_mm256_castsi256_si128(t), _mm256_extracti128_si256(t, 1)));
}
/* Pairs of columns as halves of a lane: the upper two lanes of each 128 bits are what meets. */
LS_INLINE __m256i cross_pairs(lanes x) {
    __m256i q = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xD8);
    return _mm256_madd_epi16(q, _mm256_shuffle_epi32(q, 0xB1));
}
LS_INLINE void v_cross_across(const lanes x[4], int32_t cross[4]) {
    __m256i low = _mm256_unpackhi_epi32(cross_pairs(x[0]), cross_pairs(x[1])), high = _mm256_unpackhi_epi32(cross_pairs(x[2]), cross_pairs(x[3]));
    __m256i s = _mm256_unpacklo_epi64(low, high);
    _mm_storeu_si128((void *)cross, _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1)));
}
/* Values fit 16 bits, so the saturation of the pack instruction does nothing. */
LS_INLINE void v_store16(int16_t *p, lanes x) {
    _mm256_storeu_si256((void *)p, _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xD8));
}

LS_INLINE floats f_load(const void *p) { return (floats){_mm256_loadu_ps(p), _mm256_loadu_ps((const float *)p + 8)}; }
LS_INLINE floats f_set(float x) { return (floats){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
LS_INLINE floats f_half(const uint8_t *p) { return (floats){_mm256_cvtph_ps(load16(p)), _mm256_cvtph_ps(load16(p + 16))}; }
LS_INLINE __m256 bfloat8(const uint8_t *p) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(p)), 16)); }
LS_INLINE floats f_bfloat(const uint8_t *p) { return (floats){bfloat8(p), bfloat8(p + 16)}; }
LS_INLINE __m256 power8(__m256i x) { return _mm256_castsi256_ps(_mm256_slli_epi32(x, 23)); }
LS_INLINE floats f_power(const uint8_t *p) {
    lanes x = v_bytes(p);
    return (floats){power8(x.a), power8(x.b)};
}
LS_INLINE floats f_int8(const uint8_t *p) {
    return (floats){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load8(p))), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load8(p + 8)))};
}
LS_INLINE floats f_nibble(const uint8_t *p, int shift) {
    lanes x = v_bytes(p);
    __m256i m = _mm256_set1_epi32(15);
    return (floats){_mm256_cvtepi32_ps(_mm256_and_si256(srl32(x.a, shift), m)),
                    _mm256_cvtepi32_ps(_mm256_and_si256(srl32(x.b, shift), m))};
}
LS_INLINE floats f_mul(floats x, floats y) { return (floats){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
LS_INLINE floats f_add(floats x, floats y) { return (floats){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
LS_INLINE lanes v_round(floats x) { return (lanes){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
LS_INLINE __m256 canon8(__m256 x) {
    __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    __m256 large = _mm256_cmp_ps(size, _mm256_set1_ps(0x1p-100f), _CMP_GE_OQ);
    __m256 clamped = _mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(-0x1p100f)), _mm256_set1_ps(0x1p100f));
    return _mm256_and_ps(clamped, large);
}
LS_INLINE floats f_canon(floats x) { return (floats){canon8(x.a), canon8(x.b)}; }
LS_INLINE __m256i first_n(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }
LS_INLINE floats f_load_n(const float *p, int n) {
    if (n == 16) return f_load(p);
    return (floats){_mm256_maskload_ps(p, first_n(n)), n > 8 ? _mm256_maskload_ps(p + 8, first_n(n - 8)) : _mm256_setzero_ps()};
}
LS_INLINE void f_store_n(float *p, floats x, int n) {
    _mm256_maskstore_ps(p, first_n(n), x.a);
    if (n > 8) _mm256_maskstore_ps(p + 8, first_n(n - 8), x.b);
}

LS_INLINE wide w_zero(void) {
    __m256i z = _mm256_setzero_si256();
    return (wide){z, z, z, z};
}
LS_INLINE __m256i mul_even(__m256i x, __m256i y) { return _mm256_mul_epi32(x, y); }
LS_INLINE __m256i mul_odd(__m256i x, __m256i y) { return _mm256_mul_epi32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(y, 32)); }
LS_INLINE wide w_mul_add(wide acc, lanes x, lanes y) {
    return (wide){_mm256_add_epi64(acc.even_a, mul_even(x.a, y.a)), _mm256_add_epi64(acc.odd_a, mul_odd(x.a, y.a)),
                  _mm256_add_epi64(acc.even_b, mul_even(x.b, y.b)), _mm256_add_epi64(acc.odd_b, mul_odd(x.b, y.b))};
}
LS_INLINE __m256i high_half(__m256i x) { return _mm256_srli_epi64(x, 32); }
LS_INLINE wide w_mul_add_one(wide acc, int32_t x, lanes y) {
    __m256i v = _mm256_set1_epi32(x);
    return (wide){_mm256_add_epi64(acc.even_a, mul_even(v, y.a)), _mm256_add_epi64(acc.odd_a, mul_even(v, high_half(y.a))),
                  _mm256_add_epi64(acc.even_b, mul_even(v, y.b)), _mm256_add_epi64(acc.odd_b, mul_even(v, high_half(y.b)))};
}
/* rshift(v, n) for |v| < 2^61 and n >= 0: there is no arithmetic 64-bit shift, so v is made positive first. */
LS_INLINE __m256i rshift_wide(__m256i v, int n) {
    __m256i biased = _mm256_add_epi64(v, _mm256_set1_epi64x((INT64_C(1) << 62) + ((INT64_C(1) << n) >> 1)));
    return _mm256_sub_epi64(_mm256_srl_epi64(biased, _mm_cvtsi32_si128(n)), _mm256_set1_epi64x((INT64_C(1) << 62) >> n));
}
LS_INLINE __m256i round16(__m256i v) { return _mm256_and_si256(_mm256_add_epi64(v, _mm256_set1_epi64x(8)), _mm256_set1_epi64x(-16)); }
LS_INLINE wide w_mul_part(wide part, lanes x, lanes y) {
    return (wide){_mm256_add_epi64(part.even_a, round16(mul_even(x.a, y.a))), _mm256_add_epi64(part.odd_a, round16(mul_odd(x.a, y.a))),
                  _mm256_add_epi64(part.even_b, round16(mul_even(x.b, y.b))), _mm256_add_epi64(part.odd_b, round16(mul_odd(x.b, y.b)))};
}
LS_INLINE wide w_mul_part_one(wide part, int32_t x, lanes y) {
    __m256i v = _mm256_set1_epi32(x);
    return (wide){_mm256_add_epi64(part.even_a, round16(mul_even(v, y.a))), _mm256_add_epi64(part.odd_a, round16(mul_even(v, high_half(y.a)))),
                  _mm256_add_epi64(part.even_b, round16(mul_even(v, y.b))), _mm256_add_epi64(part.odd_b, round16(mul_even(v, high_half(y.b))))};
}
/* acc + v / 16 for any multiple v of 16: there is no arithmetic 64-bit shift. */
LS_INLINE __m256i add_part4(__m256i acc, __m256i v) {
    __m256i positive = _mm256_srli_epi64(_mm256_xor_si256(v, _mm256_set1_epi64x(INT64_MIN)), 4);
    return _mm256_add_epi64(acc, _mm256_sub_epi64(positive, _mm256_set1_epi64x(INT64_C(1) << 59)));
}
LS_INLINE wide w_add_part(wide acc, wide part) {
    return (wide){add_part4(acc.even_a, part.even_a), add_part4(acc.odd_a, part.odd_a), add_part4(acc.even_b, part.even_b), add_part4(acc.odd_b, part.odd_b)};
}
LS_INLINE wide w_add_shifted(wide acc, wide x, int n) {
    return (wide){_mm256_add_epi64(acc.even_a, rshift_wide(x.even_a, n)), _mm256_add_epi64(acc.odd_a, rshift_wide(x.odd_a, n)),
                  _mm256_add_epi64(acc.even_b, rshift_wide(x.even_b, n)), _mm256_add_epi64(acc.odd_b, rshift_wide(x.odd_b, n))};
}
LS_INLINE floats w_to_floats(const wide *w) {
    int64_t v[16];
    float f[16];
    memcpy(v, w, sizeof v);
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < 4; i++) {
            f[8 * half + 2 * i] = (float)v[8 * half + i];
            f[8 * half + 2 * i + 1] = (float)v[8 * half + 4 + i];
        }
    return f_load(f);
}

#endif
