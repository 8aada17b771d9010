/* Buffers between guard pages, and calls that survive a fault. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkkern.h"

static size_t page(void) { return (size_t)sysconf(_SC_PAGESIZE); }

void ck_buffer_init(ck_buffer *b, size_t bytes, ck_side side) {
    size_t inner = (bytes + page() - 1) / page() * page();
    if (!inner) inner = page();
    b->page_bytes = inner + 2 * page();
    b->bytes = bytes;
    b->pages = mmap(NULL, b->page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->pages == MAP_FAILED || mprotect(b->pages + page(), inner, PROT_READ | PROT_WRITE)) {
        fprintf(stderr, "checkkern: no memory for a buffer of %zu bytes\n", bytes);
        exit(2);
    }
    b->data = b->pages + page() + (side == CK_AT_END ? inner - bytes : 0);
}

void ck_buffer_deinit(ck_buffer *b) {
    if (b->pages) munmap(b->pages, b->page_bytes);
    *b = (ck_buffer){0};
}

void ck_buffer_protect(const ck_buffer *b, bool read_only) {
    mprotect(b->pages + page(), b->page_bytes - 2 * page(), read_only ? PROT_READ : PROT_READ | PROT_WRITE);
}

static sigjmp_buf escape;

static void on_signal(int number) { siglongjmp(escape, number); }

const char *ck_guarded(void (*fn)(void *ctx), void *ctx) {
    static const int caught[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    struct sigaction old[4], now = {.sa_handler = on_signal};
    for (int i = 0; i < 4; i++) sigaction(caught[i], &now, &old[i]);
    int number = sigsetjmp(escape, 1);
    if (!number) fn(ctx);
    for (int i = 0; i < 4; i++) sigaction(caught[i], &old[i], NULL);
    return !number ? NULL : number == SIGILL ? "SIGILL" : number == SIGFPE ? "SIGFPE" : "a fault outside the arrays or in a read-only one";
}
