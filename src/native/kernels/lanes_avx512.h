/* Sixteen 32-bit lanes in one AVX-512 register. lanes_c.h explains every operation. */
#ifndef LS_NATIVE_KERNELS_LANES_AVX512_H
#define LS_NATIVE_KERNELS_LANES_AVX512_H

#include <immintrin.h>
#include <string.h>

#include "contract/exact.h"
#include "native/kernels/kernel.h"

/* Register blocking of the product: 2 tiles by 4 rows have 8 sums of a group and 16 registers of sums of the row. */
enum { V_TILES = 2, V_ROWS = 4, V_ROWS_WIDE = 4 };

#define V_DIRECT 32
#if defined(__GNUC__) && defined(__OPTIMIZE__) && !defined(LS_SANITIZED)
#define V_ASSEMBLY 1
#else
#define V_ASSEMBLY 0
#endif
#define V_BODY LS_INLINE
#define V_UNROLL LS_UNROLL

typedef __m512i lanes;
typedef __m512 floats;
typedef struct wide {
    __m512i even, odd;
} wide;

/* Shifts by a count that is a constant once the kernels are specialised, and is not otherwise (see kernel.h). */
#if defined(__GNUC__) && defined(__OPTIMIZE__) && !defined(LS_SANITIZED)
LS_INLINE __m512i srl32(__m512i a, int n) { return _mm512_srli_epi32(a, (unsigned)n); }
LS_INLINE __m512i sll16(__m512i a, int n) { return _mm512_slli_epi16(a, (unsigned)n); }
LS_INLINE __m512i sra16(__m512i a, int n) { return _mm512_srai_epi16(a, (unsigned)n); }
LS_INLINE __m512i srl16(__m512i a, int n) { return _mm512_srli_epi16(a, (unsigned)n); }
#else
LS_INLINE __m512i srl32(__m512i a, int n) { return _mm512_srl_epi32(a, _mm_cvtsi32_si128(n)); }
LS_INLINE __m512i sll16(__m512i a, int n) { return _mm512_sll_epi16(a, _mm_cvtsi32_si128(n)); }
LS_INLINE __m512i sra16(__m512i a, int n) { return _mm512_sra_epi16(a, _mm_cvtsi32_si128(n)); }
LS_INLINE __m512i srl16(__m512i a, int n) { return _mm512_srl_epi16(a, _mm_cvtsi32_si128(n)); }
#endif

