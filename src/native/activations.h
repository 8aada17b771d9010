/* Activations of the exact linear operator (docs/contracts.md section 3), in the form kernels read.
 *
 * Rows of f32 become blocks of 64 mantissas, as planes of 16-bit integers: under exact16 one plane, the mantissa itself;
 * under exact24 two, q = high * 4096 + low with |high| <= 8128 and -2048 <= low < 2048. Blocks whose drop exceeds 24
 * are zeros here, with drop 0, so kernels need no test. Sums over 16, 32 and 64 columns serve the weights' zero point (raw,
 * per plane) and minima (shifted); under exact16, sums of products of neighbours serve products of many rows (kernels/linear_cross.h).
 * Quantised once, an input serves every matrix that multiplies it. */
#ifndef LS_NATIVE_ACTIVATIONS_H
#define LS_NATIVE_ACTIVATIONS_H

#include "contract/contract.h"

enum { LS_SUM_16, LS_SUM_32, LS_SUM_64, LS_SUMS }; /* index of a group size: log2(g / 16) */

typedef struct ls_acts {
    ls_contract contract;
    int planes;                 /* 1 or 2 */
    int64_t rows, cols, blocks; /* capacity T; K; ceil(K / 64) */
    int16_t *q;                 /* [T, planes, blocks * 64], plane 0 the high one */
    int32_t *drop;              /* [T, blocks] a */
    int32_t *half;              /* [T, blocks] 2^(a - 1), 0 for a = 0: what rounds the shift by a */
    int32_t *sum[LS_SUMS];      /* [T, planes, blocks * 64 / g] sums of the planes */
    int32_t *mean[LS_SUMS];     /* [T, blocks * 64 / g] C: rshift(X, a) */
    int32_t *lead[LS_SUMS];     /* exact16: [T, blocks * 64 / g, 2] half less the sum of q[4i] q[4i + 2] + q[4i + 1] q[4i + 3], modulo 2^32; and drop */
    float *factor;              /* [T] 2^(E - 127 - p) */
} ls_acts;

/* Bytes for |rows| rows of |cols| columns, cols in [1, LS_EXACT_MAX_COLS]; every row takes the same share. */
size_t ls_acts_bytes(ls_contract contract, int64_t rows, int64_t cols);

/* Lays |a| out in |mem| (64-byte aligned, ls_acts_bytes long, the caller's). |contract|: exact16 or exact24. */
void ls_acts_bind(ls_acts *a, void *mem, ls_contract contract, int64_t rows, int64_t cols);

static inline int16_t *ls_acts_plane(const ls_acts *a, int64_t row, int plane) { return a->q + (row * a->planes + plane) * a->blocks * 64; }

static inline int32_t *ls_acts_sum(const ls_acts *a, int size, int64_t row, int plane) {
    return a->sum[size] + (row * a->planes + plane) * (a->blocks << (2 - size));
}

static inline int32_t *ls_acts_mean(const ls_acts *a, int size, int64_t row) { return a->mean[size] + row * (a->blocks << (2 - size)); }

static inline int32_t *ls_acts_lead(const ls_acts *a, int size, int64_t row) { return a->lead[size] + 2 * row * (a->blocks << (2 - size)); }

/* Second half of quantisation, the same at every level. On entry row |row| has its mantissa planes, the block exponents
 * in drop, the sums of 16, and under exact16 the sums of products over 16 in the first of each pair of lead; on return it is complete. */
void ls_acts_finish(const ls_acts *a, int64_t row);

/* Row |i| of |to| becomes row |j| of |from|; both of one contract and K. */
void ls_acts_copy_row(const ls_acts *to, int64_t i, const ls_acts *from, int64_t j);

#endif
