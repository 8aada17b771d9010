/* The operations of lanes_neon.h, and those of dot products of bytes (FEAT_DotProd) that linear_bytes.h is written in. */
#ifndef LS_NATIVE_KERNELS_LANES_NEON_DOTPROD_H
#define LS_NATIVE_KERNELS_LANES_NEON_DOTPROD_H

#include "native/kernels/lanes_neon.h"

#define V_BYTES 1

typedef int8x16_t bytes;

LS_INLINE bytes b_load(const uint8_t *p) { return vreinterpretq_s8_u8(vld1q_u8(p)); }
/* Sixteen 16-bit integers x = 256 * high + low, as signed bytes in the order of |order|. x + 128 does not overflow. */
LS_INLINE void b_split(const int16_t *p, bytes order, bytes *high, bytes *low) {
    int16x8_t x = vld1q_s16(p), y = vld1q_s16(p + 8), half = vdupq_n_s16(128);
    uint8x16_t at = vreinterpretq_u8_s8(order);
    *low = vqtbl1q_s8(vuzp1q_s8(vreinterpretq_s8_s16(x), vreinterpretq_s8_s16(y)), at);
    *high = vqtbl1q_s8(vuzp2q_s8(vreinterpretq_s8_s16(vaddq_s16(x, half)), vreinterpretq_s8_s16(vaddq_s16(y, half))), at);
}
/* Every byte less 128. */
LS_INLINE int32x4_t flip_signs(int32x4_t x) { return veorq_s32(x, vreinterpretq_s32_u8(vdupq_n_u8(128))); }
LS_INLINE lanes v_flip_signs(lanes x) { return (lanes){flip_signs(x.a), flip_signs(x.b), flip_signs(x.c), flip_signs(x.d)}; }
/* table[index] of every byte, indices 0 to 15. */
LS_INLINE int32x4_t lookup_bytes(uint8x16_t table, int32x4_t x) { return vreinterpretq_s32_u8(vqtbl1q_u8(table, vreinterpretq_u8_s32(x))); }
LS_INLINE lanes v_lookup8(const uint8_t *table, lanes x) {
    uint8x16_t t = vld1q_u8(table);
    return (lanes){lookup_bytes(t, x.a), lookup_bytes(t, x.b), lookup_bytes(t, x.c), lookup_bytes(t, x.d)};
}
/* acc + the dot product of the four bytes of w with bytes 4u to 4u + 3 of x. The instruction takes a constant u. */
LS_INLINE int32x4_t dot_bytes(int32x4_t acc, int32x4_t w, bytes x, int u) {
    bytes v = vreinterpretq_s8_s32(w);
    switch (u) {
    case 0: return vdotq_laneq_s32(acc, v, x, 0);
    case 1: return vdotq_laneq_s32(acc, v, x, 1);
    case 2: return vdotq_laneq_s32(acc, v, x, 2);
    default: return vdotq_laneq_s32(acc, v, x, 3);
    }
}
LS_INLINE lanes v_dot_bytes(lanes acc, lanes w, bytes x, int u) {
    return (lanes){dot_bytes(acc.a, w.a, x, u), dot_bytes(acc.b, w.b, x, u), dot_bytes(acc.c, w.c, x, u), dot_bytes(acc.d, w.d, x, u)};
}

#endif
