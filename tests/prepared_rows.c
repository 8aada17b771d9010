/* Sequences with image blocks: see prepared_rows.h. */
#include "prepared_rows.h"

#include <stdlib.h>

static uint64_t state;

static uint32_t next(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

static void *array(size_t n, size_t size) {
    void *p = calloc(n, size);
    if (!p) abort();
    return p;
}

static void give(prepared_rows *p, const ls_graph *g, int row) {
    float *v = p->values + (int64_t)row * g->hidden;
    for (int64_t k = 0; k < g->hidden; k++) v[k] = (float)(int32_t)(next() % 20001) * 1e-4f - 1.0f;
    p->embedding[row] = v;
}

void prepared_rows_make(prepared_rows *p, const ls_graph *g, int n, const ls_span *blocks, int n_blocks, uint64_t seed) {
    state = seed;
    *p = (prepared_rows){.n = n, .token = array((size_t)n, sizeof *p->token), .embedding = array((size_t)n, sizeof(float *)),
                         .block = array((size_t)n, sizeof *p->block), .values = array((size_t)n * (size_t)g->hidden, sizeof *p->values)};
    for (int i = 0; i < n; i++) p->token[i] = (int32_t)(next() % (uint32_t)g->vocab);
    for (int b = 0; b < n_blocks; b++) {
        if (blocks[b].begin) give(p, g, blocks[b].begin - 1);
        for (int i = blocks[b].begin; i < blocks[b].end; i++) {
            p->block[i] = blocks[b];
            p->token[i] = -1; /* not read */
            give(p, g, i);
        }
    }
}

void prepared_rows_free(prepared_rows *p) {
    free(p->token);
    free(p->embedding);
    free(p->block);
    free(p->values);
    *p = (prepared_rows){0};
}

ls_code prepared_rows_pass(ls_executor *x, const prepared_rows *p, int begin, int end, int slot, float *logits, ls_error *e) {
    int n = end - begin;
    int32_t *slots = array((size_t)n, sizeof *slots), *rows = array((size_t)n, sizeof *rows);
    for (int i = 0; i < n; i++) {
        slots[i] = slot;
        rows[i] = i;
    }
    ls_batch b = {.n_rows = n, .token = p->token + begin, .slot = slots, .n_out = n, .out_row = rows, .embedding = p->embedding + begin,
                  .block = p->block + begin};
    ls_code rc = x->forward(x, &b, logits, e);
    free(slots);
    free(rows);
    return rc;
}
