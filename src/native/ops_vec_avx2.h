/* Vector vocabulary of the AVX2 level: 8 lanes of 32 bits. See ops_vec_c.h for the meanings. */
#ifndef LS_NATIVE_OPS_VEC_AVX2_H
#define LS_NATIVE_OPS_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>

enum { W = 8, TILE_Q = 2 };

typedef __m256 vf;
typedef __m256i vi;
typedef struct vq {
    __m256i even, odd;
} vq;

static inline __m256i first_lanes(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline vf vf_load_n(const float *p, int64_t n) { return _mm256_maskload_ps(p, first_lanes(n)); }
static inline void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
static inline void vf_store_n(float *p, vf a, int64_t n) { _mm256_maskstore_ps(p, first_lanes(n), a); }
static inline vf vf_set(float x) { return _mm256_set1_ps(x); }
static inline vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vf vf_abs(vf a) { return _mm256_and_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF))); }
static inline vi vf_bits(vf a) { return _mm256_castps_si256(a); }
static inline vf vi_as_float(vi a) { return _mm256_castsi256_ps(a); }
static inline vi vf_round(vf a) { return _mm256_cvtps_epi32(a); }
static inline vf vf_if_negative(vf sign, vf yes, vf no) { return _mm256_blendv_ps(no, yes, sign); }

static inline vf vf_canon(vf x) {
    vf keep = _mm256_cmp_ps(vf_abs(x), _mm256_set1_ps(0x1p-100f), _CMP_GE_OQ);
    return _mm256_max_ps(_mm256_min_ps(_mm256_and_ps(keep, x), _mm256_set1_ps(0x1p100f)), _mm256_set1_ps(-0x1p100f));
}