LS_INLINE lanes v_load(const void *p) { return _mm512_loadu_si512(p); }
LS_INLINE void v_store(void *p, lanes a) { _mm512_storeu_si512(p, a); }
LS_INLINE lanes v_set(int32_t x) { return _mm512_set1_epi32(x); }
LS_INLINE lanes v_pair(const int16_t *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return _mm512_set1_epi32(x);
}
LS_INLINE lanes v_bytes(const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p)); }
LS_INLINE lanes v_add(lanes a, lanes b) { return _mm512_add_epi32(a, b); }
LS_INLINE lanes v_sub(lanes a, lanes b) { return _mm512_sub_epi32(a, b); }
LS_INLINE lanes v_or(lanes a, lanes b) { return _mm512_or_si512(a, b); }
LS_INLINE lanes v_add16(lanes a, lanes b) { return _mm512_add_epi16(a, b); }
LS_INLINE lanes v_sub16(lanes a, lanes b) { return _mm512_sub_epi16(a, b); }
LS_INLINE lanes v_field(lanes a, int shift, int mask) {
    if (mask == 0xFFFF >> shift) return srl16(a, shift);
    return _mm512_and_si512(srl32(a, shift), _mm512_set1_epi16((int16_t)mask));
}
LS_INLINE lanes v_field_or(lanes a, int shift, int mask, lanes b) { /* a & mask | b in one */
    return _mm512_ternarylogic_epi32(srl32(a, shift), _mm512_set1_epi16((int16_t)mask), b, 0xEA);
}
LS_INLINE lanes v_shl16(lanes a, int n) { return sll16(a, n); }
LS_INLINE lanes v_sar16(lanes a, int n) { return sra16(a, n); }
LS_INLINE lanes v_field_xor(lanes a, int mask, lanes b) { /* a & mask ^ b in one */
    if (mask == 0xFFFF) return _mm512_xor_si512(a, b);
    return _mm512_ternarylogic_epi32(a, _mm512_set1_epi16((int16_t)mask), b, 0x6A);
}
/* The field of each index of a permutation, whose five bits end where the field does; and those indices. */
LS_INLINE lanes fields_of_indices(int shift, int bits) {
    const __m512i index = _mm512_cvtepi8_epi16(_mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
                                                                26, 27, 28, 29, 30, 31));
    return v_field(index, shift + bits > 5 ? 5 - bits : shift, (1 << bits) - 1);
}
LS_INLINE lanes indices_of(lanes a, int shift, int bits) { return shift + bits > 5 ? srl16(a, shift + bits - 5) : a; }
LS_INLINE lanes v_where(lanes a, int shift, int bits, int value) {
    const __mmask32 set = _mm512_cmpneq_epi16_mask(fields_of_indices(shift, bits), _mm512_setzero_si512());
    return _mm512_permutexvar_epi16(indices_of(a, shift, bits), _mm512_maskz_set1_epi16(set, (int16_t)value));
}
LS_INLINE lanes exponents_of_indices(int shift, int bits) { return _mm512_subs_epu16(fields_of_indices(shift, bits), _mm512_set1_epi16(1)); }
LS_INLINE lanes v_scaled(lanes a, lanes code, int shift, int bits) {
    return _mm512_sllv_epi16(a, _mm512_permutexvar_epi16(indices_of(code, shift, bits), exponents_of_indices(shift, bits)));
}
LS_INLINE lanes v_scaled_wide(lanes a, lanes code, int shift, int bits, lanes *low) {
    /* times 2^(k - 1), divided by 2^15 and rounded; nothing for k = 0 */
    const __m512i half = _mm512_sllv_epi16(_mm512_set1_epi16(1), _mm512_sub_epi16(exponents_of_indices(shift, bits), _mm512_set1_epi16(1)));
    *low = v_scaled(a, code, shift, bits);
    return _mm512_mulhrs_epi16(a, _mm512_permutexvar_epi16(indices_of(code, shift, bits), half));
}
LS_INLINE lanes v_shl(lanes a, int n) { return _mm512_sll_epi32(a, _mm_cvtsi32_si128(n)); }
LS_INLINE lanes v_sar(lanes a, int n) { return _mm512_sra_epi32(a, _mm_cvtsi32_si128(n)); }
LS_INLINE lanes v_sar_each(lanes a, lanes n) { return _mm512_srav_epi32(a, n); }
LS_INLINE lanes v_shr_each(lanes a, lanes n) { return _mm512_srlv_epi32(a, n); }
LS_INLINE lanes v_lookup16(const uint8_t *table, lanes index) {
    __m512i t = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)table));
    return _mm512_and_si512(_mm512_shuffle_epi8(t, index), _mm512_set1_epi16(255));
}
/* Keeps the dot products in the order that they are written in: gcc would put all of one sum together and spill what they read. */
#if defined(__GNUC__) && defined(__OPTIMIZE__) && !defined(LS_SANITIZED)
#define V_PIN(a) __asm__("" : "+v"(a))
#else
#define V_PIN(a) ((void)(a))
#endif
LS_INLINE lanes v_dot(lanes acc, lanes w, lanes x) { return _mm512_dpwssd_epi32(acc, w, x); }
/* As text where it can be: gcc 12 loads the pair into a register first. */
LS_INLINE lanes v_dot_pair(lanes acc, lanes w, const int16_t *x) {
#if V_ASSEMBLY
    __asm__("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*(const int16_t(*)[2])x));
    return acc;
#else
    return v_dot(acc, w, v_pair(x));
#endif
}
LS_INLINE lanes v_abs_max(lanes m, floats x) {
    return _mm512_max_epi32(m, _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7FFFFFFF)));
}
LS_INLINE int32_t v_max_across(lanes a) { return _mm512_reduce_max_epi32(a); }
LS_INLINE void v_sums_across(const lanes a[4], int32_t sum[4]) {
    __m512i s = _mm512_add_epi32(_mm512_unpacklo_epi32(a[0], a[1]), _mm512_unpackhi_epi32(a[0], a[1]));
    __m512i t = _mm512_add_epi32(_mm512_unpacklo_epi32(a[2], a[3]), _mm512_unpackhi_epi32(a[2], a[3]));
    s = _mm512_add_epi32(_mm512_unpacklo_epi64(s, t), _mm512_unpackhi_epi64(s, t));
    __m256i h = _mm256_add_epi32(_mm512_castsi512_si256(s), _mm512_extracti64x4_epi64(s, 1));
    _mm_storeu_si128((void *)sum, _mm_add_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1)));
}
/* Pairs of columns as halves of a lane: of each four lanes the last two are what meets. */
LS_INLINE __m512i cross_pairs(lanes a, lanes b) {
    __m512i q = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(a)), _mm512_cvtepi32_epi16(b), 1);
    return _mm512_madd_epi16(q, _mm512_shuffle_epi32(q, _MM_PERM_CDAB));
}
LS_INLINE void v_cross_across(const lanes a[4], int32_t cross[4]) {
    const __m512i first = _mm512_setr_epi32(2, 10, 18, 26, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512i low = cross_pairs(a[0], a[1]), high = cross_pairs(a[2], a[3]);
    low = _mm512_add_epi32(low, _mm512_shuffle_i64x2(low, low, 0xB1));
    high = _mm512_add_epi32(high, _mm512_shuffle_i64x2(high, high, 0xB1));
    _mm_storeu_si128((void *)cross, _mm512_castsi512_si128(_mm512_permutex2var_epi32(low, first, high)));
}
LS_INLINE void v_store16(int16_t *p, lanes a) { _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16(a)); }

