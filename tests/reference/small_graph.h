/* Graphs of a few nodes on tables of test numbers, run by the reference executor with every node's output kept.
 *
 * A test begins with an embedding "x" of SMALL_VOCAB rows, adds the nodes it is about, and ends with the value to look
 * at; the harness appends row selection and a matrix to logits. All memory is static: one small graph exists at a time.
 */
#ifndef LS_TESTS_SMALL_GRAPH_H
#define LS_TESTS_SMALL_GRAPH_H

#include "graph/executor.h"

enum { SMALL_VOCAB = 32, SMALL_MAX_ROWS = 128, SMALL_MAX_NODES = 64 };

typedef struct small_output {
    const ls_node *node;
    int64_t rows, cols;
    float *values; /* [rows, cols] */
} small_output;

typedef struct small_graph {
    ls_graph *g;
    ls_executor *x;
    int value;                             /* of the embedding "x" */
    const float *table;                    /* [SMALL_VOCAB, cols] behind it */
    small_output outputs[SMALL_MAX_NODES]; /* of the last pass, in the order the observer saw them */
    int n_outputs;
} small_graph;

/* A matrix [rows, cols] of |values|, or of numbers in (-1, 1) when NULL; rows 1: a vector. Lives until the next
 * small_begin. */
const ls_param *small_param(const char *name, int64_t rows, int64_t cols, const float *values);
/* The numbers of a parameter made above. */
const float *small_numbers(const ls_param *p);

/* Graph with the embedding "x" [T, cols] of |table| [SMALL_VOCAB, cols] (NULL: random numbers). */
ls_code small_begin(small_graph *s, ls_contract contract, int64_t cols, const float *table, ls_error *e);
/* Ends the graph with |value| and creates the executor. |o| NULL: 4 slots of 256 positions, f32. */
ls_code small_end(small_graph *s, int value, const ls_executor_options *o, ls_error *e);
void small_destroy(small_graph *s);

/* The options that small_end takes for NULL. */
ls_executor_options small_options(bool f64);

/* One pass of |n| rows of slot |slot|, logits of every row into |logits| [n, SMALL_VOCAB] (NULL: not wanted). */
ls_code small_pass(small_graph *s, const int32_t *tokens, int n, int slot, float *logits, ls_error *e);

/* One pass of any batch. */
ls_code small_batch(small_graph *s, const ls_batch *b, float *logits, ls_error *e);

/* Output of the named node in the last pass. */
const float *small_output_of(const small_graph *s, const char *name);

/* A number in (-1, 1) of a fixed sequence that small_begin restarts. */
float small_random(void);

#endif
