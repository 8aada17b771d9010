/* The structure of emitted modules: bytes that depend on graph and options alone, locations, arguments, donation, what each
 * contract and precision may hold, and the options that are refused. */
#include "test.h"

#include <stdlib.h>

#include "contract/exact.h"
#include "emit_text.h"
#include "fixture_models.h"
#include "reference/small_graph.h"

static ls_emit_options entry_options(ls_entry entry) {
    return (ls_emit_options){.entry = entry, .rows = entry == LS_ENTRY_DECODE ? 1 : 4, .capacity = 256, .sequences = 2, .out_rows = 2};
}

static void emit(ls_emit_module *m, const fixture *f, const ls_emit_options *o) {
    ls_error e = {0};
    assert_ok(ls_emit_entry(m, f->graph, o, &e));
}

/* Calls |check| on every entry for tokens (those before vision) of every family under |contract|. */
static void each_module(ls_contract contract, const ls_emit_options *base, void (*check)(const fixture *f, const ls_emit_module *m, const ls_emit_options *o)) {
    char names[FIXTURE_MAX][128];
    ls_error e = {0};
    int n = fixture_names(names);
    for (int i = 0; i < n; i++) {
        fixture f;
        assert_ok(fixture_open(&f, names[i], contract, &e));
        for (int entry = 0; entry < LS_ENTRY_VISION; entry++) {
            ls_emit_options o = entry_options((ls_entry)entry);
            ls_emit_module m;
            o.precision = base->precision;
            o.carrier = base->carrier;
            emit(&m, &f, &o);
            check(&f, &m, &o);
            ls_emit_module_deinit(&m);
        }
        fixture_close(&f);
    }
}

/* ---- Bytes ------------------------------------------------------------------------------------------------------------ */

static void same_twice(const fixture *f, const ls_emit_module *m, const ls_emit_options *o) {
    ls_emit_module again;
    emit(&again, f, o);
    assert_int_equal(m->text.len, again.text.len);
    assert_memory_equal(m->text.data, again.text.data, m->text.len);
    assert_int_equal(m->n_weights, again.n_weights);
    for (size_t i = 0; i < m->n_weights; i++) assert_string_equal(m->weight[i].key, again.weight[i].key);
    ls_emit_module_deinit(&again);
}

static void equal_bytes_in_one_process(void **state) {
    (void)state;
    each_module(LS_CONTRACT_EXACT16, &(ls_emit_options){0}, same_twice);
    each_module(LS_CONTRACT_FLOAT, &(ls_emit_options){0}, same_twice);
}

/* What `lockstep emit` prints. */
static void from_the_program(ls_str *out, const char *family, const char *arguments) {
    char command[1000], block[4096];
    ls_error e = {0};
    snprintf(command, sizeof command, "'%s' emit '%s/models/%s' --capacity 256 %s", LS_LOCKSTEP, LS_FIXTURES, family, arguments);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    for (size_t n; (n = fread(block, 1, sizeof block, p));) assert_ok(ls_str_append(out, block, n, &e));
    assert_int_equal(pclose(p), 0);
}

static void equal_bytes_in_other_processes(void **state) {
    (void)state;
    static const struct {
        const char *arguments;
        ls_contract contract;
        ls_emit_options o;
    } cases[] = {
        {"--entry prefill --tokens 7 --contract exact24 --carrier f64", LS_CONTRACT_EXACT24,
         {.entry = LS_ENTRY_PREFILL, .rows = 7, .capacity = 256, .sequences = 1, .out_rows = 1, .carrier = LS_CARRIER_F64}},
        {"--entry decode_ragged --batch 8 --contract float --precision bf16 --argmax", LS_CONTRACT_FLOAT,
         {.entry = LS_ENTRY_DECODE_RAGGED, .rows = 8, .capacity = 256, .precision = LS_PRECISION_BF16, .argmax = true}},
    };
    ls_error e = {0};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        fixture f;
        ls_emit_module m;
        ls_str a = {0}, b = {0};
        from_the_program(&a, "qwen2_moe", cases[c].arguments);
        from_the_program(&b, "qwen2_moe", cases[c].arguments);
        assert_ok(fixture_open(&f, "qwen2_moe", cases[c].contract, &e));
        emit(&m, &f, &cases[c].o);
        assert_string_equal(a.data, b.data);
        assert_string_equal(a.data, m.text.data);
        ls_emit_module_deinit(&m);
        fixture_close(&f);
        ls_str_deinit(&a);
        ls_str_deinit(&b);
    }
}

