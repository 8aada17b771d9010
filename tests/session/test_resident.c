/* Resident memory of the two downloaded models, after loading and after a prompt and some decoding, and the most there ever
 * was: at most the file plus 15 %, plus keys and values. Skipped, saying so, when the files are not named by LS_SMOLLM2_GGUF
 * and LS_GEMMA3_GGUF (`make test` fetches them and sets both). Each test forks: what another has freed does not count. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session/bundle.h"

enum { PROMPT = 400, ANSWER = 32 };

/* A line "|key|: N kB" of /proc/self/status, in bytes. */
static double status_bytes(const char *key) {
    char line[256];
    double kb = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':') kb = strtod(line + strlen(key) + 1, NULL);
    if (f) fclose(f);
    return kb * 1024;
}

static ls_code generate(ls_model *m, ls_error *e) {
    ls_session *s;
    int32_t prompt[PROMPT];
    uint64_t id;
    ls_event event;
    LS_TRY(ls_session_create(&s, m, e));
    for (int i = 0; i < PROMPT; i++) prompt[i] = i * 37 % 20000 + 5;
    ls_request r = {.struct_size = sizeof r, .prompt = prompt, .n_prompt = PROMPT, .max_new = ANSWER, .ignore_eos = true};
    ls_code rc = ls_session_submit(s, &r, &id, e);
    while (!rc && !ls_session_is_idle(s)) {
        rc = ls_session_step(s, e);
        while (ls_session_next_event(s, &event)) continue;
    }
    ls_session_destroy(s);
    return rc;
}

/* In the child: 0 when all is within the bound. */
static int measure(const char *path) {
    ls_model *m;
    ls_error e = {0};
    struct stat file;
    size_t weights, kv, work;
    if (stat(path, &file) || ls_model_open(&m, path, &(ls_model_options){.struct_size = sizeof(ls_model_options), .context = 512, .threads = 2}, &e)) return 2;
    double loaded = status_bytes("VmRSS");
    if (generate(m, &e)) return 2;
    m->executor->memory(m->executor, &weights, &kv, &work);
    double bound = 1.15 * (double)file.st_size, after = status_bytes("VmRSS"), peak = status_bytes("VmHWM");
    printf("file %.1f MB; resident %.1f after loading, %.1f after %d tokens, %.1f at most; allowed %.1f and %.1f for keys and values\n", (double)file.st_size / 1e6,
           loaded / 1e6, after / 1e6, PROMPT + ANSWER, peak / 1e6, bound / 1e6, (double)kv / 1e6);
    fflush(stdout);
    ls_model_destroy(m);
    return loaded > 0 && loaded <= bound && after <= bound + (double)kv && peak <= bound + (double)kv ? 0 : 1;
}

static void stays_small(const char *variable) {
    const char *path = getenv(variable);
    int status = -1;
    if (!path) {
        print_message("%s is not set: skipped\n", variable);
        skip();
    }
    pid_t child = fork();
    if (!child) _exit(measure(path));
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

static void smollm2_stays_small(void **state) { (void)state, stays_small("LS_SMOLLM2_GGUF"); }
static void gemma3_stays_small(void **state) { (void)state, stays_small("LS_GEMMA3_GGUF"); }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(smollm2_stays_small), cmocka_unit_test(gemma3_stays_small)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
