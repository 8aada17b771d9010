/* The vector vocabulary of the kernels in plain C: W lanes of 32 bits, as float (vf) or integer (vi, two's complement with
 * wrap-around), and W lanes of 64 bits (vq). This file is the definition; the other levels give the same lanes by
 * intrinsics. Loads and stores with _n touch n <= W lanes and load zeros into the others. */
#ifndef LS_NATIVE_OPS_VEC_C_H
#define LS_NATIVE_OPS_VEC_C_H

#include "contract/exact.h"

enum { W = 8, TILE_Q = 1 };

typedef struct vf {
    float v[W];
} vf;
typedef struct vi {
    uint32_t v[W];
} vi;
typedef struct vq {
    uint64_t v[W];
} vq;

/* Defines |result| function |name| whose lane i is |expr|. */
#define LANES(result, name, params, expr)                \
    static inline result name params {                   \
        result r;                                        \
        for (int i = 0; i < W; i++) r.v[i] = (expr);     \
        return r;                                        \
    }

static inline int32_t lane(vi a, int i) { return (int32_t)a.v[i]; }
static inline int64_t lane64(vq a, int i) { return (int64_t)a.v[i]; }

LANES(vf, vf_load, (const float *p), p[i])
LANES(vf, vf_load_n, (const float *p, int64_t n), i < n ? p[i] : 0.0f)
static inline void vf_store(float *p, vf a) { memcpy(p, a.v, sizeof a.v); }
static inline void vf_store_n(float *p, vf a, int64_t n) { memcpy(p, a.v, (size_t)n * sizeof *p); }
LANES(vf, vf_set, (float x), x)
LANES(vf, vf_add, (vf a, vf b), a.v[i] + b.v[i])
LANES(vf, vf_sub, (vf a, vf b), a.v[i] - b.v[i])
LANES(vf, vf_mul, (vf a, vf b), a.v[i] * b.v[i])
LANES(vf, vf_min, (vf a, vf b), a.v[i] < b.v[i] ? a.v[i] : b.v[i])
LANES(vf, vf_max, (vf a, vf b), a.v[i] > b.v[i] ? a.v[i] : b.v[i])
LANES(vf, vf_abs, (vf a), fabsf(a.v[i]))
LANES(vi, vf_bits, (vf a), ls_bits(a.v[i]))
LANES(vf, vi_as_float, (vi a), ls_from_bits(a.v[i]))
LANES(vi, vf_round, (vf a), (uint32_t)llrintf(a.v[i])) /* to nearest even; up to 2^31 inclusive */
LANES(vf, vf_if_negative, (vf sign, vf yes, vf no), signbit(sign.v[i]) ? yes.v[i] : no.v[i])
LANES(vf, vf_canon, (vf a), ls_canon(a.v[i]))

static inline vi vi_load(const void *p) {
    vi r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}
static inline vi vi_load_n(const void *p, int64_t n) {
    vi r = {{0}};
    memcpy(r.v, p, (size_t)n * sizeof r.v[0]);
    return r;
}
static inline void vi_store(void *p, vi a) { memcpy(p, a.v, sizeof a.v); }
static inline void vi_store_n(void *p, vi a, int64_t n) { memcpy(p, a.v, (size_t)n * sizeof a.v[0]); }
static inline void vi_store16(int16_t *p, vi a) { /* lanes within int16 */
    for (int i = 0; i < W; i++) p[i] = (int16_t)lane(a, i);
}
LANES(vi, vi_load8, (const uint8_t *p), p[i])
/* Two int8 side by side become the two int16 of a lane. */
LANES(vi, vi_load_pairs8, (const int8_t *p), (uint32_t)(uint16_t)(int16_t)p[2 * i] | (uint32_t)(uint16_t)(int16_t)p[2 * i + 1] << 16)
/* n <= W / 2 values, each in two neighbouring lanes. */
LANES(vi, vi_load_twice, (const int32_t *p, int64_t n), i / 2 < n ? (uint32_t)p[i / 2] : 0)
LANES(vi, vi_set, (int32_t x), (uint32_t)x)
LANES(vi, vi_add, (vi a, vi b), a.v[i] + b.v[i])
LANES(vi, vi_sub, (vi a, vi b), a.v[i] - b.v[i])
LANES(vi, vi_and, (vi a, vi b), a.v[i] & b.v[i])
LANES(vi, vi_max, (vi a, vi b), lane(a, i) > lane(b, i) ? a.v[i] : b.v[i]) /* signed */
LANES(vi, vi_min, (vi a, vi b), lane(a, i) < lane(b, i) ? a.v[i] : b.v[i])
LANES(vi, vi_sll, (vi a, int n), a.v[i] << n)
LANES(vi, vi_srl, (vi a, int n), a.v[i] >> n)
LANES(vi, vi_sra, (vi a, int n), (uint32_t)(lane(a, i) >> n))
LANES(vi, vi_srlv, (vi a, vi n), n.v[i] > 31 ? 0 : a.v[i] >> n.v[i]) /* n unsigned */
LANES(vi, vi_swap_pairs, (vi a), a.v[i ^ 1])
LANES(vf, vi_float, (vi a), (float)lane(a, i))
LANES(vf, vi_float_unsigned, (vi a), (float)a.v[i])

