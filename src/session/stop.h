/* Stop strings: text passes through until one is found; a tail that might begin one is held back.
 *
 * The result does not depend on how the text is cut into pieces: the string that is complete first ends the text, the
 * longer one when two are complete at the same byte. */
#ifndef LS_SESSION_STOP_H
#define LS_SESSION_STOP_H

#include "base/str.h"

typedef struct ls_stop {
    char **strings; /* [n], owned */
    size_t n;
    ls_str held;    /* the bytes held back: a proper prefix of some string */
    int found;      /* index of the string that ended the text; -1: none yet */
} ls_stop;

/* INVALID_ARGUMENT: an empty or too long string, too many strings. */
ls_code ls_stop_init(ls_stop *s, const char *const *strings, size_t n, ls_error *e);
void ls_stop_deinit(ls_stop *s);

/* Appends to |out| what of |text| can be shown. After a match s->found is set and further text is dropped. */
ls_code ls_stop_push(ls_stop *s, const char *text, size_t len, ls_str *out, ls_error *e);

/* Appends what is held back: the text ended without a stop string. */
ls_code ls_stop_flush(ls_stop *s, ls_str *out, ls_error *e);

#endif
