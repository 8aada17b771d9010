/* Sixteen 32-bit lanes in four NEON registers. lanes_c.h explains every operation. */
#ifndef LS_NATIVE_KERNELS_LANES_NEON_H
#define LS_NATIVE_KERNELS_LANES_NEON_H

#include <arm_neon.h>
#include <string.h>

#include "contract/exact.h"
#include "native/kernels/kernel.h"

/* Register blocking of the product: one tile (four registers) by 4 rows is half of the 32 registers. */
enum { V_TILES = 1, V_ROWS = 4, V_ROWS_WIDE = 2 };

#define V_DIRECT 0
#define V_ASSEMBLY 0
#define V_BODY LS_INLINE
#define V_UNROLL LS_UNROLL

typedef struct lanes {
    int32x4_t a, b, c, d;
} lanes;
typedef struct floats {
    float32x4_t a, b, c, d;
} floats;
typedef struct wide {
    int64x2_t a[2], b[2], c[2], d[2];
} wide;

/* As in lanes_avx512.h. */
#if defined(__GNUC__) && defined(__OPTIMIZE__) && !defined(LS_SANITIZED)
#define V_PIN_FOUR(a, b, c, d) __asm__("" : "+w"(a), "+w"(b), "+w"(c), "+w"(d))
#else
#define V_PIN_FOUR(a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#endif
#define V_PIN(x) V_PIN_FOUR((x).a, (x).b, (x).c, (x).d)

/* The same operation on each of the four registers of x, or of x and y. */
#define ONE(type, f) ((type){f(x.a), f(x.b), f(x.c), f(x.d)})
#define TWO(type, f) ((type){f(x.a, y.a), f(x.b, y.b), f(x.c, y.c), f(x.d, y.d)})

#define U32(x) vreinterpretq_u32_s32(x)
#define U16(x) vreinterpretq_u16_s32(x)
#define S16(x) vreinterpretq_s16_s32(x)

