/* The IREE engine of a build without an IREE runtime: refuses, and says what is missing. */
#include "xla/iree.h"

bool ls_iree_has_runtime(void) { return false; }

ls_code ls_iree_open(ls_engine **out, const ls_iree_options *o, ls_error *e) {
    (void)o;
    *out = NULL;
    LS_FAIL(e, LS_UNIMPLEMENTED,
            "this build of lockstep has no IREE runtime; build and install IREE's runtime, configure lockstep with -DIREE_DIST=FOLDER (the one "
            "with lib/cmake/IREE) and build again, or use a PJRT plugin");
}