static inline vi vi_load(const void *p) { return _mm256_loadu_si256(p); }
static inline vi vi_load_n(const void *p, int64_t n) { return _mm256_maskload_epi32(p, first_lanes(n)); }
static inline void vi_store(void *p, vi a) { _mm256_storeu_si256(p, a); }
static inline void vi_store_n(void *p, vi a, int64_t n) { _mm256_maskstore_epi32(p, first_lanes(n), a); }
static inline void vi_store16(int16_t *p, vi a) {
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, a), 0x08);
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_castsi256_si128(packed));
}
static inline vi vi_mul16(vi a, vi b) { return _mm256_mullo_epi16(a, b); }
static inline vi vi_load_pairs8(const int8_t *p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p)); }
static inline vi vi_load8(const uint8_t *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)); }
static inline vi vi_load_twice(const int32_t *p, int64_t n) {
    __m128i a = _mm_maskload_epi32(p, _mm256_castsi256_si128(first_lanes(n)));
    __m256i wide = _mm256_cvtepu32_epi64(a);
    return _mm256_or_si256(wide, _mm256_slli_epi64(wide, 32));
}
static inline vi vi_set(int32_t x) { return _mm256_set1_epi32(x); }
static inline vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
static inline vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
static inline vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
static inline vi vi_max(vi a, vi b) { return _mm256_max_epi32(a, b); }
static inline vi vi_min(vi a, vi b) { return _mm256_min_epi32(a, b); }
static inline vi vi_sll(vi a, int n) { return _mm256_sllv_epi32(a, _mm256_set1_epi32(n)); }
static inline vi vi_srl(vi a, int n) { return _mm256_srlv_epi32(a, _mm256_set1_epi32(n)); }
static inline vi vi_sra(vi a, int n) { return _mm256_srav_epi32(a, _mm256_set1_epi32(n)); }
static inline vi vi_srlv(vi a, vi n) { return _mm256_srlv_epi32(a, n); }
static inline vi vi_swap_pairs(vi a) { return _mm256_shuffle_epi32(a, 0xB1); }
static inline vf vi_float(vi a) { return _mm256_cvtepi32_ps(a); }
/* Both halves are exact, so the one addition rounds once. */
static inline vf vi_float_unsigned(vi a) {
    vf high = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(a, 16)), _mm256_set1_ps(65536.0f));
    return _mm256_add_ps(high, _mm256_cvtepi32_ps(_mm256_and_si256(a, _mm256_set1_epi32(0xFFFF))));
}
static inline vi vi_dot16(vi acc, vi a, vi b) { return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b)); }
static inline vi vi_mac16(vi acc, vi a, vi b) { return vi_dot16(acc, a, b); }
static inline int32_t vi_largest(vi a) {
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1)));
}
static inline int32_t vi_sum(vi a) {
    __m128i m = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    m = _mm_add_epi32(m, _mm_shuffle_epi32(m, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(m, _mm_shuffle_epi32(m, 0xB1)));
}

static inline vi high_half(vi a) { return _mm256_srli_epi64(a, 32); }
static inline vi join(vi even, vi odd_in_high_half) { return _mm256_blend_epi32(even, odd_in_high_half, 0xAA); }
static inline vi vi_mulhi(vi a, vi b) {
    return join(high_half(_mm256_mul_epu32(a, b)), _mm256_mul_epu32(high_half(a), high_half(b)));
}
static inline vi vi_mul_shift(vi a, vi b, uint64_t add, int n) {
    __m256i r = _mm256_set1_epi64x((int64_t)add);
    __m256i even = _mm256_add_epi64(_mm256_mul_epu32(a, b), r), odd = _mm256_add_epi64(_mm256_mul_epu32(high_half(a), high_half(b)), r);
    return join(_mm256_srlv_epi64(even, _mm256_set1_epi64x(n)), _mm256_sllv_epi64(odd, _mm256_set1_epi64x(32 - n)));
}
static inline vi vi_mul_shift_signed(vi a, vi b, int n) {
    __m256i even = _mm256_mul_epi32(a, b), odd = _mm256_mul_epi32(high_half(a), high_half(b));
    return join(_mm256_srlv_epi64(even, _mm256_set1_epi64x(n)), _mm256_sllv_epi64(odd, _mm256_set1_epi64x(32 - n)));
}

static inline vq vi_mul_wide(vi a, vi b) {
    return (vq){_mm256_mul_epi32(a, b), _mm256_mul_epi32(high_half(a), high_half(b))};
}
static inline vq vq_zero(void) { return (vq){_mm256_setzero_si256(), _mm256_setzero_si256()}; }
static inline vq vq_add(vq a, vq b) { return (vq){_mm256_add_epi64(a.even, b.even), _mm256_add_epi64(a.odd, b.odd)}; }
static inline vq vq_sub(vq a, vq b) { return (vq){_mm256_sub_epi64(a.even, b.even), _mm256_sub_epi64(a.odd, b.odd)}; }
static inline vq vq_sub_add(vq a, vq b) { return (vq){_mm256_sub_epi64(a.even, b.even), _mm256_add_epi64(a.odd, b.odd)}; }
static inline vq vq_mac(vq acc, vi a, int32_t b) {
    __m256i s = _mm256_set1_epi32(b);
    return (vq){_mm256_add_epi64(acc.even, _mm256_mul_epi32(a, s)), _mm256_add_epi64(acc.odd, _mm256_mul_epi32(high_half(a), s))};
}
static inline void vq_store(int64_t *p, vq a) {
    __m256i lo = _mm256_unpacklo_epi64(a.even, a.odd), hi = _mm256_unpackhi_epi64(a.even, a.odd);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permute2x128_si256(lo, hi, 0x20));
    _mm256_storeu_si256((__m256i *)(void *)(p + 4), _mm256_permute2x128_si256(lo, hi, 0x31));
}
static inline int64_t vq_sum(vq a) {
    int64_t v[4];
    _mm256_storeu_si256((__m256i *)(void *)v, _mm256_add_epi64(a.even, a.odd));
    return v[0] + v[1] + v[2] + v[3];
}
/* AVX2 has no conversion from 64-bit integers; the scalar one rounds once. */
static inline vf vq_float(vq a) {
    int64_t v[8];
    float f[8];
    vq_store(v, a);
    for (int i = 0; i < 8; i++) f[i] = (float)v[i];
    return _mm256_loadu_ps(f);
}

#endif
