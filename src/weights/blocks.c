/* GGUF block formats as integers with scales: one short decoder per format.
 *
 * Every decoder takes one block and gives its integers (unsigned, still offset by the format's zero), its scales and,
 * for affine formats, its minima. Products of stored factors are exact in f32: an f16 has 11 significant bits, the
 * integer scales have at most 8. The layouts are those of the GGUF block types, byte by byte. */
#include "weights/checkpoint.h"

typedef void decode_fn(const uint8_t *b, uint8_t *q, float *scale, float *min);

static float half_at(const uint8_t *p) { return ls_f16_to_f32(ls_load_u16(p)); }

/* 32 nibbles: weight i is the low half of byte i, weight 16 + i its high half. */
static void nibbles32(const uint8_t *restrict p, uint8_t *restrict q) {
    for (int i = 0; i < 16; i++) {
        q[i] = p[i] & 15;
        q[16 + i] = p[i] >> 4;
    }
}

/* 32 signed bytes, two's complement, + 128. */
static void offset32(const uint8_t *restrict p, uint8_t *restrict q) {
    for (int i = 0; i < 32; i++) q[i] = p[i] ^ 128;
}

/* Bit i of |high| becomes bit 4 of weight i. */
static void add_fifth_bits(uint32_t high, uint8_t *q) {
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)(q[i] | (high >> i & 1) << 4);
}

/* f16 d, 16 bytes of nibbles. */
static void decode_q4_0(const uint8_t *b, uint8_t *q, float *scale, float *min) {
    (void)min;
    scale[0] = half_at(b);
    nibbles32(b + 2, q);
}

/* f16 d, f16 m, 16 bytes of nibbles. */
static void decode_q4_1(const uint8_t *b, uint8_t *q, float *scale, float *min) {
    scale[0] = half_at(b);
    min[0] = half_at(b + 2);
    nibbles32(b + 4, q);
}

/* f16 d, 32 fifth bits, 16 bytes of nibbles. */
static void decode_q5_0(const uint8_t *b, uint8_t *q, float *scale, float *min) {
    (void)min;
    scale[0] = half_at(b);
    nibbles32(b + 6, q);
    add_fifth_bits(ls_load_u32(b + 2), q);
}

/* f16 d, f16 m, 32 fifth bits, 16 bytes of nibbles. */
static void decode_q5_1(const uint8_t *b, uint8_t *q, float *scale, float *min) {
    scale[0] = half_at(b);
    min[0] = half_at(b + 2);
    nibbles32(b + 8, q);
    add_fifth_bits(ls_load_u32(b + 4), q);
}

/* f16 d, 32 signed bytes. */
static void decode_q8_0(const uint8_t *b, uint8_t *q, float *scale, float *min) {
    (void)min;
    scale[0] = half_at(b);
    offset32(b + 2, q);
}

