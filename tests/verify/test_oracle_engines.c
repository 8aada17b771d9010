/* The oracle on real device compilers: three PJRT CPU plugins, and IREE's compiler with the wheel's runtime. Every float probe on
 * every engine; every exact probe on one PJRT plugin; on IREE every exact16 one, and of exact24 those whose code differs. */
#include "test.h"

#include <stdlib.h>

#include "../xla/iree_python_engine.h"
#include "verify/oracle_suite.h"
#include "xla/executor.h"
#include "xla/pjrt.h"

static char cache[] = "/tmp/ls_oracle_XXXXXX";

static int make_cache(void **state) {
    (void)state;
    setenv("LOCKSTEP_PYTHON_ENV", LS_PLUGINS, 0);
    return mkdtemp(cache) ? 0 : -1;
}

static int remove_cache(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", cache);
    return system(command);
}

static ls_code create(void *user, ls_executor **out, const ls_graph *g, const ls_executor_options *o, ls_error *e) {
    return ls_xla_create(out, g, NULL, user, NULL, o, e);
}

typedef struct tally {
    int passed, qualified;
    long long outputs;
} tally;

/* Runs the probes of |t| whose names contain one of |only|; prints what does not pass. */
static tally run(const ls_oracle_target *t, const char *const *only, size_t n_only) {
    tally sum = {0};
    for (size_t i = 0; i < ls_oracle_count(t); i++) {
        ls_error e = {0};
        json_t *report;
        char name[96];
        bool chosen = false;
        ls_oracle_name(t, i, name);
        for (size_t k = 0; k < n_only; k++) chosen |= strstr(name, only[k]) != NULL;
        if (!chosen) continue;
        assert_ok(ls_oracle_run_probe(t, i, &report, &e));
        bool passed = json_is_true(json_object_get(report, "passed"));
        if (!passed) {
            char *text = json_dumps(json_object_get(report, "first_divergence"), JSON_COMPACT);
            fail_msg("%s on %s %s: %lld failures, the first %s", name, t->identity->runtime, t->identity->library,
                     (long long)json_integer_value(json_object_get(json_object_get(report, "comparison"), "failures")), text);
        }
        sum.passed += passed;
        sum.qualified += json_is_true(json_object_get(report, "production_qualified"));
        sum.outputs += json_integer_value(json_object_get(json_object_get(report, "comparison"), "elements"));
        json_decref(report);
    }
    return sum;
}

static const char *const floats[] = {"micro-oracle."};
static const char *const iree_exact[] = {".exact16", "attention.exact24", "softcap.exact24", "linear.f32.exact24", "linear.q4_k.exact24", "layer_norm.exact24",
                                         "rope.exact24", "moe.exact24"};

/* An unobserved kernel never qualifies a float probe. */
static void expect_float(const ls_oracle_target *t) {
    tally all = run(t, floats, 1);
    assert_int_equal(all.passed, 21);
    assert_int_equal(all.qualified, 0);
}

static void expect_exact(const ls_oracle_target *t, const char *const *only, size_t n_only, int at_least) {
    tally all = run(t, only, n_only);
    assert_true(all.passed >= at_least);
    assert_int_equal(all.qualified, all.passed);
}

#ifdef LS_TEST_PJRT
static const char *const exact[] = {"exact-oracle."};

static ls_engine *open_plugin(const char *file) {
    ls_error e = {0};
    ls_engine *x;
    char path[400];
    const char *folder = getenv("LS_PJRT_PLUGINS");
    snprintf(path, sizeof path, "%s/%s", folder && *folder ? folder : LS_PLUGINS, file);
    assert_ok(ls_pjrt_open(&x, &(ls_pjrt_options){.plugin = path, .cache_folder = cache}, &e));
    return x;
}

static void test_pjrt(void **state) {
    (void)state;
    static const char *const files[] = {"xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", "fastatomstruct_xla_cpu/libpjrt_cpu.so",
                                        "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"};
    for (int i = 0; i < 3; i++) {
        ls_engine *x = open_plugin(files[i]);
        const ls_oracle_target t = {.engine = x, .create = create, .create_user = x, .identity = &x->identity};
        expect_float(&t);
        if (i == 2) expect_exact(&t, exact, 1, (int)ls_oracle_graph_count());
        x->ops->destroy(x);
    }
}
#endif

static void test_iree(void **state) {
    (void)state;
    ls_error e = {0};
    ls_engine *x;
    assert_ok(iree_python_engine_open(&x, &(ls_iree_options){.cache_folder = cache}, LS_IREE_SCRIPT, &e));
    const ls_oracle_target t = {.engine = x, .create = create, .create_user = x, .identity = &x->identity};
    expect_float(&t);
    expect_exact(&t, iree_exact, sizeof iree_exact / sizeof *iree_exact, (int)ls_oracle_graph_count() / 2 + 8);
    x->ops->destroy(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#ifdef LS_TEST_PJRT
        cmocka_unit_test(test_pjrt),
#endif
        cmocka_unit_test(test_iree)};
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
