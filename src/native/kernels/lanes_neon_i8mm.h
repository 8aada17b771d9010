/* The products of lanes_neon_bytes.h by SMMLA (FEAT_I8MM): two rows of weights by the high and the low bytes of activations at once. */
#ifndef LS_NATIVE_KERNELS_LANES_NEON_I8MM_H
#define LS_NATIVE_KERNELS_LANES_NEON_I8MM_H

#include "native/kernels/lanes_neon_bytes.h"

/* Eight columns of rows 2j and 2j + 1, for j from 0 to 7. */
typedef struct byte_pair {
    bytes w[8];
} byte_pair;
/* Eight high bytes and the eight low bytes of the same activations. */
typedef struct byte_acts {
    bytes x[2];
} byte_acts;
/* high and low sum of row 2j, then of row 2j + 1. */
typedef struct byte_sums {
    int32x4_t v[8];
} byte_sums;

LS_INLINE bytes join_low(int32x4_t x, int32x4_t y) { return vreinterpretq_s8_s32(vzip1q_s32(x, y)); }
LS_INLINE bytes join_high(int32x4_t x, int32x4_t y) { return vreinterpretq_s8_s32(vzip2q_s32(x, y)); }
LS_INLINE byte_pair b_join(lanes x, lanes y) {
    return (byte_pair){{join_low(x.a, y.a), join_high(x.a, y.a), join_low(x.b, y.b), join_high(x.b, y.b), join_low(x.c, y.c), join_high(x.c, y.c),
                        join_low(x.d, y.d), join_high(x.d, y.d)}};
}
LS_INLINE byte_acts b_split(const int16_t *p, bytes order) {
    int64x2_t high = vreinterpretq_s64_s8(b_high(p, order)), low = vreinterpretq_s64_s8(b_low(p, order));
    return (byte_acts){{vreinterpretq_s8_s64(vzip1q_s64(high, low)), vreinterpretq_s8_s64(vzip2q_s64(high, low))}};
}
LS_INLINE byte_sums b_first(int32_t x) {
    int32x4_t low = vcombine_s32(vcreate_s32((uint64_t)(uint32_t)x << 32), vcreate_s32((uint64_t)(uint32_t)x << 32));
    return (byte_sums){{low, low, low, low, low, low, low, low}};
}
LS_INLINE byte_sums b_dot(byte_sums acc, byte_pair p, byte_acts x, int i) {
    V_UNROLL for (int j = 0; j < 8; j++) acc.v[j] = vmmlaq_s32(acc.v[j], p.w[j], x.x[i]);
    V_PIN_FOUR(acc.v[0], acc.v[1], acc.v[2], acc.v[3]);
    V_PIN_FOUR(acc.v[4], acc.v[5], acc.v[6], acc.v[7]);
    return acc;
}
LS_INLINE int32x4_t total4(int32x4_t x, int32x4_t y) { return vaddq_s32(vshlq_n_s32(vuzp1q_s32(x, y), 8), vuzp2q_s32(x, y)); }
LS_INLINE lanes b_total(byte_sums s) { return (lanes){total4(s.v[0], s.v[1]), total4(s.v[2], s.v[3]), total4(s.v[4], s.v[5]), total4(s.v[6], s.v[7])}; }

#endif
