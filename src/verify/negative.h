/* Negative controls: deliberate faults on the right side that a comparison must report.
 *
 * A fault is a copy of the graph with changed attributes, or a change of values as they pass the observer: before a node's
 * value is compared (as if the node computed it), or after (what only its readers see). */
#ifndef LS_VERIFY_NEGATIVE_H
#define LS_VERIFY_NEGATIVE_H

#include "graph/executor.h"

typedef struct ls_fault ls_fault;

/* One line per fault for help texts: name and meaning; NULL past the end. */
const char *ls_fault_name(size_t i);
const char *ls_fault_meaning(size_t i);

/* A prompt with images, for faults that need to know them; all NULL without. Borrowed. */
typedef struct ls_fault_prompt {
    const float *const *embedding; /* [n] */
    const ls_span *block;          /* [n] */
    size_t n;
} ls_fault_prompt;

/* The fault |name| for |g|, whose nodes must outlive it. NOT_FOUND: no such fault or node; FAILED_PRECONDITION: the fault
 * does not apply to this model, with the reason. */
ls_code ls_fault_create(ls_fault **out, const ls_graph *g, const ls_fault_prompt *prompt, const char *name, ls_error *e);
void ls_fault_destroy(ls_fault *f);

/* The graph that the right side runs: |g| itself, or a copy that lives as long as |f|. */
const ls_graph *ls_fault_graph(const ls_fault *f);

/* What the right side's pass is: |b| as the fault changes it. */
void ls_fault_pass(const ls_fault *f, ls_batch *b);

/* Nodes whose values the fault must see, added to mask [n_nodes]. */
void ls_fault_observe(const ls_fault *f, bool *mask);

/* Forgets what earlier passes left: before a new run. */
void ls_fault_reset(ls_fault *f);

/* Hooks of node |node| in a pass whose rows begin at |position|; |values| f32 [rows, cols]. */
void ls_fault_before(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols, int64_t position);
void ls_fault_after(ls_fault *f, size_t node, float *values, int64_t rows, int64_t cols);

/* After a run: RESOURCE_EXHAUSTED when the fault could not be planted, FAILED_PRECONDITION when the run's tokens gave it nothing to
 * change, as one row cannot change places. */
ls_code ls_fault_status(const ls_fault *f, ls_error *e);

/* FAILED_PRECONDITION: the fault left every value as it was. */
ls_code ls_fault_unseen(const ls_fault *f, ls_error *e);

#endif
