/* One side of a comparison: an executor with the graph it runs, or recorded tensors. Private to src/verify. */
#ifndef LS_VERIFY_VERIFY_SIDE_H
#define LS_VERIFY_VERIFY_SIDE_H

#include "verify/negative.h"
#include "verify/verify.h"
#include "xla/engine.h"

/* What stays the same over all runs of a comparison. */
typedef struct ls_side {
    const ls_side_spec *spec;
    ls_model *model;
    ls_contract contract;
    const ls_graph *graph;     /* what it runs; for a file: NULL */
    ls_graph *own;             /* built here because the contract is another; NULL otherwise */
    ls_fault *fault;           /* right side only; NULL: none */
    bool fed;                  /* values are written into it */
    ls_engine *engine;         /* xla */
    /* A file: */
    ls_checkpoint *file;
    const ls_tensor **tensor;  /* [n_nodes] of the other side's graph; NULL where the file has none */
    int32_t *ids;              /* prompt and greedy ids */
    size_t n_prompt, n_greedy, n_unknown;
} ls_side;

/* Builds the graph of an executor's side: of the text model, or of the vision tower. */
ls_code ls_side_open(ls_side *s, const ls_side_spec *spec, ls_model *m, bool vision, ls_error *e);

/* Opens and checks the file of a file's side: |g| names the nodes. Every tensor named like a node must be [T, cols] of a float
 * type; the last node's may also be called "logits". NOT_FOUND without the file or any node of |g|, INVALID_ARGUMENT. */
ls_code ls_side_open_file(ls_side *s, const ls_side_spec *spec, const ls_graph *g, ls_error *e);

/* Rows [position, position + rows) of node |node|, to out f32 [rows, cols]. Positions must exist (ls_side_check_rows). */
void ls_side_file_rows(const ls_side *s, size_t node, int64_t position, int64_t rows, float *out);

/* Every tensor that is compared must have a row for each of |n| positions, or of |n| images of a graph that
 * pools. INVALID_ARGUMENT naming the first that has not. */
ls_code ls_side_check_rows(const ls_side *s, const ls_graph *g, int64_t n, ls_error *e);

void ls_side_close(ls_side *s);

/* An executor over the side's graph. */
ls_code ls_side_executor(const ls_side *s, ls_executor **x, const ls_executor_options *o, ls_error *e);

/* verify_xla.c: the engine of an XLA side, its executor, and its identity appended to |detail|. */
ls_code ls_side_open_engine(ls_side *s, ls_error *e);
ls_code ls_side_xla_executor(const ls_side *s, ls_executor **x, const ls_graph *g, const ls_executor_options *o, ls_error *e);
ls_code ls_side_identify_engine(const ls_side *s, const ls_executor *x, ls_str *detail, ls_error *e);

ls_code ls_side_identify(const ls_side *s, const ls_executor *x, const char *compiler, ls_verify_identity *id, ls_error *e);

#endif
