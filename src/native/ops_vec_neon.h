/* Vector vocabulary of the NEON level: 4 lanes of 32 bits. See ops_vec_c.h for the meanings. */
#ifndef LS_NATIVE_OPS_VEC_NEON_H
#define LS_NATIVE_OPS_VEC_NEON_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

enum { W = 4, TILE_Q = 4 };

typedef float32x4_t vf;
typedef int32x4_t vi;
typedef struct vq {
    int64x2_t low, high;
} vq;

static inline uint32x4_t as_unsigned(vi a) { return vreinterpretq_u32_s32(a); }
static inline vi as_signed(uint32x4_t a) { return vreinterpretq_s32_u32(a); }

static inline vf vf_load(const float *p) { return vld1q_f32(p); }
static inline vf vf_load_n(const float *p, int64_t n) {
    float v[W] = {0};
    memcpy(v, p, (size_t)n * sizeof *p);
    return vld1q_f32(v);
}
static inline void vf_store(float *p, vf a) { vst1q_f32(p, a); }
static inline void vf_store_n(float *p, vf a, int64_t n) {
    float v[W];
    vst1q_f32(v, a);
    memcpy(p, v, (size_t)n * sizeof *p);
}
static inline vf vf_set(float x) { return vdupq_n_f32(x); }
static inline vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
/* The instructions for these order zeros and pass NaN on, which the definition does not. */
static inline vf vf_min(vf a, vf b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
static inline vf vf_max(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline vf vf_abs(vf a) { return vabsq_f32(a); }
static inline vi vf_bits(vf a) { return vreinterpretq_s32_f32(a); }
static inline vf vi_as_float(vi a) { return vreinterpretq_f32_s32(a); }
/* The conversion stops at 2^31 - 1, so 2^31 gets the missing one. */
static inline vi vf_round(vf a) { return vsubq_s32(vcvtnq_s32_f32(a), as_signed(vcgeq_f32(a, vdupq_n_f32(0x1p31f)))); }
static inline vf vf_if_negative(vf sign, vf yes, vf no) { return vbslq_f32(vcltzq_s32(vf_bits(sign)), yes, no); }

static inline vf vf_canon(vf x) {
    uint32x4_t keep = vcageq_f32(x, vdupq_n_f32(0x1p-100f));
    vf kept = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), keep));
    return vmaxq_f32(vminq_f32(kept, vdupq_n_f32(0x1p100f)), vdupq_n_f32(-0x1p100f));
}

static inline vi vi_load(const void *p) { return vreinterpretq_s32_u8(vld1q_u8(p)); }
static inline vi vi_load_n(const void *p, int64_t n) {
    int32_t v[W] = {0};
    memcpy(v, p, (size_t)n * sizeof *v);
    return vld1q_s32(v);
}
static inline void vi_store(void *p, vi a) { vst1q_u8(p, vreinterpretq_u8_s32(a)); }
static inline void vi_store_n(void *p, vi a, int64_t n) {
    int32_t v[W];
    vst1q_s32(v, a);
    memcpy(p, v, (size_t)n * sizeof *v);
}
static inline void vi_store16(int16_t *p, vi a) { vst1_s16(p, vmovn_s32(a)); }
static inline vi vi_mul16(vi a, vi b) { return vreinterpretq_s32_s16(vmulq_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b))); }
static inline vi vi_mac16(vi acc, vi a, vi b) { return vmlaq_s32(acc, a, b); }
static inline vi vi_load_pairs8(const int8_t *p) { return vreinterpretq_s32_s16(vmovl_s8(vld1_s8(p))); }
static inline vi vi_load8(const uint8_t *p) {
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return as_signed(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four))))));
}
static inline vi vi_load_twice(const int32_t *p, int64_t n) {
    int32_t v[2] = {n > 0 ? p[0] : 0, n > 1 ? p[1] : 0};
    int32x2_t a = vld1_s32(v);
    return vcombine_s32(vdup_lane_s32(a, 0), vdup_lane_s32(a, 1));
}
static inline vi vi_set(int32_t x) { return vdupq_n_s32(x); }
static inline vi vi_add(vi a, vi b) { return vaddq_s32(a, b); }
static inline vi vi_sub(vi a, vi b) { return vsubq_s32(a, b); }
static inline vi vi_and(vi a, vi b) { return vandq_s32(a, b); }
static inline vi vi_max(vi a, vi b) { return vmaxq_s32(a, b); }
static inline vi vi_min(vi a, vi b) { return vminq_s32(a, b); }
/* Shifts by a vector of equal counts, written as operators: a count that is constant becomes part of the instruction. */
static inline vi vi_sll(vi a, int n) { return as_signed(as_unsigned(a) << vdupq_n_u32((uint32_t)n)); }
static inline vi vi_srl(vi a, int n) { return as_signed(as_unsigned(a) >> vdupq_n_u32((uint32_t)n)); }
static inline vi vi_sra(vi a, int n) { return a >> vdupq_n_s32(n); }
/* A shift by a register goes right by a negative count, of which only the low byte counts. */
static inline vi vi_srlv(vi a, vi n) { return as_signed(vshlq_u32(as_unsigned(a), vnegq_s32(as_signed(vminq_u32(as_unsigned(n), vdupq_n_u32(32)))))); }
static inline vi vi_swap_pairs(vi a) { return vrev64q_s32(a); }
static inline vf vi_float(vi a) { return vcvtq_f32_s32(a); }
static inline vf vi_float_unsigned(vi a) { return vcvtq_f32_u32(as_unsigned(a)); }
/* The halves of |a| are taken apart once for all |b|, whose lanes are equal. */
static inline vi vi_dot16(vi acc, vi a, vi b) {
    int16x8_t x = vreinterpretq_s16_s32(b);
    return vmlal_laneq_s16(vmlal_laneq_s16(acc, vmovn_s32(a), x, 0), vshrn_n_s32(a, 16), x, 1);
}
static inline int32_t vi_largest(vi a) { return vmaxvq_s32(a); }
static inline int32_t vi_sum(vi a) { return vaddvq_s32(a); }

