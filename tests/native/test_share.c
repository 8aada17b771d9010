/* Shares of tasks: who gets which, in calls one after the other and by threads at the same time. */
#include "test.h"

#include "native/pool.h"
#include "native/share.h"

enum { THREADS = 4 };

static ls_share share[THREADS];

/* Thread |thread| of |threads| gets tasks [begin, end) of |tasks| in |step|; none for begin -1. */
static void takes(int thread, int threads, int step, int tasks, int begin, int end) {
    int got_end = end, got = ls_share_take(share, thread, threads, step, tasks, &got_end);
    assert_int_equal(got, begin);
    assert_int_equal(got_end, end);
}

static void test_own_in_order_by_halves(void **state) {
    (void)state;
    ls_share_reset(share, 2); /* 23 tasks are 12 and 11 */
    takes(0, 2, 0, 23, 0, 6);
    takes(1, 2, 0, 23, 12, 17);
    takes(0, 2, 0, 23, 6, 9);
    takes(0, 2, 0, 23, 9, 10);
    takes(1, 2, 0, 23, 17, 20);
    takes(0, 2, 0, 23, 10, 12);
    takes(1, 2, 0, 23, 20, 21);
    takes(1, 2, 0, 23, 21, 23);
    for (int t = 0; t < 2; t++) takes(t, 2, 0, 23, -1, 0);
}

static void test_the_last_of_others_one_by_one(void **state) {
    (void)state;
    const int order[] = {9, 8, 2, 1, 0, 5, 4, 3}; /* from the ends of 3, 0 and 1, which have taken nothing yet */
    ls_share_reset(share, THREADS);
    takes(2, THREADS, 5, 10, 6, 8);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) takes(2, THREADS, 5, 10, order[i], order[i] + 1);
    for (int t = 0; t < THREADS; t++) takes(t, THREADS, 5, 10, -1, 0);
}

static void test_owner_and_thief_meet(void **state) {
    (void)state;
    ls_share_reset(share, 2);
    takes(0, 2, 0, 16, 0, 4);
    takes(1, 2, 0, 16, 8, 12);
    takes(1, 2, 0, 16, 12, 14);
    takes(1, 2, 0, 16, 14, 16);
    takes(1, 2, 0, 16, 7, 8);
    takes(1, 2, 0, 16, 6, 7);
    takes(0, 2, 0, 16, 4, 6);
    for (int t = 0; t < 2; t++) takes(t, 2, 0, 16, -1, 0);
}

static void test_fewer_tasks_than_threads(void **state) {
    (void)state;
    ls_share_reset(share, THREADS);
    takes(3, THREADS, 1, 1, 0, 1);
    takes(0, THREADS, 1, 1, -1, 0);
    takes(0, THREADS, 2, 0, -1, 0);
    takes(0, THREADS, 3, 3, 0, 1);
}

static void test_a_step_finds_shares_full(void **state) {
    (void)state;
    ls_share_reset(share, 2);
    for (int pass = 0; pass < 2; pass++, ls_share_reset(share, 2))
        for (int step = 0; step < 3; step++) {
            bool seen[7] = {false};
            for (int t, end; (t = ls_share_take(share, step % 2, 2, step, 7, &end)) >= 0;)
                for (; t < end; seen[t++] = true) assert_false(seen[t]);
            for (int i = 0; i < 7; i++) assert_true(seen[i]);
        }
}

static void test_largest_numbers(void **state) {
    (void)state;
    enum { HALF = LS_SHARE_TASKS / 2 };
    ls_share_reset(share, 1);
    takes(0, 1, LS_SHARE_STEPS - 1, LS_SHARE_TASKS, 0, HALF);
    takes(0, 1, LS_SHARE_STEPS - 1, LS_SHARE_TASKS, HALF, HALF + (HALF + 1) / 2);
    ls_share_reset(share, 2);
    takes(1, 2, 0, LS_SHARE_TASKS, HALF + 1, HALF + 1 + HALF / 2);
    for (int left = HALF + 1, n, at = 0; left; left -= n, at += n) { /* thread 0's own */
        n = left > 2 ? left / 2 : left;
        takes(0, 2, 0, LS_SHARE_TASKS, at, at + n);
    }
    takes(0, 2, 0, LS_SHARE_TASKS, LS_SHARE_TASKS - 1, LS_SHARE_TASKS);
}

/* ---- At the same time ---------------------------------------------------------------------------------------------- */

enum { STEPS = 200, TASKS = 37 };

static atomic_int taken[STEPS][TASKS];
static ls_pool *pool;

static void take_all(void *ctx, int thread, int threads) {
    (void)ctx;
    for (int step = 0; step < STEPS; step++) {
        for (int t, end; (t = ls_share_take(share, thread, threads, step, TASKS, &end)) >= 0;)
            for (; t < end; t++) atomic_fetch_add(&taken[step][t], 1);
        ls_pool_barrier(pool, thread, NULL);
    }
}

static void test_threads_take_each_once(void **state) {
    (void)state;
    ls_error e = {0};
    assert_int_equal(ls_pool_create(&pool, THREADS, false, 64, &e), LS_OK);
    for (int pass = 1; pass <= 3; pass++) {
        ls_share_reset(share, THREADS);
        ls_pool_run(pool, take_all, NULL);
        for (int step = 0; step < STEPS; step++)
            for (int t = 0; t < TASKS; t++) assert_int_equal(atomic_load(&taken[step][t]), pass);
    }
    ls_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_in_order_by_halves),
        cmocka_unit_test(test_the_last_of_others_one_by_one),
        cmocka_unit_test(test_owner_and_thief_meet),
        cmocka_unit_test(test_fewer_tasks_than_threads),
        cmocka_unit_test(test_a_step_finds_shares_full),
        cmocka_unit_test(test_largest_numbers),
        cmocka_unit_test(test_threads_take_each_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
