/* Tests of src/contract/weight_form: which formats have an integer form, and what is said of the others. */
#include "test.h"

#include "contract/weight_form.h"

static ls_tensor matrix_of(ls_format f) {
    const char *name = f == LS_OTHER ? "F8_E4M3" : ls_format_get(f)->name;
    return (ls_tensor){.name = "layer.weight", .dtype = name, .format = f, .rank = 2, .shape = {3, 512}, .mlx_bits = 4, .mlx_group = 128, .scale_format = LS_F16};
}

static void test_every_format(void **state) {
    (void)state;
    for (int f = 0; f < LS_FORMAT_COUNT; f++) {
        ls_error e = {0};
        ls_weight_form form;
        ls_tensor t = matrix_of((ls_format)f);
        bool quantised = ls_tensor_group(&t) > 0, floats = f == LS_F32 || f == LS_F16 || f == LS_BF16;
        if (!quantised && !floats) {
            assert_error(ls_weight_form_of(&form, &t, LS_CONTRACT_EXACT16, &e), LS_UNIMPLEMENTED, "layer.weight");
            assert_non_null(strstr(e.text, t.dtype));
            continue;
        }
        assert_ok(ls_weight_form_of(&form, &t, LS_CONTRACT_EXACT16, &e));
        assert_int_equal(form.quantised, quantised);
        assert_true(form.group > 0 && form.group <= 64 && form.groups * form.group == 512);
    }
}

static void test_limits(void **state) {
    (void)state;
    ls_error e = {0};
    ls_weight_form form;
    ls_tensor t = matrix_of(LS_F16);
    assert_error(ls_weight_form_of(&form, &t, LS_CONTRACT_FLOAT, &e), LS_INVALID_ARGUMENT, "has no integer form");
    for (int i = 0; i < 2; i++) {
        t.shape[1] = i ? (int64_t)1 << 40 : 0;
        assert_error(ls_weight_form_of(&form, &t, LS_CONTRACT_EXACT24, &e), LS_INVALID_ARGUMENT, "columns");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_format), cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
