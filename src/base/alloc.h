/* Memory: checked size arithmetic, heap arrays that report failure, and the arena for objects that die together. */
#ifndef LS_BASE_ALLOC_H
#define LS_BASE_ALLOC_H

#include <stdarg.h>

#include "base/status.h"

/* *out = a + b or a * b; false when the true result does not fit size_t (then *out is untouched). */
bool ls_size_add(size_t a, size_t b, size_t *out);
bool ls_size_mul(size_t a, size_t b, size_t *out);

/* Zeroed array of |n| elements of |elem| bytes, aligned for any type; n == 0 gives a valid pointer. Free with ls_free.
 * |what| names the thing in the message. Errors: RESOURCE_EXHAUSTED. `out` points to a pointer of any object type. */
ls_code ls_calloc(void *out, size_t n, size_t elem, const char *what, ls_error *e);

/* Grows *ptr from any size to |n| elements, keeping contents (new tail not zeroed). *ptr may be NULL. */
ls_code ls_realloc(void *ptr, size_t n, size_t elem, const char *what, ls_error *e);

/* Like ls_calloc, aligned to 64 bytes, not zeroed; from 32 MiB on in huge pages where the system gives them. Free with ls_free. */
ls_code ls_alloc_aligned(void *out, size_t n, size_t elem, const char *what, ls_error *e);

void ls_free(void *p); /* NULL is fine */

/* Returns freed memory to the system where the C library keeps it otherwise: after many small frees. */
void ls_give_back_memory(void);

/* Makes room for one more element in a growable array {*ptr, n used, *cap}; doubles; refuses past |max| elements. */
ls_code ls_grow(void *ptr, size_t n, size_t *cap, size_t elem, size_t max, const char *what, ls_error *e);

/* ---- Arena: many small allocations, one destroy --------------------------------------------------------------- */

typedef struct ls_arena ls_arena;

ls_code ls_arena_create(ls_arena **out, ls_error *e);
void ls_arena_destroy(ls_arena *a);

/* Zeroed memory that lives until the arena is destroyed; aligned to 16 bytes. */
ls_code ls_arena_alloc(ls_arena *a, void *out, size_t n, size_t elem, ls_error *e);

/* A NUL-terminated copy of |len| bytes (SIZE_MAX: strlen) owned by the arena. */
ls_code ls_arena_strdup(ls_arena *a, const char **out, const char *s, size_t len, ls_error *e);

/* A formatted string owned by the arena. */
ls_code ls_arena_printf(ls_arena *a, const char **out, ls_error *e, const char *fmt, ...) LS_PRINTF(4, 5);

#endif