static inline uint32_t dot_pair(uint32_t a, uint32_t b) {
    int32_t low = (int32_t)(int16_t)a * (int16_t)b, high = (int32_t)(int16_t)(a >> 16) * (int16_t)(b >> 16);
    return (uint32_t)low + (uint32_t)high;
}
/* The low halves of the products of the two int16 in each lane. */
LANES(vi, vi_mul16, (vi a, vi b), (uint32_t)(uint16_t)(a.v[i] * b.v[i]) | ((a.v[i] >> 16) * (b.v[i] >> 16)) << 16)
/* acc + a * b; both fit an int16, and b is not negative. */
LANES(vi, vi_mac16, (vi acc, vi a, vi b), acc.v[i] + a.v[i] * b.v[i])
/* acc + the dot product of the two int16 in each lane. All lanes of b are equal. */
LANES(vi, vi_dot16, (vi acc, vi a, vi b), acc.v[i] + dot_pair(a.v[i], b.v[i]))

static inline int32_t vi_largest(vi a) {
    int32_t m = lane(a, 0);
    for (int i = 1; i < W; i++) m = lane(a, i) > m ? lane(a, i) : m;
    return m;
}
static inline int32_t vi_sum(vi a) {
    uint32_t s = 0;
    for (int i = 0; i < W; i++) s += a.v[i];
    return (int32_t)s;
}

/* Products of unsigned lanes: the high half, and (a * b + add) >> n for n <= 32, both low 32 bits; then of signed lanes. */
LANES(vi, vi_mulhi, (vi a, vi b), (uint32_t)((uint64_t)a.v[i] * b.v[i] >> 32))
LANES(vi, vi_mul_shift, (vi a, vi b, uint64_t add, int n), (uint32_t)(((uint64_t)a.v[i] * b.v[i] + add) >> n))
LANES(vi, vi_mul_shift_signed, (vi a, vi b, int n), (uint32_t)((int64_t)lane(a, i) * lane(b, i) >> n))

LANES(vq, vi_mul_wide, (vi a, vi b), (uint64_t)((int64_t)lane(a, i) * lane(b, i)))
LANES(vq, vq_add, (vq a, vq b), a.v[i] + b.v[i])
LANES(vq, vq_sub, (vq a, vq b), a.v[i] - b.v[i])
/* a - b in even lanes, a + b in odd ones. */
LANES(vq, vq_sub_add, (vq a, vq b), i & 1 ? a.v[i] + b.v[i] : a.v[i] - b.v[i])
LANES(vq, vq_mac, (vq acc, vi a, int32_t b), acc.v[i] + (uint64_t)((int64_t)lane(a, i) * b))
static inline vq vq_zero(void) { return (vq){{0}}; }
static inline int64_t vq_sum(vq a) {
    uint64_t s = 0;
    for (int i = 0; i < W; i++) s += a.v[i];
    return (int64_t)s;
}
static inline void vq_store(int64_t *p, vq a) { memcpy(p, a.v, sizeof a.v); }
LANES(vf, vq_float, (vq a), (float)lane64(a, i)) /* one rounding, to nearest even */

#undef LANES

#endif
