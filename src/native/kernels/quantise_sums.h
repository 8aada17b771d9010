/* The part of the quantisation of activations that is plain C: sums of a block's mantissas, and the end of a row. Included by quantise_body.h, so that each
 * level compiles it for its own instructions. */
#ifndef LS_NATIVE_KERNELS_QUANTISE_SUMS_H
#define LS_NATIVE_KERNELS_QUANTISE_SUMS_H

#include <string.h>

#include "contract/exact.h"
#include "native/activations.h"

/* Sums over each 16 of a block's 64 columns, of each plane: of the mantissas, and of q[8i + 4] q[8i + 6] + q[8i + 5] q[8i + 7], modulo 2^32. */
typedef struct ls_block_sums {
    int32_t plane[2][4], cross[2][4];
} ls_block_sums;

/* The sums of block |block| over groups of 16 << |size| columns. */
static inline void put_sums(const ls_acts *a, int64_t row, int64_t block, int planes, int size, const ls_block_sums *s) {
    const int n = 4 >> size, each = 1 << size; /* groups of the block; sixteens of a group */
    for (int p = 0; p < planes; p++) {
        int32_t *sum = ls_acts_sum(a, size, row, p) + block * n;
        for (int g = 0; g < n; g++) {
            sum[g] = 0;
            for (int i = 0; i < each; i++) sum[g] += s->plane[p][g * each + i];
        }
        if (!a->lead[size]) continue;
        uint32_t *lead = (uint32_t *)ls_acts_lead(a, size, row, p) + 2 * block * n;
        for (int g = 0; g < n; g++) {
            lead[2 * g] = 0;
            for (int i = 0; i < each; i++) lead[2 * g] += (uint32_t)s->cross[p][g * each + i];
        }
    }
}

static inline void ls_acts_put_sums(const ls_acts *a, int64_t row, int64_t block, int planes, const ls_block_sums *s) {
    if (a->sum[LS_SUM_16]) put_sums(a, row, block, planes, LS_SUM_16, s);
    if (a->sum[LS_SUM_32]) put_sums(a, row, block, planes, LS_SUM_32, s);
    if (a->sum[LS_SUM_64]) put_sums(a, row, block, planes, LS_SUM_64, s);
}

static inline void forget_block(const ls_acts *a, int64_t row, int64_t block, int planes) {
    for (int i = 0; i < planes; i++) memset(ls_acts_plane(a, row, i) + block * LS_EXACT_BLOCK, 0, LS_EXACT_BLOCK * sizeof(int16_t));
    ls_acts_put_sums(a, row, block, planes, &(ls_block_sums){0});
}

/* C of the groups of 16 << |size| columns, whose mantissas shift by their block's drop; and from sums of products what kernels begin with. */
static inline void finish_sums(const ls_acts *a, int64_t row, int planes, int size) {
    const int32_t *drop = a->drop + row * a->blocks, *half = a->half + row * a->blocks;
    const int32_t *high = ls_acts_sum(a, size, row, 0), *low = ls_acts_sum(a, size, row, planes - 1);
    int32_t *mean = ls_acts_mean(a, size, row);
    const int n = 4 >> size;
    for (int64_t b = 0; mean && b < a->blocks; b++)
        for (int64_t g = b * n; g < b * n + n; g++) mean[g] = ((planes == 1 ? high[g] : high[g] * 4096 + low[g]) + half[b]) >> drop[b];
    for (int p = 0; a->lead[size] && p < planes; p++) {
        uint32_t *lead = (uint32_t *)ls_acts_lead(a, size, row, p);
        for (int64_t b = 0; b < a->blocks; b++)
            for (int64_t g = b * n; g < b * n + n; g++) {
                lead[2 * g] = (planes == 1 ? (uint32_t)half[b] : 0) - lead[2 * g];
                lead[2 * g + 1] = (uint32_t)(planes == 2 && p == 0 ? half[b] : drop[b]);
            }
    }
}

/* The rest of a row whose mantissas and their sums are there, and the exponents of its blocks in drop. */
static inline void ls_acts_finish(const ls_acts *a, int64_t row, int planes) {
    int32_t *drop = a->drop + row * a->blocks, *half = a->half + row * a->blocks, e = LS_EXACT_MIN_EXP;
    for (int64_t b = 0; b < a->blocks; b++) e = drop[b] > e ? drop[b] : e;
    for (int64_t b = 0; b < a->blocks; b++) {
        drop[b] = e - drop[b];
        if (drop[b] > LS_EXACT_MAX_DROP) {
            drop[b] = 0;
            forget_block(a, row, b, planes);
        }
        half[b] = (1 << drop[b]) >> 1;
    }
    if (a->sum[LS_SUM_16]) finish_sums(a, row, planes, LS_SUM_16);
    if (a->sum[LS_SUM_32]) finish_sums(a, row, planes, LS_SUM_32);
    if (a->sum[LS_SUM_64]) finish_sums(a, row, planes, LS_SUM_64);
    a->factor[row] = ls_pow2(e - 127 - (planes == 1 ? LS_EXACT_P16 : LS_EXACT_P24));
}

#endif
