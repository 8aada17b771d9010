/* A sequence with image blocks: random tokens, random embeddings for some rows and blocks that see themselves, for tests of executors. */
#ifndef LS_TESTS_PREPARED_ROWS_H
#define LS_TESTS_PREPARED_ROWS_H

#include "graph/executor.h"

typedef struct prepared_rows {
    int n;
    int32_t *token;         /* [n] */
    const float **embedding;/* [n], NULL entries: the token's own */
    ls_span *block;         /* [n] */
    float *values;          /* [n, hidden] behind |embedding| */
} prepared_rows;

/* |n| rows for |g|: the rows of the blocks [n_blocks] (in order, apart or adjacent) have embeddings, as has the last row before each. */
void prepared_rows_make(prepared_rows *p, const ls_graph *g, int n, const ls_span *blocks, int n_blocks, uint64_t seed);
void prepared_rows_free(prepared_rows *p);

/* Rows [begin, end) of |p| into |slot|; logits f32 [end - begin, vocab] of every row. */
ls_code prepared_rows_pass(ls_executor *x, const prepared_rows *p, int begin, int end, int slot, float *logits, ls_error *e);

#endif
