/* Tests of src/contract/publish and src/base/lock with real processes: reuse, replacement, refusals, kills between steps. */
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"
#include "contract/publish.h"

static char folder[] = "/tmp/ls-publish-XXXXXX", artifact[64], manifest[80], lock_path[80], count_path[80];

static int set_up(void **state) {
    (void)state;
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
    if (!mkdtemp(folder)) return -1;
    snprintf(artifact, sizeof artifact, "%s/a.vmfb", folder);
    snprintf(manifest, sizeof manifest, "%s.aux.json", artifact);
    snprintf(lock_path, sizeof lock_path, "%s.lock", artifact);
    snprintf(count_path, sizeof count_path, "%s/count", folder);
    return 0;
}

/* Number of files whose name begins with "a.vmfb"; deletes everything when |clear|. */
static int files(bool clear) {
    char command[160];
    snprintf(command, sizeof command, "ls %s | grep -c '^a.vmfb' > %s/n", folder, folder);
    if (system(command) < 0) return -1;
    ls_str s = {0};
    snprintf(command, sizeof command, "%s/n", folder);
    int n = ls_file_read(&s, command, 64, NULL) ? -1 : (int)strtol(s.data, NULL, 10);
    ls_str_deinit(&s);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return clear && system(command) ? -1 : n;
}

static int tear_down(void **state) {
    (void)state;
    return files(true) < 0;
}