LS_INLINE lanes v_four(int32x4_t x) { return (lanes){x, x, x, x}; }
LS_INLINE int32x4_t load4(const void *p, int at) { return vreinterpretq_s32_u8(vld1q_u8((const uint8_t *)p + at)); }
LS_INLINE void store4(void *p, int at, int32x4_t x) { vst1q_u8((uint8_t *)p + at, vreinterpretq_u8_s32(x)); }
LS_INLINE lanes v_load(const void *p) { return (lanes){load4(p, 0), load4(p, 16), load4(p, 32), load4(p, 48)}; }
LS_INLINE void v_store(void *p, lanes x) {
    store4(p, 0, x.a);
    store4(p, 16, x.b);
    store4(p, 32, x.c);
    store4(p, 48, x.d);
}
LS_INLINE lanes v_set(int32_t x) { return v_four(vdupq_n_s32(x)); }
LS_INLINE lanes v_pair(const int16_t *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return v_set(x);
}
/* Four 16-bit integers each, widened. */
LS_INLINE lanes v_widen(uint16x8_t low, uint16x8_t high) {
    return (lanes){vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low))), vreinterpretq_s32_u32(vmovl_high_u16(low)),
                   vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high))), vreinterpretq_s32_u32(vmovl_high_u16(high))};
}
LS_INLINE lanes v_widen8(uint8x16_t x) { return v_widen(vmovl_u8(vget_low_u8(x)), vmovl_high_u8(x)); }
LS_INLINE lanes v_bytes(const uint8_t *p) { return v_widen8(vld1q_u8(p)); }
LS_INLINE lanes v_add(lanes x, lanes y) { return TWO(lanes, vaddq_s32); }
LS_INLINE lanes v_sub(lanes x, lanes y) { return TWO(lanes, vsubq_s32); }
LS_INLINE lanes v_or(lanes x, lanes y) { return TWO(lanes, vorrq_s32); }
LS_INLINE int32x4_t add16(int32x4_t x, int32x4_t y) { return vreinterpretq_s32_s16(vaddq_s16(S16(x), S16(y))); }
LS_INLINE lanes v_add16(lanes x, lanes y) { return TWO(lanes, add16); }
LS_INLINE int32x4_t sub16(int32x4_t x, int32x4_t y) { return vreinterpretq_s32_s16(vsubq_s16(S16(x), S16(y))); }
LS_INLINE lanes v_sub16(lanes x, lanes y) { return TWO(lanes, sub16); }
/* Shifts by a vector of equal counts, written as operators: a count that is constant becomes part of the instruction. */
LS_INLINE int32x4_t field4(int32x4_t x, int shift, int32x4_t mask) {
    return vandq_s32(vreinterpretq_s32_u32(U32(x) >> vdupq_n_u32((uint32_t)shift)), mask);
}
LS_INLINE lanes v_field(lanes x, int shift, int mask) {
    int32x4_t m = vdupq_n_s32((int32_t)((uint32_t)mask | (uint32_t)mask << 16));
    return (lanes){field4(x.a, shift, m), field4(x.b, shift, m), field4(x.c, shift, m), field4(x.d, shift, m)};
}
LS_INLINE lanes v_field_or(lanes x, int shift, int mask, lanes y) { return v_or(v_field(x, shift, mask), y); }
LS_INLINE int32x4_t shl16(int32x4_t x, int n) { return vreinterpretq_s32_u16(U16(x) << vdupq_n_u16((uint16_t)n)); }
LS_INLINE int32x4_t sar16(int32x4_t x, int n) { return vreinterpretq_s32_s16(S16(x) >> vdupq_n_s16((int16_t)n)); }
LS_INLINE int32x4_t shl32(int32x4_t x, int n) { return vreinterpretq_s32_u32(U32(x) << vdupq_n_u32((uint32_t)n)); }
LS_INLINE int32x4_t sar32(int32x4_t x, int n) { return x >> vdupq_n_s32(n); }
LS_INLINE lanes v_shl16(lanes x, int n) { return (lanes){shl16(x.a, n), shl16(x.b, n), shl16(x.c, n), shl16(x.d, n)}; }
LS_INLINE lanes v_sar16(lanes x, int n) { return (lanes){sar16(x.a, n), sar16(x.b, n), sar16(x.c, n), sar16(x.d, n)}; }
LS_INLINE lanes v_shl(lanes x, int n) { return (lanes){shl32(x.a, n), shl32(x.b, n), shl32(x.c, n), shl32(x.d, n)}; }
LS_INLINE lanes v_sar(lanes x, int n) { return (lanes){sar32(x.a, n), sar32(x.b, n), sar32(x.c, n), sar32(x.d, n)}; }
/* Shifts by registers go left, and right by negative counts, of which only the low byte counts. */
LS_INLINE int32x4_t sar_each(int32x4_t x, int32x4_t n) { return vshlq_s32(x, vnegq_s32(n)); }
LS_INLINE lanes v_sar_each(lanes x, lanes y) { return TWO(lanes, sar_each); }
LS_INLINE int32x4_t shr_each(int32x4_t x, int32x4_t n) {
    int32x4_t count = vreinterpretq_s32_u32(vminq_u32(U32(n), vdupq_n_u32(32)));
    return vreinterpretq_s32_u32(vshlq_u32(U32(x), vnegq_s32(count)));
}
LS_INLINE lanes v_shr_each(lanes x, lanes y) { return TWO(lanes, shr_each); }
LS_INLINE lanes v_field_xor(lanes x, int mask, lanes y) {
    x = v_field(x, 0, mask);
    return TWO(lanes, veorq_s32);
}
LS_INLINE int32x4_t less_one(int32x4_t x) { return vreinterpretq_s32_u16(vqsubq_u16(U16(x), vdupq_n_u16(1))); }
LS_INLINE lanes field_exponents(lanes code, int shift, int bits) {
    lanes x = v_field(code, shift, (1 << bits) - 1);
    return ONE(lanes, less_one);
}
/* As in v_sar_each; shifts to the right round. */
LS_INLINE int32x4_t scaled(int32x4_t x, int32x4_t k) { return vreinterpretq_s32_s16(vshlq_s16(S16(x), S16(k))); }
LS_INLINE int32x4_t scaled_high(int32x4_t x, int32x4_t k) {
    return vreinterpretq_s32_s16(vrshlq_s16(S16(x), vsubq_s16(S16(k), vdupq_n_s16(16))));
}
LS_INLINE lanes v_scaled(lanes x, lanes code, int shift, int bits) {
    lanes y = field_exponents(code, shift, bits);
    return TWO(lanes, scaled);
}
LS_INLINE lanes v_scaled_wide(lanes x, lanes code, int shift, int bits, lanes *low) {
    lanes y = field_exponents(code, shift, bits);
    *low = TWO(lanes, scaled);
    return TWO(lanes, scaled_high);
}
LS_INLINE int32x4_t where4(int32x4_t x, int32x4_t value) { return vandq_s32(vreinterpretq_s32_u16(vtstq_u16(U16(x), U16(x))), value); }
LS_INLINE lanes v_where(lanes a, int shift, int bits, int value) {
    lanes x = v_field(a, shift, (1 << bits) - 1), y = v_set(value | value << 16);
    return TWO(lanes, where4);
}
LS_INLINE int32x4_t lookup4(uint8x16_t table, int32x4_t x) {
    return vandq_s32(vreinterpretq_s32_u8(vqtbl1q_u8(table, vreinterpretq_u8_s32(x))), vdupq_n_s32(0x00FF00FF));
}
LS_INLINE lanes v_lookup16(const uint8_t *table, lanes x) {
    uint8x16_t t = vld1q_u8(table);
    return (lanes){lookup4(t, x.a), lookup4(t, x.b), lookup4(t, x.c), lookup4(t, x.d)};
}
/* Low halves of eight rows side by side, then high halves, so that products by one half of |x| add to their rows at once. Rows of
 * activations share the rearranged weights. */
