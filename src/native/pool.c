/* The worker pool: a run is announced by a new epoch, its end by a countdown.
 *
 * Sleeping and waking follow one pattern: the sleeper first says that it sleeps, then looks again, and waits on a
 * condition variable; the waker first changes the state, then looks for sleepers. Both orders are sequentially
 * consistent, so one of the two always sees the other. All four changes read and write: qemu-aarch64 on x86 lets a
 * plain sequentially consistent store pass the load after it. */
#include "native/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "native/topology.h"

/* Rounds of waiting before a thread sleeps: some tens of microseconds, the usual gap between two runs of a pass. */
enum { SPIN_ROUNDS = 2000 };

typedef struct worker {
    ls_pool *pool;
    pthread_t id;
    int thread;
} worker;

struct ls_pool {
    int threads, started; /* |started| workers exist: threads - 1 once created */
    ls_pool_fn *fn;
    void *ctx;
    bool stop;
    atomic_uint epoch;      /* number of runs announced */
    atomic_int pending;     /* workers that have not finished the current run */
    atomic_int sleepers;    /* workers that sleep or are about to */
    atomic_int waiting;     /* the caller sleeps or is about to */
    atomic_int arrived;     /* threads inside the current barrier */
    atomic_int *place;      /* of each thread: the processor it came to its last barrier on */
    atomic_uint generation; /* barriers passed */
    pthread_mutex_t lock;
    atomic_int barred;      /* threads that sleep at the current barrier or are about to */
    pthread_cond_t start, done, passed;
    worker *workers;
    uint8_t *scratch;
    size_t scratch_bytes;
};

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static void wait_for_epoch(ls_pool *p, unsigned seen) {
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        if (atomic_load(&p->epoch) != seen) return;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    while (atomic_load(&p->epoch) == seen) pthread_cond_wait(&p->start, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *work(void *arg) {
    worker *w = arg;
    ls_pool *p = w->pool;
    for (unsigned seen = 0;; seen++) {
        wait_for_epoch(p, seen);
        if (p->stop) return NULL;
        p->fn(p->ctx, w->thread, p->threads);
        if (atomic_fetch_sub(&p->pending, 1) == 1 && atomic_load(&p->waiting)) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->done);
            pthread_mutex_unlock(&p->lock);
        }
    }
}

static void announce(ls_pool *p) {
    atomic_fetch_add(&p->epoch, 1);
    if (!atomic_load(&p->sleepers)) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
}

static void wait_for_workers(ls_pool *p) {
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        if (!atomic_load(&p->pending)) return;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    atomic_exchange(&p->waiting, 1);
    while (atomic_load(&p->pending)) pthread_cond_wait(&p->done, &p->lock);
    atomic_store(&p->waiting, 0);
    pthread_mutex_unlock(&p->lock);
}

void ls_pool_run(ls_pool *p, ls_pool_fn *fn, void *ctx) {
    if (p->threads == 1) {
        fn(ctx, 0, 1);
        return;
    }
    p->fn = fn;
    p->ctx = ctx;
    atomic_store(&p->pending, p->threads - 1);
    announce(p);
    fn(ctx, 0, p->threads);
    wait_for_workers(p);
}

static void pass_barrier(ls_pool *p) {
    atomic_store(&p->arrived, 0);
    atomic_fetch_add(&p->generation, 1);
    if (!atomic_load(&p->barred)) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->passed);
    pthread_mutex_unlock(&p->lock);
}

/* Fetches while the barrier of |generation| stands, a few lines between looks at it. */
static void fetch_idle(const ls_pool *p, unsigned generation, ls_pool_idle *idle) {
    enum { LINE = 64, LINES = 4 };
    while (idle->at && idle->end - idle->at >= LINES * LINE && atomic_load(&p->generation) == generation)
        for (int i = 0; i < LINES; i++, idle->at += LINE) __builtin_prefetch(idle->at, 0, 2);
}

/* Says where |thread| is; whether another thread was last seen there. Then waiting awake would keep it from what is waited for: where other programs use
 * the machine too, the system may leave two threads on one processor for long. Written only when it changes, for all read it. */
static bool shares_place(ls_pool *p, int thread) {
    int here = sched_getcpu();
    bool shared = false;
    if (here < 0) return false; /* the system does not say */
    if (atomic_load_explicit(&p->place[thread], memory_order_relaxed) != here) atomic_store_explicit(&p->place[thread], here, memory_order_relaxed);
    for (int i = 0; i < p->threads; i++) shared |= i != thread && atomic_load_explicit(&p->place[i], memory_order_relaxed) == here;
    return shared;
}

