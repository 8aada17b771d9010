/* Deterministic elementary functions against 200-bit values (fixtures/base/detmath.json). */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "base/detmath.h"
#include "base/json.h"

/* Largest error over a table: absolute, or relative to the value. */
static double worst(const json_t *rows, double (*f)(double), bool relative) {
    double most = 0;
    size_t i;
    json_t *row;
    assert_true(json_array_size(rows) > 100);
    json_array_foreach(rows, i, row) {
        double x = strtod(json_string_value(json_array_get(row, 0)), NULL);
        double want = strtod(json_string_value(json_array_get(row, 1)), NULL), got = f(x);
        double error = fabs(got - want) / (relative && want != 0 ? fabs(want) : 1.0);
        if (!(error <= most)) most = error;
    }
    return most;
}

static void values(void **state) {
    (void)state;
    ls_error e = {0};
    json_t *golden;
    assert_ok(ls_json_load(&golden, LS_FIXTURES "/base/detmath.json", 1 << 20, &e));
    assert_true(worst(json_object_get(golden, "cos"), ls_det_cos, false) < 0x1p-52);
    assert_true(worst(json_object_get(golden, "sin"), ls_det_sin, false) < 0x1p-52);
    assert_true(worst(json_object_get(golden, "log2"), ls_det_log2, true) < 0x1p-50);
    assert_true(worst(json_object_get(golden, "exp2"), ls_det_exp2, true) < 0x1p-50);
    json_decref(golden);
}

static void edges(void **state) {
    (void)state;
    assert_true(ls_det_exp2(10) == 1024 && ls_det_exp2(-1022) == 0x1p-1022 && ls_det_exp2(1023) == 0x1p1023);
    assert_true(ls_det_exp2(1024) == INFINITY && ls_det_exp2(-1023) == 0 && isnan(ls_det_exp2(NAN)));
    assert_true(ls_det_log2(1) == 0 && ls_det_log2(0x1p-1022) == -1022 && ls_det_log2(1024) == 10);
    assert_true(isnan(ls_det_log2(0)) && isnan(ls_det_log2(-1)) && isnan(ls_det_log2(INFINITY)) && isnan(ls_det_log2(0x1p-1040)));
    assert_true(ls_det_cos(0) == 1 && ls_det_sin(0) == 0 && ls_det_sin(-1) == -ls_det_sin(1) && ls_det_cos(-1) == ls_det_cos(1));
    assert_true(isnan(ls_det_cos(0x1p41)) && isnan(ls_det_sin(INFINITY)) && isnan(ls_det_sin(NAN)));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(edges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
