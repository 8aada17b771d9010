/* The reference executor's inside: what one operator gets to see. Two contract families implement `run`: the float one
 * (f32 or f64 elements, float_ops.inc) and the exact one (exact_run.c, f32 elements). */
#ifndef LS_REFERENCE_REFERENCE_H
#define LS_REFERENCE_REFERENCE_H

#include "graph/batch.h"

/* Operands of one node in one forward pass. Elements are f32 or f64 as the family defines. */
typedef struct ls_reference_args {
    const ls_graph *graph;
    const ls_node *node;
    const void *in[LS_MAX_INPUTS]; /* [rows, cols of the input] */
    int64_t in_cols[LS_MAX_INPUTS];
    void *out;    /* [rows, node->cols] */
    int64_t rows; /* at least 1: T, or R after row selection */
    const ls_batch *batch;
    const int32_t *position; /* [T] absolute positions of the pass's rows */
    const int *length;       /* [slots] positions of each slot, those of the pass included */
    void *const *k, *const *v; /* ATTENTION: per slot, the layer's cache rows [positions, kv_heads * head_dim] */
} ls_reference_args;

typedef ls_code (*ls_reference_run)(const ls_reference_args *a, ls_error *e);

ls_code ls_reference_run_f32(const ls_reference_args *a, ls_error *e);
ls_code ls_reference_run_f64(const ls_reference_args *a, ls_error *e);
ls_code ls_reference_run_exact(const ls_reference_args *a, ls_error *e);

/* Checks |g| and all its weights; reports progress. INVALID_ARGUMENT or UNIMPLEMENTED naming node and tensor. */
ls_code ls_reference_check_graph(const ls_graph *g, const ls_executor_options *o, ls_error *e);

#endif
