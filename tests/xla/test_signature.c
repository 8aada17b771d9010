/* Reading the head of @main out of StableHLO text. */
#include "test.h"

#include "xla/signature.h"

static void parse_fails(const char *text, ls_code code, const char *part) {
    ls_error e = {0};
    ls_signature s = {0};
    assert_error(ls_signature_parse(&s, text, strlen(text), &e), code, part);
    ls_signature_deinit(&s);
}

static void forms_that_mlir_prints(void **state) {
    (void)state;
    static const char text[] =
        "module @jit {\n  func.func private @helper(%arg0: tensor<9xf32>) -> tensor<9xf32> { return %arg0 : tensor<9xf32> }\n"
        "  func.func public @main(%arg0: tensor<2x3xi8> {jax.result_info = \"a, (b) tf.\\\"\", tf.aliasing_output = 1 : i32} loc(\"x\"(#loc1)),\n"
        "      %arg1: tensor<f64>,%arg2 : tensor<0x5xui32> loc(#loc2)) -> (tensor<i1> {jax.result_info = \"->\"}, tensor<2x3xi8>) attributes {x = 1} {\n"
        "    return %0, %1 : tensor<i1>, tensor<2x3xi8>\n  }\n}\n";
    ls_error e = {0};
    ls_signature s = {0};
    assert_ok(ls_signature_parse(&s, text, sizeof text - 1, &e));
    assert_int_equal(s.n_params, 3);
    assert_int_equal(s.n_results, 2);
    assert_true(ls_tensor_type_equal(&s.params[0].type, &(ls_tensor_type){LS_DT_I8, 2, {2, 3}}));
    assert_int_equal(s.params[0].alias, 1);
    assert_true(ls_tensor_type_equal(&s.params[1].type, &(ls_tensor_type){LS_DT_F64, 0, {0}}));
    assert_int_equal(s.params[1].alias, -1);
    assert_true(ls_tensor_type_equal(&s.params[2].type, &(ls_tensor_type){LS_DT_U32, 2, {0, 5}}));
    assert_true(ls_tensor_type_equal(&s.results[0], &(ls_tensor_type){LS_DT_I1, 0, {0}}));
    assert_false(ls_tensor_type_equal(&s.results[0], &s.results[1]));
    ls_signature_deinit(&s);

    static const char bare[] = "func.func @main() -> tensor<4xbf16> {";
    assert_ok(ls_signature_parse(&s, bare, sizeof bare - 1, &e));
    assert_int_equal(s.n_params, 0);
    assert_int_equal(s.results[0].dtype, LS_DT_BF16);
    ls_signature_deinit(&s);
    static const char none[] = "func.func public @main(%arg0: tensor<4xf32>) {";
    assert_ok(ls_signature_parse(&s, none, sizeof none - 1, &e));
    assert_int_equal(s.n_results, 0);
    ls_signature_deinit(&s);
}

static void errors_name_the_position(void **state) {
    (void)state;
    parse_fails("", LS_INVALID_ARGUMENT, "no function @main");
    parse_fails("func.func private @main(", LS_INVALID_ARGUMENT, "no function @main");
    parse_fails("func.func @main(%a: f32) -> f32", LS_INVALID_ARGUMENT, "argument 0 of @main is not a ranked tensor");
    parse_fails("func.func @main(%a: tensor<2xf32>, %b: tensor<?xf32>)", LS_UNIMPLEMENTED, "argument 1 of @main has a dynamic dimension");
    parse_fails("func.func @main(%a: tensor<2xf8E4M3FN>)", LS_UNIMPLEMENTED, "element type \"f8E4M3FN\"");
    parse_fails("func.func @main(%a: tensor<1x1x1x1x1x1x1xf32>)", LS_UNIMPLEMENTED, "rank above 6");
    parse_fails("func.func @main(%a: tensor<99999999999999999999xf32>)", LS_INVALID_ARGUMENT, "too large");
    parse_fails("func.func @main(%a: tensor<2xf32>", LS_INVALID_ARGUMENT, "expected ',' or ')'");
    parse_fails("func.func @main(%a: tensor<2xf32> {x = \"", LS_INVALID_ARGUMENT, "attributes of argument 0");
    parse_fails("func.func @main(%a: tensor<2", LS_INVALID_ARGUMENT, "expected 'x'");
    parse_fails("func.func @main(%a: tensor<2xf32> {tf.aliasing_output = 1 : i32}) -> tensor<2xf32>", LS_INVALID_ARGUMENT, "donated to result 1, but there are 1");
    parse_fails("func.func @main(%a: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<3xf32>", LS_INVALID_ARGUMENT, "has another type");
    parse_fails("func.func @main(%a: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2xf32>",
                LS_INVALID_ARGUMENT, "has a donor already");
}

/* Every cut of a valid text is either refused or parsed; nothing reads past the end (checked by the sanitizer stage). */
static void cuts_are_harmless(void **state) {
    (void)state;
    static const char text[] = "func.func public @main(%arg0: tensor<2x3xi8> {tf.aliasing_output = 0 : i32} loc(\"x\")) -> (tensor<2x3xi8> {a = \"b\"}) {";
    for (size_t n = 0; n < sizeof text; n++) {
        ls_signature s = {0};
        ls_error e = {0};
        char *exact;
        assert_ok(ls_calloc(&exact, n, 1, "text", &e));
        memcpy(exact, text, n);
        ls_signature_parse(&s, exact, n, &e);
        ls_signature_deinit(&s);
        ls_free(exact);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_that_mlir_prints),
        cmocka_unit_test(errors_name_the_position),
        cmocka_unit_test(cuts_are_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
