/* Weight rows as f32 numbers: see the header. */
#include "reference/reference_weights.h"

ls_code ls_weight_reader_init(ls_weight_reader *r, const ls_param *p, ls_error *e) {
    const ls_tensor *t = p->tensor;
    *r = (ls_weight_reader){.param = p, .cols = t->rank ? t->shape[t->rank - 1] : 1};
    size_t cols = (size_t)r->cols;
    return ls_calloc(&r->row, cols, sizeof *r->row, "weight row", e);
}

void ls_weight_reader_deinit(ls_weight_reader *r) {
    ls_free(r->row);
    *r = (ls_weight_reader){0};
}

const float *ls_weight_reader_row(ls_weight_reader *r, int64_t i) {
    ls_tensor_row_values(r->param->tensor, r->param->row_begin + i, r->row);
    return r->row;
}
