/* Sixteen 32-bit lanes in portable C, and what every operation of a lanes_<level>.h means.
 *
 * lanes holds sixteen integers, floats sixteen binary32 numbers, wide sixteen 64-bit integers. linear_body.h and
 * quantise_body.h are written in these operations only, so that one text serves every instruction set. */
#ifndef LS_NATIVE_KERNELS_LANES_C_H
#define LS_NATIVE_KERNELS_LANES_C_H

#include <math.h>
#include <string.h>

#include "contract/exact.h"
#include "native/kernels/kernel.h"

/* Register blocking: tiles and rows whose sums are kept at once; V_ROWS_WIDE when operands have two planes. */
enum { V_TILES = 1, V_ROWS = 4, V_ROWS_WIDE = 2 };

/* Vector levels specialise the bodies for every kernel. Here the compiler chooses: sixteen lanes in plain C are many
 * instructions, and copies of them would take minutes to compile. */
/* Most rows that linear_rows.h multiplies; 0: the level has too few registers for it. */
#define V_DIRECT 0
/* Whether the level has the text for many rows in linear_cross.h and linear_wrap.h. */
#define V_ASSEMBLY 0
#define V_BODY static inline
#define V_UNROLL

typedef struct lanes {
    int32_t v[16];
} lanes;
typedef struct floats {
    float v[16];
} floats;
typedef struct wide {
    int64_t v[16];
} wide;

/* Keeps sums in the order that the text adds to them, where a compiler would gather the products of each and spill the rest. */
#define V_PIN(a) ((void)(a))

#define EACH for (int i = 0; i < 16; i++)

/* 64 bytes, any alignment. */
LS_INLINE lanes v_load(const void *p) {
    lanes r;
    memcpy(&r, p, sizeof r);
    return r;
}
LS_INLINE void v_store(void *p, lanes a) { memcpy(p, &a, sizeof a); }
LS_INLINE lanes v_set(int32_t x) {
    lanes r;
    EACH r.v[i] = x;
    return r;
}
/* Two 16-bit integers, p[0] in the low half, in every lane. */
LS_INLINE lanes v_pair(const int16_t *p) { return v_set((int32_t)((uint32_t)(uint16_t)p[0] | (uint32_t)(uint16_t)p[1] << 16)); }
/* Sixteen bytes, zero extended. */
LS_INLINE lanes v_bytes(const uint8_t *p) {
    lanes r;
    EACH r.v[i] = p[i];
    return r;
}
/* Sums are modulo 2^32, which only damaged weights need. */
LS_INLINE lanes v_add(lanes a, lanes b) {
    EACH a.v[i] = (int32_t)((uint32_t)a.v[i] + (uint32_t)b.v[i]);
    return a;
}
LS_INLINE lanes v_sub(lanes a, lanes b) {
    EACH a.v[i] = (int32_t)((uint32_t)a.v[i] - (uint32_t)b.v[i]);
    return a;
}
LS_INLINE lanes v_or(lanes a, lanes b) {
    EACH a.v[i] |= b.v[i];
    return a;
}
LS_INLINE int32_t halves(int32_t low, int32_t high) { return (int32_t)((uint32_t)(low & 0xFFFF) | (uint32_t)high << 16); }
/* Names ending in 16 work on both 16-bit halves of each lane. */
LS_INLINE lanes v_add16(lanes a, lanes b) {
    EACH a.v[i] = halves((int16_t)a.v[i] + (int16_t)b.v[i], (a.v[i] >> 16) + (b.v[i] >> 16));
    return a;
}
LS_INLINE lanes v_sub16(lanes a, lanes b) {
    EACH a.v[i] = halves((int16_t)a.v[i] - (int16_t)b.v[i], (a.v[i] >> 16) - (b.v[i] >> 16));
    return a;
}
/* The bits |mask| of each half, after a right shift. shift + bits of mask <= 16. */
LS_INLINE lanes v_field(lanes a, int shift, int mask) {
    EACH a.v[i] = (int32_t)((uint32_t)a.v[i] >> shift & ((uint32_t)mask | (uint32_t)mask << 16));
    return a;
}
/* v_field(a, shift, mask) | b */
LS_INLINE lanes v_field_or(lanes a, int shift, int mask, lanes b) { return v_or(v_field(a, shift, mask), b); }
LS_INLINE lanes v_shl16(lanes a, int n) {
    EACH a.v[i] = halves((int32_t)((uint32_t)a.v[i] << n), (int32_t)((uint32_t)a.v[i] >> 16 << n));
    return a;
}
LS_INLINE lanes v_sar16(lanes a, int n) {
    EACH a.v[i] = halves((int16_t)a.v[i] >> n, a.v[i] >> 16 >> n);
    return a;
}
/* The bits |mask| of each half, exclusive or b. */
LS_INLINE lanes v_field_xor(lanes a, int mask, lanes b) {
    a = v_field(a, 0, mask);
    EACH a.v[i] ^= b.v[i];
    return a;
}
/* The halves of sixteen lanes, the low one first: compilers make vectors of loops over them. */
typedef struct half_lanes {
    uint16_t v[32];
} half_lanes;
LS_INLINE half_lanes halves_of(lanes a) {
    half_lanes r;
    memcpy(&r, &a, sizeof r);
    return r;
}
LS_INLINE lanes lanes_of(half_lanes a) {
    lanes r;
    memcpy(&r, &a, sizeof r);
    return r;
}
/* |value| in the halves whose fields, |bits| from bit |shift| on, are not 0. bits <= 5, and so in what follows. */
LS_INLINE lanes v_where(lanes a, int shift, int bits, int value) {
    half_lanes x = halves_of(v_field(a, shift, (1 << bits) - 1));
    for (int i = 0; i < 32; i++) x.v[i] = (uint16_t)(-(x.v[i] != 0) & value);
    return lanes_of(x);
}
/* 2^k of such fields, k one less than they are, or 0: compilers make no vectors of shifts by k. */
LS_INLINE half_lanes powers_of(lanes code, int shift, int bits) {
    half_lanes x = halves_of(v_field(code, shift, (1 << bits) - 1));
    for (int i = 0; i < 32; i++) {
        uint16_t k = (uint16_t)(x.v[i] - (x.v[i] != 0)), low = (uint16_t)((1 + (k & 1)) * (1 + (k >> 1 & 1) * 3));
        x.v[i] = (uint16_t)((uint32_t)low * (uint16_t)((1 + (k >> 2 & 1) * 15) * (1 + (k >> 3 & 1) * 255)));
    }
    return x;
}
/* Each half of |a| times 2^k of the fields of |code|: k <= 7, and the product fits; or k <= 15, the lower 16 bits to *low and those above returned, with
 * one more where the highest of *low is set. */
