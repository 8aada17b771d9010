/* verify on vision towers: equality of native and reference, of recorded tensors, planted faults named at their node, negative controls,
 * refusals. */
#include "verify/verify.h"

#include <stdlib.h>

#include "test.h"
#include "verify/negative.h"
#include "verify/report.h"

#define TOWER LS_FIXTURES "/vision/tower"
#define GOLDEN TOWER "/golden.safetensors"
#define AT "vision_tower.vision_model."

typedef struct seen {
    ls_model *m;
    float *pixels;
    const float **image;
    size_t n;
} seen;

/* The random model has images of 64 patches; its pictures are any numbers here. */
static void open_small(seen *s, const char *contract) {
    ls_error e = {0};
    ls_model_options o = {.struct_size = sizeof o, .parts = LS_LOAD_GRAPH, .contract = contract, .context = 64};
    assert_ok(ls_model_open(&s->m, LS_FIXTURES "/vision/gemma3_random", &o, &e));
    assert_ok(ls_model_need_vision(s->m, &e));
    size_t each = 3 * (size_t)s->m->vision.image.image_size * (size_t)s->m->vision.image.image_size;
    uint32_t state = 1;
    s->n = 2;
    s->pixels = calloc(s->n * each, sizeof *s->pixels);
    s->image = calloc(s->n, sizeof(const float *));
    for (size_t i = 0; i < s->n * each; i++) {
        state = state * 1664525u + 1013904223u;
        s->pixels[i] = (float)(int32_t)(state >> 8) * 0x1p-23f - 1.0f;
    }
    for (size_t i = 0; i < s->n; i++) s->image[i] = s->pixels + i * each;
}

static void close_small(seen *s) {
    free(s->pixels);
    free(s->image);
    ls_model_destroy(s->m);
}

static ls_verify_options options(const seen *s, const char *left, const char *right) {
    ls_error e = {0};
    ls_verify_options o = {.image = s->image, .n_images = s->n, .threads = 1};
    assert_ok(ls_side_parse(&o.left, left, &e));
    assert_ok(ls_side_parse(&o.right, right, &e));
    return o;
}

static void towers_are_equal(void **state) {
    (void)state;
    static const char *const contracts[] = {"exact16", "exact24"};
    for (int k = 0; k < 6; k++) {
        seen s;
        ls_error e = {0};
        ls_verify_report r;
        open_small(&s, contracts[k % 2]);
        ls_verify_options o = options(&s, "native", "reference");
        o.same_input = k / 2 == 1;
        o.bisect = k / 2 == 2;
        assert_ok(ls_verify_run(&r, s.m, &o, &e));
        if (r.first >= 0) fail_msg("%s: diverged at %s", contracts[k % 2], r.graph->nodes[r.first].name);
        assert_ptr_equal(r.graph, s.m->vision.graph);
        assert_int_equal(r.bound_kind, LS_BOUND_BITS);
        assert_int_equal(r.passes, 2);
        if (k / 2 < 2) assert_int_equal(ls_verify_total(&r).compared, r.graph->n_nodes);
        ls_verify_report_deinit(&r);
        close_small(&s);
    }
}

static void contracts_are_near(void **state) {
    (void)state;
    seen s;
    ls_error e = {0};
    ls_verify_report r;
    open_small(&s, "exact24");
    ls_verify_options o = options(&s, "reference,contract=float", "native");
    o.same_input = true;
    assert_ok(ls_verify_run(&r, s.m, &o, &e));
    if (r.first >= 0) fail_msg("diverged at %s", r.graph->nodes[r.first].name);
    ls_verify_report_deinit(&r);
    close_small(&s);
}

/* One flipped bit in every node, with either executor on the faulty side. */
static void faults_are_named_at_their_node(void **state) {
    (void)state;
    bool ops[LS_OP_COUNT] = {false};
    seen s;
    ls_error e = {0};
    open_small(&s, "exact16");
    const ls_graph *g = s.m->vision.graph;
    for (size_t i = 0; i < g->n_nodes; i++) {
        char fault[300];
        ls_verify_report r;
        ls_verify_options o = i % 2 ? options(&s, "reference", "native") : options(&s, "native", "reference");
        snprintf(fault, sizeof fault, "node:%s@%d", g->nodes[i].name, i % 2 ? 0 : 21);
        o.negative = fault;
        o.same_input = i % 3 == 0;
        assert_ok(ls_verify_run(&r, s.m, &o, &e));
        if (r.first != (int)i) fail_msg("fault at %s was reported at %s", g->nodes[i].name, r.first < 0 ? "no node" : g->nodes[r.first].name);
        assert_int_equal(r.node[i].d.failures, 1);
        if (o.same_input) assert_int_equal(ls_verify_total(&r).diverged, 1);
        ops[g->nodes[i].op] = true;
        ls_verify_report_deinit(&r);
    }
    for (int op = LS_OP_INPUT; op < LS_OP_COUNT; op++) assert_true(ops[op]);
    close_small(&s);
}