void ls_pool_barrier(ls_pool *p, int thread, ls_pool_idle *idle) {
    unsigned generation = atomic_load(&p->generation);
    const bool shared = shares_place(p, thread);
    if (atomic_fetch_add(&p->arrived, 1) == p->threads - 1) {
        pass_barrier(p);
        return;
    }
    if (idle) fetch_idle(p, generation, idle);
    for (int i = 0; i < (shared ? 0 : SPIN_ROUNDS); i++) {
        if (atomic_load(&p->generation) != generation) return;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->barred, 1);
    while (atomic_load(&p->generation) == generation) pthread_cond_wait(&p->passed, &p->lock);
    atomic_fetch_sub(&p->barred, 1);
    pthread_mutex_unlock(&p->lock);
}

void ls_pool_split(int64_t n, int thread, int threads, int64_t *begin, int64_t *end) {
    int64_t each = n / threads, rest = n % threads;
    *begin = each * thread + (thread < rest ? thread : rest);
    *end = *begin + each + (thread < rest);
}

int ls_pool_threads(const ls_pool *p) { return p->threads; }
void *ls_pool_scratch(ls_pool *p, int thread) { return p->scratch + (size_t)thread * p->scratch_bytes; }

static ls_code pin_worker(const worker *w, const ls_topology *t, ls_error *e) {
    int cpu = t->cpu[w->thread % t->n];
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    int refused = pthread_setaffinity_np(w->id, sizeof set, &set);
    if (refused) LS_FAIL(e, LS_FAILED_PRECONDITION, "thread pool: thread %d cannot be pinned to processor %d: %s", w->thread, cpu, strerror(refused));
    return LS_OK;
}

/* |t| NULL: not pinned. */
static ls_code start_workers(ls_pool *p, const ls_topology *t, ls_error *e) {
    for (int i = 1; i < p->threads; i++) {
        worker *w = &p->workers[i - 1];
        *w = (worker){.pool = p, .thread = i};
        if (pthread_create(&w->id, NULL, work, w))
            LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "thread pool: the system refused thread %d of %d; ask for fewer threads", i + 1, p->threads);
        p->started++;
        if (t) LS_TRY(pin_worker(w, t, e));
    }
    return LS_OK;
}

ls_code ls_pool_create(ls_pool **out, int threads, bool pin, size_t scratch_bytes, ls_error *e) {
    if (threads < 0 || threads > LS_POOL_MAX_THREADS)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "thread pool: %d threads; allowed are 0 (one a core) to %d", threads, LS_POOL_MAX_THREADS);
    ls_topology here = {0};
    ls_pool *p;
    LS_TRY(ls_calloc(&p, 1, sizeof *p, "thread pool", e));
    if (!threads || pin) ls_topology_here(&here);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->start, NULL);
    pthread_cond_init(&p->done, NULL);
    pthread_cond_init(&p->passed, NULL);
    p->threads = threads ? threads : here.threads < LS_POOL_MAX_THREADS ? here.threads : LS_POOL_MAX_THREADS;
    p->scratch_bytes = (scratch_bytes + 63) & ~(size_t)63;
    ls_code rc;
    LS_GOTO(ls_calloc(&p->workers, (size_t)p->threads, sizeof *p->workers, "thread pool", e));
    LS_GOTO(ls_calloc(&p->place, (size_t)p->threads, sizeof *p->place, "thread pool", e));
    for (int i = 0; i < p->threads; i++) atomic_init(&p->place[i], -1 - i);
    LS_GOTO(ls_alloc_aligned(&p->scratch, (size_t)p->threads, p->scratch_bytes, "thread pool", e));
    LS_GOTO(start_workers(p, pin ? &here : NULL, e));
    *out = p;
    return LS_OK;
out:
    ls_pool_destroy(p);
    return rc;
}

void ls_pool_destroy(ls_pool *p) {
    if (!p) return;
    p->stop = true;
    announce(p);
    for (int i = 0; i < p->started; i++) pthread_join(p->workers[i].id, NULL);
    pthread_cond_destroy(&p->start);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->passed);
    pthread_mutex_destroy(&p->lock);
    ls_free(p->workers);
    ls_free(p->place);
    ls_free(p->scratch);
    ls_free(p);
}
