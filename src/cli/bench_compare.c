/* lockstep bench --compare. The script lies in bench/ of the source tree that this program was built in, in share/lockstep/bench beside an installed one,
 * or where LOCKSTEP_BENCH says. */
#include "cli/bench_compare.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder of this program, ending in '/'. */
static bool own_folder(char self[PATH_MAX], char folder[PATH_MAX]) {
    ssize_t n = readlink("/proc/self/exe", self, PATH_MAX - 1);
    if (n <= 0) return false;
    self[n] = 0;
    memcpy(folder, self, (size_t)n + 1);
    strrchr(folder, '/')[1] = 0;
    return true;
}

static bool find_script(const char *folder, char script[PATH_MAX]) {
    const char *given = getenv("LOCKSTEP_BENCH"), *const beside[] = {"../../../bench", "../share/lockstep/bench"};
    if (given) return snprintf(script, PATH_MAX, "%s/compare.py", given) < PATH_MAX && !access(script, R_OK);
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        if (snprintf(script, PATH_MAX, "%s%s/compare.py", folder, beside[i]) < PATH_MAX && !access(script, R_OK)) return true;
    return false;
}

int cli_bench_compare(const cli_options *o, const char *model, const char *peers, const char *sweep, int rounds) {
    enum { MOST = 20 };
    char self[PATH_MAX], folder[PATH_MAX], script[PATH_MAX], threads[16], times[16];
    ls_error e = {0};
    if (!own_folder(self, folder) || !find_script(folder, script)) {
        ls_error_set(&e, LS_NOT_FOUND, __FILE__, __LINE__, "bench/compare.py is not beside this program; name its folder in LOCKSTEP_BENCH");
        return cli_fail(&e);
    }
    snprintf(threads, sizeof threads, "%d", o->model.threads);
    snprintf(times, sizeof times, "%d", rounds);
    const char *arguments[MOST] = {"python3", script, "--lockstep", self, "--peers", peers, "--greedy", "--rounds", times};
    int n = 9;
    const char *const more[][2] = {{"--threads", o->model.threads ? threads : NULL}, {"--contract", o->model.contract}, {"--sweep", sweep}};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        if (!more[i][1]) continue;
        arguments[n++] = more[i][0];
        arguments[n++] = more[i][1];
    }
    arguments[n] = model;
    char *argv[MOST + 1] = {NULL};
    for (int i = 0; i <= n; i++) argv[i] = (char *)(uintptr_t)arguments[i];
    execvp(argv[0], argv);
    ls_error_set(&e, LS_NOT_FOUND, __FILE__, __LINE__, "python3 is not there; --compare needs it");
    return cli_fail(&e);
}
