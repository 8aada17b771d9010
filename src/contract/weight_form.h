/* Weights in the integer form of docs/contracts.md section 3: w[n, k] = (S[n, G] * (u[n, k] - z) + M[n, G]) * 2^R[n].
 * Both the reference operator and the native packer start from rows in this form. */
#ifndef LS_CONTRACT_WEIGHT_FORM_H
#define LS_CONTRACT_WEIGHT_FORM_H

#include "contract/contract.h"
#include "weights/weights.h"

/* Constants of a weight matrix under a contract. */
typedef struct ls_weight_form {
    ls_contract contract;
    int64_t cols;     /* K */
    int64_t groups;   /* per row: ceil(K / group) */
    int group;        /* g: 16, 32 or 64 */
    int zero;         /* z */
    int bits;         /* of stored u: 2..8 for quantised formats; 16 or 24 (weight_p + 2) signed for float formats */
    bool has_min;     /* M exists */
    bool quantised;   /* false: float format, u is a signed mantissa */
    int p;            /* of the activations: 14 or 23 */
    int weight_p;     /* of float weights' mantissas: 14 or 22 */
    int c, h;         /* the shifts of section 3 */
} ls_weight_form;

/* INVALID_ARGUMENT when K is over LS_EXACT_MAX_COLS or |contract| is not exact; UNIMPLEMENTED when |t| holds integers that no scale belongs to. */
ls_code ls_weight_form_of(ls_weight_form *f, const ls_tensor *t, ls_contract contract, ls_error *e);

/* Row |row| of |t| in integer form. u [K]: stored integers (quantised) or signed mantissas. scale, min [groups]: S and M
 * (min is written only when has_min). *r: R. |scratch|: f32 [K + 2 * groups]. Values must be finite and below 2^40. */
void ls_weight_form_row(const ls_weight_form *f, const ls_tensor *t, int64_t row, int32_t *u, int32_t *scale, int32_t *min, int *r, float *scratch);

/* Elements of the scratch that ls_weight_form_row needs. */
size_t ls_weight_form_scratch(const ls_weight_form *f);

#endif