static void put(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static char *get(const char *path) {
    ls_error e = {0};
    ls_str s = {0};
    assert_ok(ls_file_read(&s, path, 1 << 20, &e));
    return s.data;
}

/* Writes the bytes |user| points to, and counts the call. */
static ls_code produce(void *user, const char *path, ls_error *e) {
    int fd = open(count_path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0 || write(fd, "x", 1) != 1 || close(fd)) LS_FAIL(e, LS_UNKNOWN, "cannot count");
    FILE *f = fopen(path, "wx");
    if (!f || fputs(user, f) < 0 || fclose(f)) LS_FAIL(e, LS_UNKNOWN, "cannot write");
    return LS_OK;
}

static ls_publish spec(const char *config) {
    static char bytes[] = "compiled bytes";
    return (ls_publish){.path = artifact, .identity = {.entry = "main", .config = config, .generation = "g"}, .produce = produce, .user = bytes, .wait_ms = -1};
}

static size_t productions(void) {
    struct stat st;
    return stat(count_path, &st) ? 0 : (size_t)st.st_size;
}

static void test_publish_and_reuse(void **state) {
    (void)state;
    ls_error e = {0};
    ls_publish p = spec("one");
    ls_published a, b;
    ls_manifest m;
    assert_ok(ls_artifact_publish(&p, &a, &e));
    assert_false(a.reused);
    assert_string_equal(ls_manifest_schema(&a.manifest), "lockstep-artifact-v1");
    assert_ok(ls_artifact_publish(&p, &b, &e));
    assert_true(b.reused);
    assert_memory_equal(&a.manifest, &b.manifest, sizeof a.manifest);
    assert_ok(ls_artifact_verify(artifact, &p.identity, &m, &e));
    assert_int_equal(productions(), 1);
    assert_int_equal(files(false), 2); /* no temporary file, no lock */
    p = spec("two");
    assert_error(ls_artifact_verify(artifact, &p.identity, &m, &e), LS_FAILED_PRECONDITION, "config_sha256");
    assert_ok(ls_artifact_publish(&p, &b, &e));
    assert_false(b.reused);
    assert_int_equal(productions(), 2);
}

static void test_changed_bytes_are_made_anew(void **state) {
    (void)state;
    ls_error e = {0};
    ls_publish p = spec("one");
    ls_published a;
    ls_manifest m;
    assert_ok(ls_artifact_publish(&p, &a, &e));
    put(artifact, "tampered bytes");
    assert_error(ls_artifact_verify(artifact, &p.identity, &m, &e), LS_FAILED_PRECONDITION, "vmfb_sha256");
    assert_ok(ls_artifact_publish(&p, &a, &e));
    assert_false(a.reused);
    char *text = get(artifact);
    assert_string_equal(text, "compiled bytes");
    ls_free(text);
    unlink(artifact);
    assert_error(ls_artifact_verify(artifact, &p.identity, &m, &e), LS_NOT_FOUND, "a.vmfb");
    assert_ok(ls_artifact_publish(&p, &a, &e));
    assert_int_equal(productions(), 3);
}

static void refused_untouched(const char *text, const char *part) {
    ls_error e = {0};
    ls_publish p = spec("one");
    ls_published a;
    size_t before = productions();
    put(artifact, "their bytes");
    put(manifest, text);
    assert_error(ls_artifact_publish(&p, &a, &e), LS_FAILED_PRECONDITION, part);
    char *was = get(artifact), *had = get(manifest);
    assert_string_equal(was, "their bytes");
    assert_string_equal(had, text);
    assert_int_equal(productions(), before);
    assert_int_equal(files(false), 2);
    ls_free(was);
    ls_free(had);
}

static void test_refused_before_deletion(void **state) {
    (void)state;
    refused_untouched("{\"schema\": \"lockstep-artifact-v4-future\", \"unknown\": 1}", "newer program");
    refused_untouched("{", "Nothing was deleted");
    refused_untouched("", "Nothing was deleted");
    refused_untouched("{\"schema\": \"someone-elses-v1\"}", "Nothing was deleted");
    ls_error e = {0};
    ls_manifest m;
    ls_str s = {0};
    ls_artifact_identity id = spec("one").identity;
    id.operator_contracts = "x";
    id.operator_contracts_len = 1;
    assert_ok(ls_manifest_compute(&m, &id, "their bytes", 11, &e));
    assert_ok(ls_manifest_write(&m, &s, &e));
    refused_untouched(s.data, "must not replace");
    /* An older one is replaced by a newer. */
    ls_publish p = spec("one");
    ls_published a;
    id.operator_contracts = NULL;
    assert_ok(ls_manifest_compute(&m, &id, "their bytes", 11, &e));
    ls_str_clear(&s);
    assert_ok(ls_manifest_write(&m, &s, &e));
    put(manifest, s.data);
    p.identity.operator_contracts = "x";
    p.identity.operator_contracts_len = 1;
    assert_ok(ls_artifact_publish(&p, &a, &e));
    assert_int_equal(a.manifest.version, 3);
    ls_str_deinit(&s);
}

/* What has the manifest's name and is no file. */
static void test_no_file_in_the_manifests_place(void **state) {
    (void)state;
    static const char *const parts[] = {"is not a regular file", "is not a regular file", "cannot open"};
    for (int i = 0; i < 3; i++) {
        ls_error e = {0};
        ls_publish p = spec("one");
        ls_published a;
        put(artifact, "their bytes");
        assert_int_equal(i == 0 ? mkdir(manifest, 0700) : i == 1 ? mkfifo(manifest, 0600) : symlink("/nonexistent", manifest), 0);
        assert_error(ls_artifact_publish(&p, &a, &e), i < 2 ? LS_INVALID_ARGUMENT : LS_NOT_FOUND, parts[i]);
        char *was = get(artifact);
        assert_string_equal(was, "their bytes");
        ls_free(was);
        assert_int_equal(remove(manifest), 0);
        assert_int_equal(productions(), 0);
    }
}

static ls_code fail_half_way(void *user, const char *path, ls_error *e) {
    (void)user;
    put(path, "half");
    LS_FAIL(e, LS_INTERNAL, "the compiler failed");
}

static ls_code write_nothing(void *user, const char *path, ls_error *e) {
    (void)user, (void)path, (void)e;
    return LS_OK;
}

static void test_failures_leave_nothing(void **state) {
    (void)state;
    ls_error e = {0};
    ls_publish p = spec("one");
    ls_published a;
    assert_ok(ls_artifact_publish(&p, &a, &e));
    p = spec("two");
    p.produce = fail_half_way;
    assert_error(ls_artifact_publish(&p, &a, &e), LS_INTERNAL, "the compiler failed");
    assert_int_equal(files(false), 0);
    p.produce = write_nothing;
    assert_error(ls_artifact_publish(&p, &a, &e), LS_UNKNOWN, "cannot rename");
    assert_int_equal(files(false), 0);
    p.path = "/nonexistent/folder/a";
    assert_error(ls_artifact_publish(&p, &a, &e), LS_NOT_FOUND, "cannot create the lock");
}

/* Runs |child| in a process of its own and gives its wait status. */
static int in_child(void (*child)(void)) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        child();
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static ls_code killed_after_writing(void *user, const char *path, ls_error *e) {
    LS_TRY(produce(user, path, e));
    raise(SIGKILL);
    return LS_OK;
}

static void publish_and_die(void) {
    ls_publish p = spec("one");
    ls_published a;
    p.produce = killed_after_writing;
    ls_artifact_publish(&p, &a, NULL);
}

/* The lock of a killed process is taken over, its temporary file swept, its artifact without manifest made anew. */
static void test_killed_between_steps(void **state) {
    (void)state;
    ls_error e = {0};
    ls_publish p = spec("one");
    ls_published a;
    int status = in_child(publish_and_die);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(files(false), 2); /* lock and temporary file */
    assert_true(ls_file_exists(lock_path));
    p.wait_ms = 0;
    assert_ok(ls_artifact_publish(&p, &a, &e));
    assert_false(a.reused);
    assert_int_equal(files(false), 2);
    unlink(manifest); /* as if killed between the two renames */
    assert_ok(ls_artifact_publish(&p, &a, &e));
    assert_false(a.reused);
    char *text = get(manifest); /* killed while writing the manifest: its temporary file stays without a name */
    unlink(manifest);
    char left[160];
    snprintf(left, sizeof left, "%s.compile.%ld.0123456789abcdef.tmp", artifact, 2147483647L);
    put(left, text);
    ls_free(text);
    assert_ok(ls_artifact_publish(&p, &a, &e));
    assert_false(a.reused);
    assert_int_equal(files(false), 2);
}

enum { PROCESSES = 6 };
static int begin_pipe[2];

static void publish_when_told(void) {
    char c;
    ls_publish p = spec("one");
    ls_published a;
    if (read(begin_pipe[0], &c, 1) != 1) _exit(9);
    ls_code rc = ls_artifact_publish(&p, &a, NULL);
    _exit(rc ? 8 : a.reused ? 2 : 3);
}

/* Of several processes that want one artifact at once, one makes it and the others reuse it. With |stale| they find the lock of a
 * process that is gone, which all of them may take over. */
static void compete(bool stale) {
    pid_t pid[PROCESSES];
    size_t before = productions();
    assert_int_equal(pipe(begin_pipe), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (!pid[i]) publish_when_told();
    }
    if (stale) put(lock_path, "pid=2147483647;nonce=0");
    assert_int_equal(write(begin_pipe[1], "aaaaaaaaaa", PROCESSES), PROCESSES);
    int made = 0, reused = 0;
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_true(WIFEXITED(status));
        made += WEXITSTATUS(status) == 3;
        reused += WEXITSTATUS(status) == 2;
    }
    close(begin_pipe[0]);
    close(begin_pipe[1]);
    assert_int_equal(made, 1);
    assert_int_equal(reused, PROCESSES - 1);
    assert_int_equal(productions(), before + 1);
    assert_int_equal(files(false), 2);
}