/* ---- Operations, locations, arguments ------------------------------------------------------------------------------------ */

/* Index of the node; n_nodes for "results", -1 for "inputs". */
static int place_of(const ls_graph *g, const char *loc) {
    if (!strcmp(loc, "inputs")) return -1;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (!strcmp(g->nodes[i].name, loc)) return (int)i;
    if (strcmp(loc, "results")) fail_msg("location \"%s\" is no node", loc);
    return (int)g->n_nodes;
}

static void check_locations(const fixture *f, const ls_emit_module *m, const ls_emit_options *o) {
    (void)o;
    emit_text t;
    emit_text_init(&t, m);
    for (int i = 0, last = -1; i < t.n; i++) {
        if (!t.op[i].loc[0]) fail_msg("%s: no location: %s", f->name, t.op[i].line);
        int place = place_of(f->graph, t.op[i].loc);
        if (place < 0) continue; /* inputs are made ready where they are first needed */
        if (place < last) fail_msg("%s: \"%s\" comes after a later node", f->name, t.op[i].loc);
        last = place;
    }
    emit_text_deinit(&t);
}

/* Results are numbered in order, operands come before their users, weights are numbered by first use. */
static void check_numbers(const fixture *f, const ls_emit_module *m, const ls_emit_options *o) {
    (void)o;
    emit_text t;
    emit_text_init(&t, m);
    int weights = 0;
    for (int i = 0; i < t.n; i++) {
        const char *p = t.op[i].line;
        assert_int_equal(atoi(strchr(p, '%') + 1), i);
        for (p = strstr(p, " = "); (p = strchr(p, '%')); p++) {
            if (p[1] == 'a') assert_true(atoi(p + 2) < (int)m->n_inputs);
            else if (p[1] != 'w') assert_true(atoi(p + 1) < i);
            else if (atoi(p + 2) > weights) fail_msg("%s: weight %d is used before %d", f->name, atoi(p + 2), weights);
            else weights += atoi(p + 2) == weights;
        }
    }
    assert_int_equal(weights, m->n_weights);
    emit_text_deinit(&t);
}

static int occurrences(const char *text, const char *part) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, part)); p += strlen(part)) n++;
    return n;
}

static void check_arguments(const fixture *f, const ls_emit_module *m, const ls_emit_options *o) {
    static const size_t inputs[LS_ENTRY_COUNT] = {3, 4, 5, 5, 6, 10};
    char part[80];
    (void)f;
    assert_int_equal(m->n_inputs, inputs[o->entry]);
    assert_int_equal(m->n_results, 3);
    const char *p = m->text.data;
    for (size_t i = 0; i < m->n_weights; i++) { /* weights first, then inputs, each on its line */
        snprintf(part, sizeof part, "\n      %%w%zu: tensor<", i);
        assert_non_null(p = strstr(p, part));
    }
    for (size_t i = 0; i < m->n_inputs; i++) {
        snprintf(part, sizeof part, "\n      %%a%zu: tensor<", i);
        assert_non_null(p = strstr(p, part));
    }
    bool donates = o->entry != LS_ENTRY_PREFILL && o->entry != LS_ENTRY_PREFILL_EMBEDDINGS;
    assert_int_equal(occurrences(m->text.data, "tf.aliasing_output"), donates ? 2 : 0);
    for (size_t i = 0; donates && i < 2; i++) {
        const ls_tensor_type *a = &m->input[m->n_inputs - 2 + i], *r = &m->result[1 + i];
        assert_memory_equal(a, r, sizeof *a);
        snprintf(part, sizeof part, "%%a%zu: ", m->n_inputs - 2 + i);
        const char *line = strstr(m->text.data, part);
        assert_non_null(line);
        snprintf(part, sizeof part, "{tf.aliasing_output = %zu : i32}", 1 + i);
        assert_true(strstr(line, part) && strstr(line, part) < strchr(line, '\n'));
    }
}

