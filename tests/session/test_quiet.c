/* What a session does not do: a warm decode step makes no system call, takes no lock and allocates nothing, an idle session's threads use
 * no processor time, and threads that have to share a processor do not keep it from each other. Nothing here depends on how long anything takes.
 *
 * System calls are found by a filter that the child process puts on all its threads: everything but the pool's own (futex, sched_yield) raises
 * SIGSYS. Locks and allocations are counted by wrappers that the linker puts before them. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "native/pool.h"

enum { CONTEXT = 300, WARM = 20, STEPS = 100, MAX_THREADS = 16 };

/* ---- Counters ------------------------------------------------------------------------------------------------------ */

static atomic_long locks, allocations;
static atomic_long calls, last_call; /* system calls that the filter stopped, and the number of the last */

int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t a, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t a, size_t n);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m) { atomic_fetch_add(&locks, 1); return __real_pthread_mutex_lock(m); }
void *__wrap_malloc(size_t n) { atomic_fetch_add(&allocations, 1); return __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t m) { atomic_fetch_add(&allocations, 1); return __real_calloc(n, m); }
void *__wrap_realloc(void *p, size_t n) { atomic_fetch_add(&allocations, 1); return __real_realloc(p, n); }
void *__wrap_aligned_alloc(size_t a, size_t n) { atomic_fetch_add(&allocations, 1); return __real_aligned_alloc(a, n); }

static void stopped(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    atomic_fetch_add(&calls, 1);
    atomic_store(&last_call, info->si_syscall);
}

/* From here on this process may only wait, yield, return from signals and end. Reading the clock is allowed: where the kernel lends it no page
 * for that, it is a system call. */
static int install_filter(void) {
#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                   ALLOW(__NR_futex),
                                   ALLOW(__NR_sched_yield),
                                   ALLOW(__NR_clock_gettime),
                                   ALLOW(__NR_rt_sigreturn),
                                   ALLOW(__NR_exit_group),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)};
