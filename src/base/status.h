/* Status codes and errors: how every fallible function of lockstep reports failure.
 *
 * A fallible function returns ls_code and takes `ls_error *e` as its last parameter (may be NULL). On failure the
 * error holds the first cause: its code, the place of birth and one sentence that names the thing, the value found,
 * the value allowed and what to do. Nothing is allocated on failure. The numbering is that of absl, PJRT and IREE,
 * so foreign codes map one to one. ls_code and ls_error themselves are public: see include/lockstep.h. */
#ifndef LS_BASE_STATUS_H
#define LS_BASE_STATUS_H

#include "lockstep.h"

#if defined(__GNUC__)
#define LS_PRINTF(fmt_index, first) __attribute__((format(printf, fmt_index, first)))
#else
#define LS_PRINTF(fmt_index, first)
#endif

/* The only birthplace of an error: fills |e| when not NULL and returns |code|. A good place for a breakpoint. */
ls_code ls_error_set(ls_error *e, ls_code code, const char *file, int line, const char *fmt, ...) LS_PRINTF(5, 6);

/* Puts "formatted: " before the text of |e| on the way up; returns |code| unchanged. */
ls_code ls_error_wrap(ls_error *e, ls_code code, const char *fmt, ...) LS_PRINTF(3, 4);

/* Return a new error from the current function. */
#define LS_FAIL(e, code, ...) return ls_error_set((e), (code), __FILE__, __LINE__, __VA_ARGS__)

/* Pass a failure on; for functions that have nothing to clean up. */
#define LS_TRY(expr)                       \
    do {                                   \
        ls_code ls_try_code_ = (expr);     \
        if (ls_try_code_) return ls_try_code_; \
    } while (0)

/* Pass a failure on through the single label `out`; needs a local `ls_code rc`. */
#define LS_GOTO(expr)      \
    do {                   \
        rc = (expr);       \
        if (rc) goto out;  \
    } while (0)

/* Like LS_FAIL, through the label `out`. */
#define LS_FAIL_GOTO(e, code, ...)                                            \
    do {                                                                      \
        rc = ls_error_set((e), (code), __FILE__, __LINE__, __VA_ARGS__);      \
        goto out;                                                             \
    } while (0)

#endif
