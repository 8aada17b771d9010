/* lockstep: the public C API.
 *
 * Handles are opaque, there is no global state, and nothing here prints, exits or aborts. A fallible call returns
 * ls_code and fills the caller's ls_error (may be NULL). `_create`/`_open` objects belong to the caller and are freed by
 * the matching `_destroy`, which accepts NULL. */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LS_VERSION_STRING "0.1.0"

/* ---- Errors ------------------------------------------------------------------------------------------------- */

/* The numbering of absl, PJRT and IREE. */
typedef enum ls_code {
    LS_OK = 0,
    LS_CANCELLED = 1,           /* the caller asked to stop */
    LS_UNKNOWN = 2,             /* a foreign error without a better code */
    LS_INVALID_ARGUMENT = 3,    /* an argument or a file is malformed, whatever the state */
    LS_DEADLINE_EXCEEDED = 4,
    LS_NOT_FOUND = 5,           /* a named file, tensor, model or key is absent */
    LS_ALREADY_EXISTS = 6,
    LS_PERMISSION_DENIED = 7,
    LS_RESOURCE_EXHAUSTED = 8,  /* memory, a capacity or a stated limit */
    LS_FAILED_PRECONDITION = 9, /* right argument, wrong state or build */
    LS_ABORTED = 10,
    LS_OUT_OF_RANGE = 11,       /* a position or size past its end */
    LS_UNIMPLEMENTED = 12,      /* well formed, but not supported here: the text says what is */
    LS_INTERNAL = 13,           /* a broken invariant of lockstep: a bug */
    LS_UNAVAILABLE = 14,        /* a library, device or server that is not there now */
    LS_DATA_LOSS = 15,          /* a truncated or corrupt file */
    LS_UNAUTHENTICATED = 16
} ls_code;

/* Caller's storage for one error; zero-initialise it. |file| is a static string. */
typedef struct ls_error {
    ls_code code;
    int line;
    const char *file;
    char text[1000];
} ls_error;

/* "INVALID_ARGUMENT" and so on; a static string. */
const char *ls_code_name(ls_code code);

#ifdef __cplusplus
}
#endif

#endif
