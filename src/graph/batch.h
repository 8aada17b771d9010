/* Checks that every executor makes before a pass, and which keys a row sees. */
#ifndef LS_GRAPH_BATCH_H
#define LS_GRAPH_BATCH_H

#include "graph/executor.h"

/* Sizes, ascending output rows, tokens within the vocabulary or rows of finite numbers, whole images, slots within o->max_seqs.
 * INVALID_ARGUMENT naming row, value, range. */
ls_code ls_batch_check(const ls_batch *b, const ls_graph *g, const ls_executor_options *o, ls_error *e);

/* Each row's block of |b|, which passed ls_batch_check, against the lengths of |x|: it holds the row's position and ends with or before
 * the last row of its slot. OUT_OF_RANGE naming row, block and position. */
ls_code ls_batch_check_blocks(const ls_batch *b, const ls_executor *x, ls_error *e);

/* The block of row |row|; {0, 0}: none. */
static inline ls_span ls_block_of(const ls_batch *b, int64_t row) { return b->block ? b->block[row] : (ls_span){0, 0}; }

/* The embedding given for row |row|, or NULL. */
static inline const float *ls_embedding_of(const ls_batch *b, int64_t row) { return b->embedding ? b->embedding[row] : NULL; }

/* Keys that a row at |position| sees under |window| (0: none): the last |window| up to its own, and its block, which holds |position|. */
static inline ls_span ls_sees(int32_t position, int window, ls_span block) {
    ls_span s = {window && position >= window ? position - window + 1 : 0, position + 1};
    if (block.begin == block.end) return s;
    return (ls_span){block.begin < s.begin ? block.begin : s.begin, block.end > s.end ? block.end : s.end};
}

/* Keys that row |row| of |b|, at |position|, sees in attention |n|; its sequence has |length| positions, those of the pass included. */
static inline ls_span ls_row_sees(const ls_node *n, const ls_batch *b, int64_t row, int32_t position, int32_t length) {
    return n->bidirectional ? (ls_span){0, length} : ls_sees(position, n->window, ls_block_of(b, row));
}

/* o->max_seqs, o->context and o->max_rows within the limits of lockstep.h, and what the nodes of |g| allow. */
ls_code ls_executor_options_check(const ls_executor_options *o, const ls_graph *g, ls_error *e);

#endif