static void check_structure(const fixture *f, const ls_emit_module *m, const ls_emit_options *o) {
    check_locations(f, m, o);
    check_numbers(f, m, o);
    check_arguments(f, m, o);
}

static void structure(void **state) {
    (void)state;
    each_module(LS_CONTRACT_EXACT16, &(ls_emit_options){0}, check_structure);
    each_module(LS_CONTRACT_EXACT24, &(ls_emit_options){.carrier = LS_CARRIER_I8}, check_structure);
    each_module(LS_CONTRACT_FLOAT, &(ls_emit_options){0}, check_structure);
}

/* A module's weights are one graph's, so that entries share them: equal keys, equal types. */
static void entries_share_weights(void **state) {
    (void)state;
    fixture f;
    ls_error e = {0};
    ls_emit_module a, b;
    ls_emit_options decode = entry_options(LS_ENTRY_DECODE), prefill = entry_options(LS_ENTRY_PREFILL);
    assert_ok(fixture_open(&f, "qwen2_moe", LS_CONTRACT_EXACT24, &e));
    emit(&a, &f, &decode);
    emit(&b, &f, &prefill);
    assert_int_equal(a.n_weights, b.n_weights);
    for (size_t i = 0; i < a.n_weights; i++) {
        assert_string_equal(a.weight[i].key, b.weight[i].key);
        assert_memory_equal(&a.weight[i].type, &b.weight[i].type, sizeof a.weight[i].type);
    }
    ls_emit_module_deinit(&a);
    ls_emit_module_deinit(&b);
    fixture_close(&f);
}

/* ---- The float contract -------------------------------------------------------------------------------------------------- */

static bool holds(const char *line, const char *dtype) {
    char part[16], scalar[16];
    snprintf(part, sizeof part, "x%s>", dtype);
    snprintf(scalar, sizeof scalar, "<%s>", dtype);
    return strstr(line, part) || strstr(line, scalar);
}

/* Narrow values are made by conversions or are weights, change shape at most, and end in products with f32 sums. */
static void check_narrow(const fixture *f, const ls_emit_module *m, const ls_emit_options *o) {
    const char *narrow = ls_precision_name(o->precision);
    int products = 0;
    emit_text t;
    emit_text_init(&t, m);
    for (int i = 0; i < t.n; i++) {
        const emit_op *op = &t.op[i];
        if (!strcmp(op->name, "stablehlo.dot_general")) {
            products++;
            assert_true(holds(op->result, "f32"));
            if (occurrences(op->line, narrow) != 2) fail_msg("%s: a product of other operands: %s", f->name, op->line);
            continue;
        }
        bool moves = !strcmp(op->name, "stablehlo.reshape") || !strcmp(op->name, "stablehlo.convert");
        if (holds(op->line, narrow) && !moves) fail_msg("%s: narrow outside a product: %s", f->name, op->line);
    }
    assert_true(products > 0);
    assert_false(holds(m->text.data, o->precision == LS_PRECISION_F16 ? "bf16" : "f16"));
    emit_text_deinit(&t);
}

static void precision_narrows_operands_only(void **state) {
    (void)state;
    each_module(LS_CONTRACT_FLOAT, &(ls_emit_options){.precision = LS_PRECISION_F16}, check_narrow);
    each_module(LS_CONTRACT_FLOAT, &(ls_emit_options){.precision = LS_PRECISION_BF16}, check_narrow);
}

static void check_wide(const fixture *f, const ls_emit_module *m, const ls_emit_options *o) {
    static const char *const other[] = {"f16", "bf16", "f64", "i8"};
    (void)o;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (holds(m->text.data, other[i])) fail_msg("%s: a float module of f32 holds %s", f->name, other[i]);
}

static void f32_stays_f32(void **state) {
    (void)state;
    each_module(LS_CONTRACT_FLOAT, &(ls_emit_options){0}, check_wide);
}

