/* Comparison of arrays: formulas, non-finite values, distances, bounds. */
#include "verify/compare.h"

#include <float.h>
#include <math.h>

#include "models/model.h"
#include "test.h"

static const ls_bound bits = {.bits = true}, tenth = {.absolute = 0.1, .relative = 0};

static ls_difference difference(const float *a, const float *b, int n, const ls_bound *bound) {
    ls_difference d = {.first = -1};
    int64_t failures = ls_compare(&d, a, b, n, bound);
    assert_int_equal(failures, d.failures);
    return d;
}

static void figures_of_known_values(void **state) {
    (void)state;
    float r[4] = {1, -2, 4, 0}, c[4] = {1, -2.5f, 4.25f, 0};
    ls_difference d = difference(r, c, 4, &bits);
    assert_int_equal(d.elements, 4);
    assert_int_equal(d.failures, 2);
    assert_int_equal(d.first, 1);
    assert_true(d.reference == -2 && d.candidate == -2.5f);
    assert_true(d.max_absolute == 0.5 && d.max_relative == 0.25);
    assert_true(ls_difference_rms(&d) == sqrt((0.25 + 0.0625) / 4));
    assert_int_equal(d.max_ulp, 1 << 21);
    d = difference(r, c, 4, &(ls_bound){.absolute = 0.25, .relative = 0.1});
    assert_int_equal(d.failures, 1); /* 0.5 > 0.25 + 0.1 * 2; 0.25 is not above 0.25 + 0.1 * 4 */
    d = difference(r, c, 4, &(ls_bound){.absolute = 0.5});
    assert_int_equal(d.failures, 0); /* the bound itself passes */
}

static void widening_comes_before_subtraction(void **state) {
    (void)state;
    float r = FLT_MAX, c = -FLT_MAX; /* the difference does not fit f32 */
    ls_difference d = difference(&r, &c, 1, &tenth);
    assert_true(d.max_absolute == 2 * (double)FLT_MAX);
    assert_int_equal(d.non_finite, 0);
}

static void relative_errors_have_a_floor(void **state) {
    (void)state;
    float r = 0, c = FLT_MIN;
    ls_difference d = difference(&r, &c, 1, &tenth);
    assert_true(d.max_relative == 1);
    assert_int_equal(d.failures, 0);
}

static void values_that_are_not_finite(void **state) {
    (void)state;
    float r[5] = {INFINITY, NAN, 1, INFINITY, -INFINITY}, c[5] = {INFINITY, NAN, NAN, 1, -INFINITY};
    ls_difference d = difference(r, c, 5, &bits);
    assert_int_equal(d.failures, 2); /* the same infinity and the same NaN are equal bits */
    assert_int_equal(d.non_finite, 2);
    assert_int_equal(d.first, 2);
    d = difference(r, c, 5, &tenth);
    assert_int_equal(d.failures, 5);
    assert_int_equal(d.non_finite, 5);
    assert_true(d.max_absolute == 0 && ls_difference_rms(&d) == 0);
}

static void zeros_of_both_signs(void **state) {
    (void)state;
    float r = 0.0f, c = -0.0f;
    assert_int_equal(difference(&r, &c, 1, &bits).failures, 1);
    assert_int_equal(difference(&r, &c, 1, &(ls_bound){0}).failures, 0);
    assert_int_equal(ls_ulp_distance(0.0f, -0.0f), 0);
}

static void distances_cross_zero(void **state) {
    (void)state;
    assert_int_equal(ls_ulp_distance(1.0f, nextafterf(1.0f, 2.0f)), 1);
    assert_int_equal(ls_ulp_distance(-FLT_TRUE_MIN, FLT_TRUE_MIN), 2);
    assert_int_equal(ls_ulp_distance(-FLT_MAX, FLT_MAX), 2 * 0x7f7fffffULL);
}

static void sums_of_differences(void **state) {
    (void)state;
    float r[3] = {1, 2, 3}, c[3] = {1, 2, 3.5f};
    ls_difference a = difference(r, r, 3, &bits), b = difference(r, c, 3, &bits);
    ls_difference_add(&a, &b);
    assert_int_equal(a.elements, 6);
    assert_int_equal(a.failures, 1);
    assert_int_equal(a.first, 2);
    assert_true(a.max_absolute == 0.5 && a.reference == 3);
}

static void layers_of_names(void **state) {
    (void)state;
    static const struct {
        const char *name, *rest;
        int layer;
    } cases[] = {{"model.layers.12.self_attn.q_proj", "self_attn.q_proj", 12}, {"transformer.h.0.ln_1", "ln_1", 0}, {"lm_head", "lm_head", -1},
                 {"a.3", "3", 3}, {"a.b2.c", "a.b2.c", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *rest;
        assert_int_equal(ls_node_layer(&(ls_node){.name = cases[i].name}, &rest), cases[i].layer);
        assert_string_equal(rest, cases[i].rest);
    }
}

/* Same-input bounds stay within the micro-oracle's for small sums; drift grows by layer; scales below 1 change nothing. */
static void bounds_of_operators(void **state) {
    (void)state;
    ls_error e = {0};
    ls_checkpoint *c;
    ls_graph *g;
    assert_ok(ls_checkpoint_open(&c, LS_FIXTURES "/models/qwen2_moe", &e));
    assert_ok(ls_model_build(&g, c, &(ls_build_options){.contract = LS_CONTRACT_FLOAT, .context = 64}, &e));
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ls_node *n = &g->nodes[i];
        ls_bound same = ls_bound_of(LS_BOUND_SAME_INPUT, g, n, 0.5), wide = ls_bound_of(LS_BOUND_DRIFT, g, n, 0.5), large = ls_bound_of(LS_BOUND_DRIFT, g, n, 10);
        assert_true(same.absolute <= 3e-6 && same.relative <= 3e-5 && !same.bits);
        assert_true(same.absolute <= wide.absolute);
        assert_true(large.absolute == 10 * wide.absolute && large.relative == wide.relative);
        assert_true(ls_bound_of(LS_BOUND_BITS, g, n, 1).bits);
        if (n->op == LS_OP_ADD) assert_true(same.absolute < 1e-29 && same.relative == 0);
        int layer = ls_node_layer(n, NULL);
        if (layer >= 0) assert_true(fabs(wide.absolute - 2e-4 * pow(1.12, layer)) < 1e-12);
    }
    ls_graph_destroy(g);
    ls_checkpoint_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_of_known_values),     cmocka_unit_test(widening_comes_before_subtraction),
        cmocka_unit_test(relative_errors_have_a_floor), cmocka_unit_test(values_that_are_not_finite),
        cmocka_unit_test(zeros_of_both_signs),         cmocka_unit_test(distances_cross_zero),
        cmocka_unit_test(sums_of_differences),         cmocka_unit_test(layers_of_names),
        cmocka_unit_test(bounds_of_operators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
