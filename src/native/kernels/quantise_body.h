/* Quantisation of one row of activations, in the operations of lanes_<level>.h. Included once per level. */
#ifndef LS_NATIVE_KERNELS_QUANTISE_BODY_H
#define LS_NATIVE_KERNELS_QUANTISE_BODY_H

#include "native/kernels/quantise_sums.h"

/* The 64 columns of block |b|; the last block is padded with zeros in |buffer|. */
LS_INLINE const float *block_of(const ls_acts *a, const float *x, int64_t b, float buffer[64]) {
    int64_t left = a->cols - b * 64;
    if (left >= 64) return x + b * 64;
    memset(buffer, 0, 64 * sizeof *buffer);
    memcpy(buffer, x + b * 64, (size_t)left * sizeof *buffer);
    return buffer;
}

/* Mantissas of the sixteen columns from |k| on, which are the |i|-th of their block, split into planes, and their sums. */
LS_INLINE void quantise_lanes(const ls_acts *a, int64_t row, int64_t k, int i, floats x, floats unit, int planes, bool cross, ls_block_sums *s) {
    lanes q = v_round(f_mul(x, unit));
    if (planes == 1) {
        v_store16(ls_acts_plane(a, row, 0) + k, q);
        s->plane[0][i] = v_sum_across(q);
        s->cross[i] = cross ? v_cross(q) : 0;
        return;
    }
    lanes high = v_sar(v_add(q, v_set(2048)), 12), low = v_sub(q, v_shl(high, 12));
    v_store16(ls_acts_plane(a, row, 0) + k, high);
    v_store16(ls_acts_plane(a, row, 1) + k, low);
    s->plane[0][i] = v_sum_across(high);
    s->plane[1][i] = v_sum_across(low);
}

LS_INLINE void quantise(const ls_acts *a, int64_t row, const float *x, int planes) {
    const int p = planes == 1 ? LS_EXACT_P16 : LS_EXACT_P24;
    const bool cross = a->lead[LS_SUM_16] || a->lead[LS_SUM_32] || a->lead[LS_SUM_64];
    int32_t *exponent = a->drop + row * a->blocks;
    float buffer[64];
    for (int64_t b = 0; b < a->blocks; b++) {
        const float *in = block_of(a, x, b, buffer);
        floats part[4];
        lanes max = v_set(0);
        for (int i = 0; i < 4; i++) {
            part[i] = f_load(in + 16 * i);
            max = v_abs_max(max, part[i]);
        }
        exponent[b] = ls_block_exponent((uint32_t)v_max_across(max));
        floats unit = f_set(ls_pow2_biased(p + 254 - exponent[b]));
        ls_block_sums block;
        for (int i = 0; i < 4; i++) quantise_lanes(a, row, b * 64 + 16 * i, i, part[i], unit, planes, cross, &block);
        ls_acts_put_sums(a, row, b, planes, &block);
    }
    ls_acts_finish(a, row, planes);
}

#endif
