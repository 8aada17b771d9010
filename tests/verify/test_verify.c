/* verify on the small models: equality of native and reference, planted faults named at exactly their node in every mode,
 * negative controls, refusals. */
#include "verify/verify.h"

#include <stdlib.h>

#include "fixture_models.h"
#include "test.h"
#include "verify/negative.h"
#include "verify/report.h"

enum { PROMPT = 7, DECODE = 3 };

static ls_model *open_model(const char *name, const char *contract) {
    char path[512];
    ls_error e = {0};
    ls_model *m;
    snprintf(path, sizeof path, LS_FIXTURES "/models/%.128s", name);
    ls_model_options o = {.struct_size = sizeof o, .parts = LS_LOAD_GRAPH, .contract = contract, .context = 64};
    assert_ok(ls_model_open(&m, path, &o, &e));
    return m;
}

static const int32_t prompt[PROMPT] = {5, 17, 3, 42, 8, 23, 11};

static ls_verify_options options(const char *left, const char *right) {
    ls_error e = {0};
    ls_verify_options o = {.prompt = prompt, .n_prompt = PROMPT, .threads = 1};
    assert_ok(ls_side_parse(&o.left, left, &e));
    assert_ok(ls_side_parse(&o.right, right, &e));
    return o;
}

/* ---- Equality ------------------------------------------------------------------------------------------------------------- */

static void check_equal(const char *name, const char *contract, bool same_input) {
    ls_error e = {0};
    ls_model *m = open_model(name, contract);
    ls_verify_options o = options("native", "reference");
    o.decode = DECODE;
    o.chunk = 5; /* does not divide the prompt */
    o.same_input = same_input;
    ls_verify_report r;
    assert_ok(ls_verify_run(&r, m, &o, &e));
    if (r.first >= 0) fail_msg("%s under %s: diverged at %s", name, contract, m->graph->nodes[r.first].name);
    ls_verify_totals t = ls_verify_total(&r);
    assert_int_equal(t.compared, m->graph->n_nodes);
    assert_int_equal(t.diverged + t.absent + t.tokens_differ, 0);
    assert_int_equal(r.bound_kind, LS_BOUND_BITS);
    assert_int_equal(r.passes, 2 + DECODE);
    for (size_t i = 0; i < m->graph->n_nodes; i++) assert_int_equal(r.node[i].passes, 2 + DECODE);
    for (size_t i = 0; i < r.n_tokens; i++) assert_true(r.token[i].has[0] && r.token[i].has[1]);
    for (size_t i = PROMPT; i < r.n_tokens; i++) assert_int_equal(r.token[i].id, r.token[i - 1].top[0]);
    ls_verify_report_deinit(&r);
    ls_model_destroy(m);
}

static void every_family_is_equal(void **state) {
    (void)state;
    char names[FIXTURE_MAX][128];
    int n = fixture_names(names);
    assert_true(n > 25);
    for (int i = 0; i < n; i++) {
        check_equal(names[i], "exact16", false);
        check_equal(names[i], "exact24", false);
        check_equal(names[i], i % 2 ? "exact16" : "exact24", true);
    }
}

/* ---- Planted faults --------------------------------------------------------------------------------------------------------- */

typedef struct mode {
    const char *name;
    bool same_input, bisect;
    int bit; /* small faults are rounded away on the way to the nodes that bisection compares first */
} mode;

static const mode modes[] = {{"plain", false, false, 0}, {"same input", true, false, 0}, {"plain", false, false, 21}, {"bisect", false, true, 21}};
enum { MODES = sizeof modes / sizeof *modes, BISECT = MODES - 1 };

