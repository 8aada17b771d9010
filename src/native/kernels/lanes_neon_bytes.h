/* The operations of lanes_neon.h, and those on bytes that linear_bytes.h is written in and levels with dot products of bytes share. Each such
 * level adds
 *
 *     byte_pair b_join(lanes w0, lanes w1)              eight columns of sixteen rows, from two vectors with four bytes a lane
 *     byte_acts b_split(const int16_t *p, bytes order)  sixteen activations as signed bytes, in the order of |order|
 *     byte_sums b_first(int32_t x)                      sums that begin with x
 *     byte_sums b_dot(acc, byte_pair, byte_acts, i)     acc + products with the activations' eight from 8 * i on
 *     lanes b_total(byte_sums)                          the sums of products with whole activations */
#ifndef LS_NATIVE_KERNELS_LANES_NEON_BYTES_H
#define LS_NATIVE_KERNELS_LANES_NEON_BYTES_H

#include "native/kernels/lanes_neon.h"

#define V_BYTES 1

typedef int8x16_t bytes;

LS_INLINE bytes b_load(const uint8_t *p) { return vreinterpretq_s8_u8(vld1q_u8(p)); }
/* Sixteen 16-bit integers x = 256 * high + low, as signed bytes in the order of |order|. x + 128 does not overflow. */
LS_INLINE bytes b_low(const int16_t *p, bytes order) {
    int8x16_t x = vreinterpretq_s8_s16(vld1q_s16(p)), y = vreinterpretq_s8_s16(vld1q_s16(p + 8));
    return vqtbl1q_s8(vuzp1q_s8(x, y), vreinterpretq_u8_s8(order));
}
LS_INLINE bytes b_high(const int16_t *p, bytes order) {
    int16x8_t half = vdupq_n_s16(128);
    int8x16_t x = vreinterpretq_s8_s16(vaddq_s16(vld1q_s16(p), half)), y = vreinterpretq_s8_s16(vaddq_s16(vld1q_s16(p + 8), half));
    return vqtbl1q_s8(vuzp2q_s8(x, y), vreinterpretq_u8_s8(order));
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

#endif
