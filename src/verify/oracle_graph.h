/* Exact probes: one operator of docs/contracts.md each, as a graph of an embedding (the fixture), that operator and row
 * selection, whose logits are the operator's bits. Operators of vision towers stand between the fixture's rows as an image and a pool. */
#ifndef LS_VERIFY_ORACLE_GRAPH_H
#define LS_VERIFY_ORACLE_GRAPH_H

#include "verify/oracle_suite.h"

enum { LS_EXACT_VOCAB = 320, LS_EXACT_ROWS = 24, LS_EXACT_LONG_ROWS = 300, LS_EXACT_SINGLE_ROWS = 4 };

typedef struct ls_exact_probe ls_exact_probe;

/* A graph under construction. */
typedef struct ls_exact_build {
    const ls_exact_probe *probe;
    ls_arena *a;
    ls_graph *g;
    ls_oracle_case *c; /* receives an operand per tensor */
    uint64_t seed;
    int x;             /* the embedding, or the image's rows: [T, probe->cols] */
    float *rows;       /* of a probe with a grid: the image [grid^2, cols] */
} ls_exact_build;

struct ls_exact_probe {
    const char *key;    /* "linear.q4_0": the operation is "exact-oracle.<key>.<contract>" */
    const char *op;     /* name of the operator in the contract's record */
    int cols;           /* of the fixture, at most LS_EXACT_VOCAB values wide where it is the result */
    int rows;           /* of the first pass; 0: LS_EXACT_ROWS. LS_EXACT_SINGLE_ROWS passes of one row follow */
    int grid, pool;     /* rows are an image of grid x grid, pooled after the operator by squares of |pool| (0: 1, which copies); 0: tokens */
    bool every_other;   /* only every other row's logits are asked for */
    float table_scale;  /* factor of the embedding; 0: 1 */
    ls_format format;   /* of the probe's weight, or of the table for "embed" */
    /* Adds the operator; *value starts as the embedding. |arg| tells variants apart. */
    ls_code (*add)(ls_exact_build *b, int *value, ls_error *e);
    int arg;
};

/* The table; NULL past the end. */
const ls_exact_probe *ls_exact_probe_at(size_t i);

/* A weight [rows, cols] of pseudo-random numbers in |format|, listed among the operands; rows 1: a vector. */
ls_code ls_exact_param(ls_exact_build *b, const ls_param **out, const char *name, ls_format format, int64_t rows, int64_t cols, ls_error *e);
/* A table [LS_EXACT_VOCAB, cols] of values in [-1, 1) in |format|: for embeddings. */
ls_code ls_exact_table(ls_exact_build *b, const ls_param **out, ls_format format, int64_t cols, ls_error *e);
/* The fixture [LS_EXACT_VOCAB, cols] as a table f32 [LS_EXACT_VOCAB, 2 cols]: its values are x y y of the halves x, y. */
ls_code ls_exact_fixture(ls_exact_build *b, const ls_param **out, int64_t cols, ls_error *e);

#endif
