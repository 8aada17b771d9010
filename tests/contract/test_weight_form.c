/* Tests of src/contract/weight_form: which formats have an integer form, what is said of the others, and the mantissas of floats. */
#include "test.h"

#include "base/bits.h"
#include "contract/exact.h"
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

/* Mantissas of floats are ls_mantissa of their block's exponent: whole numbers and a half, of both signs, zeros, and values far below the largest, in whole
 * blocks and a last one of every length. */
static void test_mantissas(void **state) {
    (void)state;
    enum { MOST = 3 * LS_EXACT_BLOCK };
    float x[MOST], scratch[MOST + 2 * 3 + 2];
    int32_t u[MOST], scale[3], r;
    uint32_t seed = 1;
    for (int cols = 1; cols <= MOST; cols++)
        for (int wide = 0; wide < 2; wide++) {
            ls_error e = {0};
            ls_weight_form form;
            ls_tensor t = {.name = "w", .dtype = "F32", .format = LS_F32, .rank = 2, .shape = {1, cols}, .data = x, .bytes = (size_t)cols * 4};
            assert_ok(ls_weight_form_of(&form, &t, wide ? LS_CONTRACT_EXACT24 : LS_CONTRACT_EXACT16, &e));
            for (int k = 0; k < cols; k++) {
                seed = seed * 1664525 + 1013904223;
                float last = ls_pow2(-form.weight_p), largest = 127.0f / 64 - last; /* of a block of exponent 0, whose last place is |last| */
                float halves = (float)((int)(seed >> 20) - 2048) * last / 2, whole = (float)((int)(seed >> 8) - (1 << 23)) * 0x1p-23f;
                x[k] = seed >> 30 == 0 ? halves : seed >> 30 == 1 ? whole : k % LS_EXACT_BLOCK == 0 ? largest : k % 5 ? halves * 0x1p-20f : -0.0f;
            }
            ls_weight_form_row(&form, &t, 0, u, scale, NULL, &r, scratch);
            for (int k = 0; k < cols; k++) {
                uint32_t max = 0;
                int begin = k / LS_EXACT_BLOCK * LS_EXACT_BLOCK;
                for (int i = begin; i < begin + LS_EXACT_BLOCK && i < cols; i++) max = (ls_bits(x[i]) & 0x7FFFFFFFu) > max ? ls_bits(x[i]) & 0x7FFFFFFFu : max;
                assert_int_equal(u[k], ls_mantissa(x[k], ls_block_exponent(max), form.weight_p));
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_format), cmocka_unit_test(test_limits), cmocka_unit_test(test_mantissas)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
