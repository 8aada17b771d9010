/* A pool of worker threads that run one function together.
 *
 * The caller's thread takes part as thread 0. Between runs the workers spin for a short bounded time, so that runs that
 * follow each other closely start without a system call, and then sleep: an idle pool uses no processor time. A pool is
 * used by one thread at a time. */
#ifndef LS_NATIVE_POOL_H
#define LS_NATIVE_POOL_H

#include "base/status.h"

typedef struct ls_pool ls_pool;

enum { LS_POOL_MAX_THREADS = 256 };

/* One thread's share of a run: |thread| in [0, threads). */
typedef void ls_pool_fn(void *ctx, int thread, int threads);

/* |threads| in [0, LS_POOL_MAX_THREADS], 0: one for each core that this process may use (native/topology.h). |pin|: each worker stays on one
 * processor, in the topology's order from the second on; the caller's thread is left as it is. |scratch_bytes|: size of the 64-byte aligned
 * working memory each thread gets. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED, FAILED_PRECONDITION when the system refuses to pin. */
ls_code ls_pool_create(ls_pool **out, int threads, bool pin, size_t scratch_bytes, ls_error *e);
void ls_pool_destroy(ls_pool *p); /* NULL is fine */

int ls_pool_threads(const ls_pool *p);
void *ls_pool_scratch(ls_pool *p, int thread); /* owned by the pool */

/* Calls fn(ctx, i, threads) once for every thread i, at the same time, and returns when all have returned. */
void ls_pool_run(ls_pool *p, ls_pool_fn *fn, void *ctx);

/* Memory that a thread will read soon: [at, end), or NULL and NULL. */
typedef struct ls_pool_idle {
    const uint8_t *at, *end;
} ls_pool_idle;

/* Inside a run, by its thread |thread|: returns when every thread of the run has called it. What was written before is visible after. Who waits first fetches
 * |idle| (NULL: nothing) into its cache, as far as it gets before the others come, and moves idle->at on; who waits long sleeps, at once where another thread
 * of the run was last on the same processor. */
void ls_pool_barrier(ls_pool *p, int thread, ls_pool_idle *idle);

/* The share [*begin, *end) of thread |thread| when |n| items are split evenly and in order. */
void ls_pool_split(int64_t n, int thread, int threads, int64_t *begin, int64_t *end);

#endif