LS_INLINE void dot8(int32x4_t *first, int32x4_t *second, int32x4_t w0, int32x4_t w1, int16x8_t x) {
    int16x8_t low = vuzp1q_s16(S16(w0), S16(w1)), high = vuzp2q_s16(S16(w0), S16(w1));
    *first = vmlal_laneq_s16(vmlal_laneq_s16(*first, vget_low_s16(low), x, 0), vget_low_s16(high), x, 1);
    *second = vmlal_high_laneq_s16(vmlal_high_laneq_s16(*second, low, x, 0), high, x, 1);
}
LS_INLINE lanes v_dot(lanes acc, lanes w, lanes x) {
    dot8(&acc.a, &acc.b, w.a, w.b, S16(x.a));
    dot8(&acc.c, &acc.d, w.c, w.d, S16(x.a));
    return acc;
}
LS_INLINE lanes v_dot_pair(lanes acc, lanes w, const int16_t *x) { return v_dot(acc, w, v_pair(x)); }
LS_INLINE int32x4_t abs_max(int32x4_t m, float32x4_t x) { return vmaxq_s32(m, vreinterpretq_s32_f32(vabsq_f32(x))); }
LS_INLINE lanes v_abs_max(lanes x, floats y) { return TWO(lanes, abs_max); }
LS_INLINE int32_t v_max_across(lanes x) { return vmaxvq_s32(vmaxq_s32(vmaxq_s32(x.a, x.b), vmaxq_s32(x.c, x.d))); }
LS_INLINE int32x4_t sum4(lanes x) { return vaddq_s32(vaddq_s32(x.a, x.b), vaddq_s32(x.c, x.d)); }
LS_INLINE void v_sums_across(const lanes x[4], int32_t sum[4]) {
    vst1q_s32(sum, vpaddq_s32(vpaddq_s32(sum4(x[0]), sum4(x[1])), vpaddq_s32(sum4(x[2]), sum4(x[3]))));
}
LS_INLINE int32x2_t cross2(int32x4_t x) { return vmul_s32(vget_low_s32(x), vget_high_s32(x)); }
LS_INLINE void v_cross_across(const lanes x[4], int32_t cross[4]) {
    for (int i = 0; i < 4; i++) cross[i] = vaddv_s32(vadd_s32(cross2(x[i].b), cross2(x[i].d)));
}
LS_INLINE void v_store16(int16_t *p, lanes x) {
    vst1q_s16(p, vmovn_high_s32(vmovn_s32(x.a), x.b));
    vst1q_s16(p + 8, vmovn_high_s32(vmovn_s32(x.c), x.d));
}

LS_INLINE floats f_four(float32x4_t x) { return (floats){x, x, x, x}; }
LS_INLINE floats f_of_bits(lanes x) { return ONE(floats, vreinterpretq_f32_s32); }
LS_INLINE floats f_of_ints(lanes x) { return ONE(floats, vcvtq_f32_s32); }
LS_INLINE floats f_load(const void *p) { return f_of_bits(v_load(p)); }
LS_INLINE floats f_set(float x) { return f_four(vdupq_n_f32(x)); }
LS_INLINE uint16x8_t load8(const uint8_t *p) { return vreinterpretq_u16_u8(vld1q_u8(p)); }
LS_INLINE floats f_half(const uint8_t *p) {
    float16x8_t low = vreinterpretq_f16_u16(load8(p)), high = vreinterpretq_f16_u16(load8(p + 16));
    return (floats){vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)), vcvt_high_f32_f16(high)};
}
LS_INLINE floats f_bfloat(const uint8_t *p) { return f_of_bits(v_shl(v_widen(load8(p), load8(p + 16)), 16)); }
LS_INLINE floats f_power(const uint8_t *p) { return f_of_bits(v_shl(v_bytes(p), 23)); }
LS_INLINE floats f_int8(const uint8_t *p) {
    int8x16_t x = vld1q_s8((const int8_t *)p);
    int16x8_t low = vmovl_s8(vget_low_s8(x)), high = vmovl_high_s8(x);
    return f_of_ints((lanes){vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)});
}
LS_INLINE floats f_nibble(const uint8_t *p, int shift) {
    uint8x16_t x = vld1q_u8(p);
    return f_of_ints(v_widen8(shift ? vshrq_n_u8(x, 4) : vandq_u8(x, vdupq_n_u8(15))));
}
LS_INLINE floats f_mul(floats x, floats y) { return TWO(floats, vmulq_f32); }
LS_INLINE floats f_add(floats x, floats y) { return TWO(floats, vaddq_f32); }
LS_INLINE lanes v_round(floats x) { return ONE(lanes, vcvtnq_s32_f32); }
LS_INLINE float32x4_t canon4(float32x4_t x) {
    uint32x4_t large = vcageq_f32(x, vdupq_n_f32(0x1p-100f));
    float32x4_t clamped = vminq_f32(vmaxq_f32(x, vdupq_n_f32(-0x1p100f)), vdupq_n_f32(0x1p100f));
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(clamped), large));
}
LS_INLINE floats f_canon(floats x) { return ONE(floats, canon4); }
LS_INLINE floats f_load_n(const float *p, int n) {
    float all[16] = {0};
    if (n == 16) return f_load(p);
    memcpy(all, p, (size_t)n * sizeof *p);
    return f_load(all);
}
LS_INLINE void f_store_n(float *p, floats x, int n) {
    float all[16];
    vst1q_f32(all, x.a);
    vst1q_f32(all + 4, x.b);
    vst1q_f32(all + 8, x.c);
    vst1q_f32(all + 12, x.d);
    memcpy(p, all, (size_t)n * sizeof *p);
}

