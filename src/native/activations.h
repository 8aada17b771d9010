/* Activations of the exact linear operator (docs/contracts.md section 3), in the form kernels read.
 *
 * Rows of f32 become blocks of 64 mantissas, as planes of 16-bit integers: under exact16 one plane, the mantissa itself;
 * under exact24 two, q = high * 4096 + low with |high| <= 8128 and -2048 <= low < 2048. Blocks whose drop exceeds 24
 * are zeros here, with drop 0, so kernels need no test. Sums over 16, 32 and 64 columns serve the weights' zero point (raw,
 * per plane) and minima (shifted); sums of products of neighbours serve products of many rows (kernels/linear_cross.h).
 * Quantised once, an input serves every matrix that multiplies it; what none of them needs is left out. */
#ifndef LS_NATIVE_ACTIVATIONS_H
#define LS_NATIVE_ACTIVATIONS_H

#include "contract/weight_form.h"

enum { LS_SUM_16, LS_SUM_32, LS_SUM_64, LS_SUMS }; /* index of a group size: log2(g / 16) */

/* Rows of a pass that takes about as long as reading its weights; only products of more begin with ls_acts.lead. */
enum { LS_FEW_ROWS = 32 };

/* What matrices need of their input beside the mantissas: bit |size| the sums over groups of that size, bit LS_SUMS + |size| their means too. */
typedef unsigned ls_acts_needs;
enum { LS_ACTS_ALL = (1 << 2 * LS_SUMS) - 1 };

/* The needs of a matrix of form |f|. */
ls_acts_needs ls_acts_needs_of(const ls_weight_form *f);

typedef struct ls_acts {
    ls_contract contract;
    int planes;                 /* 1 or 2 */
    int64_t rows, cols, blocks; /* capacity T; K; ceil(K / 64) */
    int16_t *q;                 /* [T, planes, blocks * 64], plane 0 the high one */
    int32_t *drop;              /* [T, blocks] a */
    int32_t *half;              /* [T, blocks] 2^(a - 1), 0 for a = 0: what rounds the shift by a */
    int32_t *sum[LS_SUMS];      /* [T, planes, blocks * 64 / g] sums of the planes, or NULL where not needed */
    int32_t *mean[LS_SUMS];     /* [T, blocks * 64 / g] C: rshift(X, a), or NULL */
    int32_t *lead[LS_SUMS];     /* beside sum: [T, planes, blocks * 64 / g, 2] what sums of products begin with, modulo 2^32: half (two planes: 0) less the
                                 * sum of q[8i + 4] q[8i + 6] + q[8i + 5] q[8i + 7]; and drop, but half for the high plane of two. NULL in an ls_acts through
                                 * which no more than LS_FEW_ROWS rows are quantised: then nothing reads it */
    float *factor;              /* [T] 2^(E - 127 - p) */
} ls_acts;

/* Bytes for |rows| rows of |cols| columns, cols in [1, LS_EXACT_MAX_COLS]; every row takes the same share. */
size_t ls_acts_bytes(ls_contract contract, int64_t rows, int64_t cols, ls_acts_needs needs);

/* Lays |a| out in |mem| (64-byte aligned, ls_acts_bytes long, the caller's). |contract|: exact16 or exact24. */
void ls_acts_bind(ls_acts *a, void *mem, ls_contract contract, int64_t rows, int64_t cols, ls_acts_needs needs);

static inline int16_t *ls_acts_plane(const ls_acts *a, int64_t row, int plane) { return a->q + (row * a->planes + plane) * a->blocks * 64; }

/* Where row |row| begins in the arrays; NULL where one is left out. */
static inline int32_t *ls_acts_sum(const ls_acts *a, int size, int64_t row, int plane) {
    return a->sum[size] ? a->sum[size] + (row * a->planes + plane) * (a->blocks << (2 - size)) : NULL;
}

static inline int32_t *ls_acts_mean(const ls_acts *a, int size, int64_t row) {
    return a->mean[size] ? a->mean[size] + row * (a->blocks << (2 - size)) : NULL;
}

static inline int32_t *ls_acts_lead(const ls_acts *a, int size, int64_t row, int plane) {
    return a->lead[size] ? a->lead[size] + 2 * (row * a->planes + plane) * (a->blocks << (2 - size)) : NULL;
}

/* Row |i| of |to| becomes row |j| of |from|; both of one contract, K and needs. */
void ls_acts_copy_row(const ls_acts *to, int64_t i, const ls_acts *from, int64_t j);

#endif
