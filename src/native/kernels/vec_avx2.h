/* The vocabulary of linear_body.h for AVX2 with F16C: 16 lanes are two registers; 64-bit lanes are kept as the even and the
 * odd ones of each, which is how the multiplier takes them. */
#include <immintrin.h>

#include "contract/exact.h"

typedef struct v {
    __m256i a, b;
} v;
typedef struct vf {
    __m256 a, b;
} vf;
typedef struct q {
    __m256i even_a, odd_a, even_b, odd_b;
} q;

#define BOTH(call_a, call_b) ((v){call_a, call_b})
LS_INLINE v v_load(const void *p) {
    return BOTH(_mm256_loadu_si256(p), _mm256_loadu_si256((const __m256i *)p + 1));
}
LS_INLINE void v_store(void *p, v x) {
    _mm256_storeu_si256(p, x.a);
    _mm256_storeu_si256((__m256i *)p + 1, x.b);
}
LS_INLINE v v_set(int32_t x) { return BOTH(_mm256_set1_epi32(x), _mm256_set1_epi32(x)); }
LS_INLINE v v_add(v x, v y) { return BOTH(_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)); }
LS_INLINE v v_sub(v x, v y) { return BOTH(_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)); }
LS_INLINE v v_and(v x, v y) { return BOTH(_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)); }
LS_INLINE v v_or(v x, v y) { return BOTH(_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)); }
LS_INLINE v v_max(v x, v y) { return BOTH(_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)); }
LS_INLINE v v_srl(v x, int n) {
    __m128i c = _mm_cvtsi32_si128(n);
    return BOTH(_mm256_srl_epi32(x.a, c), _mm256_srl_epi32(x.b, c));
}
LS_INLINE v v_sll(v x, int n) {
    __m128i c = _mm_cvtsi32_si128(n);
    return BOTH(_mm256_sll_epi32(x.a, c), _mm256_sll_epi32(x.b, c));
}
LS_INLINE v v_sra(v x, int n) {
    __m128i c = _mm_cvtsi32_si128(n);
    return BOTH(_mm256_sra_epi32(x.a, c), _mm256_sra_epi32(x.b, c));
}
LS_INLINE v v_half_sll(v x, int n) {
    __m128i c = _mm_cvtsi32_si128(n);
    return BOTH(_mm256_sll_epi16(x.a, c), _mm256_sll_epi16(x.b, c));
}
LS_INLINE v v_half_srl(v x, int n) {
    __m128i c = _mm_cvtsi32_si128(n);
    return BOTH(_mm256_srl_epi16(x.a, c), _mm256_srl_epi16(x.b, c));
}
LS_INLINE v v_half_sra(v x, int n) {
    __m128i c = _mm_cvtsi32_si128(n);
    return BOTH(_mm256_sra_epi16(x.a, c), _mm256_sra_epi16(x.b, c));
}
LS_INLINE v v_half_sub(v x, v y) { return BOTH(_mm256_sub_epi16(x.a, y.a), _mm256_sub_epi16(x.b, y.b)); }
LS_INLINE v v_dot(v acc, v x, v y) {
    return BOTH(_mm256_add_epi32(acc.a, _mm256_madd_epi16(x.a, y.a)), _mm256_add_epi32(acc.b, _mm256_madd_epi16(x.b, y.b)));
}
LS_INLINE v v_codebook(v index, const uint8_t table[16]) {
    __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)table)), mask = _mm256_set1_epi32(0x00FF00FF);
    return BOTH(_mm256_and_si256(_mm256_shuffle_epi8(t, index.a), mask), _mm256_and_si256(_mm256_shuffle_epi8(t, index.b), mask));
}
LS_INLINE int32_t v_largest(v x) {
    int32_t lane[16], best;
    v_store(lane, x);
    best = lane[0];
    for (int i = 1; i < 16; i++) best = lane[i] > best ? lane[i] : best;
    return best;
}
LS_INLINE int32_t v_sum(v x) {
    __m256i s = _mm256_add_epi32(x.a, x.b);
    __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0xB1)));
}
LS_INLINE void v_store_i16(int16_t *p, v x) {
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xD8));
}
/* 2^23 >> drop of 16 bytes. */
LS_INLINE v v_from_drop(const uint8_t *p) {
    __m128i d = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m256i one = _mm256_set1_epi32(1 << 23);
    return BOTH(_mm256_srlv_epi32(one, _mm256_cvtepu8_epi32(d)), _mm256_srlv_epi32(one, _mm256_cvtepu8_epi32(_mm_srli_si128(d, 8))));
}

