/* Models that see, on backend xla with a real plugin: the goldens' 64 tokens for every case of fixtures/vision/gemma3_shapes, held-out
 * pictures, one and two, and text, alone and in a mixed batch of eight, with a prefix cache and without; under the exact contracts with the bits of
 * the native executor, and under float with the tower's output, projected rows and logits as near as f32 should be. */
#include "../session/vision_fixture.h"

#include <stdlib.h>

#include "session/encode.h"

static vision_fixture fixture;

static void exact_bits(const char *contract) {
    static char native[VISION_CASES][65];
    vision_goldens(&fixture, "native", contract, 64, native);
    vision_cached_goldens(&fixture, "xla", contract, 64, native);
}

static void exact16(void **state) {
    (void)state;
    exact_bits("exact16");
}

static void exact24(void **state) {
    (void)state;
    exact_bits("exact24");
}

/* What the tower gave after its last norm, image after image. */
typedef struct seen {
    float *rows;
    size_t n;
} seen;

static void keep(void *user, const ls_node *node, float *values, int64_t rows, int64_t cols) {
    (void)node;
    seen *k = user;
    memcpy(k->rows + k->n, values, (size_t)(rows * cols) * sizeof *values);
    k->n += (size_t)(rows * cols);
}

static void check_tower(const vision_case *c, ls_executor *x, const ls_vision *v, seen *k) {
    ls_error e = {0};
    size_t image = (size_t)(c->pixels->shape[1] * c->pixels->shape[2] * c->pixels->shape[3]), n = c->tower->bytes / sizeof(float);
    float *projected = calloc(c->n_projected, sizeof *projected);
    *k = (seen){calloc(n, sizeof *k->rows), 0};
    for (int64_t i = 0; i < c->pixels->shape[0]; i++) {
        const float *one = (const float *)c->pixels->data + (size_t)i * image;
        assert_ok(ls_encode_images(x, v, &one, 1, projected + i * v->graph->image_out * v->graph->vocab, &e));
    }
    assert_int_equal(k->n, n);
    double tower = vision_relative_rms(k->rows, c->tower->data, n), rows = vision_relative_rms(projected, c->projected, c->n_projected);
    if (!(tower <= 1e-4) || !(rows <= 1e-4)) fail_msg("%s: relative rms %g of the tower's output, %g of the projected rows", c->name, tower, rows);
    free(k->rows);
    free(projected);
}

/* The goldens' pixels through the serving module of the tower, which gives the rows of "post_layernorm" as a further result. */
static void check_towers(ls_model *m) {
    ls_error e = {0};
    const ls_graph *g = m->vision.graph;
    bool *observe = calloc(g->n_nodes, sizeof *observe);
    int observed = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const char *last = strrchr(g->nodes[i].name, '.');
        observed += observe[i] = last && !strcmp(last, ".post_layernorm");
    }
    assert_int_equal(observed, 1);
    seen k;
    ls_executor *x;
    ls_executor_options o = ls_encode_options(&m->vision, 1);
    o.observe = observe;
    o.observer = keep;
    o.observer_user = &k;
    const ls_xla_options xo = {.precision = m->xla.options.precision, .observe_fused = true};
    assert_ok(ls_xla_create(&x, g, m->checkpoint, m->xla.engine, &xo, &o, &e));
    for (int i = 0; i < fixture.n_cases; i++)
        if (fixture.cases[i].n_images) check_tower(&fixture.cases[i], x, &m->vision, &k);
    x->destroy(x);
    free(observe);
}

static void float_f32(void **state) {
    (void)state;
    ls_model *m = vision_model(&fixture, "xla", "float", 1, 64);
    for (int i = 0; i < fixture.n_cases; i++) vision_check_numbers(&fixture, &fixture.cases[i], m, 1e-4, 0.002);
    check_towers(m);
    ls_model_destroy(m);
    vision_cached_goldens(&fixture, "xla", "float", 64, NULL);
}

static int open_all(void **state) {
    (void)state;
    setenv("LOCKSTEP_PJRT_PLUGIN", LS_PLUGINS "/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so", 1);
    vision_open(&fixture, LS_FIXTURES "/vision/gemma3_shapes");
    return 0;
}

static int close_all(void **state) {
    (void)state;
    vision_close(&fixture);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(exact16), cmocka_unit_test(exact24), cmocka_unit_test(float_f32)};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, open_all, close_all);
}
