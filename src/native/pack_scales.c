/* Scales of packed matrices, kept in the form the file stores them.
 *
 * Most formats store one f16 (or bf16, f32) scale per group: ls_tensor_row_quant widens it, and narrowing it again loses
 * nothing. K quants store a small integer per group and f16 factors per 256 weights; the integers come from decoding a
 * copy of each block whose f16 factors have been replaced by 1. */
#include <string.h>

#include "contract/exact.h"
#include "native/pack.h"

enum { MAX_BLOCK_BYTES = 256, F16_ONE = 0x3C00 };

/* Byte offsets of d and dmin in a K-quant block; -1: the format has none. */
typedef struct factor_place {
    int d, dmin;
} factor_place;

static factor_place place_of(ls_format f) {
    switch (f) {
    case LS_Q2_K: return (factor_place){80, 82};
    case LS_Q3_K: return (factor_place){108, -1};
    case LS_Q4_K:
    case LS_Q5_K: return (factor_place){0, 2};
    case LS_Q6_K: return (factor_place){208, -1};
    default: return (factor_place){-1, -1};
    }
}

void ls_pack_scales_layout(ls_packed *w, const ls_tensor *t) {
    int sets = w->form.has_min ? 2 : 1;
    if (!w->form.quantised) w->scales = LS_SCALE_DROP;
    else if (t->format == LS_Q2_K) w->scales = LS_SCALE_NIBBLE;
    else if (place_of(t->format).d >= 0) w->scales = LS_SCALE_INT8;
    else if (t->format != LS_MLX_AFFINE || t->scale_format == LS_F16) w->scales = LS_SCALE_F16;
    else w->scales = t->scale_format == LS_BF16 ? LS_SCALE_BF16 : LS_SCALE_F32;
    bool has_super = w->scales == LS_SCALE_INT8 || w->scales == LS_SCALE_NIBBLE;
    size_t element = w->scales == LS_SCALE_F32 ? 4 : w->scales == LS_SCALE_F16 || w->scales == LS_SCALE_BF16 ? 2 : 1;
    w->super = has_super ? 256 / w->form.group : 0;
    w->super_bytes = has_super ? (size_t)sets * LS_TILE * 2 : 0;
    w->entry_bytes = w->scales == LS_SCALE_NIBBLE ? LS_TILE : (size_t)sets * LS_TILE * element;
}

static void put16(uint8_t *p, uint16_t v) { memcpy(p, &v, sizeof v); }

static void put_scale(const ls_packed *w, uint8_t *entry, int lane, float v) {
    if (w->scales == LS_SCALE_F32) memcpy(entry + 4 * lane, &v, sizeof v);
    else put16(entry + 2 * lane, w->scales == LS_SCALE_F16 ? ls_f32_to_f16(v) : ls_f32_to_bf16(v));
}

static void plain_row(const ls_packed *w, const ls_tensor *t, uint8_t *tile, int lane, const float *scale, const float *min) {
    int split = ls_tensor_group(t) / w->form.group; /* MLX groups of 128 count as two of 64 */
    for (int64_t g = 0; g < w->form.groups; g++) {
        uint8_t *entry = tile + (size_t)g * w->entry_bytes;
        put_scale(w, entry, lane, scale[g / split]);
        if (w->form.has_min) put_scale(w, entry + w->entry_bytes / 2, lane, min[g / split]);
    }
}

/* One K-quant block with its factors set to 1: the integers of its scales and minima (negated, as decoded). */
static void block_factors(const ls_tensor *t, const uint8_t *block, float *scale, float *min, uint8_t q[256]) {
    uint8_t copy[MAX_BLOCK_BYTES];
    const uint8_t one[2] = {F16_ONE & 255, F16_ONE >> 8};
    factor_place at = place_of(t->format);
    memcpy(copy, block, (size_t)ls_format_get(t->format)->block_bytes);
    memcpy(copy + at.d, one, 2);
    if (at.dmin >= 0) memcpy(copy + at.dmin, one, 2);
    ls_tensor view = *t;
    view.rank = 1;
    view.shape[0] = 256;
    view.data = copy;
    ls_tensor_row_quant(&view, 0, q, scale, min);
}

/* The factor at |p|, or 0 when every scale it multiplies is 0: kernels multiply it by 2^-R first, which must not
 * overflow, and 2^R is bounded by the products only. */
static uint16_t factor_at(const uint8_t *p, const float *products, int n) {
    for (int i = 0; i < n; i++)
        if (products[i] != 0.0f) return (uint16_t)(p[0] | p[1] << 8);
    return 0;
}

static void super_row(const ls_packed *w, const ls_tensor *t, int64_t row, uint8_t *tile, int lane, float *factors) {
    const ls_format_info *info = ls_format_get(t->format);
    factor_place at = place_of(t->format);
    float *scale = factors, *min = factors + w->super;
    uint8_t *q = (uint8_t *)(factors + 2 * w->super);
    int64_t blocks = w->form.cols / 256;
    const uint8_t *b = (const uint8_t *)t->data + row * blocks * info->block_bytes;
    for (int64_t i = 0; i < blocks; i++, b += info->block_bytes) {
        block_factors(t, b, scale, min, q);
        uint8_t *super = tile + w->super_at + (size_t)i * w->super_bytes;
        put16(super + 2 * lane, factor_at(b + at.d, scale, w->super));
        if (w->form.has_min) put16(super + 2 * LS_TILE + 2 * lane, factor_at(b + at.dmin, min, w->super) ^ 0x8000u);
        for (int g = 0; g < w->super; g++) {
            uint8_t *entry = tile + (size_t)(i * w->super + g) * w->entry_bytes;
            if (w->scales == LS_SCALE_NIBBLE) {
                entry[lane] = (uint8_t)((int)scale[g] | (int)-min[g] << 4);
                continue;
            }
            entry[lane] = (uint8_t)(int8_t)scale[g];
            if (w->form.has_min) entry[LS_TILE + lane] = (uint8_t)(int8_t)-min[g];
        }
    }
}

void ls_pack_scales_row(const ls_packed *w, const ls_tensor *t, int64_t row, uint8_t *tile, int lane, const float *scale, const float *min,
                        float *factors) {
    if (w->super) super_row(w, t, row, tile, lane, factors);
    else plain_row(w, t, tile, lane, scale, min);
}
