/* Weight rows as f32 numbers: see the header. */
#include "reference/reference_weights.h"

ls_code ls_weight_reader_init(ls_weight_reader *r, const ls_param *p, ls_error *e) {
    const ls_tensor *t = p->tensor;
    *r = (ls_weight_reader){.param = p, .cols = t->rank ? t->shape[t->rank - 1] : 1};
    size_t cols = (size_t)r->cols;
    LS_TRY(ls_calloc(&r->row, cols, sizeof *r->row, "weight row", e));
    if (t->format != LS_MLX_AFFINE) return LS_OK;
    size_t groups = cols / (size_t)ls_tensor_group(t);
    LS_TRY(ls_calloc(&r->q, cols, sizeof *r->q, "weight row", e));
    LS_TRY(ls_calloc(&r->scale, groups, sizeof *r->scale, "weight scales", e));
    return ls_calloc(&r->min, groups, sizeof *r->min, "weight minima", e);
}

void ls_weight_reader_deinit(ls_weight_reader *r) {
    ls_free(r->row);
    ls_free(r->q);
    ls_free(r->scale);
    ls_free(r->min);
    *r = (ls_weight_reader){0};
}

const float *ls_weight_reader_row(ls_weight_reader *r, int64_t i) {
    const ls_tensor *t = r->param->tensor;
    int64_t row = r->param->row_begin + i;
    if (t->format != LS_MLX_AFFINE) {
        ls_tensor_row_f32(t, row, r->row);
        return r->row;
    }
    ls_tensor_row_quant(t, row, r->q, r->scale, r->min);
    int64_t group = ls_tensor_group(t);
    for (int64_t k = 0; k < r->cols; k++) r->row[k] = (float)r->q[k] * r->scale[k / group] + r->min[k / group];
    return r->row;
}
