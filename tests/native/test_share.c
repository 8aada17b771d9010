/* Shares of tasks: who gets which, in calls one after the other and by threads at the same time. */
#include "test.h"

#include "native/pool.h"
#include "native/share.h"

enum { THREADS = 4 };

static ls_share share[THREADS];

static void test_own_in_order(void **state) {
    (void)state;
    ls_share_reset(share, THREADS);
    for (int i = 0; i < 3; i++) /* 10 tasks are 3, 3, 2 and 2 */
        for (int t = 0; t < THREADS; t++) assert_int_equal(ls_share_take(share, t, THREADS, 0, 10), i < 2 || t < 2 ? (t < 2 ? 3 * t : 2 + 2 * t) + i : -1);
    for (int t = 0; t < THREADS; t++) assert_int_equal(ls_share_take(share, t, THREADS, 0, 10), -1);
}

static void test_the_last_of_others(void **state) {
    (void)state;
    const int order[] = {6, 7, 9, 8, 2, 1, 0, 5, 4, 3, -1}; /* thread 2's own, then from the ends of 3, 0 and 1, which have taken nothing yet */
    ls_share_reset(share, THREADS);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) assert_int_equal(ls_share_take(share, 2, THREADS, 5, 10), order[i]);
    for (int t = 0; t < THREADS; t++) assert_int_equal(ls_share_take(share, t, THREADS, 5, 10), -1);
}

static void test_owner_and_thief_meet(void **state) {
    (void)state;
    ls_share_reset(share, 2);
    assert_int_equal(ls_share_take(share, 0, 2, 0, 4), 0);
    assert_int_equal(ls_share_take(share, 1, 2, 0, 4), 2);
    assert_int_equal(ls_share_take(share, 1, 2, 0, 4), 3);
    assert_int_equal(ls_share_take(share, 1, 2, 0, 4), 1);
    assert_int_equal(ls_share_take(share, 0, 2, 0, 4), -1);
}

static void test_fewer_tasks_than_threads(void **state) {
    (void)state;
    ls_share_reset(share, THREADS);
    assert_int_equal(ls_share_take(share, 3, THREADS, 1, 1), 0);
    assert_int_equal(ls_share_take(share, 0, THREADS, 1, 1), -1);
    assert_int_equal(ls_share_take(share, 0, THREADS, 2, 0), -1);
    assert_int_equal(ls_share_take(share, 0, THREADS, 3, 3), 0);
}

static void test_a_step_finds_shares_full(void **state) {
    (void)state;
    ls_share_reset(share, 2);
    for (int pass = 0; pass < 2; pass++, ls_share_reset(share, 2))
        for (int step = 0; step < 3; step++) {
            bool seen[7] = {false};
            for (int t; (t = ls_share_take(share, step % 2, 2, step, 7)) >= 0; seen[t] = true) assert_false(seen[t]);
            for (int i = 0; i < 7; i++) assert_true(seen[i]);
        }
}

static void test_largest_numbers(void **state) {
    (void)state;
    ls_share_reset(share, 1);
    assert_int_equal(ls_share_take(share, 0, 1, LS_SHARE_STEPS - 1, LS_SHARE_TASKS), 0);
    assert_int_equal(ls_share_take(share, 0, 1, LS_SHARE_STEPS - 1, LS_SHARE_TASKS), 1);
    ls_share_reset(share, 2);
    assert_int_equal(ls_share_take(share, 1, 2, 0, LS_SHARE_TASKS), LS_SHARE_TASKS / 2 + 1);
    for (int i = 0; i <= LS_SHARE_TASKS / 2; i++) assert_int_equal(ls_share_take(share, 0, 2, 0, LS_SHARE_TASKS), i);
    assert_int_equal(ls_share_take(share, 0, 2, 0, LS_SHARE_TASKS), LS_SHARE_TASKS - 1);
}

/* ---- At the same time ---------------------------------------------------------------------------------------------- */

enum { STEPS = 200, TASKS = 37 };

static atomic_int taken[STEPS][TASKS];
static ls_pool *pool;

static void take_all(void *ctx, int thread, int threads) {
    (void)ctx;
    for (int step = 0; step < STEPS; step++) {
        for (int t; (t = ls_share_take(share, thread, threads, step, TASKS)) >= 0;) atomic_fetch_add(&taken[step][t], 1);
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
        cmocka_unit_test(test_own_in_order),
        cmocka_unit_test(test_the_last_of_others),
        cmocka_unit_test(test_owner_and_thief_meet),
        cmocka_unit_test(test_fewer_tasks_than_threads),
        cmocka_unit_test(test_a_step_finds_shares_full),
        cmocka_unit_test(test_largest_numbers),
        cmocka_unit_test(test_threads_take_each_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
