/* The products of lanes_neon_bytes.h by SDOT (FEAT_DotProd): a lane's four bytes by four bytes of activations. */
#ifndef LS_NATIVE_KERNELS_LANES_NEON_DOTPROD_H
#define LS_NATIVE_KERNELS_LANES_NEON_DOTPROD_H

#include "native/kernels/lanes_neon_bytes.h"

typedef struct byte_pair {
    lanes w[2];
} byte_pair;
typedef struct byte_acts {
    bytes high, low;
} byte_acts;
typedef struct byte_sums {
    lanes high, low;
} byte_sums;

LS_INLINE byte_pair b_join(lanes w0, lanes w1) { return (byte_pair){{w0, w1}}; }
LS_INLINE byte_acts b_split(const int16_t *p, bytes order) { return (byte_acts){b_high(p, order), b_low(p, order)}; }
LS_INLINE byte_sums b_first(int32_t x) { return (byte_sums){v_set(0), v_set(x)}; }
/* Bytes 4u to 4u + 3 of x. The instruction takes a constant u. */
LS_INLINE int32x4_t dot4(int32x4_t acc, int32x4_t w, bytes x, int u) {
    bytes v = vreinterpretq_s8_s32(w);
    switch (u) {
    case 0: return vdotq_laneq_s32(acc, v, x, 0);
    case 1: return vdotq_laneq_s32(acc, v, x, 1);
    case 2: return vdotq_laneq_s32(acc, v, x, 2);
    default: return vdotq_laneq_s32(acc, v, x, 3);
    }
}
LS_INLINE lanes dot16(lanes acc, lanes w, bytes x, int u) {
    return (lanes){dot4(acc.a, w.a, x, u), dot4(acc.b, w.b, x, u), dot4(acc.c, w.c, x, u), dot4(acc.d, w.d, x, u)};
}
LS_INLINE byte_sums b_dot(byte_sums acc, byte_pair p, byte_acts x, int i) {
    for (int u = 0; u < 2; u++) {
        acc.high = dot16(acc.high, p.w[u], x.high, 2 * i + u);
        acc.low = dot16(acc.low, p.w[u], x.low, 2 * i + u);
    }
    V_PIN(acc.high);
    V_PIN(acc.low);
    return acc;
}
LS_INLINE lanes b_total(byte_sums s) { return v_add(v_shl(s.high, 8), s.low); }

#endif