/* Emits the node |name| of |s| alone. */
static void emit_small(ls_emit_module *m, const small_graph *s, int node) {
    ls_error e = {0};
    ls_emit_options o = {.entry = LS_ENTRY_EXTEND, .rows = 4, .capacity = 256, .sequences = 1, .out_rows = 1};
    assert_ok(ls_emit_node_module(m, s->g, node, &o, &e));
}

static bool module_has(const ls_emit_module *m, const char *part) { return strstr(m->text.data, part) != NULL; }

static void activations(void **state) {
    (void)state;
    ls_error e = {0};
    for (int act = 0; act < LS_ACT_COUNT; act++) {
        small_graph s;
        ls_emit_module m;
        int y;
        assert_ok(small_begin(&s, LS_CONTRACT_FLOAT, 8, NULL, &e));
        assert_ok(ls_add_activation(s.g, &y, s.value, (ls_act)act, "act", &e));
        emit_small(&m, &s, y);
        emit_text t;
        emit_text_init(&t, &m);
        const char *chain = emit_text_chain(&t, "");
        if (act == LS_ACT_SILU) assert_string_equal(chain, "negate exponential add divide multiply"); /* x times 1 / (1 + exp(-x)) */
        if (act == LS_ACT_SIGMOID) assert_string_equal(chain, "negate exponential add divide");
        assert_int_equal(module_has(&m, "chlo.erf"), act == LS_ACT_GELU);
        assert_int_equal(module_has(&m, "tanh"), act == LS_ACT_GELU_TANH);
        assert_int_equal(module_has(&m, "0x3D372713"), act == LS_ACT_GELU_TANH); /* 0.044715 */
        emit_text_deinit(&t);
        ls_emit_module_deinit(&m);
        small_destroy(&s);
    }
}

static void single_operators(void **state) {
    (void)state;
    ls_error e = {0};
    small_graph s;
    int linear, sum, norm, layer;
    assert_ok(small_begin(&s, LS_CONTRACT_FLOAT, 8, NULL, &e));
    assert_ok(ls_add_linear(s.g, &linear, s.value, small_param("w", 8, 8, NULL), NULL, "linear", &e));
    assert_ok(ls_add_add(s.g, &sum, linear, s.value, "sum", &e));
    assert_ok(ls_add_rms_norm(s.g, &norm, sum, small_param("n", 1, 8, NULL), 1e-5f, 0, 0, "norm", &e));
    assert_ok(ls_add_layer_norm(s.g, &layer, norm, small_param("m", 1, 8, NULL), small_param("b", 1, 8, NULL), 1e-5f, 0, "layer", &e));
    static const char *const chains[] = {"dot_general", "add", "multiply reduce divide add rsqrt multiply multiply",
                                         "reduce divide subtract multiply reduce divide add rsqrt multiply multiply add"};
    const int nodes[] = {linear, sum, norm, layer};
    for (int i = 0; i < 4; i++) {
        ls_emit_module m;
        emit_text t;
        emit_small(&m, &s, nodes[i]);
        emit_text_init(&t, &m);
        assert_string_equal(emit_text_chain(&t, ""), chains[i]);
        assert_false(module_has(&m, "convert"));
        assert_int_equal(module_has(&m, "contracting_dims = [1] x [0]"), i == 0);
        emit_text_deinit(&t);
        ls_emit_module_deinit(&m);
    }
    small_destroy(&s);
}

/* ---- The exact contracts ----------------------------------------------------------------------------------------------------- */

