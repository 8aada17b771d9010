/* The host processor as a compilation target, for identities of compilers that generate code for it. */
#ifndef LS_XLA_HOST_TARGET_H
#define LS_XLA_HOST_TARGET_H

#include "base/str.h"

/* Appends one line: architecture, lockstep's instruction-set level, and every feature word a compiler may look at, e.g.
 * "x86-64 avx512 cpuid=00a20f12:7ed8320b:178bfbff:..." or "aarch64 hwcap=...". FAILED_PRECONDITION on a processor it
 * cannot describe: code for an unknown target must not be cached or reported. */
ls_code ls_host_target(ls_str *out, ls_error *e);

#endif
