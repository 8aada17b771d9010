/* src/xla: the search for Python packages and the cache of compiled artifacts, on real folders. */
#include "test.h"

#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "xla/artifact_cache.h"
#include "xla/python_env.h"

static char root[] = "/tmp/ls_artifacts_XXXXXX";

static void make_file(const char *relative, const char *text) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", root, relative);
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0777);
        *p = '/';
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void set_env(const char *name, const char *relative) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", root, relative);
    setenv(name, path, 1);
}

static int make_root(void **state) {
    (void)state;
    if (!mkdtemp(root)) return -1;
    make_file("venv/bin/python3", "");
    make_file("venv/lib/python3.11/site-packages/maker/lib1.so", "venv");
    make_file("other/bin/python3", "");
    make_file("other/lib/python3.12/site-packages/maker/lib0.so", "other");
    make_file("other/lib/python3.12/site-packages/second/lib.so", "other");
    make_file("odd [1]*/third/lib.so", "target");
    make_file("named/second/lib.so", "named");
    return 0;
}

static int remove_root(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "/bin/rm -rf %s", root);
    return system(command);
}

static void packages_are_found_in_order(void **state) {
    (void)state;
    ls_error e = {0};
    ls_arena *a;
    ls_python_env env;
    const char *path;
    assert_ok(ls_arena_create(&a, &e));
    set_env("VIRTUAL_ENV", "venv");
    set_env("PATH", "other/bin");
    set_env("PYTHONPATH", "odd [1]*");
    set_env("HOME", "nothing");
    unsetenv("CONDA_PREFIX");
    unsetenv("LOCKSTEP_PYTHON_ENV");
    assert_ok(ls_python_env_find(&env, a, &e));
    assert_int_equal(env.n, 3);
    assert_ok(ls_python_env_file(&env, a, "maker/lib?.so", &path, &e));
    assert_non_null(strstr(path, "/venv/lib/python3.11/site-packages/maker/lib1.so"));
    assert_ok(ls_python_env_file(&env, a, "second/lib.so", &path, &e));
    assert_non_null(strstr(path, "/other/"));
    assert_ok(ls_python_env_file(&env, a, "third/*.so", &path, &e));
    assert_non_null(strstr(path, "/odd [1]*/third/lib.so"));
    assert_ok(ls_python_env_file(&env, a, "absent/*.so", &path, &e));
    assert_null(path);

    char named[300];
    snprintf(named, sizeof named, "%s/other:%s/named", root, root);
    setenv("LOCKSTEP_PYTHON_ENV", named, 1);
    assert_ok(ls_python_env_find(&env, a, &e));
    assert_int_equal(env.n, 4); /* "other" comes first and once */
    assert_ok(ls_python_env_file(&env, a, "maker/lib?.so", &path, &e));
    assert_non_null(strstr(path, "/other/"));
    setenv("LOCKSTEP_PYTHON_ENV", strchr(named, ':') + 1, 1);
    assert_ok(ls_python_env_find(&env, a, &e));
    assert_ok(ls_python_env_file(&env, a, "second/lib.so", &path, &e));
    assert_non_null(strstr(path, "/named/second/"));
    ls_arena_destroy(a);
}

static void keys_depend_on_part_borders(void **state) {
    (void)state;
    char a[65], b[65], c[65];
    ls_artifact_key((ls_key_part[]){{"ab", 2}, {"c", 1}}, 2, a);
    ls_artifact_key((ls_key_part[]){{"a", 1}, {"bc", 2}}, 2, b);
    ls_artifact_key((ls_key_part[]){{"ab", 2}, {"c", 1}}, 2, c);
    assert_string_not_equal(a, b);
    assert_string_equal(a, c);
}

static void damaged_artifacts_are_misses(void **state) {
    (void)state;
    ls_error e = {0};
    ls_str s = {0};
    bool found = true;
    char folder[300], key[65], path[400];
    snprintf(folder, sizeof folder, "%s/cache/of/mine", root);
    ls_artifact_key((ls_key_part[]){{"k", 1}}, 1, key);
    assert_ok(ls_artifact_load(folder, key, "bin", &s, &found, &e));
    assert_false(found);
    assert_ok(ls_artifact_store(folder, key, "bin", "payload", 7, &e));
    assert_ok(ls_artifact_load(folder, key, "bin", &s, &found, &e));
    assert_true(found);
    assert_int_equal(s.len, 7);
    assert_memory_equal(s.data, "payload", 7);
    snprintf(path, sizeof path, "%s/%s.bin", folder, key);
    FILE *f = fopen(path, "r+b");
    fseek(f, -1, SEEK_END);
    fputc('D', f);
    fclose(f);
    assert_ok(ls_artifact_load(folder, key, "bin", &s, &found, &e));
    assert_false(found);
    assert_int_equal(truncate(path, 40), 0);
    assert_ok(ls_artifact_load(folder, key, "bin", &s, &found, &e));
    assert_false(found);
    assert_ok(ls_artifact_store(folder, key, "bin", "", 0, &e));
    assert_ok(ls_artifact_load(folder, key, "bin", &s, &found, &e));
    assert_true(found);
    glob_t g;
    snprintf(path, sizeof path, "%s/*", folder);
    assert_int_equal(glob(path, 0, NULL, &g), 0);
    assert_int_equal(g.gl_pathc, 1); /* no temporary file stays */
    globfree(&g);
    ls_str_deinit(&s);
}

static void unwritable_folders_are_named(void **state) {
    (void)state;
    ls_error e = {0};
    char folder[300];
    snprintf(folder, sizeof folder, "%s/venv/bin/python3/cache", root);
    assert_error(ls_artifact_store(folder, "k", "bin", "x", 1, &e), LS_UNKNOWN, "python3");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packages_are_found_in_order),
        cmocka_unit_test(keys_depend_on_part_borders),
        cmocka_unit_test(damaged_artifacts_are_misses),
        cmocka_unit_test(unwritable_folders_are_named),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
