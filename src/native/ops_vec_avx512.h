/* Vector vocabulary of the AVX-512 level (F, BW, DQ, VL, VNNI): 16 lanes of 32 bits. See ops_vec_c.h for the meanings. */
#ifndef LS_NATIVE_OPS_VEC_AVX512_H
#define LS_NATIVE_OPS_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

enum { W = 16, TILE_Q = 4 };

typedef __m512 vf;
typedef __m512i vi;
typedef struct vq {
    __m512i even, odd;
} vq;

static inline __mmask16 first_lanes(int64_t n) { return (__mmask16)((1u << n) - 1); }

static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline vf vf_load_n(const float *p, int64_t n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }
static inline void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
static inline void vf_store_n(float *p, vf a, int64_t n) { _mm512_mask_storeu_ps(p, first_lanes(n), a); }
static inline vf vf_set(float x) { return _mm512_set1_ps(x); }
static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf vf_abs(vf a) { return _mm512_abs_ps(a); }
static inline vi vf_bits(vf a) { return _mm512_castps_si512(a); }
static inline vf vi_as_float(vi a) { return _mm512_castsi512_ps(a); }
static inline vi vf_round(vf a) { return _mm512_cvtps_epi32(a); }
static inline vf vf_if_negative(vf sign, vf yes, vf no) { return _mm512_mask_blend_ps(_mm512_movepi32_mask(vf_bits(sign)), no, yes); }

static inline vf vf_canon(vf x) {
    __mmask16 keep = _mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_set1_ps(0x1p-100f), _CMP_GE_OQ);
    return _mm512_max_ps(_mm512_min_ps(_mm512_maskz_mov_ps(keep, x), _mm512_set1_ps(0x1p100f)), _mm512_set1_ps(-0x1p100f));
}