LS_INLINE wide w_zero(void) {
    int64x2_t z = vdupq_n_s64(0);
    return (wide){{z, z}, {z, z}, {z, z}, {z, z}};
}
LS_INLINE void mul_add4(int64x2_t acc[2], int32x4_t x, int32x4_t y) {
    acc[0] = vmlal_s32(acc[0], vget_low_s32(x), vget_low_s32(y));
    acc[1] = vmlal_high_s32(acc[1], x, y);
}
LS_INLINE wide w_mul_add(wide acc, lanes x, lanes y) {
    mul_add4(acc.a, x.a, y.a);
    mul_add4(acc.b, x.b, y.b);
    mul_add4(acc.c, x.c, y.c);
    mul_add4(acc.d, x.d, y.d);
    return acc;
}
LS_INLINE wide w_mul_add_one(wide acc, int32_t x, lanes y) { return w_mul_add(acc, v_set(x), y); }
LS_INLINE void mul_shift_add4(int64x2_t acc[2], int32x4_t x, int32x4_t y) {
    acc[0] = vrsraq_n_s64(acc[0], vmull_s32(vget_low_s32(x), vget_low_s32(y)), 4);
    acc[1] = vrsraq_n_s64(acc[1], vmull_high_s32(x, y), 4);
}
/* The shift comes with the addition, so parts are sums of what is shifted. */
LS_INLINE wide w_mul_part(wide part, lanes x, lanes y) {
    mul_shift_add4(part.a, x.a, y.a);
    mul_shift_add4(part.b, x.b, y.b);
    mul_shift_add4(part.c, x.c, y.c);
    mul_shift_add4(part.d, x.d, y.d);
    return part;
}
LS_INLINE wide w_mul_part_one(wide part, int32_t x, lanes y) { return w_mul_part(part, v_set(x), y); }
LS_INLINE wide w_add_part(wide acc, wide part) {
    for (int i = 0; i < 2; i++) {
        acc.a[i] = vaddq_s64(acc.a[i], part.a[i]);
        acc.b[i] = vaddq_s64(acc.b[i], part.b[i]);
        acc.c[i] = vaddq_s64(acc.c[i], part.c[i]);
        acc.d[i] = vaddq_s64(acc.d[i], part.d[i]);
    }
    return acc;
}
LS_INLINE void add_shifted4(int64x2_t acc[2], const int64x2_t x[2], int64x2_t n) {
    acc[0] = vaddq_s64(acc[0], vrshlq_s64(x[0], n));
    acc[1] = vaddq_s64(acc[1], vrshlq_s64(x[1], n));
}
LS_INLINE wide w_add_shifted(wide acc, wide x, int n) {
    int64x2_t right = vdupq_n_s64(-n);
    add_shifted4(acc.a, x.a, right);
    add_shifted4(acc.b, x.b, right);
    add_shifted4(acc.c, x.c, right);
    add_shifted4(acc.d, x.d, right);
    return acc;
}
/* Vectors convert to f64 only, which would round twice; scalars round once. */
LS_INLINE floats w_to_floats(const wide *w) {
    int64_t v[16];
    float f[16];
    memcpy(v, w, sizeof v);
    for (int i = 0; i < 16; i++) f[i] = (float)v[i];
    return f_load(f);
}

#undef ONE
#undef TWO
#undef U32
#undef U16
#undef S16

#endif
