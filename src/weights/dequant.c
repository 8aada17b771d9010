/* Rows of any tensor as f32, and of quantised tensors as integers with scales. */
#include <math.h>
#include <string.h>

#include "weights/checkpoint.h"

static float load_f32(const uint8_t *p) {
    uint32_t u = ls_load_u32(p);
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float ls_load_float(ls_format f, const uint8_t *p) {
    return f == LS_F16 ? ls_f16_to_f32(ls_load_u16(p)) : f == LS_BF16 ? ls_bf16_to_f32(ls_load_u16(p)) : load_f32(p);
}

float ls_round_float(ls_format f, float x) {
    return f == LS_F16 ? ls_f16_to_f32(ls_f32_to_f16(x)) : f == LS_BF16 ? ls_bf16_to_f32(ls_f32_to_bf16(x)) : x;
}

/* MLX packs each row as one stream of bits, lowest first; groups of 32 and more make every row whole words. */
static void mlx_row_quant(const ls_tensor *t, int64_t row, uint8_t *q, float *scale, float *min) {
    int64_t in = t->shape[t->rank - 1], groups = in / t->mlx_group;
    int bits = t->mlx_bits, size = ls_format_get(t->scale_format)->block_bytes;
    const uint8_t *p = (const uint8_t *)t->data + row * (in * bits / 8);
    unsigned held = 0, n_held = 0;
    for (int64_t k = 0; k < in; k++) {
        if (n_held < (unsigned)bits) {
            held |= (unsigned)*p++ << n_held;
            n_held += 8;
        }
        q[k] = (uint8_t)(held & ((1u << bits) - 1));
        held >>= bits;
        n_held -= (unsigned)bits;
    }
    const uint8_t *s = (const uint8_t *)t->scales + row * groups * size,
                  *b = (const uint8_t *)t->biases + row * groups * size;
    for (int64_t g = 0; g < groups; g++) {
        scale[g] = ls_load_float(t->scale_format, s + g * size);
        min[g] = ls_load_float(t->scale_format, b + g * size);
    }
}

void ls_tensor_row_quant(const ls_tensor *t, int64_t row, uint8_t *q, float *scale, float *min) {
    if (!t->data) return;
    if (t->format == LS_MLX_AFFINE) mlx_row_quant(t, row, q, scale, min);
    else ls_blocks_row_quant(t, row, q, scale, min);
}

/* A view of |t| that is one piece of row |row|: |n| weights from weight |k| on. */
static ls_tensor piece_of(const ls_tensor *t, int64_t row, int64_t k, int64_t n) {
    const ls_format_info *f = ls_format_get(t->format);
    int64_t at = row * t->shape[t->rank - 1] + k;
    ls_tensor p = *t;
    p.rank = 1;
    p.shape[0] = n;
    if (t->format == LS_MLX_AFFINE) {
        int64_t scale_at = at / t->mlx_group * ls_format_get(t->scale_format)->block_bytes;
        p.data = (const uint8_t *)t->data + at / 8 * t->mlx_bits;
        p.scales = (const uint8_t *)t->scales + scale_at;
        p.biases = (const uint8_t *)t->biases + scale_at;
    } else {
        p.data = (const uint8_t *)t->data + at / f->block * f->block_bytes;
    }
    return p;
}

/* scale * (q - zero) + min, rounded after every step to |in|, the dtype it is computed in. */
static void quant_row(const ls_tensor *t, int64_t row, ls_format in, float *out) {
    enum { PIECE = 256 };
    uint8_t q[PIECE];
    float scale[PIECE / 16], min[PIECE / 16];
    const ls_format_info *f = ls_format_get(t->format);
    int64_t len = t->shape[t->rank - 1];
    int group = ls_tensor_group(t);
    for (int64_t k = 0; k < len; k += PIECE) {
        int64_t n = len - k < PIECE ? len - k : PIECE;
        ls_tensor piece = piece_of(t, row, k, n);
        ls_tensor_row_quant(&piece, 0, q, scale, min);
        for (int i = 0; i < n; i++) {
            float x = ls_round_float(in, scale[i / group] * (float)(q[i] - f->zero));
            out[k + i] = f->has_min ? ls_round_float(in, x + min[i / group]) : x;
        }
    }
}

void ls_tensor_row_f32(const ls_tensor *t, int64_t row, float *out) {
    int64_t len = t->rank ? t->shape[t->rank - 1] : 1;
    const ls_format_info *f = ls_format_get(t->format);
    if (!t->data) return;
    if (f->group || t->format == LS_MLX_AFFINE) {
        quant_row(t, row, t->format == LS_MLX_AFFINE ? t->scale_format : LS_F32, out);
        return;
    }
    const uint8_t *p = (const uint8_t *)t->data + row * len * f->block_bytes;
    if (t->format == LS_F16) {
        ls_f16_row_to_f32(p, len, out);
        return;
    }
    for (int64_t k = 0; k < len; k++, p += f->block_bytes) {
        if (t->format == LS_I32) out[k] = (float)(int32_t)ls_load_u32(p);
        else if (t->format == LS_I64) out[k] = (float)(int64_t)ls_load_u64(p);
        else if (t->format == LS_OTHER) out[k] = NAN;
        else out[k] = ls_load_float(t->format, p);
    }
}

void ls_tensor_row_values(const ls_tensor *t, int64_t row, float *out) {
    if (t->data && t->format == LS_MLX_AFFINE) quant_row(t, row, LS_F32, out);
    else ls_tensor_row_f32(t, row, out);
}