#undef ALLOW
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    struct sigaction action = {.sa_sigaction = stopped, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

/* ---- Decoding ------------------------------------------------------------------------------------------------------ */

/* What the steps did, in memory that the parent shares. */
typedef struct findings {
    int code; /* 0: measured */
    int steps;
    long calls, last_call, locks, allocations;
    char text[256];
} findings;

static ls_code open_session(ls_model **m, ls_session **s, const char *fixture, const char *contract, int threads, ls_error *e) {
    char path[512];
    snprintf(path, sizeof path, LS_FIXTURES "/models/%s", fixture);
    ls_model_options o = {.struct_size = sizeof o, .context = CONTEXT, .threads = threads, .contract = contract};
    LS_TRY(ls_model_open(m, path, &o, e));
    return ls_session_create(s, *m, e);
}

static ls_code submit(ls_session *s, ls_error *e) {
    int32_t prompt[WARM];
    uint64_t id;
    for (int i = 0; i < WARM; i++) prompt[i] = i + 3;
    ls_request r = {.struct_size = sizeof r, .prompt = prompt, .n_prompt = WARM, .max_new = STEPS + 1, .ignore_eos = true};
    return ls_session_submit(s, &r, &id, e);
}

/* Steps until |*tokens| are |n| or nothing is left to do. */
static ls_code step_to(ls_session *s, int *tokens, int n, ls_error *e) {
    ls_event event;
    while (*tokens < n && !ls_session_is_idle(s)) {
        LS_TRY(ls_session_step(s, e));
        while (ls_session_next_event(s, &event)) *tokens += event.finish == LS_FINISH_NONE;
    }
    return LS_OK;
}

/* The first request has the memory made that the second uses again. */
static void measure(findings *f, const char *fixture, const char *contract, int threads) {
    ls_error e = {0};
    ls_model *m;
    ls_session *s;
    int tokens = 0;
    ls_code rc = open_session(&m, &s, fixture, contract, threads, &e);
    if (!rc) rc = submit(s, &e);
    if (!rc) rc = step_to(s, &tokens, INT_MAX, &e);
    tokens = 0;
    if (!rc) rc = submit(s, &e);
    if (!rc) rc = step_to(s, &tokens, WARM, &e);
    if (!rc && install_filter()) {
        f->code = 2;
        snprintf(f->text, sizeof f->text, "the filter was refused: %s", strerror(errno));
        return;
    }
    syscall(SYS_getppid);
    if (atomic_load(&calls) != 1 || atomic_load(&last_call) != SYS_getppid) {
        f->code = 3;
        snprintf(f->text, sizeof f->text, "the filter does not see a system call");
        return;
    }
    long had_locks = atomic_load(&locks), had_allocations = atomic_load(&allocations);
    atomic_store(&calls, 0);
    if (!rc) rc = step_to(s, &tokens, STEPS, &e);
    *f = (findings){.code = rc != 0, .steps = tokens - WARM, .calls = atomic_load(&calls), .last_call = atomic_load(&last_call),
                    .locks = atomic_load(&locks) - had_locks, .allocations = atomic_load(&allocations) - had_allocations};
    if (rc) memcpy(f->text, e.text, sizeof f->text - 1);
}

static findings measured(const char *fixture, const char *contract, int threads) {
    findings *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = -1;
    assert_true(shared != MAP_FAILED);
    pid_t child = fork();
    if (!child) {
        measure(shared, fixture, contract, threads);
        syscall(SYS_exit_group, 0); /* by itself: a sanitizer does more in _exit */
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    findings f = *shared;
    munmap(shared, sizeof *shared);
    if (status || f.code) fail_msg("%s, %s, %d threads: status %d: %s", fixture, contract, threads, status, f.text);
    return f;
}

/* One thread has nobody to wait for: no locks either. */
static void decoding_makes_no_system_calls(void **state) {
    static const char *const models[] = {"llama", "gemma3", "qwen2_moe"}, *const contracts[] = {"exact16", "exact24"};
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int c = 0; c < 2; c++)
            for (int threads = 1; threads <= 2; threads++) {
                findings f = measured(models[i], contracts[c], threads);
                if (f.calls || f.allocations || (threads == 1 && f.locks))
                    fail_msg("%s, %s, %d threads, %d steps: %ld system calls (the last of number %ld), %ld allocations, %ld locks", models[i], contracts[c],
                             threads, f.steps, f.calls, f.last_call, f.allocations, f.locks);
                assert_int_equal(f.steps, STEPS - WARM);
            }
}

/* ---- Idle ---------------------------------------------------------------------------------------------------------- */

/* State and context switches of a thread; false when it cannot be read. */
static bool thread_state(const char *task, char *state, long *switches) {
    char path[300], line[256];
    *state = 0;
    *switches = 0;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", task);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        const char *at = strchr(line, ':');
        if (!strncmp(line, "State:", 6)) *state = line[7];
        else if (at && strstr(line, "ctxt_switches")) *switches += strtol(at + 1, NULL, 10);
    }
    if (f) fclose(f);
    return f && *state;
}

/* Names of the threads but the caller's. */
static int others(char names[MAX_THREADS][24]) {
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));)
        if (f->d_name[0] != '.' && atoi(f->d_name) != getpid() && n < MAX_THREADS) snprintf(names[n++], sizeof names[0], "%.20s", f->d_name);
    closedir(d);
    return n;
}

/* Keeps the processor for |ms| of its own time: time in which others that are not asleep get theirs. */
static void work(long ms) {
    struct timespec t;
    volatile unsigned x = 1;
    do {
        for (int i = 0; i < 100000; i++) x = x * 1664525u + 1013904223u;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    } while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < ms);
}