static void check_exact(const fixture *f, const ls_emit_module *m, const ls_emit_options *o) {
    static const char *const banned[] = {"divide", "sqrt", "rsqrt", "exponential", "exponential_minus_one", "tanh", "logistic", "log", "power", "sine", "cosine", "remainder"};
    static const char *const carried[] = {"f32", "f64", "i8"};
    emit_text t;
    emit_text_init(&t, m);
    for (int i = 0; i < t.n; i++) {
        const emit_op *op = &t.op[i];
        for (size_t b = 0; b < sizeof banned / sizeof *banned; b++)
            if (!strcmp(op->name + strlen("stablehlo."), banned[b]) && strchr(op->result, 'f')) fail_msg("%s: under an exact contract: %s", f->name, op->line);
        if (!strcmp(op->name, "stablehlo.dot_general")) {
            if (o->carrier == LS_CARRIER_I8) assert_true(holds(op->result, "i32"));
            if (o->carrier == LS_CARRIER_F32) assert_true(holds(op->result, "f32"));
            if (!holds(op->line, carried[o->carrier]) && o->carrier != LS_CARRIER_F64) fail_msg("%s: a product of other operands: %s", f->name, op->line);
        }
    }
    assert_false(module_has(m, "chlo."));
    assert_false(holds(m->text.data, "f16") || holds(m->text.data, "bf16"));
    assert_int_equal(holds(m->text.data, "f64"), o->carrier == LS_CARRIER_F64);
    emit_text_deinit(&t);
}

static void exact_modules(void **state) {
    (void)state;
    for (int carrier = 0; carrier < 3; carrier++) {
        each_module(LS_CONTRACT_EXACT16, &(ls_emit_options){.carrier = (ls_carrier)carrier}, check_exact);
        each_module(LS_CONTRACT_EXACT24, &(ls_emit_options){.carrier = (ls_carrier)carrier}, check_exact);
    }
}

/* ---- Refusals --------------------------------------------------------------------------------------------------------------------- */

static const ls_graph *refusing;

static void refused(ls_emit_options o, const char *part) {
    ls_error e = {0};
    ls_emit_module m;
    assert_error(ls_emit_entry(&m, refusing, &o, &e), LS_INVALID_ARGUMENT, part);
}

static void options_of_shape(void **state) {
    (void)state;
    static const int64_t bad_capacity[] = {0, -256, 1, 255, 257, 384, (int64_t)LS_MAX_CONTEXT + 256, INT64_MIN, INT64_MAX};
    fixture f;
    ls_error e = {0};
    assert_ok(fixture_open(&f, "qwen2", LS_CONTRACT_EXACT16, &e));
    refusing = f.graph;
    ls_emit_options o;
    for (size_t i = 0; i < sizeof bad_capacity / sizeof *bad_capacity; i++) {
        o = entry_options(LS_ENTRY_DECODE);
        o.capacity = bad_capacity[i];
        refused(o, "multiple of 256");
    }
    for (int entry = 0; entry < LS_ENTRY_VISION; entry++) {
        if (entry == LS_ENTRY_DECODE) continue;
        o = entry_options((ls_entry)entry);
        for (o.rows = -1; o.rows < 1; o.rows++) refused(o, "rows; allowed are 1 to");
        o.rows = (int64_t)LS_MAX_CHUNK + 1;
        refused(o, "rows; allowed are 1 to");
        o.rows = 257;
        if (entry != LS_ENTRY_DECODE_RAGGED) refused(o, "do not fit a capacity of 256");
    }
    o = entry_options(LS_ENTRY_EXTEND);
    for (o.out_rows = -1; o.out_rows < 1; o.out_rows++) refused(o, "rows of logits");
    o.out_rows = 5;
    refused(o, "rows of logits");
    o = entry_options(LS_ENTRY_EXTEND);
    for (o.sequences = -1; o.sequences < 1; o.sequences++) refused(o, "sequences");
    o.sequences = (int64_t)LS_MAX_SLOTS + 1;
    refused(o, "sequences");
    o = entry_options(LS_ENTRY_EXTEND);
    o.argmax = true;
    refused(o, "no argmax");
    fixture_close(&f);
}

static void options_of_contract(void **state) {
    (void)state;
    for (int c = 0; c < LS_CONTRACT_COUNT; c++) {
        fixture f;
        ls_error e = {0};
        if (c == LS_CONTRACT_FLOAT) continue;
        assert_ok(fixture_open(&f, "llama_mlx", (ls_contract)c, &e));
        refusing = f.graph;
        ls_emit_options o = entry_options(LS_ENTRY_DECODE);
        o.precision = LS_PRECISION_F16;
        refused(o, "belong to the float contract");
        o.precision = LS_PRECISION_BF16;
        refused(o, "belong to the float contract");
        o.precision = LS_PRECISION_F32;
        o.packed = true;
        refused(o, "belong to the float contract");
        fixture_close(&f);
    }
}

