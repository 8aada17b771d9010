/* The tasks of a step shared among threads: each thread has a run of neighbouring tasks, which it takes in order, half of those left or the last two at a
 * time, and one that has done its own takes the last of another's. So a thread reads weights one after the other, and what it fetches past the end of its
 * tasks is what it reads next; it seldom changes the word that others may change too, which waits for every read before; and yet all threads end together, to
 * within two tasks. */
#ifndef LS_NATIVE_SHARE_H
#define LS_NATIVE_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One thread's: the step that it was last used for in the upper 16 bits, then its tasks that nobody has taken, [next, end), 24 bits each. A step that it was
 * not used for yet finds it full, so that nobody has to fill it before others take from it. */
typedef struct ls_share {
    _Alignas(64) atomic_uint_least64_t tasks;
} ls_share;

enum { LS_SHARE_STEPS = 0xFFFF, LS_SHARE_TASKS = 0xFFFFFF }; /* a pass has fewer steps, a step at most so many tasks */

/* Makes |share| [threads] ready for the steps of another pass; before the threads run. */
void ls_share_reset(ls_share *share, int threads);

/* The next tasks of |thread| in step |step|, which has |tasks|: [the returned, *end); -1: all are taken. Steps follow each other in rising order, a barrier
 * between. */
int ls_share_take(ls_share *share, int thread, int threads, int step, int tasks, int *end);

#endif
