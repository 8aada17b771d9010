/* Integer form of weight rows, from quantised blocks or from float rows. */
#include "contract/weight_form.h"

#include <string.h>

#include "contract/exact.h"

static int largest_integer(const ls_weight_form *f) {
    if (f->zero) return f->zero;
    return (1 << f->bits) - 1;
}

ls_code ls_weight_form_of(ls_weight_form *f, const ls_tensor *t, ls_contract contract, ls_error *e) {
    int64_t cols = t->rank ? t->shape[t->rank - 1] : 1;
    if (contract == LS_CONTRACT_FLOAT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\": contract %s has no integer form", t->name, ls_contract_name(contract));
    if (cols < 1 || cols > LS_EXACT_MAX_COLS)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\": rows of %lld columns; exact contracts allow 1 to %d", t->name, (long long)cols, LS_EXACT_MAX_COLS);
    const ls_format_info *info = ls_format_get(t->format);
    bool mlx = t->format == LS_MLX_AFFINE;
    bool wide = ls_contract_is_wide(contract);
    *f = (ls_weight_form){.contract = contract, .cols = cols, .p = wide ? LS_EXACT_P24 : LS_EXACT_P16,
                          .weight_p = wide ? LS_EXACT_WEIGHT_P24 : LS_EXACT_P16, .h = wide ? 4 : 0};
    int stored = ls_tensor_group(t);
    f->quantised = stored > 0;
    if (!f->quantised && t->format != LS_F32 && t->format != LS_F16 && t->format != LS_BF16)
        LS_FAIL(e, LS_UNIMPLEMENTED, "tensor \"%s\": a matrix of %s has no integer form; allowed are F32, F16, BF16 and the quantised formats", t->name,
                t->format == LS_OTHER ? t->dtype : info->name);
    if (f->quantised) {
        f->group = stored > LS_EXACT_BLOCK ? LS_EXACT_BLOCK : stored;
        f->bits = mlx ? t->mlx_bits : t->format == LS_IQ4_NL ? 8 : info->bits;
        f->zero = info->zero;
        f->has_min = info->has_min;
    } else {
        f->group = LS_EXACT_BLOCK;
        f->bits = f->weight_p + 2;
    }
    f->groups = (cols + f->group - 1) / f->group;
    int l = f->quantised ? ls_ceil_log2((uint64_t)f->group * (uint64_t)largest_integer(f)) : 6 + f->weight_p + 1, keep = wide ? 31 : 30;
    f->c = l + f->p + 1 > keep ? l + f->p + 1 - keep : 0;
    return LS_OK;
}

size_t ls_weight_form_scratch(const ls_weight_form *f) { return (size_t)f->cols + 2 * (size_t)f->groups + 2; }

/* Groups of 128 in the tensor appear as two groups of 64 with the same scale. */
static void quantised_row(const ls_weight_form *f, const ls_tensor *t, int64_t row, int32_t *u, int32_t *scale, int32_t *min, int *r, float *scratch) {
    uint8_t *q = (uint8_t *)(scratch + 2 * f->groups);
    float *s = scratch, *m = scratch + f->groups;
    ls_tensor_row_quant(t, row, q, s, m);
    for (int64_t k = 0; k < f->cols; k++) u[k] = q[k];
    int split = ls_tensor_group(t) / f->group;
    int64_t stored = (f->groups + split - 1) / split;
    uint32_t max = 0;
    for (int64_t g = 0; g < stored; g++) {
        uint32_t bs = ls_bits(s[g]) & 0x7FFFFFFFu, bm = f->has_min ? ls_bits(m[g]) & 0x7FFFFFFFu : 0;
        if (bs > max) max = bs;
        if (bm > max) max = bm;
    }
    int e = (int)(max >> 23) > LS_EXACT_MIN_EXP ? (int)(max >> 23) : LS_EXACT_MIN_EXP;
    *r = e - 127 - 22;
    float unit = ls_pow2(-*r);
    for (int64_t g = 0; g < f->groups; g++) {
        scale[g] = (int32_t)lrintf(s[g / split] * unit);
        if (f->has_min) min[g] = (int32_t)lrintf(m[g / split] * unit);
    }
}

/* Bits of the largest magnitude of a block: of every LANES-th column first, which compilers do side by side. */
static inline uint32_t largest_bits(const float x[LS_EXACT_BLOCK]) {
    enum { LANES = 8 };
    int32_t max[LANES] = {0}; /* signed, which is compared faster */
    for (int k = 0; k < LS_EXACT_BLOCK; k += LANES)
        for (int i = 0; i < LANES; i++) {
            int32_t b = (int32_t)(ls_bits(x[k + i]) & 0x7FFFFFFFu);
            max[i] = b > max[i] ? b : max[i];
        }
    for (int i = 1; i < LANES; i++) max[0] = max[i] > max[0] ? max[i] : max[0];
    return (uint32_t)max[0];
}

/* u = ls_mantissa of a block's columns, for the exponent returned, |u| < 2^23: adding and taking off 2^23 with the sign of a number rounds it to nearest
 * even, in a loop of which compilers make vectors. */
static int block_mantissas(const float x[LS_EXACT_BLOCK], int p, int32_t u[LS_EXACT_BLOCK]) {
    const int e = ls_block_exponent(largest_bits(x));
    const float unit = ls_pow2_biased(127 + p + 127 - e);
    for (int k = 0; k < LS_EXACT_BLOCK; k++) {
        float y = x[k] * unit, whole = ls_from_bits((ls_bits(y) & 0x80000000u) | 0x4B000000u);
        u[k] = (int32_t)(y + whole - whole);
    }
    return e;
}

static void float_row(const ls_weight_form *f, const ls_tensor *t, int64_t row, int32_t *u, int32_t *scale, int *r, float *x) {
    ls_tensor_row_f32(t, row, x);
    int e_max = LS_EXACT_MIN_FLOAT_EXP;
    for (int64_t g = 0; g < f->groups; g++) {
        int64_t k = g * LS_EXACT_BLOCK, left = f->cols - k;
        if (left >= LS_EXACT_BLOCK) scale[g] = block_mantissas(x + k, f->weight_p, u + k);
        else {
            float block[LS_EXACT_BLOCK] = {0};
            int32_t padded[LS_EXACT_BLOCK];
            memcpy(block, x + k, (size_t)left * sizeof *block);
            scale[g] = block_mantissas(block, f->weight_p, padded);
            memcpy(u + k, padded, (size_t)left * sizeof *u);
        }
        if (scale[g] > e_max) e_max = scale[g];
    }
    for (int64_t g = 0; g < f->groups; g++) {
        int drop = e_max - scale[g];
        scale[g] = drop > LS_EXACT_SCALE_BITS ? 0 : 1 << (LS_EXACT_SCALE_BITS - drop);
    }
    *r = e_max - 127 - f->weight_p - LS_EXACT_SCALE_BITS;
}

void ls_weight_form_row(const ls_weight_form *f, const ls_tensor *t, int64_t row, int32_t *u, int32_t *scale, int32_t *min, int *r, float *scratch) {
    if (f->quantised) quantised_row(f, t, row, u, scale, min, r, scratch);
    else float_row(f, t, row, u, scale, r, scratch);
}
