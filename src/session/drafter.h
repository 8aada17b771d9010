/* Guesses at the next tokens of a sequence, which the session checks many at a time in one pass of its executor.
 *
 * A draw depends on (seed, position) and the logits alone, so a guess is right exactly when it equals the token that the session draws at
 * its position; whatever is guessed, the output stays the same. Guesses come from earlier in the same sequence (lookup), or from a
 * smaller model with the same vocabulary (a drafter), which draws with the request's own seed and options. */
#ifndef LS_SESSION_DRAFTER_H
#define LS_SESSION_DRAFTER_H

#include "graph/executor.h"
#include "session/sampler.h"

enum {
    LS_LOOKUP_MATCH = 4,       /* longest ending that is looked for */
    LS_LOOKUP_REACH = 1 << 16  /* tokens that are searched, from the last one backwards */
};

/* Finds the latest earlier place where the last LS_LOOKUP_MATCH tokens (else one less, down to 1) of token [n] stood, and writes what
 * followed it there behind them, to token [n .. n + most). What followed may reach into the guesses: a loop goes on. Returns the number of
 * guesses: |most|, or 0 without such a place. */
size_t ls_lookup(int32_t *token, size_t n, size_t most);

/* One sequence that wants |most| guesses, and how many were |made|. |token| [n + most]: the sequence, then the guesses. */
typedef struct ls_draft {
    int slot;
    int32_t *token;
    size_t n, most, made;
    const ls_sampler_params *params;
} ls_draft;

typedef struct ls_drafter ls_drafter;

typedef struct ls_drafter_config {
    ls_executor *executor; /* borrowed; all slots free */
    int64_t vocab;         /* columns of its logits */
    int64_t vocab_used;    /* ids that are guessed: at most |vocab| and the session's */
    int context, slots, max_rows; /* as the executor was made */
    bool *in_use;          /* set while the drafter lives; may be NULL */
} ls_drafter_config;

ls_code ls_drafter_create(ls_drafter **out, const ls_drafter_config *c, ls_error *e);
void ls_drafter_destroy(ls_drafter *d); /* frees its executor's slots */

/* Memory for guesses at the draws of a request with |p|: before ls_drafter_run sees it. */
ls_code ls_drafter_reserve(ls_drafter *d, const ls_sampler_params *p, ls_error *e);

/* Makes d[i].most guesses for each of |n| sequences of different slots that want some; none where the sequence has outgrown the drafter's
 * context or has a token that it does not know. The slots of the drafter must hold beginnings of the sequences. */
ls_code ls_drafter_run(ls_drafter *drafter, ls_draft *d, int n, ls_error *e);

/* Keeps at most the first |length| positions of |slot|: what came after was guessed wrong. */
void ls_drafter_keep(ls_drafter *d, int slot, size_t length);

#endif