/* f16 d, 16 bytes of nibbles that select one of sixteen signed values; stored here + 128. */
static void decode_iq4_nl(const uint8_t *b, uint8_t *q, float *scale, float *min) {
    static const uint8_t codebook[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
    (void)min;
    scale[0] = half_at(b);
    nibbles32(b + 2, q);
    for (int i = 0; i < 32; i++) q[i] = codebook[q[i]];
}

/* 16 bytes of 4-bit scale and 4-bit min, 64 bytes of 2-bit weights, f16 d, f16 dmin. Weights 128h + 32s + i of the two
 * halves h are bits 2s of byte 32h + i. */
static void decode_q2_k(const uint8_t *b, uint8_t *q, float *scale, float *min) {
    float d = half_at(b + 80), dmin = half_at(b + 82);
    for (int g = 0; g < 16; g++) {
        scale[g] = d * (float)(b[g] & 15);
        min[g] = -(dmin * (float)(b[g] >> 4));
    }
    for (int k = 0; k < 256; k++) q[k] = b[16 + k / 128 * 32 + k % 32] >> (k / 32 % 4 * 2) & 3;
}

/* 32 bytes of third bits, 64 bytes of 2-bit weights (as Q2_K), 12 bytes of sixteen 6-bit scales, f16 d. */
static void decode_q3_k(const uint8_t *b, uint8_t *q, float *scale, float *min) {
    (void)min;
    const uint8_t *low = b + 96, *high = b + 104;
    float d = half_at(b + 108);
    for (int g = 0; g < 16; g++) {
        int sc = (low[g % 8] >> (g / 8 * 4) & 15) | (high[g % 4] >> (g / 4 * 2) & 3) << 4;
        scale[g] = d * (float)(sc - 32);
    }
    for (int k = 0; k < 256; k++) {
        int two = b[32 + k / 128 * 32 + k % 32] >> (k / 32 % 4 * 2) & 3;
        q[k] = (uint8_t)(two | (b[k % 32] >> (k / 32) & 1) << 2);
    }
}

/* The 12 bytes that hold eight 6-bit scales and eight 6-bit minima of Q4_K and Q5_K. */
static void scales_k4(const uint8_t *p, float d, float dmin, float *scale, float *min) {
    for (int g = 0; g < 8; g++) {
        int i = g % 4;
        int sc = g < 4 ? p[i] & 63 : (p[8 + i] & 15) | (p[i] >> 2 & 0x30);
        int m = g < 4 ? p[4 + i] & 63 : p[8 + i] >> 4 | (p[4 + i] >> 2 & 0x30);
        scale[g] = d * (float)sc;
        min[g] = -(dmin * (float)m);
    }
}

/* Nibbles of Q4_K and Q5_K: weights 64c + i are the low halves of bytes 32c + i, weights 64c + 32 + i the high ones. */
static void nibbles_k(const uint8_t *p, uint8_t *q) {
    for (int k = 0; k < 256; k++) q[k] = p[k / 64 * 32 + k % 32] >> (k / 32 % 2 * 4) & 15;
}

/* f16 d, f16 dmin, 12 bytes of scales, 128 bytes of nibbles. */
static void decode_q4_k(const uint8_t *b, uint8_t *q, float *scale, float *min) {
    scales_k4(b + 4, half_at(b), half_at(b + 2), scale, min);
    nibbles_k(b + 16, q);
}

/* f16 d, f16 dmin, 12 bytes of scales, 32 bytes of fifth bits, 128 bytes of nibbles. */
static void decode_q5_k(const uint8_t *b, uint8_t *q, float *scale, float *min) {
    scales_k4(b + 4, half_at(b), half_at(b + 2), scale, min);
    nibbles_k(b + 48, q);
    for (int k = 0; k < 256; k++) q[k] = (uint8_t)(q[k] | (b[16 + k % 32] >> (k / 32) & 1) << 4);
}

/* 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed byte scales, f16 d. */
static void decode_q6_k(const uint8_t *b, uint8_t *q, float *scale, float *min) {
    (void)min;
    float d = half_at(b + 208);
    for (int g = 0; g < 16; g++) scale[g] = d * (float)(int8_t)b[192 + g];
    for (int k = 0; k < 256; k++) {
        int half = k / 128, low = b[half * 64 + k % 64] >> (k / 64 % 2 * 4) & 15;
        q[k] = (uint8_t)(low | (b[128 + half * 32 + k % 32] >> (k / 32 % 4 * 2) & 3) << 4);
    }
}

void ls_blocks_row_quant(const ls_tensor *t, int64_t row, uint8_t *q, float *scale, float *min) {
    static decode_fn *const decoders[LS_FORMAT_COUNT] = {
        [LS_Q4_0] = decode_q4_0, [LS_Q4_1] = decode_q4_1, [LS_Q5_0] = decode_q5_0, [LS_Q5_1] = decode_q5_1,
        [LS_Q8_0] = decode_q8_0, [LS_Q2_K] = decode_q2_k, [LS_Q3_K] = decode_q3_k, [LS_Q4_K] = decode_q4_k,
        [LS_Q5_K] = decode_q5_k, [LS_Q6_K] = decode_q6_k, [LS_IQ4_NL] = decode_iq4_nl};
    const ls_format_info *f = ls_format_get(t->format);
    int64_t blocks = t->shape[t->rank - 1] / f->block;
    const uint8_t *b = (const uint8_t *)t->data + row * blocks * f->block_bytes;
    int groups = f->block / f->group;
    for (int64_t i = 0; i < blocks; i++) {
        decoders[t->format](b, q, scale, min);
        b += f->block_bytes;
        q += f->block;
        scale += groups;
        if (f->has_min) min += groups;
    }
}