/* Whether the fault is still there in the logits: only then must bisection, which looks at them first, find it. */
static bool check_planted(ls_model *m, const char *left, const char *right, size_t node, const mode *k) {
    ls_error e = {0};
    char fault[300];
    snprintf(fault, sizeof fault, "node:%s@%d", m->graph->nodes[node].name, k->bit);
    ls_verify_options o = options(left, right);
    o.negative = fault;
    o.same_input = k->same_input;
    o.bisect = k->bisect;
    o.probes = k->bisect ? 4 : 0;
    ls_verify_report r;
    assert_ok(ls_verify_run(&r, m, &o, &e));
    if (r.first != (int)node)
        fail_msg("%s, %s against %s, %s: fault at %s was reported at %s", m->graph->architecture, left, right, k->name, m->graph->nodes[node].name,
                 r.first < 0 ? "no node" : m->graph->nodes[r.first].name);
    ls_verify_place p = ls_verify_place_of(&r, node);
    assert_int_equal(r.node[node].d.failures, 1);
    assert_int_equal(r.node[node].d.max_ulp, 1 << k->bit);
    assert_int_equal(p.position, PROMPT - 1);
    ls_verify_totals t = ls_verify_total(&r);
    if (k->same_input) assert_int_equal(t.diverged, 1);
    if (k->bisect) {
        assert_true(t.compared < m->graph->n_nodes);
        assert_true(r.most_observed <= 4);
    }
    bool reaches_logits = r.node[m->graph->n_nodes - 1].d.first >= 0;
    ls_verify_report_deinit(&r);
    return reaches_logits;
}

static void check_all_planted(const char *name, const char *contract, const char *left, const char *right, bool seen[LS_OP_COUNT]) {
    ls_model *m = open_model(name, contract);
    size_t bisected = 0;
    for (size_t i = 0; i < m->graph->n_nodes; i++) {
        bool reaches_logits = false;
        for (size_t k = 0; k < BISECT; k++) reaches_logits = check_planted(m, left, right, i, &modes[k]);
        if (reaches_logits) check_planted(m, left, right, i, &modes[BISECT]);
        bisected += reaches_logits;
        seen[m->graph->nodes[i].op] = true;
    }
    if (bisected * 4 < m->graph->n_nodes * 3) fail_msg("%s: only %zu of %zu faults reach the logits", name, bisected, m->graph->n_nodes); /* a clamp hides some */
    ls_model_destroy(m);
}

/* Every node of models that together have every operator, in all three modes, with either executor on the faulty side. */
static void faults_are_named_at_their_node(void **state) {
    (void)state;
    bool seen[LS_OP_COUNT] = {false};
    check_all_planted("gemma2", "exact16", "native", "reference", seen);
    check_all_planted("phi3", "exact24", "reference", "native", seen);
    check_all_planted("qwen2_moe", "exact24", "native", "reference", seen);
    check_all_planted("olmoe", "exact16", "reference", "native", seen);
    check_all_planted("granite", "exact24", "native", "native,level=c", seen);
    check_all_planted("stablelm", "exact16", "native", "reference", seen);
    for (int op = 0; op < LS_OP_INPUT; op++) /* the rest: test_verify_vision */
        if (!seen[op]) fail_msg("no model of this test has operator %s", ls_op_name((ls_op)op));
}

/* ---- Negative controls -------------------------------------------------------------------------------------------------------- */

/* Where a fault must be seen first; NULL: it does not apply, and |refusal| is part of the reason. */
typedef struct control {
    const char *model, *fault, *first, *refusal;
} control;

static const control controls[] = {
    {"llama", "rope-off-by-one", "model.layers.0.self_attn.q_rope", NULL},
    {"llama_interleaved", "rope-off-by-one", "model.layers.0.self_attn.q_rope", NULL},
    {"smollm3", "rope-off-by-one", "model.layers.0.self_attn.q_rope", NULL},
    {"llama", "mask-multiplied", "model.layers.0.self_attn.attention", NULL},
    {"gemma2", "mask-multiplied", "model.layers.0.self_attn.attention", NULL},
    {"gemma", "embedding-scaled-twice", "model.embed_tokens", NULL},
    {"llama", "embedding-scaled-twice", NULL, "does not scale its embeddings"},
    {"llama", "prescale-missing", "model.layers.0.self_attn.attention", NULL},
    {"llama", "identity-permutation", "model.layers.0.self_attn.attention", NULL},
    {"qwen2_moe", "identity-permutation", NULL, "every query head has its own key head"},
    {"gemma", "identity-permutation", NULL, "or all have one"},
    {"llama", "swapped-rows", "model.embed_tokens", NULL},
    {"llama", "causal-mask", NULL, "every attention of llama is causal"},
    {"llama", "node:lm_head", "lm_head", NULL},
    {"llama", "node:lm_head@23", NULL, "must be 0 to 22"},
    {"llama", "node:nonsense", NULL, "no such node"},
    {"llama", "nonsense", NULL, "there is no fault \"nonsense\""},
};