LS_INLINE vf vf_load(const void *p) { return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps((const float *)p + 8)}; }
LS_INLINE vf vf_set(float x) { return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
LS_INLINE vf vf_mul(vf x, vf y) { return (vf){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
LS_INLINE v vf_bits(vf x) { return BOTH(_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)); }
LS_INLINE v vf_round(vf x) { return BOTH(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)); }
LS_INLINE vf vf_from_f16(const void *p) {
    const __m128i *h = p;
    return (vf){_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
}
LS_INLINE __m256 widen_bf16(__m128i h) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16)); }
LS_INLINE vf vf_from_bf16(const void *p) {
    const __m128i *h = p;
    return (vf){widen_bf16(_mm_loadu_si128(h)), widen_bf16(_mm_loadu_si128(h + 1))};
}
LS_INLINE vf vf_from_i8(const void *p) {
    __m128i b = _mm_loadu_si128(p);
    return (vf){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(b, 8)))};
}
LS_INLINE vf vf_from_nibble(const void *p, int shift) {
    __m128i b = _mm_and_si128(_mm_srl_epi16(_mm_loadu_si128(p), _mm_cvtsi32_si128(shift)), _mm_set1_epi8(15));
    return (vf){_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(b)), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(b, 8)))};
}

LS_INLINE q q_zero(void) { return (q){_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()}; }
LS_INLINE q q_load(const int64_t *p) {
    const __m256i *r = (const __m256i *)(const void *)p;
    return (q){_mm256_loadu_si256(r), _mm256_loadu_si256(r + 1), _mm256_loadu_si256(r + 2), _mm256_loadu_si256(r + 3)};
}
LS_INLINE void q_store(int64_t *p, q x) {
    __m256i *r = (__m256i *)(void *)p;
    _mm256_storeu_si256(r, x.even_a);
    _mm256_storeu_si256(r + 1, x.odd_a);
    _mm256_storeu_si256(r + 2, x.even_b);
    _mm256_storeu_si256(r + 3, x.odd_b);
}
LS_INLINE __m256i mul_odd(__m256i x, __m256i y) { return _mm256_mul_epi32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(y, 32)); }
LS_INLINE q q_mac(q acc, v x, v y) {
    return (q){_mm256_add_epi64(acc.even_a, _mm256_mul_epi32(x.a, y.a)), _mm256_add_epi64(acc.odd_a, mul_odd(x.a, y.a)),
               _mm256_add_epi64(acc.even_b, _mm256_mul_epi32(x.b, y.b)), _mm256_add_epi64(acc.odd_b, mul_odd(x.b, y.b))};
}
/* (x + 8) >> 4: an arithmetic shift as a logical one of the value moved up by 2^62. */
LS_INLINE __m256i round4(__m256i x) {
    __m256i up = _mm256_add_epi64(x, _mm256_set1_epi64x((INT64_C(1) << 62) + 8));
    return _mm256_sub_epi64(_mm256_srli_epi64(up, 4), _mm256_set1_epi64x(INT64_C(1) << 58));
}
LS_INLINE q q_mac4(q acc, v x, v y) {
    return (q){_mm256_add_epi64(acc.even_a, round4(_mm256_mul_epi32(x.a, y.a))), _mm256_add_epi64(acc.odd_a, round4(mul_odd(x.a, y.a))),
               _mm256_add_epi64(acc.even_b, round4(_mm256_mul_epi32(x.b, y.b))), _mm256_add_epi64(acc.odd_b, round4(mul_odd(x.b, y.b)))};
}
/* Lanes in their natural order. */
LS_INLINE void lanes_of(q x, int64_t lane[16]) {
    int64_t r[16];
    q_store(r, x);
    for (int i = 0; i < 16; i++) lane[i] = r[i / 8 * 8 + i % 2 * 4 + i % 8 / 2];
}
LS_INLINE q q_add_rshift(q x, q y, int n) {
    int64_t a[16], b[16];
    q_store(a, x);
    q_store(b, y);
    for (int i = 0; i < 16; i++) a[i] += ls_rshift(b[i], n);
    return q_load(a);
}
LS_INLINE vf q_to_float(q x) {
    int64_t lane[16];
    float f[16];
    lanes_of(x, lane);
    for (int i = 0; i < 16; i++) f[i] = (float)lane[i];
    return vf_load(f);
}
LS_INLINE __m256 canon8(__m256 x) {
    __m256 sign = _mm256_set1_ps(-0.0f), big = _mm256_set1_ps(0x1p100f);
    __m256 keep = _mm256_cmp_ps(_mm256_andnot_ps(sign, x), _mm256_set1_ps(0x1p-100f), _CMP_GE_OQ);
    return _mm256_and_ps(keep, _mm256_max_ps(_mm256_min_ps(x, big), _mm256_xor_ps(big, sign)));
}
LS_INLINE vf vf_canon(vf x) { return (vf){canon8(x.a), canon8(x.b)}; }
LS_INLINE vf vf_add(vf x, vf y) { return (vf){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
LS_INLINE vf vf_load_n(const float *p, int n) {
    float f[16] = {0};
    memcpy(f, p, (size_t)n * sizeof *f);
    return vf_load(f);
}
LS_INLINE void vf_store_n(float *p, vf x, int n) {
    float f[16];
    _mm256_storeu_ps(f, x.a);
    _mm256_storeu_ps(f + 8, x.b);
    memcpy(p, f, (size_t)n * sizeof *f);
}
#undef BOTH
