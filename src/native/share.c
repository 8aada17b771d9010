/* Shares of tasks: one word for each thread, changed by compare and exchange. */
#include "native/share.h"

#include "native/pool.h"

enum { STEP_AT = 48, NEXT_AT = 24, TASK_MASK = LS_SHARE_TASKS };

void ls_share_reset(ls_share *share, int threads) {
    for (int i = 0; i < threads; i++) atomic_store_explicit(&share[i].tasks, (uint_least64_t)LS_SHARE_STEPS << STEP_AT, memory_order_relaxed);
}

/* What is left of the share of |thread| that |word| tells of. */
static void tasks_left(uint_least64_t word, int thread, int threads, int step, int tasks, int64_t *next, int64_t *end) {
    *next = (int64_t)(word >> NEXT_AT & TASK_MASK);
    *end = (int64_t)(word & TASK_MASK);
    if ((int)(word >> STEP_AT) != step) ls_pool_split(tasks, thread, threads, next, end);
}

/* Tasks of the share of |thread|: half of them from the first on for itself, or the last two; one at the end for another. */
static int take_from(ls_share *share, int thread, int threads, int step, int tasks, bool own, int *end) {
    uint_least64_t word = atomic_load_explicit(&share[thread].tasks, memory_order_relaxed), left;
    int64_t next, last, n;
    do {
        tasks_left(word, thread, threads, step, tasks, &next, &last);
        if (next == last) return -1;
        n = !own ? 1 : last - next > 2 ? (last - next) / 2 : last - next;
        left = (uint_least64_t)step << STEP_AT | (uint_least64_t)(own ? next + n : next) << NEXT_AT | (uint_least64_t)(own ? last : last - n);
    } while (!atomic_compare_exchange_weak_explicit(&share[thread].tasks, &word, left, memory_order_relaxed, memory_order_relaxed));
    *end = (int)(own ? next + n : last);
    return (int)(own ? next : last - n);
}

int ls_share_take(ls_share *share, int thread, int threads, int step, int tasks, int *end) {
    int task = take_from(share, thread, threads, step, tasks, true, end);
    for (int i = 1; i < threads && task < 0; i++) task = take_from(share, (thread + i) % threads, threads, step, tasks, false, end);
    return task;
}