LS_INLINE lanes v_scaled(lanes a, lanes code, int shift, int bits) {
    half_lanes x = halves_of(a), p = powers_of(code, shift, bits);
    for (int i = 0; i < 32; i++) x.v[i] = (uint16_t)((uint32_t)x.v[i] * p.v[i]);
    return lanes_of(x);
}
LS_INLINE lanes v_scaled_wide(lanes a, lanes code, int shift, int bits, lanes *low) {
    half_lanes x = halves_of(a), p = powers_of(code, shift, bits), high;
    for (int i = 0; i < 32; i++) high.v[i] = (uint16_t)(((uint32_t)((int16_t)x.v[i] * p.v[i]) + 0x8000u) >> 16);
    for (int i = 0; i < 32; i++) x.v[i] = (uint16_t)((uint32_t)x.v[i] * p.v[i]);
    *low = lanes_of(x);
    return lanes_of(high);
}
LS_INLINE lanes v_shl(lanes a, int n) {
    EACH a.v[i] = (int32_t)((uint32_t)a.v[i] << n);
    return a;
}
LS_INLINE lanes v_sar(lanes a, int n) {
    EACH a.v[i] >>= n;
    return a;
}
/* Arithmetic right shift of each lane by the lane of |n|, 0 to 31. */
LS_INLINE lanes v_sar_each(lanes a, lanes n) {
    EACH a.v[i] >>= n.v[i];
    return a;
}
/* Logical right shift of each lane by the lane of |n|; 32 and more, which only damaged weights have, give 0. */
LS_INLINE lanes v_shr_each(lanes a, lanes n) {
    EACH a.v[i] = (uint32_t)n.v[i] < 32 ? (int32_t)((uint32_t)a.v[i] >> n.v[i]) : 0;
    return a;
}
/* table[index], for both halves; indices 0 to 15. */
LS_INLINE lanes v_lookup16(const uint8_t *table, lanes index) {
    EACH index.v[i] = halves(table[index.v[i] & 15], table[index.v[i] >> 16 & 15]);
    return index;
}
/* acc + low(w) * low(x) + high(w) * high(x), the halves signed. x is what v_pair gives, the same in every lane. */
LS_INLINE lanes v_dot(lanes acc, lanes w, lanes x) {
    EACH acc.v[i] = (int32_t)((uint32_t)acc.v[i] + (uint32_t)((int16_t)w.v[i] * (int16_t)x.v[i]) + (uint32_t)((w.v[i] >> 16) * (x.v[i] >> 16)));
    return acc;
}
/* The same with a pair in memory. */
LS_INLINE lanes v_dot_pair(lanes acc, lanes w, const int16_t *x) { return v_dot(acc, w, v_pair(x)); }
/* Largest of |m| and the bits of |x| without their sign. */
LS_INLINE lanes v_abs_max(lanes m, floats x) {
    EACH {
        int32_t b = (int32_t)(ls_bits(x.v[i]) & 0x7FFFFFFFu);
        if (b > m.v[i]) m.v[i] = b;
    }
    return m;
}
LS_INLINE int32_t v_max_across(lanes a) {
    int32_t m = a.v[0];
    EACH if (a.v[i] > m) m = a.v[i];
    return m;
}
/* The sums of four times sixteen lanes. */
LS_INLINE void v_sums_across(const lanes a[4], int32_t sum[4]) {
    for (int n = 0; n < 4; n++) {
        int32_t s = 0;
        EACH s += a[n].v[i];
        sum[n] = s;
    }
}
/* The sum of a[8i + 4] a[8i + 6] + a[8i + 5] a[8i + 7] of each of four, modulo 2^32; integers of at most 127 * 2^8. */
LS_INLINE void v_cross_across(const lanes a[4], int32_t cross[4]) {
    for (int n = 0; n < 4; n++) {
        uint32_t s = 0;
        for (int i = 4; i < 16; i += 8) s += (uint32_t)(a[n].v[i] * a[n].v[i + 2]) + (uint32_t)(a[n].v[i + 1] * a[n].v[i + 3]);
        cross[n] = (int32_t)s;
    }
}
/* The low halves as sixteen 16-bit integers. */
LS_INLINE void v_store16(int16_t *p, lanes a) { EACH p[i] = (int16_t)a.v[i]; }

