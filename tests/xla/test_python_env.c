/* src/xla: the search for Python packages, on real folders. */
#include "test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "xla/python_env.h"

static char root[] = "/tmp/ls_python_env_XXXXXX";

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
    char link[300];
    snprintf(link, sizeof link, "%s/venv/lib64", root);
    if (symlink("lib", link)) return -1; /* as python3 -m venv does: the same folder again */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packages_are_found_in_order),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
