/* Checks that every executor makes before a pass, and the rows of one pass by sequence. */
#ifndef LS_GRAPH_BATCH_H
#define LS_GRAPH_BATCH_H

#include "graph/executor.h"

/* Sizes, ascending output rows, tokens within |vocab|, slots within o->max_seqs. INVALID_ARGUMENT naming row, value, range. */
ls_code ls_batch_check(const ls_batch *b, int64_t vocab, const ls_executor_options *o, ls_error *e);

/* o->max_seqs, o->context and o->max_rows within the limits of lockstep.h. */
ls_code ls_executor_options_check(const ls_executor_options *o, ls_error *e);

#endif
