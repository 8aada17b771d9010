/* StableHLO to IREE modules (vmfb) for one device, with a cache. Needs no IREE runtime: the modules may be run elsewhere. */
#ifndef LS_XLA_IREE_COMPILER_H
#define LS_XLA_IREE_COMPILER_H

#include "xla/engine.h"

typedef struct ls_iree_compiler ls_iree_compiler;

/* What to compile for and with. Zero-initialise; strings are copied. */
typedef struct ls_iree_options {
    const char *device;       /* "local-task" (NULL), "local-sync", "cuda", "hip", "metal" */
    const char *target;       /* the one GPU architecture: sm_80 (cuda), gfx942 (hip); not for other devices */
    const char *compiler;     /* path of libIREECompiler; NULL: LOCKSTEP_IREE_COMPILER, or the wheel in a Python environment */
    const char *cache_folder; /* of compiled modules; NULL: ls_exec_cache_open's default */
    bool no_cache;            /* compile every time and hash the library at every start */
} ls_iree_options;

/* Loads the compiler and asks it what the device's target is. Errors: INVALID_ARGUMENT for an unknown device, a GPU device
 * without its target, or a target without need; those of the library's loading; FAILED_PRECONDITION when the compiler
 * names no target. */
ls_code ls_iree_compiler_create(ls_iree_compiler **out, const ls_iree_options *o, ls_error *e);
void ls_iree_compiler_destroy(ls_iree_compiler *c); /* NULL is fine */

/* Compiles |text| [len]; the module is appended to |vmfb|. |identity| (may be NULL) joins the cache key beside the
 * compiler's identity (library hash, version, flags, target) and the text. |info| may be NULL. Errors: INVALID_ARGUMENT
 * with the compiler's diagnostics. A damaged cache entry is compiled anew; one that cannot be written is left out. */
ls_code ls_iree_compile(ls_iree_compiler *c, ls_str *vmfb, const char *text, size_t len, const char *identity, ls_compile_info *info, ls_error *e);

/* Identity (device: the device's name) and traits, owned by |c|. */
const ls_engine_identity *ls_iree_compiler_identity(const ls_iree_compiler *c);
const ls_engine_traits *ls_iree_compiler_traits(const ls_iree_compiler *c);

#endif
