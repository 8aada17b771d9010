/* Opening backend xla: which engine, device, plugin and precision the model options ask for. */
#ifndef LS_SESSION_BACKEND_XLA_H
#define LS_SESSION_BACKEND_XLA_H

#include "xla/executor.h"

/* The engine that |o| names. Errors: INVALID_ARGUMENT (names), the engine's own. */
ls_code ls_backend_xla_engine(ls_engine **out, const ls_model_options *o, ls_error *e);

/* The engine and an executor of |g| on it; the caller destroys the executor before the engine. */
ls_code ls_backend_xla_open(ls_executor **out, ls_engine **engine, const ls_graph *g, ls_checkpoint *c, const ls_model_options *o, const ls_executor_options *x,
                            ls_error *e);

#endif
