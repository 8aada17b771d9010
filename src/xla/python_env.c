/* The search for Python package folders. A prefix such as /usr holds them in lib/python3*, under one of two names. */
#include "xla/python_env.h"

#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* One folder under two names: lib64 is often a link to lib. */
static bool is_same(const char *a, const char *b) {
    struct stat x, y;
    return !strcmp(a, b) || (!stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

static ls_code add_folder(ls_python_env *env, ls_arena *a, const char *path, ls_error *e) {
    if (!ls_is_folder(path)) return LS_OK;
    for (size_t i = 0; i < env->n; i++)
        if (is_same(env->folder[i], path)) return LS_OK;
    if (env->n == LS_PYTHON_ENV_MAX) return LS_OK;
    return ls_arena_strdup(a, &env->folder[env->n++], path, SIZE_MAX, e);
}

static bool needs_quoting(char c) { return c == '*' || c == '?' || c == '[' || c == '\\'; }

/* Folder names from the environment are taken literally. */
static ls_code append_quoted(ls_str *s, const char *path, ls_error *e) {
    for (; *path; path++) {
        if (needs_quoting(*path)) LS_TRY(ls_str_append(s, "\\", 1, e));
        LS_TRY(ls_str_append(s, path, 1, e));
    }
    return LS_OK;
}

static ls_code glob_in(const char *folder, const char *pattern, glob_t *g, ls_error *e) {
    ls_str s = {0};
    ls_code rc = append_quoted(&s, folder, e);
    if (!rc) rc = ls_str_printf(&s, e, "/%s", pattern);
    *g = (glob_t){0};
    if (!rc && glob(s.data, 0, NULL, g) == GLOB_NOSPACE)
        rc = ls_error_set(e, LS_RESOURCE_EXHAUSTED, __FILE__, __LINE__, "out of memory while searching \"%s\"", folder);
    ls_str_deinit(&s);
    return rc;
}

/* Newest version last in byte order is good enough: an environment has one, a system one or two. */
static ls_code add_prefix(ls_python_env *env, ls_arena *a, const char *prefix, ls_error *e) {
    static const char *const patterns[] = {"lib/python3*/site-packages", "lib64/python3*/site-packages", "lib/python3*/dist-packages"};
    for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++) {
        glob_t g;
        ls_code rc = glob_in(prefix, patterns[k], &g, e);
        for (size_t i = g.gl_pathc; !rc && i > 0; i--) rc = add_folder(env, a, g.gl_pathv[i - 1], e);
        globfree(&g);
        LS_TRY(rc);
    }
    return LS_OK;
}

/* The prefix of an interpreter is the folder above its bin. */
static ls_code add_interpreter(ls_python_env *env, ls_arena *a, const char *path, ls_error *e) {
    char prefix[PATH_MAX];
    size_t n = strlen(path);
    if (n >= sizeof prefix) return LS_OK;
    memcpy(prefix, path, n + 1);
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(prefix, '/');
        if (!slash) return LS_OK;
        *slash = 0;
    }
    return add_prefix(env, a, prefix, e);
}

static ls_code add_path_entry(ls_python_env *env, ls_arena *a, const char *folder, ls_error *e) {
    const char *python;
    char real[PATH_MAX];
    LS_TRY(ls_path_join(a, &python, folder, "python3", e));
    if (!ls_file_exists(python)) return LS_OK;
    LS_TRY(add_interpreter(env, a, python, e));
    if (realpath(python, real)) LS_TRY(add_interpreter(env, a, real, e));
    return LS_OK;
}

static ls_code each_entry(ls_python_env *env, ls_arena *a, const char *list, ls_code (*add)(ls_python_env *, ls_arena *, const char *, ls_error *),
                          ls_error *e) {
    while (list && *list) {
        size_t n = strcspn(list, ":");
        const char *entry;
        LS_TRY(ls_arena_strdup(a, &entry, list, n, e));
        if (n) LS_TRY(add(env, a, entry, e));
        list += n + (list[n] == ':');
    }
    return LS_OK;
}

/* An environment with packages below it, or a package folder itself. */
static ls_code add_named(ls_python_env *env, ls_arena *a, const char *folder, ls_error *e) {
    size_t before = env->n;
    LS_TRY(add_prefix(env, a, folder, e));
    return env->n == before ? add_folder(env, a, folder, e) : LS_OK;
}

ls_code ls_python_env_find(ls_python_env *env, ls_arena *a, ls_error *e) {
    *env = (ls_python_env){0};
    LS_TRY(each_entry(env, a, getenv("LOCKSTEP_PYTHON_ENV"), add_named, e));
    LS_TRY(each_entry(env, a, getenv("PYTHONPATH"), add_folder, e));
    const char *const prefixes[] = {getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX")};
    for (size_t i = 0; i < 2; i++)
        if (prefixes[i] && *prefixes[i]) LS_TRY(add_prefix(env, a, prefixes[i], e));
    LS_TRY(each_entry(env, a, getenv("PATH"), add_path_entry, e));
    const char *home = getenv("HOME"), *local;
    if (!home || !*home) return LS_OK;
    LS_TRY(ls_path_join(a, &local, home, ".local", e));
    return add_prefix(env, a, local, e);
}

ls_code ls_python_env_file(const ls_python_env *env, ls_arena *a, const char *pattern, const char **path, ls_error *e) {
    *path = NULL;
    for (size_t i = 0; i < env->n && !*path; i++) {
        glob_t g;
        ls_code rc = glob_in(env->folder[i], pattern, &g, e);
        for (size_t j = 0; !rc && j < g.gl_pathc && !*path; j++)
            if (ls_file_exists(g.gl_pathv[j])) rc = ls_arena_strdup(a, path, g.gl_pathv[j], SIZE_MAX, e);
        globfree(&g);
        LS_TRY(rc);
    }
    return LS_OK;
}
