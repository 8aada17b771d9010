/* IREE's compiler as a library that is loaded at run time: finding it, checking its version, and one run from text to bytes.
 * What the flags mean is iree_compiler.h's business. */
#ifndef LS_XLA_IREE_LIBRARY_H
#define LS_XLA_IREE_LIBRARY_H

#include "base/str.h"
#include "xla/iree_compiler_abi.h"

typedef struct ls_iree_library {
    ls_iree_compiler_abi abi;
    const char *path; /* owned by the caller's arena */
} ls_iree_library;

/* Loads |path|; NULL means LOCKSTEP_IREE_COMPILER, or the iree-base-compiler wheel of a Python environment (python_env.h).
 * The library stays loaded until the process ends: it cannot be initialised a second time. Errors: NOT_FOUND naming what to
 * install, UNAVAILABLE when it cannot be loaded, UNIMPLEMENTED for another version of the interface. */
ls_code ls_iree_library_open(ls_iree_library *lib, ls_arena *a, const char *path, ls_error *e);

/* Compiles |text| [len] under |flags| [n]. |phase| NULL: the whole way, *out becomes a VM module (vmfb); else the name of
 * the phase to stop after, *out becomes MLIR text. |out| is appended to. Errors: INVALID_ARGUMENT with the compiler's
 * diagnostics; nothing is printed. */
ls_code ls_iree_library_run(const ls_iree_library *lib, const char *const *flags, int n, const char *phase, const char *text, size_t len, ls_str *out,
                            ls_error *e);

#endif
