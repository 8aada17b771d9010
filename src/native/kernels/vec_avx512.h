/* The vocabulary of linear_body.h for AVX-512 with VNNI: 16 lanes are one register; 64-bit lanes are kept as the even and
 * the odd ones, which is how the multiplier takes them. */
#include <immintrin.h>

typedef __m512i v;
typedef __m512 vf;
typedef struct q {
    __m512i even, odd;
} q;

LS_INLINE v v_load(const void *p) { return _mm512_loadu_si512(p); }
LS_INLINE void v_store(void *p, v a) { _mm512_storeu_si512(p, a); }
LS_INLINE v v_set(int32_t a) { return _mm512_set1_epi32(a); }
LS_INLINE v v_add(v a, v b) { return _mm512_add_epi32(a, b); }
LS_INLINE v v_sub(v a, v b) { return _mm512_sub_epi32(a, b); }
LS_INLINE v v_and(v a, v b) { return _mm512_and_si512(a, b); }
LS_INLINE v v_or(v a, v b) { return _mm512_or_si512(a, b); }
LS_INLINE v v_max(v a, v b) { return _mm512_max_epi32(a, b); }
LS_INLINE v v_srl(v a, int n) { return _mm512_srl_epi32(a, _mm_cvtsi32_si128(n)); }
LS_INLINE v v_sll(v a, int n) { return _mm512_sll_epi32(a, _mm_cvtsi32_si128(n)); }
LS_INLINE v v_sra(v a, int n) { return _mm512_sra_epi32(a, _mm_cvtsi32_si128(n)); }
LS_INLINE v v_half_sll(v a, int n) { return _mm512_sll_epi16(a, _mm_cvtsi32_si128(n)); }
LS_INLINE v v_half_srl(v a, int n) { return _mm512_srl_epi16(a, _mm_cvtsi32_si128(n)); }
LS_INLINE v v_half_sra(v a, int n) { return _mm512_sra_epi16(a, _mm_cvtsi32_si128(n)); }
LS_INLINE v v_half_sub(v a, v b) { return _mm512_sub_epi16(a, b); }
LS_INLINE v v_dot(v acc, v a, v b) { return _mm512_dpwssd_epi32(acc, a, b); }
LS_INLINE v v_codebook(v index, const uint8_t table[16]) {
    __m512i t = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)table));
    return _mm512_and_si512(_mm512_shuffle_epi8(t, index), _mm512_set1_epi32(0x00FF00FF));
}
LS_INLINE int32_t v_largest(v a) { return _mm512_reduce_max_epi32(a); }
LS_INLINE int32_t v_sum(v a) { return _mm512_reduce_add_epi32(a); }
LS_INLINE void v_store_i16(int16_t *p, v a) { _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(a)); }
/* 2^23 >> drop of 16 bytes. */
LS_INLINE v v_from_drop(const uint8_t *p) {
    return _mm512_srlv_epi32(_mm512_set1_epi32(1 << 23), _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

LS_INLINE vf vf_load(const void *p) { return _mm512_loadu_ps(p); }
LS_INLINE vf vf_set(float a) { return _mm512_set1_ps(a); }
LS_INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
LS_INLINE v vf_bits(vf a) { return _mm512_castps_si512(a); }
LS_INLINE v vf_round(vf a) { return _mm512_cvtps_epi32(a); }
LS_INLINE vf vf_from_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }
LS_INLINE vf vf_from_bf16(const void *p) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16)); }
LS_INLINE vf vf_from_i8(const void *p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p))); }
LS_INLINE vf vf_from_nibble(const void *p, int shift) {
    return _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srl_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128(p)), _mm_cvtsi32_si128(shift)), _mm512_set1_epi32(15)));
}

LS_INLINE q q_zero(void) { return (q){_mm512_setzero_si512(), _mm512_setzero_si512()}; }
LS_INLINE q q_load(const int64_t *p) { return (q){_mm512_loadu_si512(p), _mm512_loadu_si512(p + 8)}; }
LS_INLINE void q_store(int64_t *p, q a) {
    _mm512_storeu_si512(p, a.even);
    _mm512_storeu_si512(p + 8, a.odd);
}
LS_INLINE q q_mac(q acc, v a, v b) {
    acc.even = _mm512_add_epi64(acc.even, _mm512_mul_epi32(a, b));
    acc.odd = _mm512_add_epi64(acc.odd, _mm512_mul_epi32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32)));
    return acc;
}
LS_INLINE __m512i round4(__m512i a) { return _mm512_srai_epi64(_mm512_add_epi64(a, _mm512_set1_epi64(8)), 4); }
LS_INLINE q q_mac4(q acc, v a, v b) {
    acc.even = _mm512_add_epi64(acc.even, round4(_mm512_mul_epi32(a, b)));
    acc.odd = _mm512_add_epi64(acc.odd, round4(_mm512_mul_epi32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32))));
    return acc;
}
LS_INLINE __m512i q_half_rshift(__m512i a, int n) {
    __m512i add = _mm512_set1_epi64(n ? INT64_C(1) << (n - 1) : 0);
    return _mm512_sra_epi64(_mm512_add_epi64(a, add), _mm_cvtsi32_si128(n));
}
LS_INLINE q q_add_rshift(q a, q b, int n) {
    return (q){_mm512_add_epi64(a.even, q_half_rshift(b.even, n)), _mm512_add_epi64(a.odd, q_half_rshift(b.odd, n))};
}
LS_INLINE vf q_to_float(q a) {
    const __m512i order = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    __m512 both = _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtepi64_ps(a.even)), _mm512_cvtepi64_ps(a.odd), 1);
    return _mm512_permutexvar_ps(order, both);
}
LS_INLINE vf vf_canon(vf a) {
    __mmask16 keep = _mm512_cmp_ps_mask(_mm512_abs_ps(a), _mm512_set1_ps(0x1p-100f), _CMP_GE_OQ);
    return _mm512_maskz_max_ps(keep, _mm512_min_ps(a, _mm512_set1_ps(0x1p100f)), _mm512_set1_ps(-0x1p100f));
}
LS_INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
LS_INLINE vf vf_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }
LS_INLINE void vf_store_n(float *p, vf a, int n) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), a); }