/* A graph of linear layers and perhaps experts on weights of the given formats; what check says about it. */
static void check_packed(const ls_tensor *t, size_t n, const ls_tensor *expert, ls_code code, const char *part) {
    static const char *const name[] = {"w0", "w1", "w2"};
    ls_error e = {0};
    small_graph s;
    ls_param w[3], x;
    int y, router;
    assert_ok(small_begin(&s, LS_CONTRACT_FLOAT, 32, NULL, &e));
    for (size_t i = 0; i < n; i++) {
        w[i] = (ls_param){.name = name[i], .tensor = &t[i], .rows = 32, .cols = 32};
        assert_ok(ls_add_linear(s.g, &y, i ? y : s.value, &w[i], NULL, name[i], &e));
    }
    if (expert) {
        x = (ls_param){.name = "experts.0", .tensor = expert, .rows = 32, .cols = 32};
        const ls_moe moe = {.experts = 1, .top_k = 1, .gate = &x, .up = &x, .down = &x};
        assert_ok(ls_add_slice(s.g, &router, y, 0, 1, "router", &e));
        assert_ok(ls_add_moe(s.g, &y, y, router, &moe, LS_ACT_SILU, "moe", &e));
    }
    ls_code rc = ls_emit_check_packed(s.g, &e);
    small_destroy(&s);
    assert_int_equal(rc, code);
    if (rc && !strstr(e.text, part)) fail_msg("\"%s\" lacks \"%s\"", e.text, part);
}

static void what_stays_packed(void **state) {
    (void)state;
    static const int kept[] = {2, 4, 8}, crossing[] = {3, 6};
    const ls_tensor wide = {.format = LS_BF16}, mlx = {.format = LS_MLX_AFFINE, .mlx_bits = 4, .mlx_group = 32};
    for (int i = 0; i < 3; i++) check_packed((ls_tensor[]){{.format = LS_MLX_AFFINE, .mlx_bits = kept[i], .mlx_group = 32}}, 1, NULL, LS_OK, "");
    check_packed((ls_tensor[]){wide, mlx, wide}, 3, &wide, LS_OK, ""); /* float weights beside packed ones, experts too */
    check_packed((ls_tensor[]){wide, wide}, 2, NULL, LS_INVALID_ARGUMENT, "no linear weight is quantised, so none can stay packed. Choose quant dense");
    for (int i = 0; i < 2; i++) {
        const ls_tensor t = {.format = LS_MLX_AFFINE, .mlx_bits = crossing[i], .mlx_group = 32};
        check_packed((ls_tensor[]){mlx, t}, 2, NULL, LS_UNIMPLEMENTED, i ? "weight \"w1\" is MLX affine of 6 bits" : "weight \"w1\" is MLX affine of 3 bits");
    }
    for (int f = 0; f < LS_FORMAT_COUNT; f++) {
        const ls_tensor t = {.format = (ls_format)f};
        if (ls_format_get((ls_format)f)->group) check_packed((ls_tensor[]){wide, mlx, t}, 3, NULL, LS_UNIMPLEMENTED, "weight \"w2\" is ");
    }
    check_packed(&mlx, 1, &mlx, LS_UNIMPLEMENTED, "expert's weight \"experts.0\" is MLX affine of 4 bits and cannot stay packed");
}

/* Entries of a model that has nothing to pack. */
static void packed_is_refused(void **state) {
    (void)state;
    fixture f;
    ls_error e = {0};
    assert_ok(fixture_open(&f, "qwen2_moe", LS_CONTRACT_FLOAT, &e));
    refusing = f.graph;
    for (int entry = 0; entry < LS_ENTRY_VISION; entry++) {
        ls_emit_options o = entry_options((ls_entry)entry);
        o.packed = true;
        refused(o, "none can stay packed");
    }
    fixture_close(&f);
}