static void check_control(const control *k, const mode *how) {
    ls_error e = {0};
    ls_model *m = open_model(k->model, "exact16");
    ls_verify_options o = options("native", "reference");
    o.negative = k->fault;
    o.decode = 2;
    o.chunk = 4;
    o.same_input = how->same_input;
    o.bisect = how->bisect;
    ls_verify_report r;
    ls_code rc = ls_verify_run(&r, m, &o, &e);
    if (!k->first) {
        assert_true(rc != LS_OK);
        if (!strstr(e.text, k->refusal)) fail_msg("%s: \"%s\" does not say \"%s\"", k->fault, e.text, k->refusal);
    } else {
        assert_ok(rc);
        const char *first = r.first < 0 ? "no node" : m->graph->nodes[r.first].name;
        if (strcmp(first, k->first)) fail_msg("%s, %s, %s: seen first at %s, not at %s", k->model, k->fault, how->name, first, k->first);
        ls_verify_report_deinit(&r);
    }
    ls_model_destroy(m);
}

static void negative_controls_diverge(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++)
        for (size_t k = 0; k < sizeof modes / sizeof *modes; k++) check_control(&controls[i], &modes[k]);
}

/* Turning every position by one more leaves all scores as they were: only the rotary nodes show the fault. */
static void same_input_shows_a_shifted_rotation_only_there(void **state) {
    (void)state;
    ls_error e = {0};
    ls_model *m = open_model("llama", "exact24");
    ls_verify_options o = options("native", "reference");
    o.negative = "rope-off-by-one";
    o.same_input = true;
    ls_verify_report r;
    assert_ok(ls_verify_run(&r, m, &o, &e));
    for (size_t i = 0; i < m->graph->n_nodes; i++) assert_int_equal(r.node[i].d.first >= 0, m->graph->nodes[i].op == LS_OP_ROPE);
    ls_verify_report_deinit(&r);
    ls_model_destroy(m);
}

/* A fault that a run cannot show: with one token there is nothing for a mask to hide. */
/* One token: rows that cannot change places are no comparison. A bit within the bounds is equal, and the report says that the fault was
 * not seen. */
static void an_invisible_fault_is_no_success(void **state) {
    (void)state;
    ls_error e = {0};
    ls_model *m = open_model("gemma2", "exact16");
    ls_verify_options o = options("native", "reference");
    o.negative = "swapped-rows";
    o.n_prompt = 1;
    ls_verify_report r;
    ls_str text = {0};
    assert_error(ls_verify_run(&r, m, &o, &e), LS_FAILED_PRECONDITION, "swapped-rows changes no value");
    o = options("reference", "reference:f64");
    o.left.contract = o.right.contract = LS_CONTRACT_FLOAT;
    o.left.has_contract = o.right.has_contract = true;
    o.has_bound = true;
    o.absolute = 1e-2;
    o.negative = "node:lm_head@0";
    assert_ok(ls_verify_run(&r, m, &o, &e));
    assert_int_equal(r.first, -1);
    assert_ok(ls_verify_text(&r, &text, &e));
    assert_non_null(strstr(text.data, "NOT seen"));
    ls_str_deinit(&text);
    ls_verify_report_deinit(&r);
    ls_model_destroy(m);
}

/* ---- Contracts with each other --------------------------------------------------------------------------------------------------- */

static void check_bounds(const char *left, const char *right, bool same_input, ls_bound_kind kind) {
    ls_error e = {0};
    ls_model *m = open_model("llama", "exact16");
    ls_verify_options o = options(left, right);
    o.same_input = same_input;
    o.decode = 2;
    ls_verify_report r;
    assert_ok(ls_verify_run(&r, m, &o, &e));
    assert_int_equal(r.bound_kind, kind);
    if (r.first >= 0) {
        ls_str text = {0};
        ls_verify_text(&r, &text, NULL);
        fail_msg("%s against %s: %s", left, right, text.data);
    }
    assert_true(ls_verify_total(&r).d.max_absolute > 0);
    ls_verify_report_deinit(&r);
    ls_model_destroy(m);
}

static void contracts_agree_within_bounds(void **state) {
    (void)state;
    check_bounds("native,contract=exact24", "reference,contract=float", false, LS_BOUND_DRIFT);
    check_bounds("native,contract=exact24", "reference,contract=float", true, LS_BOUND_SAME_INPUT);
    check_bounds("reference,contract=float", "native,contract=exact24", true, LS_BOUND_SAME_INPUT);
    check_bounds("reference:f64", "reference,contract=float", true, LS_BOUND_ROUNDED);
    check_bounds("native", "reference:f64", false, LS_BOUND_COARSE);
    check_bounds("native", "native,contract=exact24", true, LS_BOUND_COARSE);
}

