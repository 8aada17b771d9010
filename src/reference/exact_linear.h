/* The exact linear operator (docs/contracts.md section 3), in plain C. */
#ifndef LS_REFERENCE_EXACT_LINEAR_H
#define LS_REFERENCE_EXACT_LINEAR_H

#include "contract/weight_form.h"

/* One row of activations as block fixed point. */
typedef struct ls_exact_row {
    int32_t *q;    /* [blocks * 64] mantissas, zero padded */
    int32_t *drop; /* [blocks] a[B] = E - e[B] */
    int e;         /* E */
} ls_exact_row;

/* Quantises x [cols] into |row| (arrays of ceil(cols / 64) blocks, caller's). p: 14 or 23. */
void ls_exact_quantise(const float *x, int64_t cols, int p, ls_exact_row *row);

/* y = one output: the dot product of |x| with a weight row in integer form, without bias. */
float ls_exact_dot(const ls_weight_form *f, const ls_exact_row *x, const int32_t *u, const int32_t *scale, const int32_t *min, int r);

/* y [T, N] = x [T, K] times rows [row_begin, row_begin + N) of |t| transposed, plus bias [N] (NULL: none). */
ls_code ls_exact_linear(float *y, const float *x, int64_t rows, const ls_tensor *t, int64_t row_begin, int64_t n, const float *bias, ls_contract contract,
                        ls_error *e);

#endif
