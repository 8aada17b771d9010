/* The vision tower of fixtures/vision/tower on the XLA executor with a real plugin: bits of the reference under the exact contracts, as one
 * module and node by node, and near it under float; the same bits and nearness on IREE, as one module, through the wheel's runtime; and what the
 * entry "vision" is refused for. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "cpu_engine.h"
#include "iree_python_engine.h"
#include "session/encode.h"
#include "vision_tower.h"
#include "xla/executor.h"

enum { IMAGES = TOWER_IMAGES, OUT = TOWER_OUT * TOWER_COLS };

static ls_engine *iree; /* in the second group */

/* What each node of the reference gave, summed up by bits. */
typedef struct trace {
    uint64_t node[128];
    int n;
} trace;

static void note(void *user, const ls_node *n, float *values, int64_t rows, int64_t cols) {
    (void)n;
    trace *t = user;
    uint64_t h = 14695981039346656037u;
    for (int64_t i = 0; i < rows * cols; i++) {
        uint32_t bits;
        float x = values[i] == 0.0f ? 0.0f : values[i];
        memcpy(&bits, &x, sizeof bits);
        h = (h ^ bits) * 1099511628211u;
    }
    t->node[t->n++] = h;
}

typedef enum way { PLAIN, FUSED_OBSERVED, NODES } way;

static void encode(const tower *t, bool xla, way w, trace *seen, float *out) {
    ls_error e = {0};
    ls_executor *x;
    ls_executor_options o = ls_encode_options(&t->v, IMAGES);
    const ls_xla_options xo = {.observe_fused = w == FUSED_OBSERVED};
    *seen = (trace){0};
    if (w != PLAIN) {
        o.observer = note;
        o.observer_user = seen;
    }
    if (xla) assert_ok(ls_xla_create(&x, t->v.graph, t->c, iree ? iree : cpu_engine, &xo, &o, &e));
    else assert_ok(ls_reference_create(&x, t->v.graph, &o, &e));
    assert_ok(ls_encode_images(x, &t->v, t->pixels, IMAGES, out, &e));
    assert_int_equal(x->length(x, 0), 0);
    x->destroy(x);
}

static void equal_bits(ls_contract contract, way w) {
    static float want[IMAGES * OUT], got[IMAGES * OUT];
    trace a, b;
    tower t;
    tower_open(&t, contract);
    encode(&t, false, w, &a, want);
    encode(&t, true, w, &b, got);
    assert_int_equal(a.n, b.n);
    if (w != PLAIN) assert_int_equal(a.n, t.v.graph->n_nodes);
    for (int i = 0; i < a.n; i++)
        if (a.node[i] != b.node[i]) fail_msg("%s: node %s differs", ls_contract_name(contract), t.v.graph->nodes[i].name);
    assert_memory_equal(got, want, sizeof want);
    tower_close(&t);
}

static void one_module(void **state) {
    (void)state;
    equal_bits(LS_CONTRACT_EXACT16, PLAIN);
    equal_bits(LS_CONTRACT_EXACT24, FUSED_OBSERVED);
}

static void node_by_node(void **state) {
    (void)state;
    equal_bits(LS_CONTRACT_EXACT16, NODES);
}

static void near(way w) {
    static float want[IMAGES * OUT], got[IMAGES * OUT];
    trace a, b;
    tower t;
    double error = 0, square = 0;
    tower_open(&t, LS_CONTRACT_FLOAT);
    encode(&t, false, PLAIN, &a, want);
    encode(&t, true, w, &b, got);
    for (int i = 0; i < IMAGES * OUT; i++) {
        error += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        square += (double)want[i] * (double)want[i];
    }
    if (!(sqrt(error / square) < 1e-5)) fail_msg("relative RMS %g", sqrt(error / square));
    tower_close(&t);
}

static void float_is_near(void **state) {
    (void)state;
    near(PLAIN);
    near(NODES);
}

static void on_iree(void **state) {
    (void)state;
    equal_bits(LS_CONTRACT_EXACT16, PLAIN);
    near(PLAIN);
}

static void entries_of_another_graph_are_refused(void **state) {
    (void)state;
    ls_error e = {0};
    tower t;
    ls_graph *text;
    ls_emit_module m;
    tower_open(&t, LS_CONTRACT_EXACT16);
    const ls_build_options build = {.contract = LS_CONTRACT_EXACT16};
    assert_ok(ls_model_build(&text, t.c, &build, &e));
    ls_emit_options o = {.entry = LS_ENTRY_VISION, .rows = 324, .out_rows = 9};
    assert_error(ls_emit_entry(&m, text, &o, &e), LS_INVALID_ARGUMENT, "this graph takes tokens");
    o.argmax = true;
    assert_error(ls_emit_entry(&m, t.v.graph, &o, &e), LS_INVALID_ARGUMENT, "there is no argmax");
    o = (ls_emit_options){.entry = LS_ENTRY_VISION, .rows = 325, .out_rows = 9};
    assert_error(ls_emit_entry(&m, t.v.graph, &o, &e), LS_INVALID_ARGUMENT, "an image has 324 patches");
    o = (ls_emit_options){.entry = LS_ENTRY_PREFILL, .rows = 64, .capacity = 256};
    assert_error(ls_emit_entry(&m, t.v.graph, &o, &e), LS_INVALID_ARGUMENT, "a vision tower has the entry vision");
    o = (ls_emit_options){.entry = LS_ENTRY_VISION, .rows = 324, .out_rows = 9};
    assert_ok(ls_emit_entry(&m, t.v.graph, &o, &e));
    assert_int_equal(m.n_inputs, 1);
    assert_int_equal(m.n_results, 1);
    assert_int_equal(m.input[0].dim[0], 324);
    assert_int_equal(m.input[0].dim[1], 48);
    assert_int_equal(m.result[0].dim[0], 9);
    assert_int_equal(m.result[0].dim[1], 32);
    ls_emit_module_deinit(&m);
    ls_graph_destroy(text);
    tower_close(&t);
}

static int open_iree(void **state) {
    (void)state;
    ls_error e = {0};
    setenv("LOCKSTEP_PYTHON_ENV", LS_PLUGINS, 1);
    assert_ok(iree_python_engine_open(&iree, &(ls_iree_options){.device = "local-task"}, LS_IREE_SCRIPT, &e));
    return 0;
}

static int close_iree(void **state) {
    (void)state;
    iree->ops->destroy(iree);
    iree = NULL;
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest pjrt[] = {cmocka_unit_test(one_module), cmocka_unit_test(node_by_node), cmocka_unit_test(float_is_near),
                                      cmocka_unit_test(entries_of_another_graph_are_refused)};
    const struct CMUnitTest on[] = {cmocka_unit_test(on_iree)};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("xla_vision on pjrt", pjrt, cpu_engine_open, cpu_engine_close) +
           cmocka_run_group_tests_name("xla_vision on iree", on, open_iree, close_iree);
}