static inline uint64x2_t mul_low(vi a, vi b) { return vmull_u32(vget_low_u32(as_unsigned(a)), vget_low_u32(as_unsigned(b))); }
static inline uint64x2_t mul_high(vi a, vi b) { return vmull_high_u32(as_unsigned(a), as_unsigned(b)); }
static inline vi vi_mulhi(vi a, vi b) {
    return as_signed(vuzp2q_u32(vreinterpretq_u32_u64(mul_low(a, b)), vreinterpretq_u32_u64(mul_high(a, b))));
}
static inline vi vi_mul_shift(vi a, vi b, uint64_t add, int n) {
    uint64x2_t r = vdupq_n_u64(add), count = vdupq_n_u64((uint64_t)n);
    uint64x2_t low = vaddq_u64(mul_low(a, b), r) >> count, high = vaddq_u64(mul_high(a, b), r) >> count;
    return as_signed(vuzp1q_u32(vreinterpretq_u32_u64(low), vreinterpretq_u32_u64(high)));
}

static inline vq vi_mul_wide(vi a, vi b) { return (vq){vmull_s32(vget_low_s32(a), vget_low_s32(b)), vmull_high_s32(a, b)}; }
static inline vi vi_mul_shift_signed(vi a, vi b, int n) {
    vq v = vi_mul_wide(a, b);
    int64x2_t count = vdupq_n_s64(n);
    return vuzp1q_s32(vreinterpretq_s32_s64(v.low >> count), vreinterpretq_s32_s64(v.high >> count));
}
static inline vq vq_zero(void) { return (vq){vdupq_n_s64(0), vdupq_n_s64(0)}; }
static inline vq vq_add(vq a, vq b) { return (vq){vaddq_s64(a.low, b.low), vaddq_s64(a.high, b.high)}; }
static inline vq vq_sub(vq a, vq b) { return (vq){vsubq_s64(a.low, b.low), vsubq_s64(a.high, b.high)}; }
static inline int64x2_t sub_add(int64x2_t a, int64x2_t b) { return vcombine_s64(vget_low_s64(vsubq_s64(a, b)), vget_high_s64(vaddq_s64(a, b))); }
static inline vq vq_sub_add(vq a, vq b) { return (vq){sub_add(a.low, b.low), sub_add(a.high, b.high)}; }
static inline vq vq_mac(vq acc, vi a, int32_t b) { return (vq){vmlal_n_s32(acc.low, vget_low_s32(a), b), vmlal_high_n_s32(acc.high, a, b)}; }
static inline void vq_store(int64_t *p, vq a) {
    vst1q_s64(p, a.low);
    vst1q_s64(p + 2, a.high);
}
static inline int64_t vq_sum(vq a) { return vaddvq_s64(vaddq_s64(a.low, a.high)); }
/* Vectors convert to f64 only, which would round twice; scalars round once. */
static inline vf vq_float(vq a) {
    int64_t v[W];
    float f[W];
    vq_store(v, a);
    for (int i = 0; i < W; i++) f[i] = (float)v[i];
    return vld1q_f32(f);
}

#endif
