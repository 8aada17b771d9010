/* Errors: filling and prefixing caller-owned ls_error records. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

ls_code ls_error_set(ls_error *e, ls_code code, const char *file, int line, const char *fmt, ...) {
    if (e) {
        e->code = code;
        e->file = file;
        e->line = line;
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(e->text, sizeof e->text, fmt, ap);
        va_end(ap);
    }
    return code;
}

ls_code ls_error_wrap(ls_error *e, ls_code code, const char *fmt, ...) {
    if (e) {
        char old[sizeof e->text];
        memcpy(old, e->text, sizeof old);
        va_list ap;
        va_start(ap, fmt);
        int n = vsnprintf(e->text, sizeof e->text, fmt, ap);
        va_end(ap);
        if (n >= 0 && (size_t)n < sizeof e->text)
            snprintf(e->text + n, sizeof e->text - (size_t)n, ": %.*s", (int)(sizeof e->text - (size_t)n), old);
    }
    return code;
}

const char *ls_code_name(ls_code code) {
    static const char *const names[] = {
        "OK",        "CANCELLED",         "UNKNOWN",          "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED", "NOT_FOUND",
        "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
        "UNIMPLEMENTED", "INTERNAL",      "UNAVAILABLE",      "DATA_LOSS",          "UNAUTHENTICATED"};
    return (unsigned)code < sizeof names / sizeof *names ? names[code] : "UNKNOWN";
}
