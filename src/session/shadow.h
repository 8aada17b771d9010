/* A native executor that the reference follows: every value of every pass is computed a second time and compared, bit for bit. For tests and for finding
 * out whether a machine computes right; as slow as the reference. */
#ifndef LS_SESSION_SHADOW_H
#define LS_SESSION_SHADOW_H

#include "graph/executor.h"

/* |o|: of the native executor, without an observer. |reference|: the graph that the reference runs, |g| but in tests. A pass with a difference fails with
 * INTERNAL, which names the first node, row and column, and leaves the slots as they were. Slots share no blocks. Errors: those of both executors. */
ls_code ls_shadow_create(ls_executor **out, const ls_graph *g, const ls_graph *reference, ls_checkpoint *c, const ls_executor_options *o, ls_error *e);

#endif
