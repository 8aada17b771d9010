/* The checks of a batch and of executor options. */
#include "graph/batch.h"

ls_code ls_batch_check(const ls_batch *b, int64_t vocab, const ls_executor_options *o, ls_error *e) {
    if (b->n_rows < 1 || b->n_rows > o->max_rows) LS_FAIL(e, LS_INVALID_ARGUMENT, "forward pass of %d rows; allowed are 1 to %d", b->n_rows, o->max_rows);
    if (b->n_out < 0 || b->n_out > b->n_rows) LS_FAIL(e, LS_INVALID_ARGUMENT, "%d rows of logits wanted out of %d", b->n_out, b->n_rows);
    for (int i = 0; i < b->n_out; i++)
        if (b->out_row[i] < (i ? b->out_row[i - 1] + 1 : 0) || b->out_row[i] >= b->n_rows)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "output %d wants row %d; rows must ascend within 0 to %d", i, (int)b->out_row[i], b->n_rows - 1);
    for (int i = 0; i < b->n_rows; i++) {
        if (!ls_embedding_of(b, i) && (b->token[i] < 0 || b->token[i] >= vocab))
            LS_FAIL(e, LS_INVALID_ARGUMENT, "row %d: token %d is outside the vocabulary of %lld", i, (int)b->token[i], (long long)vocab);
        if (b->slot[i] < 0 || b->slot[i] >= o->max_seqs)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "row %d: slot %d does not exist; there are 0 to %d", i, (int)b->slot[i], o->max_seqs - 1);
    }
    return LS_OK;
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

ls_code ls_executor_options_check(const ls_executor_options *o, ls_error *e) {
    if (o->max_seqs < 1 || o->max_seqs > LS_MAX_SLOTS) LS_FAIL(e, LS_INVALID_ARGUMENT, "%d slots; allowed are 1 to %d", o->max_seqs, LS_MAX_SLOTS);
    if (o->context < 1 || o->context > LS_MAX_CONTEXT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "context of %d positions; allowed are 1 to %d", o->context, LS_MAX_CONTEXT);
    if (o->max_rows < 1 || o->max_rows > LS_MAX_CHUNK)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "passes of up to %d rows; allowed are 1 to %d", o->max_rows, LS_MAX_CHUNK);
    return LS_OK;
}