static void names(void **state) {
    (void)state;
    ls_error e = {0};
    ls_entry entry;
    ls_precision precision;
    for (int i = 0; i < LS_ENTRY_COUNT; i++) {
        assert_ok(ls_entry_parse(ls_entry_name((ls_entry)i), &entry, &e));
        assert_int_equal(entry, i);
    }
    for (int i = 0; i < 3; i++) {
        assert_ok(ls_precision_parse(ls_precision_name((ls_precision)i), &precision, &e));
        assert_int_equal(precision, i);
    }
    assert_error(ls_entry_parse("Prefill", &entry, &e), LS_INVALID_ARGUMENT, "\"Prefill\" is unknown");
    assert_error(ls_entry_parse("", &entry, &e), LS_INVALID_ARGUMENT, "use prefill");
    assert_error(ls_precision_parse("tf32", &precision, &e), LS_INVALID_ARGUMENT, "use f32, f16 or bf16");
}

/* Modules that copy a block of the caches have no weights; the one that writes takes the caches over. */
static void blocks_of_the_caches(void **state) {
    (void)state;
    fixture f;
    ls_error e = {0};
    ls_emit_module m;
    ls_emit_options o = {.rows = 64, .capacity = 256, .sequences = 2};
    assert_ok(fixture_open(&f, "gemma3", LS_CONTRACT_EXACT16, &e));
    for (int write = 0; write < 2; write++) {
        assert_ok(ls_emit_block_module(&m, f.graph, write, &o, &e));
        const ls_tensor_type *block = write ? &m.input[2] : &m.result[0], *cache = &m.input[m.n_inputs - 1];
        assert_int_equal(m.n_weights, 0);
        assert_int_equal(m.n_inputs, write ? 5 : 4);
        assert_int_equal(m.n_results, write ? 2 : 1);
        assert_int_equal(occurrences(m.text.data, "tf.aliasing_output"), write ? 2 : 0);
        assert_int_equal(block->rank, 5);
        assert_true(block->dim[0] == 2 && block->dim[1] == f.graph->n_caches && block->dim[2] == 64);
        assert_true(cache->dim[0] == 2 && cache->dim[1] == f.graph->n_caches && cache->dim[2] == 256);
        for (int i = 3; i < 5; i++) assert_int_equal(block->dim[i], cache->dim[i]);
        if (write) assert_memory_equal(cache, &m.result[1], sizeof *cache);
        ls_emit_module_deinit(&m);
    }
    o.rows = 300;
    assert_error(ls_emit_block_module(&m, f.graph, false, &o, &e), LS_INVALID_ARGUMENT, "300 rows do not fit a capacity of 256");
    o = (ls_emit_options){.rows = 64, .capacity = 256};
    assert_error(ls_emit_block_module(&m, f.graph, false, &o, &e), LS_INVALID_ARGUMENT, "0 sequences");
    fixture_close(&f);
}

/* A graph without attention has no caches to keep. */
static void graph_without_attention(void **state) {
    (void)state;
    ls_error e = {0};
    small_graph s;
    ls_emit_module m;
    ls_emit_options o = entry_options(LS_ENTRY_DECODE);
    assert_ok(small_begin(&s, LS_CONTRACT_FLOAT, 8, NULL, &e));
    assert_ok(small_end(&s, s.value, NULL, &e));
    assert_error(ls_emit_entry(&m, s.g, &o, &e), LS_UNIMPLEMENTED, "no attention");
    assert_error(ls_emit_block_module(&m, s.g, true, &o, &e), LS_UNIMPLEMENTED, "no attention");
    small_destroy(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_bytes_in_one_process),
        cmocka_unit_test(equal_bytes_in_other_processes),
        cmocka_unit_test(structure),
        cmocka_unit_test(entries_share_weights),
        cmocka_unit_test(precision_narrows_operands_only),
        cmocka_unit_test(f32_stays_f32),
        cmocka_unit_test(activations),
        cmocka_unit_test(single_operators),
        cmocka_unit_test(exact_modules),
        cmocka_unit_test(options_of_shape),
        cmocka_unit_test(options_of_contract),
        cmocka_unit_test(what_stays_packed),
        cmocka_unit_test(packed_is_refused),
        cmocka_unit_test(names),
        cmocka_unit_test(blocks_of_the_caches),
        cmocka_unit_test(graph_without_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