/* When the session has nothing to do, its threads fall asleep, and are not woken again: not one switch to any of them. */
static void an_idle_session_sleeps(void **state) {
    enum { THREADS = 5 };
    char names[MAX_THREADS][24], now = 0;
    long before[MAX_THREADS], after;
    ls_error e = {0};
    ls_model *m;
    ls_session *s;
    int tokens = 0;
    (void)state;
    assert_ok(open_session(&m, &s, "llama", "exact16", THREADS, &e));
    assert_ok(submit(s, &e));
    assert_ok(step_to(s, &tokens, INT_MAX, &e));
    int n = others(names);
    assert_true(n >= THREADS - 1);
    for (int i = 0; i < n; i++)
        for (bool asleep = false; !asleep; sched_yield()) {
            assert_true(thread_state(names[i], &now, &before[i]));
            asleep = now == 'S';
        }
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    work(t.tv_sec * 1000 + t.tv_nsec / 1000000 + 200);
    for (int i = 0; i < n; i++) {
        assert_true(thread_state(names[i], &now, &after));
        if (now != 'S' || after != before[i]) fail_msg("thread %s of an idle session: state %c, switched %ld times", names[i], now, after - before[i]);
    }
    ls_session_destroy(s);
    ls_model_destroy(m);
}

typedef struct late {
    ls_pool *pool;
    atomic_int here;   /* threads that are about to come to the barrier, of all runs */
    int runs;
    ptrdiff_t left[4]; /* bytes that a thread has not fetched while it waited */
} late;

/* The first thread comes to the barrier when the others sleep there. */
static void come_last(void *ctx, int thread, int threads) {
    late *l = ctx;
    char names[MAX_THREADS][24], now = 0;
    uint8_t memory[1000];
    ls_pool_idle idle = {memory, memory + sizeof memory};
    long switches;
    int n = thread ? 0 : others(names);
    if (thread) atomic_fetch_add(&l->here, 1);
    else
        while (atomic_load(&l->here) != l->runs * (threads - 1)) sched_yield();
    for (int i = 0; i < n; i++)
        for (now = 0; now != 'S'; sched_yield()) thread_state(names[i], &now, &switches);
    ls_pool_barrier(l->pool, thread, &idle);
    l->left[thread] = idle.end - idle.at;
    for (int i = 0; i < 2; i++) ls_pool_barrier(l->pool, thread, NULL);
}

static void a_long_wait_at_a_barrier_sleeps(void **state) {
    ls_error e = {0};
    late l = {0};
    (void)state;
    assert_ok(ls_pool_create(&l.pool, 4, false, 0, &e));
    for (int i = 0; i < 3; i++) {
        l.runs++;
        ls_pool_run(l.pool, come_last, &l);
        assert_int_equal(l.left[0], 1000); /* did not wait */
        for (int t = 1; t < 4; t++) assert_int_equal(l.left[t], 1000 - 3 * 4 * 64); /* whole fours of lines */
    }
    ls_pool_destroy(l.pool);
}

enum { BARRIERS = 2000 };

static void pass_barriers(void *ctx, int thread, int threads) {
    (void)threads;
    for (int i = 0; i < BARRIERS; i++) ls_pool_barrier(ctx, thread, NULL);
}

/* Where two threads have one processor between them, whoever comes first to a barrier leaves it to the other: a wait awake would last until the system takes
 * the processor away, which counts as a switch that the thread did not ask for. */
static void threads_on_one_processor_take_turns(void **state) {
    cpu_set_t before, one;
    struct rusage start, end;
    ls_pool *p;
    ls_error e = {0};
    int cpu = 0;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    while (!CPU_ISSET((size_t)cpu, &before)) cpu++;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_ok(ls_pool_create(&p, 2, false, 0, &e));
    getrusage(RUSAGE_SELF, &start);
    ls_pool_run(p, pass_barriers, p);
    getrusage(RUSAGE_SELF, &end);
    ls_pool_destroy(p);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_in_range(end.ru_nvcsw - start.ru_nvcsw, BARRIERS * 9 / 10, LONG_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(decoding_makes_no_system_calls), cmocka_unit_test(an_idle_session_sleeps),
                                       cmocka_unit_test(a_long_wait_at_a_barrier_sleeps),
                                       cmocka_unit_test(threads_on_one_processor_take_turns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
