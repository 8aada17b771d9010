/* SHA-256 on the SHA instructions of x86: two rounds an instruction, the message schedule four words at a time. */
#include "base/sha256_blocks.h"

#if defined(__SHA__) && defined(__SSE4_1__)
#include <cpuid.h>
#include <immintrin.h>

static __m128i load(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }

/* Four rounds on message words |w| and the constants from |k| on. The state is in two halves: a, b, e, f and c, d, g, h. */
static inline void four_rounds(__m128i *abef, __m128i *cdgh, __m128i w, const uint32_t *k) {
    __m128i sum = _mm_add_epi32(w, load((const uint8_t *)k));
    *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, sum);
    *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32(sum, 0x0E));
}

/* Words t to t + 3 of the schedule from the sixteen before them, w[0] the oldest four. */
static inline __m128i next_words(const __m128i w[4]) {
    __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[0], w[1]), _mm_alignr_epi8(w[3], w[2], 4));
    return _mm_sha256msg2_epu32(sum, w[3]);
}

static void blocks_x86(uint32_t state[8], const uint8_t *data, size_t blocks) {
    const __m128i swap = _mm_set_epi64x(0x0C0D0E0F08090A0BLL, 0x0405060700010203LL);
    __m128i dcba = load((const uint8_t *)state), hgfe = load((const uint8_t *)(state + 4));
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xB1), efgh = _mm_shuffle_epi32(hgfe, 0x1B);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);
    for (; blocks; blocks--, data += 64) {
        __m128i abef_before = abef, cdgh_before = cdgh, w[4];
        for (int i = 0; i < 4; i++) {
            w[i] = _mm_shuffle_epi8(load(data + 16 * i), swap);
            four_rounds(&abef, &cdgh, w[i], ls_sha256_constants + 4 * i);
        }
        for (int i = 4; i < 16; i++) {
            __m128i next = next_words(w);
            four_rounds(&abef, &cdgh, next, ls_sha256_constants + 4 * i);
            w[0] = w[1];
            w[1] = w[2];
            w[2] = w[3];
            w[3] = next;
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1B), dchg = _mm_shuffle_epi32(cdgh, 0xB1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

/* Leaf 1 ECX: SSSE3 is bit 9, SSE4.1 bit 19. Leaf 7 EBX: SHA is bit 29. */
ls_sha256_blocks_fn *ls_sha256_blocks_x86(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 9) || !(c & 1u << 19)) return NULL;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & 1u << 29 ? blocks_x86 : NULL;
}
#else
ls_sha256_blocks_fn *ls_sha256_blocks_x86(void) { return NULL; }
#endif