LS_INLINE floats f_load(const void *p) { return _mm512_loadu_ps(p); }
LS_INLINE floats f_set(float x) { return _mm512_set1_ps(x); }
LS_INLINE floats f_half(const uint8_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)); }
LS_INLINE floats f_bfloat(const uint8_t *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p)), 16));
}
LS_INLINE floats f_power(const uint8_t *p) { return _mm512_castsi512_ps(_mm512_slli_epi32(v_bytes(p), 23)); }
LS_INLINE floats f_int8(const uint8_t *p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p))); }
LS_INLINE floats f_nibble(const uint8_t *p, int shift) {
    return _mm512_cvtepi32_ps(_mm512_and_si512(srl32(v_bytes(p), shift), _mm512_set1_epi32(15)));
}
LS_INLINE floats f_mul(floats a, floats b) { return _mm512_mul_ps(a, b); }
LS_INLINE floats f_add(floats a, floats b) { return _mm512_add_ps(a, b); }
LS_INLINE lanes v_round(floats a) { return _mm512_cvtps_epi32(a); }
LS_INLINE floats f_canon(floats x) {
    __mmask16 large = _mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_set1_ps(0x1p-100f), _CMP_GE_OQ);
    return _mm512_maskz_min_ps(large, _mm512_max_ps(x, _mm512_set1_ps(-0x1p100f)), _mm512_set1_ps(0x1p100f));
}
LS_INLINE floats f_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }
LS_INLINE void f_store_n(float *p, floats a, int n) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), a); }

LS_INLINE wide w_zero(void) { return (wide){_mm512_setzero_si512(), _mm512_setzero_si512()}; }
LS_INLINE wide w_mul_add(wide acc, lanes a, lanes b) {
    acc.even = _mm512_add_epi64(acc.even, _mm512_mul_epi32(a, b));
    acc.odd = _mm512_add_epi64(acc.odd, _mm512_mul_epi32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32)));
    return acc;
}
LS_INLINE wide w_mul_add_one(wide acc, int32_t a, lanes b) {
    __m512i x = _mm512_set1_epi32(a);
    acc.even = _mm512_add_epi64(acc.even, _mm512_mul_epi32(x, b));
    acc.odd = _mm512_add_epi64(acc.odd, _mm512_mul_epi32(x, _mm512_srli_epi64(b, 32)));
    return acc;
}
LS_INLINE __m512i round16(__m512i v) { return _mm512_and_si512(_mm512_add_epi64(v, _mm512_set1_epi64(8)), _mm512_set1_epi64(-16)); }
LS_INLINE wide w_mul_part(wide part, lanes a, lanes b) {
    part.even = _mm512_add_epi64(part.even, round16(_mm512_mul_epi32(a, b)));
    part.odd = _mm512_add_epi64(part.odd, round16(_mm512_mul_epi32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32))));
    return part;
}
LS_INLINE wide w_mul_part_one(wide part, int32_t a, lanes b) {
    __m512i x = _mm512_set1_epi32(a);
    part.even = _mm512_add_epi64(part.even, round16(_mm512_mul_epi32(x, b)));
    part.odd = _mm512_add_epi64(part.odd, round16(_mm512_mul_epi32(x, _mm512_srli_epi64(b, 32))));
    return part;
}
LS_INLINE wide w_add_part(wide acc, wide part) {
    return (wide){_mm512_add_epi64(acc.even, _mm512_srai_epi64(part.even, 4)), _mm512_add_epi64(acc.odd, _mm512_srai_epi64(part.odd, 4))};
}
LS_INLINE wide w_add_shifted(wide acc, wide b, int n) {
    __m512i half = _mm512_set1_epi64((INT64_C(1) << n) >> 1);
    __m128i count = _mm_cvtsi32_si128(n);
    acc.even = _mm512_add_epi64(acc.even, _mm512_sra_epi64(_mm512_add_epi64(b.even, half), count));
    acc.odd = _mm512_add_epi64(acc.odd, _mm512_sra_epi64(_mm512_add_epi64(b.odd, half), count));
    return acc;
}
LS_INLINE floats w_to_floats(const wide *w) {
    __m256 even = _mm512_cvtepi64_ps(w->even), odd = _mm512_cvtepi64_ps(w->odd);
    __m256 low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
    __m512 first = _mm512_castps256_ps512(_mm256_permute2f128_ps(low, high, 0x20));
    return _mm512_insertf32x8(first, _mm256_permute2f128_ps(low, high, 0x31), 1);
}

#endif
