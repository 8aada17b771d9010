/* Rows of packed matrices as values: what ls_tensor_row_values gives for the tensor. The integers and the stored scales are all there, so
 * formats of integers lose nothing by packing; mantissas of float formats do. */
#include <string.h>

#include "native/pack.h"
#include "weights/weights.h"

static float float_at(const uint8_t *p, ls_scale_kind kind) {
    uint16_t half;
    float f;
    if (kind == LS_SCALE_F32) memcpy(&f, p, sizeof f);
    else {
        memcpy(&half, p, sizeof half);
        f = kind == LS_SCALE_BF16 ? ls_bf16_to_f32(half) : ls_f16_to_f32(half);
    }
    return f;
}

/* Scale and minimum of group |g| in lane |lane|. */
static void group_scale(const ls_packed *w, const uint8_t *tile, int64_t g, int lane, float *scale, float *min) {
    const uint8_t *entry = tile + (size_t)g * w->entry_bytes, *second = entry + w->entry_bytes / 2;
    if (!w->super) {
        size_t size = w->scales == LS_SCALE_F32 ? 4 : 2;
        *scale = float_at(entry + size * (size_t)lane, w->scales);
        *min = w->form.has_min ? float_at(second + size * (size_t)lane, w->scales) : 0;
        return;
    }
    const uint8_t *super = tile + w->super_at + (size_t)(g / w->super) * w->super_bytes + 2 * lane;
    float d = float_at(super, LS_SCALE_F16), dmin = w->form.has_min ? float_at(super + 2 * LS_TILE, LS_SCALE_F16) : 0;
    if (w->scales == LS_SCALE_NIBBLE) {
        *scale = d * (float)(entry[lane] & 15);
        *min = dmin * (float)(entry[lane] >> 4);
        return;
    }
    *scale = d * (float)(int8_t)entry[lane];
    *min = w->form.has_min ? dmin * (float)(int8_t)entry[LS_TILE + lane] : 0;
}

/* Adds a plane of |bits| bits, shifted up by |shift|, to the 32 integers of lane |lane|. */
static void add_plane(const uint8_t *plane, int lane, int bits, int shift, uint8_t q[LS_SPAN]) {
    uint32_t mask = (1u << bits) - 1, word;
    for (int c = 0; c < bits; c++, q += LS_SPAN / bits) {
        memcpy(&word, plane + 64 * c + 4 * lane, sizeof word);
        for (int i = 0; i < 16 / bits; i++) {
            q[2 * i] = (uint8_t)(q[2 * i] | (word >> i * bits & mask) << shift);
            q[2 * i + 1] = (uint8_t)(q[2 * i + 1] | (word >> (16 + i * bits) & mask) << shift);
        }
    }
}

void ls_packed_row(const ls_packed *w, int64_t row, float *out) {
    const uint8_t *tile = w->data + (size_t)(row / LS_TILE) * w->tile_bytes, *span = tile + w->span_at;
    const int *bits = ls_pack_planes[w->kind], lane = (int)(row % LS_TILE);
    float scale = 0, min = 0;
    for (int64_t k = 0; k < w->spans; k++, span += w->span_bytes) {
        uint8_t q[LS_SPAN] = {0};
        add_plane(span, lane, bits[0], 0, q);
        if (bits[1]) add_plane(span + 64 * bits[0], lane, bits[1], bits[0], q);
        for (int i = 0; i < LS_SPAN; i++) {
            int64_t col = k * LS_SPAN + i;
            if (col % w->form.group == 0) group_scale(w, tile, col / w->form.group, lane, &scale, &min);
            int u = w->kind == LS_PACK_IQ4 ? ls_iq4_codebook[q[i]] : q[i];
            float x = scale * (float)(u - w->form.zero);
            out[col] = w->form.has_min ? x + min : x;
        }
    }
}