static void a_given_bound_decides(void **state) {
    (void)state;
    ls_error e = {0};
    ls_model *m = open_model("llama", "exact16");
    ls_verify_options o = options("native", "native,contract=exact24");
    o.has_bound = true;
    ls_verify_report r;
    assert_ok(ls_verify_run(&r, m, &o, &e));
    assert_true(r.first > 0); /* embeddings are equal, the first product is not */
    ls_verify_report_deinit(&r);
    o.absolute = 10;
    assert_ok(ls_verify_run(&r, m, &o, &e));
    assert_int_equal(r.first, -1);
    ls_verify_report_deinit(&r);
    ls_model_destroy(m);
}

/* ---- Refusals ---------------------------------------------------------------------------------------------------------------------- */

static void wrong_sides_are_refused(void **state) {
    (void)state;
    static const char *const wrong[][2] = {{"cuda", "is unknown; use native"}, {"native,level", "does not take \"level\""}, {"native,threads=0", "threads=N (1 to 1024)"},
                                           {"native,contract=exact99", "exact99"}, {"a.safetensors,level=c", "it takes no option"},
                                           {"reference,level=c", "it takes contract=NAME"}, {"xla:pjrt,modules=all", "modules=fused|nodes"},
                                           {"xla:pjrt,precision=f8", "precision=f32|f16|bf16"}, {".safetensors", "is unknown"},
                                           {"", "is unknown"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ls_error e = {0};
        ls_side_spec s;
        assert_true(ls_side_parse(&s, wrong[i][0], &e) != LS_OK);
        if (!strstr(e.text, wrong[i][1])) fail_msg("\"%s\": \"%s\"", wrong[i][0], e.text);
    }
}

static void refuses(ls_model *m, const ls_verify_options *o, const char *text) {
    ls_error e = {0};
    ls_verify_report r;
    assert_true(ls_verify_run(&r, m, o, &e) != LS_OK);
    if (!strstr(e.text, text)) fail_msg("\"%s\" does not say \"%s\"", e.text, text);
    assert_null(r.node);
}

static void wrong_options_are_refused(void **state) {
    (void)state;
    ls_model *m = open_model("llama", "exact16");
    ls_verify_options o = options("native", "reference");
    o.same_input = o.bisect = true;
    refuses(m, &o, "choose one");
    o = options("native", "reference");
    o.has_bound = true;
    refuses(m, &o, "takes no tolerance");
    o = options("native", "native,contract=exact24");
    o.has_bound = true;
    o.absolute = -1;
    refuses(m, &o, "finite and 0 or more");
    o = options("native", "reference");
    o.n_prompt = 0;
    refuses(m, &o, "no tokens");
    o = options("native", "reference");
    o.decode = 60;
    refuses(m, &o, "do not fit the context of 64");
    o = options("native", "reference:f64");
    o.same_input = true;
    refuses(m, &o, "cannot be fed");
    o = options("native", "reference:f64,contract=exact16");
    refuses(m, &o, "it has no exact16");
    o = options("native", "native,contract=float");
    refuses(m, &o, "right side \"native\": the native backend runs the exact contracts");
    o = options("native,level=mmx", "reference");
    refuses(m, &o, "left side \"native\"");
    o = options("a.safetensors", "b.safetensors");
    refuses(m, &o, "both sides are files");
    o = options("native", "b.safetensors");
    o.negative = "swapped-rows";
    refuses(m, &o, "put the file on the left");
    o = options("native", "/nonexistent/b.safetensors");
    refuses(m, &o, "b.safetensors");
    int32_t outside[2] = {1, 99999};
    o = options("native", "reference");
    o.prompt = outside;
    o.n_prompt = 2;
    refuses(m, &o, "99999");
    ls_model_destroy(m);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_is_equal),          cmocka_unit_test(faults_are_named_at_their_node),
        cmocka_unit_test(negative_controls_diverge),      cmocka_unit_test(same_input_shows_a_shifted_rotation_only_there),
        cmocka_unit_test(an_invisible_fault_is_no_success), cmocka_unit_test(contracts_agree_within_bounds),
        cmocka_unit_test(a_given_bound_decides),          cmocka_unit_test(wrong_sides_are_refused),
        cmocka_unit_test(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
