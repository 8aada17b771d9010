/* The vocabulary of linear_body.h in portable C: 16 lanes are an array. Compilers vectorise the loops as they can. */
#include "contract/exact.h"

typedef struct v {
    int32_t x[16];
} v;
typedef struct vf {
    float x[16];
} vf;
typedef struct q {
    int64_t x[16];
} q;

#define LANES for (int i = 0; i < 16; i++)
#define V_BINARY(name, expr)        \
    LS_INLINE v name(v a, v b) {    \
        LANES a.x[i] = (expr);      \
        return a;                   \
    }
#define V_SHIFT(name, expr)         \
    LS_INLINE v name(v a, int n) {  \
        LANES a.x[i] = (expr);      \
        return a;                   \
    }

LS_INLINE v v_load(const void *p) {
    v a;
    memcpy(a.x, p, sizeof a.x);
    return a;
}
LS_INLINE void v_store(void *p, v a) { memcpy(p, a.x, sizeof a.x); }
LS_INLINE v v_set(int32_t s) {
    v a;
    LANES a.x[i] = s;
    return a;
}
V_BINARY(v_add, (int32_t)((uint32_t)a.x[i] + (uint32_t)b.x[i]))
V_BINARY(v_sub, (int32_t)((uint32_t)a.x[i] - (uint32_t)b.x[i]))
V_BINARY(v_and, a.x[i] & b.x[i])
V_BINARY(v_or, a.x[i] | b.x[i])
V_BINARY(v_max, a.x[i] > b.x[i] ? a.x[i] : b.x[i])
V_SHIFT(v_srl, (int32_t)((uint32_t)a.x[i] >> n))
V_SHIFT(v_sll, (int32_t)((uint32_t)a.x[i] << n))
V_SHIFT(v_sra, a.x[i] >> n)

/* The two 16-bit halves of a lane. */
LS_INLINE int32_t low_of(int32_t a) { return (int16_t)(uint16_t)((uint32_t)a & 0xFFFFu); }
LS_INLINE int32_t high_of(int32_t a) { return a >> 16; }
LS_INLINE int32_t join(uint32_t low, uint32_t high) { return (int32_t)((low & 0xFFFFu) | high << 16); }
V_SHIFT(v_half_sll, join((uint32_t)a.x[i] << n, ((uint32_t)a.x[i] >> 16) << n))
V_SHIFT(v_half_srl, join(((uint32_t)a.x[i] & 0xFFFFu) >> n, ((uint32_t)a.x[i] >> 16) >> n))
V_SHIFT(v_half_sra, join((uint32_t)(low_of(a.x[i]) >> n), (uint32_t)(high_of(a.x[i]) >> n)))
V_BINARY(v_half_sub, join((uint32_t)a.x[i] - (uint32_t)b.x[i], ((uint32_t)a.x[i] >> 16) - ((uint32_t)b.x[i] >> 16)))

LS_INLINE v v_dot(v acc, v a, v b) {
    LANES acc.x[i] += low_of(a.x[i]) * low_of(b.x[i]) + high_of(a.x[i]) * high_of(b.x[i]);
    return acc;
}
LS_INLINE v v_codebook(v index, const uint8_t table[16]) {
    LANES index.x[i] = join(table[index.x[i] & 15], table[index.x[i] >> 16 & 15]);
    return index;
}
LS_INLINE int32_t v_largest(v a) {
    int32_t best = a.x[0];
    LANES best = a.x[i] > best ? a.x[i] : best;
    return best;
}
LS_INLINE int32_t v_sum(v a) {
    int32_t sum = 0;
    LANES sum += a.x[i];
    return sum;
}
LS_INLINE void v_store_i16(int16_t *p, v a) { LANES p[i] = (int16_t)a.x[i]; }
/* 2^23 >> drop of 16 bytes. */
LS_INLINE v v_from_drop(const uint8_t *p) {
    v a;
    LANES a.x[i] = p[i] > 23 ? 0 : (1 << 23) >> p[i];
    return a;
}

LS_INLINE vf vf_load(const void *p) {
    vf a;
    memcpy(a.x, p, sizeof a.x);
    return a;
}
LS_INLINE vf vf_set(float s) {
    vf a;
    LANES a.x[i] = s;
    return a;
}
LS_INLINE vf vf_mul(vf a, vf b) {
    LANES a.x[i] *= b.x[i];
    return a;
}
LS_INLINE vf vf_add(vf a, vf b) {
    LANES a.x[i] += b.x[i];
    return a;
}
LS_INLINE vf vf_canon(vf a) {
    LANES a.x[i] = ls_canon(a.x[i]);
    return a;
}
LS_INLINE v vf_bits(vf a) {
    v b;
    memcpy(b.x, a.x, sizeof b.x);
    return b;
}
LS_INLINE v vf_round(vf a) {
    v b;
    LANES b.x[i] = (int32_t)lrintf(a.x[i]);
    return b;
}
LS_INLINE uint16_t half_at(const void *p, int i) {
    uint16_t h;
    memcpy(&h, (const uint8_t *)p + 2 * i, sizeof h);
    return h;
}
LS_INLINE vf vf_from_f16(const void *p) {
    vf a;
    LANES a.x[i] = ls_f16_to_f32(half_at(p, i));
    return a;
}
LS_INLINE vf vf_from_bf16(const void *p) {
    vf a;
    LANES a.x[i] = ls_bf16_to_f32(half_at(p, i));
    return a;
}
LS_INLINE vf vf_from_i8(const void *p) {
    vf a;
    LANES a.x[i] = (float)((const int8_t *)p)[i];
    return a;
}
LS_INLINE vf vf_from_nibble(const void *p, int shift) {
    vf a;
    LANES a.x[i] = (float)(((const uint8_t *)p)[i] >> shift & 15);
    return a;
}
LS_INLINE vf vf_load_n(const float *p, int n) {
    vf a = {{0}};
    memcpy(a.x, p, (size_t)n * sizeof *p);
    return a;
}
LS_INLINE void vf_store_n(float *p, vf a, int n) { memcpy(p, a.x, (size_t)n * sizeof *p); }

LS_INLINE q q_zero(void) { return (q){{0}}; }
LS_INLINE q q_load(const int64_t *p) {
    q a;
    memcpy(a.x, p, sizeof a.x);
    return a;
}
LS_INLINE void q_store(int64_t *p, q a) { memcpy(p, a.x, sizeof a.x); }
LS_INLINE q q_mac(q acc, v a, v b) {
    LANES acc.x[i] += (int64_t)a.x[i] * b.x[i];
    return acc;
}
LS_INLINE q q_mac4(q acc, v a, v b) {
    LANES acc.x[i] += ((int64_t)a.x[i] * b.x[i] + 8) >> 4;
    return acc;
}
LS_INLINE q q_add_rshift(q a, q b, int n) {
    LANES a.x[i] += ls_rshift(b.x[i], n);
    return a;
}
LS_INLINE vf q_to_float(q a) {
    vf f;
    LANES f.x[i] = (float)a.x[i];
    return f;
}
#undef V_BINARY
#undef V_SHIFT
