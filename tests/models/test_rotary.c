/* Rotary tables against transformers' own (fixtures/models/rotary.json): every frequency within two units in the last
 * place of f32 (transformers' vectorised power may be off by one, which the division after it can double); amplitudes are
 * equal as f32. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "models/builder.h"

static int32_t ulps(float a, float b) {
    int32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x > y ? x - y : y - x;
}

/* Largest difference of |row|'s table, in units in the last place. */
static int32_t check(const json_t *row) {
    ls_error e = {0};
    ls_graph *g;
    const json_t *config = json_object_get(row, "config"), *bits = json_object_get(row, "bits");
    int head_dim = (int)json_integer_value(json_object_get(row, "head_dim"));
    int32_t worst = 0;
    assert_ok(ls_graph_create(&g, LS_CONTRACT_FLOAT, &e));
    ls_build b = {.g = g,
                  .config = config,
                  .e = &e,
                  .head_dim = head_dim,
                  .context = json_integer_value(json_object_get(row, "context")),
                  .max_positions = json_integer_value(json_object_get(config, "max_position_embeddings"))};
    int index = ls_build_rope_default(&b);
    assert_ok(b.rc);
    assert_int_equal(json_array_size(bits), head_dim / 2);
    for (int i = 0; i < head_dim / 2; i++) {
        uint32_t u = (uint32_t)json_integer_value(json_array_get(bits, (size_t)i));
        float want;
        memcpy(&want, &u, sizeof want);
        int32_t d = ulps((float)g->rope[index].inv_freq[i], want);
        assert_true((double)(float)g->rope[index].inv_freq[i] == g->rope[index].inv_freq[i]);
        if (d > worst) worst = d;
    }
    float amplitude = (float)strtod(json_string_value(json_object_get(row, "amplitude")), NULL);
    assert_true(ulps(g->rope[index].amplitude, amplitude) == 0);
    ls_graph_destroy(g);
    return worst;
}

static void tables_are_those_of_transformers(void **state) {
    (void)state;
    ls_error e = {0};
    json_t *rows, *row;
    size_t i;
    assert_ok(ls_json_load(&rows, LS_FIXTURES "/models/rotary.json", 1 << 20, &e));
    json_array_foreach(rows, i, row) {
        int32_t worst = check(row);
        if (worst > 2)
            fail_msg("%s: %d units in the last place", json_string_value(json_object_get(row, "name")), (int)worst);
    }
    assert_true(i >= 14);
    json_decref(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables_are_those_of_transformers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
