/* The exact linear operator: block fixed point activations against integer weights. */
#include "reference/exact_linear.h"

#include "contract/exact.h"

void ls_exact_quantise(const float *x, int64_t cols, int p, ls_exact_row *row) {
    int64_t blocks = (cols + LS_EXACT_BLOCK - 1) / LS_EXACT_BLOCK;
    row->e = LS_EXACT_MIN_EXP;
    for (int64_t b = 0; b < blocks; b++) {
        int64_t begin = b * LS_EXACT_BLOCK, end = begin + LS_EXACT_BLOCK;
        uint32_t max = 0;
        for (int64_t k = begin; k < end && k < cols; k++) {
            uint32_t m = ls_bits(x[k]) & 0x7FFFFFFFu;
            if (m > max) max = m;
        }
        int e = ls_block_exponent(max);
        for (int64_t k = begin; k < end; k++) row->q[k] = k < cols ? ls_mantissa(x[k], e, p) : 0;
        row->drop[b] = e;
        if (e > row->e) row->e = e;
    }
    for (int64_t b = 0; b < blocks; b++) row->drop[b] = row->e - row->drop[b];
}

float ls_exact_dot(const ls_weight_form *f, const ls_exact_row *x, const int32_t *u, const int32_t *scale, const int32_t *min, int r) {
    int64_t acc = 0, accx = 0;
    for (int64_t g = 0; g < f->groups; g++) {
        int64_t begin = g * f->group, end = begin + f->group < f->cols ? begin + f->group : f->cols;
        int a = x->drop[begin / LS_EXACT_BLOCK];
        if (a > LS_EXACT_MAX_DROP) continue;
        int64_t dot = 0, sum = 0;
        for (int64_t k = begin; k < end; k++) {
            dot += (int64_t)x->q[k] * (u[k] - f->zero);
            sum += x->q[k];
        }
        acc += ls_rshift(scale[g] * ls_rshift(ls_rshift(dot, f->c), a), f->h);
        if (f->has_min) accx += ls_rshift(min[g] * ls_rshift(sum, a), f->h);
    }
    float v = (float)(acc + ls_rshift(accx, f->c));
    return ls_canon((v * ls_pow2(r + f->c + f->h)) * ls_pow2(x->e - 127 - f->p));
}

typedef struct work {
    ls_exact_row x;
    int32_t *u, *scale, *min;
    float *scratch;
} work;

static void work_deinit(work *w) {
    ls_free(w->x.q);
    ls_free(w->x.drop);
    ls_free(w->u);
    ls_free(w->scale);
    ls_free(w->min);
    ls_free(w->scratch);
}

static ls_code work_init(work *w, const ls_weight_form *f, int64_t rows, ls_error *e) {
    size_t blocks = (size_t)(f->cols + LS_EXACT_BLOCK - 1) / LS_EXACT_BLOCK, t = (size_t)rows;
    LS_TRY(ls_calloc(&w->x.q, t * blocks * LS_EXACT_BLOCK, sizeof *w->x.q, "exact linear", e));
    LS_TRY(ls_calloc(&w->x.drop, t * blocks, sizeof *w->x.drop, "exact linear", e));
    LS_TRY(ls_calloc(&w->u, (size_t)f->cols, sizeof *w->u, "exact linear", e));
    LS_TRY(ls_calloc(&w->scale, (size_t)f->groups, sizeof *w->scale, "exact linear", e));
    LS_TRY(ls_calloc(&w->min, (size_t)f->groups, sizeof *w->min, "exact linear", e));
    return ls_calloc(&w->scratch, ls_weight_form_scratch(f), sizeof *w->scratch, "exact linear", e);
}

ls_code ls_exact_linear(float *y, const float *x, int64_t rows, const ls_tensor *t, int64_t row_begin, int64_t n, const float *bias, ls_contract contract,
                        ls_error *e) {
    ls_weight_form f;
    LS_TRY(ls_weight_form_of(&f, t, contract, e));
    int64_t blocks = (f.cols + LS_EXACT_BLOCK - 1) / LS_EXACT_BLOCK;
    work w = {0};
    int *exponent = NULL;
    ls_code rc = work_init(&w, &f, rows, e);
    if (!rc) rc = ls_calloc(&exponent, (size_t)rows, sizeof *exponent, "exact linear", e);
    ls_exact_row row = w.x;
    for (int64_t i = 0; !rc && i < rows; i++) {
        row.q = w.x.q + i * blocks * LS_EXACT_BLOCK;
        row.drop = w.x.drop + i * blocks;
        ls_exact_quantise(x + i * f.cols, f.cols, f.p, &row);
        exponent[i] = row.e;
    }
    for (int64_t j = 0; !rc && j < n; j++) {
        int r;
        ls_weight_form_row(&f, t, row_begin + j, w.u, w.scale, w.min, &r, w.scratch);
        for (int64_t i = 0; i < rows; i++) {
            row = (ls_exact_row){w.x.q + i * blocks * LS_EXACT_BLOCK, w.x.drop + i * blocks, exponent[i]};
            float v = ls_exact_dot(&f, &row, w.u, w.scale, w.min, r);
            y[i * n + j] = bias ? ls_canon(v + ls_canon(bias[j])) : v;
        }
    }
    ls_free(exponent);
    work_deinit(&w);
    return rc;
}
