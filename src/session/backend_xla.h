/* Opening backend xla: which engine, device, plugin, precision and buckets the model options ask for, and whether that
 * combination may be opened at all. Nothing falls back: an option that does not apply is an error. */
#ifndef LS_SESSION_BACKEND_XLA_H
#define LS_SESSION_BACKEND_XLA_H

#include "base/json.h"
#include "xla/executor.h"

/* What a model on backend xla runs on. */
typedef struct ls_backend_xla {
    ls_engine *engine;
    ls_xla_options options;
    bool qualified;
    ls_str why;   /* the model whose record qualifies the combination, or why it is not qualified */
} ls_backend_xla;

/* Options of one backend given for another, and of contracts that take none. INVALID_ARGUMENT naming the option. */
ls_code ls_backend_check_options(const ls_model_options *o, ls_contract contract, ls_error *e);

/* Buckets that are given bound the context: *context is lowered to the largest when |o| asks for no context, and INVALID_ARGUMENT
 * when it asks for more. */
ls_code ls_backend_xla_limit(const ls_model_options *o, int *context, ls_error *e);

/* Opens the engine that |o| names and reads the other options; deinit |x| also after a failure. Errors: INVALID_ARGUMENT (names), the
 * engine's own. */
ls_code ls_backend_xla_open_engine(ls_backend_xla *x, const ls_graph *g, const ls_model_options *o, ls_error *e);

/* The engine, its qualification and an executor of |g| on it; the caller destroys the executor before |x|. FAILED_PRECONDITION for a
 * combination that is not qualified, unless |o| allows that. */
ls_code ls_backend_xla_open(ls_executor **out, ls_backend_xla *x, const ls_graph *g, ls_checkpoint *c, const ls_model_options *o, const ls_executor_options *xo,
                            ls_error *e);
/* Whether |g| is qualified on the engine of |x|; |why| as ls_qualification_find. */
ls_code ls_backend_xla_qualified(const ls_backend_xla *x, const ls_graph *g, bool *qualified, ls_str *why, ls_error *e);
/* Appends what keys and values depend on beside graph, contract and weights, as lines of text: program, engine, precision, form of weights. */
ls_code ls_backend_xla_identity(const ls_backend_xla *x, bool real, ls_str *out, ls_error *e);
void ls_backend_xla_deinit(ls_backend_xla *x); /* fine on a zeroed struct */

/* Identity, precision, qualification and compiling so far, for reports; NULL without memory. |executor| may be NULL. */
json_t *ls_backend_xla_describe(const ls_backend_xla *x, const ls_executor *executor, bool real);

#endif
