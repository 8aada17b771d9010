/* The session seam: token ids in, token ids out, above any executor.
 *
 * The session owns the executor's slots, the queue, decoding and sampling. It knows no text. Because an executor's logits
 * depend only on the sequence's own tokens and draws are keyed by (seed, position), a request's output depends on the
 * request alone: not on its neighbours, the order of arrival, the slot or the prefill chunk. */
#ifndef LS_SESSION_SESSION_H
#define LS_SESSION_SESSION_H

#include "graph/executor.h"
#include "session/drafter.h"

typedef struct ls_session_config {
    ls_executor *executor;    /* borrowed; all slots free; max_rows >= max(chunk, slots) */
    int64_t vocab;            /* columns of the logits */
    int context, slots, chunk;/* as the executor was made */
    const int32_t *eos;       /* [n_eos] copied */
    size_t n_eos;
    bool *in_use;             /* set while the session lives; may be NULL */
    int64_t hidden;           /* columns of embeddings that prompts may bring; 0: token ids only */
    int max_rows;             /* of one forward pass: how long an image block may be; 0: max(chunk, slots) */
    size_t prefix_bytes;      /* of the prefix cache; 0: none */
    const char *prefix_folder;/* NULL: memory only; copied */
    const char *identity;     /* of what the prefix cache holds: ls_prefix_create */
    int guesses;              /* most guesses of one pass and slot; 0: none, up to LS_MAX_GUESSES */
    bool lookup;              /* guess from the request's own tokens */
    const ls_drafter_config *drafter; /* NULL: no model guesses */
} ls_session_config;

ls_code ls_session_create_on(ls_session **out, const ls_session_config *c, ls_error *e);

#endif
