/* One run over all passes of a comparison. Private to src/verify. */
#ifndef LS_VERIFY_VERIFY_PASS_H
#define LS_VERIFY_VERIFY_PASS_H

#include "verify/verify_side.h"

/* What does not change between runs. */
typedef struct ls_comparison {
    const ls_verify_options *o;
    ls_side side[2];
    int file;              /* the side that is a file, or -1 */
    int fed;               /* the side that same input writes to: the right one, or the executor beside a file */
    const ls_graph *graph; /* whose nodes are named and counted */
    const ls_vision *vision; /* the pass is an image; NULL: tokens */
    int32_t *ids;          /* [n_prompt + decode]; decoded ones are filled in by the first run */
    size_t n_prompt;
    int decode, chunk, passes;
    bool given_ids;        /* the decoded ids come from a file */
    ls_verify_report *r;
    ls_fault *fault;       /* on the right side; NULL: none */
} ls_comparison;

/* Runs every pass and compares the nodes of |compared| [n_nodes] (NULL: all), whose entries of r->node begin anew. *first:
 * the first node that diverges in the earliest pass where one does, or -1. Fills r->token and, once, r->side. */
ls_code ls_verify_passes(ls_comparison *c, const bool *compared, int *first, ls_error *e);

/* bisect.c: finds the first diverging node with at most |probes| nodes (and a node's inputs) observed in a run. */
ls_code ls_verify_bisect(ls_comparison *c, int probes, ls_error *e);

/* Prompt rows of the pass that begins at |position|: at most a chunk, and no image block is split. */
int64_t ls_verify_piece(const ls_comparison *c, int64_t position);

void ls_verify_tell(const ls_comparison *c, const char *name, const char *detail, int done, int total, bool begins);

#endif