LS_INLINE floats f_load(const void *p) {
    floats r;
    memcpy(&r, p, sizeof r);
    return r;
}
LS_INLINE floats f_set(float x) {
    floats r;
    EACH r.v[i] = x;
    return r;
}
LS_INLINE uint16_t load16(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return h;
}
/* Sixteen f16, bf16, signed bytes, or low (shift 0) or high (4) halves of bytes, as floats. */
LS_INLINE floats f_half(const uint8_t *p) {
    floats r;
    EACH r.v[i] = ls_f16_to_f32(load16(p + 2 * i));
    return r;
}
LS_INLINE floats f_bfloat(const uint8_t *p) {
    floats r;
    EACH r.v[i] = ls_bf16_to_f32(load16(p + 2 * i));
    return r;
}
/* 2^(p - 127) of sixteen bytes in [1, 254] */
LS_INLINE floats f_power(const uint8_t *p) {
    floats r;
    EACH r.v[i] = ls_pow2_biased(p[i]);
    return r;
}
LS_INLINE floats f_int8(const uint8_t *p) {
    floats r;
    EACH r.v[i] = (float)(int8_t)p[i];
    return r;
}
LS_INLINE floats f_nibble(const uint8_t *p, int shift) {
    floats r;
    EACH r.v[i] = (float)(p[i] >> shift & 15);
    return r;
}
LS_INLINE floats f_mul(floats a, floats b) {
    EACH a.v[i] *= b.v[i];
    return a;
}
LS_INLINE floats f_add(floats a, floats b) {
    EACH a.v[i] += b.v[i];
    return a;
}
/* To integers, nearest even. */
LS_INLINE lanes v_round(floats a) {
    lanes r;
    EACH r.v[i] = (int32_t)lrintf(a.v[i]);
    return r;
}
LS_INLINE floats f_canon(floats x) {
    EACH x.v[i] = ls_canon(x.v[i]);
    return x;
}
/* The first n floats, 1 to 16: the others load as 0 and are not written. */
LS_INLINE floats f_load_n(const float *p, int n) {
    floats r = {{0}};
    for (int i = 0; i < n; i++) r.v[i] = p[i];
    return r;
}
LS_INLINE void f_store_n(float *p, floats a, int n) {
    for (int i = 0; i < n; i++) p[i] = a.v[i];
}

LS_INLINE wide w_zero(void) {
    wide r;
    EACH r.v[i] = 0;
    return r;
}
/* acc + a * b */
LS_INLINE wide w_mul_add(wide acc, lanes a, lanes b) {
    EACH acc.v[i] += (int64_t)a.v[i] * b.v[i];
    return acc;
}
/* acc + a * b, the same a in every lane */
LS_INLINE wide w_mul_add_one(wide acc, int32_t a, lanes b) {
    EACH acc.v[i] += (int64_t)a * b.v[i];
    return acc;
}
/* part and the sum of rshift(a * b, 4), at most 512 such products with |a * b| < 127/128 * 2^54 + 2^23: what a part counts in is the level's own. Here,
 * and where shifting is dear, it is sixteenths: rshift(v, 4) * 16 is v + 8 without its last four bits. */
LS_INLINE wide w_mul_part(wide part, lanes a, lanes b) {
    EACH part.v[i] += ((int64_t)a.v[i] * b.v[i] + 8) & ~(int64_t)15;
    return part;
}
/* The same with the same a in every lane. */
LS_INLINE wide w_mul_part_one(wide part, int32_t a, lanes b) {
    EACH part.v[i] += ((int64_t)a * b.v[i] + 8) & ~(int64_t)15;
    return part;
}
/* acc and what the part has summed. */
LS_INLINE wide w_add_part(wide acc, wide part) {
    EACH acc.v[i] += part.v[i] >> 4;
    return acc;
}
/* acc + rshift(b, n) */
LS_INLINE wide w_add_shifted(wide acc, wide b, int n) {
    EACH acc.v[i] += ls_rshift(b.v[i], n);
    return acc;
}
/* To floats in row order, nearest even. */
LS_INLINE floats w_to_floats(const wide *w) {
    floats r;
    EACH r.v[i] = (float)w->v[i];
    return r;
}

#endif
