/* Weight rows as f32 numbers: what the float contract multiplies by. */
#ifndef LS_REFERENCE_REFERENCE_WEIGHTS_H
#define LS_REFERENCE_REFERENCE_WEIGHTS_H

#include "graph/graph.h"

/* Reads rows of one parameter's tensor, one at a time. */
typedef struct ls_weight_reader {
    const ls_param *param;
    int64_t cols; /* of a tensor row, which for a vector may be shorter than the parameter */
    float *row;   /* [cols] the row read last */
} ls_weight_reader;

/* Deinit also after a failure. RESOURCE_EXHAUSTED. */
ls_code ls_weight_reader_init(ls_weight_reader *r, const ls_param *p, ls_error *e);
void ls_weight_reader_deinit(ls_weight_reader *r);

/* Row |i| of the parameter, [cols], valid until the next call: ls_tensor_row_values. */
const float *ls_weight_reader_row(ls_weight_reader *r, int64_t i);

#endif
