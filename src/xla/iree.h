/* The IREE engine: modules compiled by iree_compiler.h and run in this process by an IREE runtime that was linked when
 * lockstep was configured with IREE_DIST. Devices: local-task and local-sync (processor), cuda, hip, metal, as far as that
 * runtime has their drivers.
 *
 *     ls_engine *x;
 *     LS_TRY(ls_iree_open(&x, &(ls_iree_options){.device = "local-task"}, e));
 *
 * Donated arguments (tf.aliasing_output) are updated in place. */
#ifndef LS_XLA_IREE_H
#define LS_XLA_IREE_H

#include "xla/iree_compiler.h"

/* Whether this build has a runtime. */
bool ls_iree_has_runtime(void);

/* |o| NULL: all defaults. Errors: UNIMPLEMENTED in a build without a runtime, saying what to install; those of
 * ls_iree_compiler_create; NOT_FOUND or UNAVAILABLE when the runtime has no such driver or device. */
ls_code ls_iree_open(ls_engine **out, const ls_iree_options *o, ls_error *e);

#endif