static void negative_controls_diverge(void **state) {
    (void)state;
    static const struct {
        const char *fault, *first, *refusal;
    } controls[] = {
        {"causal-mask", AT "encoder.layers.0.self_attn.attention", NULL},
        {"prescale-missing", AT "encoder.layers.0.self_attn.attention", NULL},
        {"post-layernorm-missing", AT "post_layernorm", NULL},
        {"swapped-rows", AT "embeddings.patches", NULL},
        {"mask-multiplied", NULL, "hides no row from another"},
        {"rope-off-by-one", NULL, "has no rotary embedding"},
        {"embedding-scaled-twice", NULL, "does not scale its embeddings"},
    };
    seen s;
    open_small(&s, "exact16");
    for (size_t i = 0; i < 2 * sizeof controls / sizeof *controls; i++) {
        ls_error e = {0};
        ls_verify_report r;
        ls_verify_options o = options(&s, "native", i % 2 ? "reference" : "native,level=c");
        o.negative = controls[i / 2].fault;
        o.bisect = i % 2;
        ls_code rc = ls_verify_run(&r, s.m, &o, &e);
        if (!controls[i / 2].first) {
            assert_true(rc != LS_OK);
            assert_non_null(strstr(e.text, controls[i / 2].refusal));
            continue;
        }
        assert_ok(rc);
        assert_true(r.first >= 0);
        assert_string_equal(r.graph->nodes[r.first].name, controls[i / 2].first);
        ls_verify_report_deinit(&r);
    }
    close_small(&s);
}

/* transformers' tensors as the right side, read with their pixels from the same file. */
static void recorded_towers_are_near(void **state) {
    (void)state;
    seen s;
    ls_error e = {0};
    ls_verify_report r;
    ls_str text = {0};
    ls_model_options mo = {.struct_size = sizeof mo, .parts = LS_LOAD_GRAPH, .contract = "exact24", .context = 64};
    assert_ok(ls_model_open(&s.m, TOWER, &mo, &e));
    assert_ok(ls_verify_read_pixels(GOLDEN, &s.m->vision, &s.pixels, &s.image, &s.n, &e));
    assert_int_equal(s.n, 2);
    ls_verify_options o = options(&s, "native", GOLDEN);
    assert_ok(ls_verify_run(&r, s.m, &o, &e));
    if (r.first >= 0) fail_msg("diverged at %s", r.graph->nodes[r.first].name);
    ls_verify_totals t = ls_verify_total(&r);
    assert_int_equal(t.compared, 2);
    assert_int_equal(t.d.elements, 2 * 324 * 144 + 2 * 9 * 32);
    assert_true(t.d.max_absolute > 0);
    assert_ok(ls_verify_text(&r, &text, &e));
    assert_non_null(strstr(text.data, "over 2 images"));
    ls_str_deinit(&text);
    ls_verify_report_deinit(&r);
    ls_free(s.image);
    ls_free(s.pixels);
    ls_model_destroy(s.m);
}

static void what_is_no_comparison_is_refused(void **state) {
    (void)state;
    seen s;
    ls_error e = {0};
    ls_verify_report r;
    float *data;
    const float **image;
    size_t n;
    int32_t token = 3;
    open_small(&s, "exact16");
    ls_verify_options o = options(&s, "native", "reference");
    o.prompt = &token;
    o.n_prompt = 1;
    assert_error(ls_verify_run(&r, s.m, &o, &e), LS_INVALID_ARGUMENT, "compared on images alone");
    o = options(&s, "native", GOLDEN);
    assert_true(ls_verify_run(&r, s.m, &o, &e) != LS_OK); /* tensors of another shape */
    assert_error(ls_verify_read_pixels(GOLDEN, &s.m->vision, &data, &image, &n, &e), LS_INVALID_ARGUMENT, "is F32 [2, 3, 72, 72]; the tower takes F32 [1 to 256, 3, 64, 64]");
    assert_error(ls_verify_read_pixels(TOWER "/model.safetensors", &s.m->vision, &data, &image, &n, &e), LS_NOT_FOUND, "pixel_values");
    ls_model *text;
    ls_model_options mo = {.struct_size = sizeof mo, .parts = LS_LOAD_GRAPH, .context = 64};
    assert_ok(ls_model_open(&text, LS_FIXTURES "/models/llama", &mo, &e));
    o = options(&s, "native", "reference");
    assert_error(ls_verify_run(&r, text, &o, &e), LS_FAILED_PRECONDITION, "the model does not see");
    ls_model_destroy(text);
    close_small(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(towers_are_equal), cmocka_unit_test(contracts_are_near), cmocka_unit_test(faults_are_named_at_their_node),
                                       cmocka_unit_test(negative_controls_diverge), cmocka_unit_test(recorded_towers_are_near),
                                       cmocka_unit_test(what_is_no_comparison_is_refused)};
    return cmocka_run_group_tests_name("verify_vision", tests, NULL, NULL);
}
