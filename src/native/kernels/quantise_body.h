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

/* Mantissas of block |b|, split into planes, and the sums of them that |a| has a place for. */
LS_INLINE void quantise_block(const ls_acts *a, int64_t row, int64_t b, const floats x[4], floats unit, int planes, bool summed, bool cross) {
    lanes q[4], high[4];
    ls_block_sums s = {0};
    for (int i = 0; i < 4; i++) {
        const int64_t k = b * LS_EXACT_BLOCK + 16 * i;
        q[i] = v_round(f_mul(x[i], unit));
        if (planes == 2) {
            high[i] = v_sar(v_add(q[i], v_set(2048)), 12);
            q[i] = v_sub(q[i], v_shl(high[i], 12));
            v_store16(ls_acts_plane(a, row, 0) + k, high[i]);
        }
        v_store16(ls_acts_plane(a, row, planes - 1) + k, q[i]);
    }
    if (!summed) return;
    if (planes == 2) v_sums_across(high, s.plane[0]);
    v_sums_across(q, s.plane[planes - 1]);
    if (planes == 2 && cross) v_cross_across(high, s.cross[0]);
    if (cross) v_cross_across(q, s.cross[planes - 1]);
    ls_acts_put_sums(a, row, b, planes, &s);
}

LS_INLINE void quantise(const ls_acts *a, int64_t row, const float *x, int planes) {
    const int p = planes == 1 ? LS_EXACT_P16 : LS_EXACT_P24;
    const bool summed = a->sum[LS_SUM_16] || a->sum[LS_SUM_32] || a->sum[LS_SUM_64];
    const bool cross = a->lead[LS_SUM_16] || a->lead[LS_SUM_32] || a->lead[LS_SUM_64];
    int32_t *exponent = a->drop + row * a->blocks;
    float buffer[LS_EXACT_BLOCK];
    for (int64_t b = 0; b < a->blocks; b++) {
        const float *in = block_of(a, x, b, buffer);
        floats part[4];
        lanes max = v_set(0);
        for (int i = 0; i < 4; i++) {
            part[i] = f_load(in + 16 * i);
            max = v_abs_max(max, part[i]);
        }
        exponent[b] = ls_block_exponent((uint32_t)v_max_across(max));
        quantise_block(a, row, b, part, f_set(ls_pow2_biased(p + 254 - exponent[b])), planes, summed, cross);
    }
    ls_acts_finish(a, row, planes);
}

#endif