static void test_concurrent_processes(void **state) {
    (void)state;
    for (int round = 0; round < 8; round++) {
        compete(round & 1);
        unlink(manifest);
        unlink(artifact);
    }
}

static void test_lock(void **state) {
    (void)state;
    ls_error e = {0};
    ls_lock a, b;
    assert_ok(ls_lock_acquire(&a, lock_path, 0, &e));
    char *text = get(lock_path), want[32];
    snprintf(want, sizeof want, "pid=%ld;nonce=", (long)getpid());
    assert_int_equal(strncmp(text, want, strlen(want)), 0);
    assert_string_equal(text, a.content);
    ls_free(text);
    assert_error(ls_lock_acquire(&b, lock_path, 0, &e), LS_DEADLINE_EXCEEDED, want);
    assert_error(ls_lock_acquire(&b, lock_path, 20, &e), LS_DEADLINE_EXCEEDED, "20 ms");
    assert_int_equal(files(false), 1); /* no temporary file stays */
    /* A lock older than half an hour is stale although its owner lives; the first owner then releases nothing. */
    struct timespec old[2];
    clock_gettime(CLOCK_REALTIME, &old[0]);
    old[0].tv_sec -= LS_LOCK_STALE_SECONDS + 60;
    old[1] = old[0];
    assert_int_equal(utimensat(AT_FDCWD, lock_path, old, 0), 0);
    assert_ok(ls_lock_acquire(&b, lock_path, 0, &e));
    assert_string_not_equal(a.content, b.content);
    ls_lock_release(&a);
    assert_true(ls_file_exists(lock_path));
    ls_lock_release(&b);
    assert_false(ls_file_exists(lock_path));
    /* A content that names no process is stale by age alone. */
    put(lock_path, "who knows");
    assert_error(ls_lock_acquire(&b, lock_path, 0, &e), LS_DEADLINE_EXCEEDED, "who knows");
    assert_int_equal(utimensat(AT_FDCWD, lock_path, old, 0), 0);
    assert_ok(ls_lock_acquire(&b, lock_path, 0, &e));
    ls_lock_release(&b);
    put(lock_path, "pid=2147483647;nonce=0");
    assert_ok(ls_lock_acquire(&b, lock_path, 0, &e));
    ls_lock_release(&b);
    ls_lock_release(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_publish_and_reuse, set_up, tear_down), cmocka_unit_test_setup_teardown(test_changed_bytes_are_made_anew, set_up,
                tear_down),
        cmocka_unit_test_setup_teardown(test_refused_before_deletion, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_file_in_the_manifests_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failures_leave_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed_between_steps, set_up, tear_down), cmocka_unit_test_setup_teardown(test_concurrent_processes, set_up,
                tear_down),
        cmocka_unit_test_setup_teardown(test_lock, set_up, tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
