/* Memory: the only file that calls the C allocator. */
#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* Arrays from LARGE_BYTES on begin at a huge page and ask for such pages: a table walk for every 4 KiB slows reading them. */
enum { LARGE_BYTES = 32 << 20, HUGE_PAGE = 2 << 20, LINE = 64 };

bool ls_size_add(size_t a, size_t b, size_t *out) {
    if (a > SIZE_MAX - b) return false;
    *out = a + b;
    return true;
}

bool ls_size_mul(size_t a, size_t b, size_t *out) {
    if (b && a > SIZE_MAX / b) return false;
    *out = a * b;
    return true;
}

static ls_code array_bytes(size_t n, size_t elem, const char *what, size_t *bytes, ls_error *e) {
    if (!ls_size_mul(n, elem, bytes) || *bytes > PTRDIFF_MAX)
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%s: %zu elements of %zu bytes do not fit the address space", what, n, elem);
    if (!*bytes) *bytes = 1;
    return LS_OK;
}

ls_code ls_calloc(void *out, size_t n, size_t elem, const char *what, ls_error *e) {
    size_t bytes = 0;
    LS_TRY(array_bytes(n, elem, what, &bytes, e));
    void *p = calloc(bytes, 1);
    if (!p) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%s: out of memory for %zu bytes", what, bytes);
    memcpy(out, &p, sizeof p);
    return LS_OK;
}

ls_code ls_realloc(void *ptr, size_t n, size_t elem, const char *what, ls_error *e) {
    size_t bytes = 0;
    LS_TRY(array_bytes(n, elem, what, &bytes, e));
    void *old;
    memcpy(&old, ptr, sizeof old);
    void *p = realloc(old, bytes);
    if (!p) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%s: out of memory for %zu bytes", what, bytes);
    memcpy(ptr, &p, sizeof p);
    return LS_OK;
}

ls_code ls_alloc_aligned(void *out, size_t n, size_t elem, const char *what, ls_error *e) {
    size_t bytes = 0;
    LS_TRY(array_bytes(n, elem, what, &bytes, e));
    size_t align = bytes < LARGE_BYTES ? LINE : HUGE_PAGE, used = bytes;
    if (!ls_size_add(bytes, align - 1, &bytes)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%s: size overflow", what);
    bytes &= ~(align - 1);
    void *p = aligned_alloc(align, bytes);
    if (!p) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%s: out of memory for %zu bytes", what, bytes);
#ifdef MADV_HUGEPAGE
    if (align == HUGE_PAGE) { /* a wish: memory without it serves as well; a page that is used in part would take all of it where every array gets such pages */
        madvise(p, used & ~(align - 1), MADV_HUGEPAGE);
        if (bytes > (used & ~(align - 1))) madvise((char *)p + (used & ~(align - 1)), HUGE_PAGE, MADV_NOHUGEPAGE);
    }
#endif
    memcpy(out, &p, sizeof p);
    return LS_OK;
}

void ls_free(void *p) { free(p); }

void ls_give_back_memory(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

ls_code ls_grow(void *ptr, size_t n, size_t *cap, size_t elem, size_t max, const char *what, ls_error *e) {
    if (n < *cap) return LS_OK;
    if (n >= max) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%s: more than the allowed %zu entries", what, max);
    size_t want = *cap ? *cap : 8;
    while (want <= n) want = want > max / 2 ? max : want * 2;
    LS_TRY(ls_realloc(ptr, want, elem, what, e));
    *cap = want;
    return LS_OK;
}

/* The arena keeps a list of chunks; a request larger than a chunk gets a chunk of its own. */
typedef struct chunk {
    struct chunk *next;
    size_t used, size;
    _Alignas(16) unsigned char data[];
} chunk;

struct ls_arena {
    chunk *head;
};

enum { FIRST_BYTES = 4 * 1024, CHUNK_BYTES = 64 * 1024 };

/* Chunks double in size, so that an arena of little does not hold much. */
static size_t next_chunk(const ls_arena *a) {
    if (!a->head) return FIRST_BYTES;
    return a->head->size < CHUNK_BYTES / 2 ? a->head->size * 2 : CHUNK_BYTES;
}

ls_code ls_arena_create(ls_arena **out, ls_error *e) { return ls_calloc(out, 1, sizeof(ls_arena), "arena", e); }

void ls_arena_destroy(ls_arena *a) {
    if (!a) return;
    for (chunk *c = a->head, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(a);
}

ls_code ls_arena_alloc(ls_arena *a, void *out, size_t n, size_t elem, ls_error *e) {
    size_t bytes = 0;
    LS_TRY(array_bytes(n, elem, "arena", &bytes, e));
    if (!ls_size_add(bytes, 15, &bytes)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "arena: size overflow");
    bytes &= ~(size_t)15;
    if (!a->head || a->head->size - a->head->used < bytes) {
        size_t least = next_chunk(a), size = bytes > least ? bytes : least, total = 0;
        if (!ls_size_add(size, sizeof(chunk), &total)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "arena: size overflow");
        chunk *c = calloc(total, 1);
        if (!c) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "arena: out of memory for %zu bytes", total);
        c->size = size;
        c->next = a->head;
        a->head = c;
    }
    void *p = a->head->data + a->head->used;
    a->head->used += bytes;
    memcpy(out, &p, sizeof p);
    return LS_OK;
}

ls_code ls_arena_strdup(ls_arena *a, const char **out, const char *s, size_t len, ls_error *e) {
    if (len == SIZE_MAX) len = strlen(s);
    char *p;
    LS_TRY(ls_arena_alloc(a, &p, len + 1, 1, e));
    memcpy(p, s, len);
    *out = p;
    return LS_OK;
}

ls_code ls_arena_printf(ls_arena *a, const char **out, ls_error *e, const char *fmt, ...) {
    va_list ap, ap2;
    va_start(ap, fmt);
    va_copy(ap2, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = NULL;
    ls_code rc = n < 0 ? ls_error_set(e, LS_INTERNAL, __FILE__, __LINE__, "format \"%s\" failed", fmt)
                       : ls_arena_alloc(a, &p, (size_t)n + 1, 1, e);
    if (!rc) vsnprintf(p, (size_t)n + 1, fmt, ap2);
    va_end(ap2);
    if (!rc) *out = p;
    return rc;
}