static inline vi vi_load(const void *p) { return _mm512_loadu_si512(p); }
static inline vi vi_load_n(const void *p, int64_t n) { return _mm512_maskz_loadu_epi32(first_lanes(n), p); }
static inline void vi_store(void *p, vi a) { _mm512_storeu_si512(p, a); }
static inline void vi_store_n(void *p, vi a, int64_t n) { _mm512_mask_storeu_epi32(p, first_lanes(n), a); }
static inline void vi_store16(int16_t *p, vi a) { _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(a)); }
static inline vi vi_mul16(vi a, vi b) { return _mm512_mullo_epi16(a, b); }
static inline vi vi_load_pairs8(const int8_t *p) { return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)p)); }
static inline vi vi_load8(const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)); }
static inline vi vi_load_twice(const int32_t *p, int64_t n) {
    __m256i a = _mm256_maskz_loadu_epi32((__mmask8)first_lanes(n), p);
    __m512i wide = _mm512_cvtepu32_epi64(a);
    return _mm512_or_si512(wide, _mm512_slli_epi64(wide, 32));
}
static inline vi vi_set(int32_t x) { return _mm512_set1_epi32(x); }
static inline vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
static inline vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
static inline vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
static inline vi vi_max(vi a, vi b) { return _mm512_max_epi32(a, b); }
static inline vi vi_min(vi a, vi b) { return _mm512_min_epi32(a, b); }
static inline vi vi_sll(vi a, int n) { return _mm512_sllv_epi32(a, _mm512_set1_epi32(n)); }
static inline vi vi_srl(vi a, int n) { return _mm512_srlv_epi32(a, _mm512_set1_epi32(n)); }
static inline vi vi_sra(vi a, int n) { return _mm512_srav_epi32(a, _mm512_set1_epi32(n)); }
static inline vi vi_srlv(vi a, vi n) { return _mm512_srlv_epi32(a, n); }
static inline vi vi_swap_pairs(vi a) { return _mm512_shuffle_epi32(a, _MM_PERM_CDAB); }
static inline vf vi_float(vi a) { return _mm512_cvtepi32_ps(a); }
static inline vf vi_float_unsigned(vi a) { return _mm512_cvtepu32_ps(a); }
/* As text: around the intrinsic gcc 12 copies every sum of a loop to another register and back. */
static inline vi vi_dot16(vi acc, vi a, vi b) {
    __asm__("vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
    return acc;
}
static inline vi vi_mac16(vi acc, vi a, vi b) { return vi_dot16(acc, a, b); }
static inline int32_t vi_largest(vi a) { return _mm512_reduce_max_epi32(a); }
static inline int32_t vi_sum(vi a) { return _mm512_reduce_add_epi32(a); }

static inline vi high_half(vi a) { return _mm512_srli_epi64(a, 32); }
static inline vi join(vi even, vi odd_in_high_half) { return _mm512_mask_blend_epi32(0xAAAA, even, odd_in_high_half); }
static inline vi vi_mulhi(vi a, vi b) {
    return join(high_half(_mm512_mul_epu32(a, b)), _mm512_mul_epu32(high_half(a), high_half(b)));
}
static inline vi vi_mul_shift(vi a, vi b, uint64_t add, int n) {
    __m512i r = _mm512_set1_epi64((int64_t)add);
    __m512i even = _mm512_add_epi64(_mm512_mul_epu32(a, b), r), odd = _mm512_add_epi64(_mm512_mul_epu32(high_half(a), high_half(b)), r);
    return join(_mm512_srlv_epi64(even, _mm512_set1_epi64(n)), _mm512_sllv_epi64(odd, _mm512_set1_epi64(32 - n)));
}
static inline vi vi_mul_shift_signed(vi a, vi b, int n) {
    __m512i even = _mm512_mul_epi32(a, b), odd = _mm512_mul_epi32(high_half(a), high_half(b));
    return join(_mm512_srlv_epi64(even, _mm512_set1_epi64(n)), _mm512_sllv_epi64(odd, _mm512_set1_epi64(32 - n)));
}

static inline vq vi_mul_wide(vi a, vi b) {
    return (vq){_mm512_mul_epi32(a, b), _mm512_mul_epi32(high_half(a), high_half(b))};
}
static inline vq vq_zero(void) { return (vq){_mm512_setzero_si512(), _mm512_setzero_si512()}; }
static inline vq vq_add(vq a, vq b) { return (vq){_mm512_add_epi64(a.even, b.even), _mm512_add_epi64(a.odd, b.odd)}; }
static inline vq vq_sub(vq a, vq b) { return (vq){_mm512_sub_epi64(a.even, b.even), _mm512_sub_epi64(a.odd, b.odd)}; }
static inline vq vq_sub_add(vq a, vq b) { return (vq){_mm512_sub_epi64(a.even, b.even), _mm512_add_epi64(a.odd, b.odd)}; }
static inline vq vq_mac(vq acc, vi a, int32_t b) {
    __m512i s = _mm512_set1_epi32(b);
    return (vq){_mm512_add_epi64(acc.even, _mm512_mul_epi32(a, s)), _mm512_add_epi64(acc.odd, _mm512_mul_epi32(high_half(a), s))};
}
static inline int64_t vq_sum(vq a) { return _mm512_reduce_add_epi64(_mm512_add_epi64(a.even, a.odd)); }
static inline void vq_store(int64_t *p, vq a) {
    const __m512i lo = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), hi = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    _mm512_storeu_si512(p, _mm512_permutex2var_epi64(a.even, lo, a.odd));
    _mm512_storeu_si512(p + 8, _mm512_permutex2var_epi64(a.even, hi, a.odd));
}
static inline vf vq_float(vq a) {
    const __m512i order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    __m512 even = _mm512_castps256_ps512(_mm512_cvtepi64_ps(a.even)), odd = _mm512_castps256_ps512(_mm512_cvtepi64_ps(a.odd));
    return _mm512_permutex2var_ps(even, order, odd);
}

#endif
