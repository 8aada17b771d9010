/* The checks of a batch and of executor options. */
#include "graph/batch.h"

#include <math.h>

/* Rows from outside: all there, and finite. */
static ls_code check_input(const ls_batch *b, const ls_graph *g, ls_error *e) {
    for (int i = 0; i < b->n_rows; i++) {
        const float *row = ls_embedding_of(b, i);
        if (!row) LS_FAIL(e, LS_INVALID_ARGUMENT, "row %d has no numbers; %s takes rows of %lld", i, g->architecture ? g->architecture : "the graph",
                          (long long)g->input_cols);
        for (int64_t k = 0; k < g->input_cols; k++)
            if (!isfinite(row[k])) LS_FAIL(e, LS_INVALID_ARGUMENT, "row %d, column %lld is %g; input must be finite", i, (long long)k, (double)row[k]);
    }
    return LS_OK;
}

/* Rows of an image stand together, each image in a slot of its own. */
static ls_code check_images(const ls_batch *b, const ls_graph *g, ls_error *e) {
    int64_t images = b->n_rows / g->image_rows;
    if (b->n_rows % g->image_rows || b->n_out != images * g->image_out)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "%d rows and %d results; an image has %lld rows and gives %lld", b->n_rows, b->n_out, (long long)g->image_rows,
                (long long)g->image_out);
    for (int i = 0; i < b->n_rows; i++) {
        bool first = i % g->image_rows == 0;
        int slot = b->slot[i];
        if (!first && slot != b->slot[i - 1]) LS_FAIL(e, LS_INVALID_ARGUMENT, "row %d: slot %d; the rows of an image are in one slot", i, slot);
        for (int64_t j = 0; first && j < i; j += g->image_rows)
            if (b->slot[j] == slot) LS_FAIL(e, LS_INVALID_ARGUMENT, "row %d: slot %d has an image already", i, slot);
    }
    return LS_OK;
}

static ls_code check_out_rows(const ls_batch *b, ls_error *e) {
    for (int i = 0; i < b->n_out; i++)
        if (b->out_row[i] < (i ? b->out_row[i - 1] + 1 : 0) || b->out_row[i] >= b->n_rows)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "output %d wants row %d; rows must ascend within 0 to %d", i, (int)b->out_row[i], b->n_rows - 1);
    return LS_OK;
}

ls_code ls_batch_check(const ls_batch *b, const ls_graph *g, const ls_executor_options *o, ls_error *e) {
    if (b->n_rows < 1 || b->n_rows > o->max_rows) LS_FAIL(e, LS_INVALID_ARGUMENT, "forward pass of %d rows; allowed are 1 to %d", b->n_rows, o->max_rows);
    if (b->n_out < 0 || b->n_out > b->n_rows) LS_FAIL(e, LS_INVALID_ARGUMENT, "%d rows of logits wanted out of %d", b->n_out, b->n_rows);
    if (!g->image_rows) LS_TRY(check_out_rows(b, e));
    for (int i = 0; i < b->n_rows; i++) {
        if (!g->input_cols && !ls_embedding_of(b, i) && (b->token[i] < 0 || b->token[i] >= g->vocab))
            LS_FAIL(e, LS_INVALID_ARGUMENT, "row %d: token %d is outside the vocabulary of %lld", i, (int)b->token[i], (long long)g->vocab);
        if (b->slot[i] < 0 || b->slot[i] >= o->max_seqs)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "row %d: slot %d does not exist; there are 0 to %d", i, (int)b->slot[i], o->max_seqs - 1);
    }
    if (g->image_rows) LS_TRY(check_images(b, g, e));
    return g->input_cols ? check_input(b, g, e) : LS_OK;
}

ls_code ls_batch_check_blocks(const ls_batch *b, const ls_executor *x, ls_error *e) {
    if (!b->block) return LS_OK;
    int rows[LS_MAX_SLOTS] = {0}, before[LS_MAX_SLOTS] = {0};
    for (int i = 0; i < b->n_rows; i++) rows[b->slot[i]]++;
    for (int i = 0; i < b->n_rows; i++) {
        int slot = b->slot[i], length = x->length(x, slot), position = length + before[slot]++;
        ls_span s = b->block[i];
        if (s.begin == s.end) continue;
        if (s.begin < 0 || s.begin > position || s.end <= position || s.end > length + rows[slot])
            LS_FAIL(e, LS_OUT_OF_RANGE, "row %d: its block [%d, %d) must hold its position %d and end within the pass, at or before %d", i, (int)s.begin,
                    (int)s.end, position, length + rows[slot]);
    }
    return LS_OK;
}

/* No position past the end of a table. */
static ls_code check_positions(const ls_executor_options *o, const ls_graph *g, ls_error *e) {
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ls_node *n = &g->nodes[i];
        if (n->op == LS_OP_ADD_POSITION && o->context > n->w[0]->rows)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "context of %d positions; the table of node \"%s\" has %lld", o->context, n->name, (long long)n->w[0]->rows);
    }
    return LS_OK;
}

ls_code ls_executor_options_check(const ls_executor_options *o, const ls_graph *g, ls_error *e) {
    if (o->max_seqs < 1 || o->max_seqs > LS_MAX_SLOTS) LS_FAIL(e, LS_INVALID_ARGUMENT, "%d slots; allowed are 1 to %d", o->max_seqs, LS_MAX_SLOTS);
    if (o->context < 1 || o->context > LS_MAX_CONTEXT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "context of %d positions; allowed are 1 to %d", o->context, LS_MAX_CONTEXT);
    if (o->max_rows < 1 || o->max_rows > LS_MAX_CHUNK)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "passes of up to %d rows; allowed are 1 to %d", o->max_rows, LS_MAX_CHUNK);
    return check_positions(o, g, e);
}
