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

/* A value for a block whose exponent is that of 1: halves of a last place around 0, any fraction, the largest there is with what rounds to it, far too
 * small ones, and zeros. */
static float mantissa_case(uint32_t *seed, float last) {
    *seed = *seed * 1664525 + 1013904223;
    const uint32_t kind = *seed >> 28;
    *seed = *seed * 1664525 + 1013904223;
    const float largest = 127.0f / 64, halves = (float)((int)(*seed >> 20) - 2048) * last / 2, sign = *seed >> 31 ? -1.0f : 1.0f;
    switch (kind) {
        case 0: return sign * largest - sign * last;
        case 1: return sign * largest - sign * last / 2;
        case 2: return halves * 0x1p-20f;
        case 3: return sign * 0.0f;
        case 4: case 5: case 6: return (float)((int)(*seed >> 8) - (1 << 23)) * 0x1p-23f;
        default: return halves;
    }
}

/* Mantissas of floats are ls_mantissa of their block's exponent, in whole blocks and a last one of every length, the second of zeros in every other row. */
static void test_mantissas(void **state) {
    (void)state;
    enum { MOST = 3 * LS_EXACT_BLOCK };
    float x[MOST], scratch[MOST + 2 * 3 + 2];
    int32_t u[MOST], scale[3], r, most[2] = {0}, least[2] = {0};
    uint32_t seed = 1;
    for (int cols = 1; cols <= MOST; cols++)
        for (int wide = 0; wide < 2; wide++) {
            ls_error e = {0};
            ls_weight_form form;
            ls_tensor t = {.name = "w", .dtype = "F32", .format = LS_F32, .rank = 2, .shape = {1, cols}, .data = x, .bytes = (size_t)cols * 4};
            assert_ok(ls_weight_form_of(&form, &t, wide ? LS_CONTRACT_EXACT24 : LS_CONTRACT_EXACT16, &e));
            for (int k = 0; k < cols; k++) x[k] = cols % 2 && k / LS_EXACT_BLOCK == 1 ? 0 : mantissa_case(&seed, ls_pow2(-form.weight_p));
            ls_weight_form_row(&form, &t, 0, u, scale, NULL, &r, scratch);
            for (int k = 0; k < cols; k++) {
                uint32_t max = 0;
                int begin = k / LS_EXACT_BLOCK * LS_EXACT_BLOCK;
                for (int i = begin; i < begin + LS_EXACT_BLOCK && i < cols; i++) max = (ls_bits(x[i]) & 0x7FFFFFFFu) > max ? ls_bits(x[i]) & 0x7FFFFFFFu : max;
                assert_int_equal(u[k], ls_mantissa(x[k], ls_block_exponent(max), form.weight_p));
                if (u[k] > most[wide]) most[wide] = u[k];
                if (u[k] < least[wide]) least[wide] = u[k];
            }
        }
    assert_true(most[0] == 127 << 8 && least[0] == -(127 << 8));
    assert_true(most[1] == 127 << 16 && least[1] == -(127 << 16));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_format), cmocka_unit_test(test_limits), cmocka_unit_test(test_mantissas)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
