/* Single nodes on a PJRT CPU plugin against the reference executor, bit for bit under the exact contracts: every weight format
 * and every way to carry integer products, widths that are no multiple of a block, extreme values, every operator. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "emit_engine.h"
#include "native/checkkern/checkkern.h"
#include "reference/small_graph.h"

enum { ROWS = 7, CAPACITY = 256, MAX_SEQUENCES = 16, MAX_COLS = 256 };

static const ls_contract contracts[] = {LS_CONTRACT_EXACT16, LS_CONTRACT_EXACT24}, attention_contracts[] = {LS_CONTRACT_EXACT16, LS_CONTRACT_EXACT24, LS_CONTRACT_EXACT16_KV8};
static const char *const carriers[] = {"f32", "f64", "i8"};

/* ---- Values --------------------------------------------------------------------------------------------------------------- */

/* Rows of each kind: ordinary, largest mantissas, any exponent, zeros of both signs, alternating, one huge column, tiny and huge. */
static void fill_rows(float *x, int64_t cols) {
    ck_rng r = {5};
    for (int i = 0; i < CK_X_KINDS; i++) ck_fill(x + i * cols, cols, (ck_inputs)i, &r);
    ck_fill(x + CK_X_KINDS * cols, cols, CK_X_RANDOM, &r);
    x[CK_X_KINDS * cols + cols / 2] = 0x1p60f;
    for (int64_t i = 0; i < cols; i++) x[(CK_X_KINDS + 1) * cols + i] = i % 3 ? i % 3 == 1 ? 0x1p-100f : -0x1p100f : -0.0f;
}

/* Weights, and so embeddings, are below 2^40; what goes further is a product a b b of two columns. Table [32, 2 K]. */
static const float *table_of(int64_t cols) {
    static float table[SMALL_VOCAB * 2 * MAX_COLS], x[ROWS * MAX_COLS];
    assert_true(cols <= MAX_COLS);
    fill_rows(x, cols);
    memset(table, 0, sizeof table);
    for (int64_t i = 0; i < ROWS * cols; i++) {
        int e;
        float m = frexpf(x[i], &e), *at = table + i / cols * 2 * cols + i % cols;
        at[0] = ldexpf(m, e - 2 * (e / 3));
        at[cols] = ldexpf(1, e / 3);
    }
    return table;
}

/* A graph that begins with those rows; *x: the value [7, cols]. */
static void begin(small_graph *s, ls_contract contract, int64_t cols, int *x) {
    ls_error e = {0};
    int a, b;
    assert_ok(small_begin(s, contract, 2 * cols, table_of(cols), &e));
    assert_ok(ls_add_slice(s->g, &a, s->value, 0, cols, "lower", &e));
    assert_ok(ls_add_slice(s->g, &b, s->value, cols, cols, "upper", &e));
    assert_ok(ls_add_mul(s->g, &a, a, b, "nearly", &e));
    assert_ok(ls_add_mul(s->g, x, a, b, "rows", &e));
}

static const int32_t tokens[ROWS] = {0, 1, 2, 3, 4, 5, 6};

static void compare(const char *what, const float *got, const float *want, size_t n, size_t cols) {
    size_t bad = 0, first = 0;
    for (size_t i = 0; i < n; i++)
        if (memcmp(got + i, want + i, sizeof *got)) {
            if (!bad++) first = i;
        }
    if (bad) fail_msg("%s: %zu of %zu differ, first row %zu column %zu: got %a, want %a", what, bad, n, first / cols, first % cols, (double)got[first], (double)want[first]);
}

/* ---- Running one node ------------------------------------------------------------------------------------------------------- */

static float *output_of(const small_graph *s, int node, int64_t *rows) {
    for (int i = 0; i < s->n_outputs; i++)
        if (s->outputs[i].node == &s->g->nodes[node]) {
            *rows = s->outputs[i].rows;
            return s->outputs[i].values;
        }
    fail_msg("node %d was not run", node);
    return NULL;
}

static emit_program *load_node(const small_graph *s, int node, int rows, ls_carrier carrier, int sequences) {
    ls_error e = {0};
    ls_emit_module m;
    ls_emit_options o = {.entry = LS_ENTRY_EXTEND, .rows = rows, .capacity = CAPACITY, .sequences = sequences, .out_rows = rows, .carrier = carrier};
    assert_ok(ls_emit_node_module(&m, s->g, node, &o, &e));
    return emit_load(&m, s->g);
}

/* Runs a node that is no attention on the reference's inputs and compares with its output. Rows are positions from |place|. */
static void check_node(const small_graph *s, int node, int rows, int place, ls_carrier carrier) {
    const ls_node *n = &s->g->nodes[node];
    const void *in[LS_MAX_INPUTS + 1];
    int32_t numbers[SMALL_MAX_ROWS];
    int n_in = 0;
    int64_t out_rows;
    char what[200];
    for (int i = 0; i < n->n_in; i++) {
        bool again = false;
        for (int j = 0; j < i; j++) again |= n->in[j] == n->in[i];
        if (!again) in[n_in++] = output_of(s, n->in[i], &out_rows);
    }
    for (int i = 0; i < rows; i++) numbers[i] = n->op == LS_OP_EMBED ? tokens[i % ROWS] : n->op == LS_OP_ROPE ? place + i : i;
    if (n->op == LS_OP_EMBED || n->op == LS_OP_ROPE || n->op == LS_OP_SELECT_ROWS) in[n_in++] = numbers;
    const float *want = output_of(s, node, &out_rows);
    emit_program *p = load_node(s, node, rows, carrier, 1);
    float *got = calloc(emit_result_count(p, 0), sizeof *got);
    assert_non_null(got);
    emit_run(p, in, (void *const[]){got});
    snprintf(what, sizeof what, "%s %s carried by %s", n->name, ls_contract_name(n->contract), carriers[carrier]);
    compare(what, got, want, (size_t)(out_rows * n->cols), (size_t)n->cols);
    free(got);
    emit_unload(p);
}

/* ---- Weight formats ----------------------------------------------------------------------------------------------------------- */

/* MLX weights with f16 scales must stay below f16's infinity: scales below 2. */
static void tame(ck_tensor *t) {
    uint8_t *parts[] = {t->scales, t->biases};
    for (int p = 0; p < 2 && t->t.format == LS_MLX_AFFINE && t->t.scale_format == LS_F16; p++)
        for (size_t i = 1; i < t->t.scale_bytes; i += 2) parts[p][i] &= 0xBF;
}

/* x [7, K] against N rows of |f| of every kind of weight. */
static void check_format(const ck_format *f, ls_contract contract, int64_t n, int64_t k) {
    ls_error e = {0};
    ck_rng r = {11};
    for (int kind = 0; kind < CK_W_KINDS; kind++) {
        small_graph s;
        ck_tensor t;
        int x, y;
        char name[80];
        snprintf(name, sizeof name, "%s kind %d [%lld, %lld]", f->name, kind, (long long)n, (long long)k);
        ck_tensor_init(&t, f, n, k, (ck_weights)kind, &r);
        tame(&t);
        ls_param w = {.name = f->name, .tensor = &t.t, .rows = n, .cols = k};
        begin(&s, contract, k, &x);
        const ls_param *bias = kind % 2 ? small_param("bias", 1, n, NULL) : NULL;
        assert_ok(ls_add_linear(s.g, &y, x, &w, bias, name, &e));
        assert_ok(small_end(&s, y, NULL, &e));
        assert_ok(small_pass(&s, tokens, ROWS, 0, NULL, &e));
        for (int c = 0; c < 3; c++) check_node(&s, y, ROWS, 0, (ls_carrier)c);
        small_destroy(&s);
        ck_tensor_deinit(&t);
    }
}

static void quantised_formats(void **state) {
    (void)state;
    for (size_t i = 0; i < ck_n_formats; i++)
        for (int c = 0; c < 2; c++) {
            int granule = ck_granule(&ck_formats[i]);
            if (granule == 1) continue;
            check_format(&ck_formats[i], contracts[c], 3, granule);
            if (granule == 32 && i % 3 == 0) check_format(&ck_formats[i], contracts[c], 1, 96);
        }
}

/* Widths around a block of 64, and a matrix of one row: a vocabulary of one. */
static void float_formats(void **state) {
    (void)state;
    static const int64_t widths[] = {1, 32, 80, 129};
    for (size_t i = 0; i < ck_n_formats; i++)
        for (int c = 0; c < 2 && ck_granule(&ck_formats[i]) == 1; c++)
            for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) check_format(&ck_formats[i], contracts[c], k % 2 ? 1 : 3, widths[k]);
}

/* ---- Packed weights under the float contract ------------------------------------------------------------------------------------- */

/* Rows of the unit matrix give the weights themselves: packed ones must be the format's values, q * scale + bias. With scales of
 * 8 or 11 bits the product is exact; with f32 scales a compiler that fuses the two operations leaves out its rounding. */
static void packed_values(void **state) {
    (void)state;
    enum { K = 32 * 4, N = 5 };
    ls_error e = {0};
    ck_rng r = {3};
    static float unit[K * K], got[K * N], want[K];
    for (int i = 0; i < K; i++) unit[i * K + i] = 1;
    for (size_t i = 0; i < ck_n_formats; i++) {
        const ck_format *f = &ck_formats[i];
        if (f->format != LS_MLX_AFFINE) continue;
        small_graph s;
        ck_tensor t;
        int y;
        ls_emit_module m;
        ck_tensor_init(&t, f, N, K, CK_W_RANDOM, &r);
        ls_param w = {.name = f->name, .tensor = &t.t, .rows = N, .cols = K};
        assert_ok(small_begin(&s, LS_CONTRACT_FLOAT, K, NULL, &e));
        assert_ok(ls_add_linear(s.g, &y, s.value, &w, NULL, f->name, &e));
        ls_emit_options o = {.entry = LS_ENTRY_EXTEND, .rows = K, .capacity = CAPACITY, .sequences = 1, .out_rows = 1, .packed = true};
        assert_ok(ls_emit_node_module(&m, s.g, y, &o, &e));
        bool whole = f->mlx_bits == 2 || f->mlx_bits == 4 || f->mlx_bits == 8; /* lanes of a word; 3 and 6 bits cross words and stay dense */
        assert_int_equal(m.n_weights, whole ? 3 : 1);
        emit_program *p = emit_load(&m, s.g);
        emit_run(p, (const void *const[]){unit}, (void *const[]){got});
        for (int n = 0; n < N; n++) {
            ls_tensor_row_values(&t.t, n, want);
            for (int k = 0; k < K; k++)
                if (fabsf(got[k * N + n] - want[k]) > (f->scale_format == LS_F32 ? 0x1p-22f : 0)) fail_msg("%s: weight [%d, %d] unpacked is %a, the format says %a", f->name, n, k, (double)got[k * N + n], (double)want[k]);
        }
        emit_unload(p);
        small_destroy(&s);
        ck_tensor_deinit(&t);
    }
}

/* ---- Operators --------------------------------------------------------------------------------------------------------------------- */

static ls_rope rope_of(int rot_dim, bool interleaved, double *frequency) {
    for (int i = 0; i < rot_dim / 2; i++) frequency[i] = (double)(float)pow(100.0, -2.0 * i / rot_dim);
    return (ls_rope){.rot_dim = rot_dim, .interleaved = interleaved, .amplitude = interleaved ? 1.25f : 1, .inv_freq = frequency};
}

static void add_ropes(small_graph *s, int x, int cols) {
    static const struct {
        int heads, dim, rot;
        bool interleaved;
    } cases[] = {{1, 24, 24, false}, {2, 12, 12, true}, {3, 8, 4, false}, {4, 6, 2, true}};
    ls_error e = {0};
    double frequency[16];
    int index, y;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[40];
        assert_int_equal(cases[i].heads * cases[i].dim, cols);
        ls_rope r = rope_of(cases[i].rot, cases[i].interleaved, frequency);
        assert_ok(ls_graph_add_rope(s->g, &index, &r, &e));
        snprintf(name, sizeof name, "rope %zu", i);
        assert_ok(ls_add_rope(s->g, &y, x, cases[i].heads, cases[i].dim, index, name, &e));
    }
}

static void add_norms(small_graph *s, int x, int cols) {
    ls_error e = {0};
    int y;
    const ls_param *w = small_param("norm", 1, cols, NULL), *b = small_param("norm bias", 1, cols, NULL), *part = small_param("part", 1, 8, NULL);
    assert_ok(ls_add_rms_norm(s->g, &y, x, w, 1e-6f, 0, 0, "rms", &e));
    assert_ok(ls_add_rms_norm(s->g, &y, x, w, 1e-5f, 1, 0, "rms with offset", &e));
    assert_ok(ls_add_rms_norm(s->g, &y, x, NULL, 1e-5f, 0, 0, "rms alone", &e));
    assert_ok(ls_add_rms_norm(s->g, &y, x, part, 1e-5f, 0, 8, "rms of groups", &e));
    assert_ok(ls_add_layer_norm(s->g, &y, x, w, b, 1e-5f, 0, "layer norm", &e));
    assert_ok(ls_add_layer_norm(s->g, &y, x, w, NULL, 1.0f, 8, "layer norm of groups", &e));
}

static void add_elementwise(small_graph *s, int x, int cols) {
    ls_error e = {0};
    int y, z, row;
    for (int act = 0; act < LS_ACT_COUNT; act++) {
        assert_ok(ls_add_activation(s->g, &y, x, (ls_act)act, ls_act_name((ls_act)act), &e));
        char name[40];
        snprintf(name, sizeof name, "glu %s", ls_act_name((ls_act)act));
        assert_ok(ls_add_glu(s->g, &z, x, y, (ls_act)act, name, &e));
    }
    assert_ok(ls_add_slice(s->g, &row, x, 3, 1, "one column", &e));
    assert_ok(ls_add_mul(s->g, &y, x, row, "rows scaled", &e));
    assert_ok(ls_add_mul(s->g, &y, x, x, "square", &e));
    assert_ok(ls_add_add(s->g, &y, x, z, "sum", &e));
    assert_ok(ls_add_scale(s->g, &y, x, 0.22f, "scaled", &e));
    assert_ok(ls_add_clamp(s->g, &y, x, 0.5f, "clamped", &e));
    assert_ok(ls_add_softcap(s->g, &y, x, 5.0f, "capped", &e));
    assert_ok(ls_add_slice(s->g, &y, x, 5, cols - 7, "columns", &e));
}

/* Top 2 of 5 experts; rows of equal router logits take the lower index. */
static void add_experts(small_graph *s, int x, int cols) {
    enum { EXPERTS = 5, INNER = 24 };
    static ls_param gate[EXPERTS], up[EXPERTS], down[EXPERTS];
    static ls_moe moe[2];
    ls_error e = {0};
    int router, y;
    for (int i = 0; i < EXPERTS; i++) {
        gate[i] = *small_param("gate", INNER, cols, NULL);
        up[i] = *small_param("up", INNER, cols, NULL);
        down[i] = *small_param("down", cols, INNER, NULL);
    }
    assert_ok(ls_add_slice(s->g, &router, x, 0, EXPERTS, "router", &e));
    for (int i = 0; i < 2; i++) {
        moe[i] = (ls_moe){.experts = EXPERTS, .top_k = 2 + i, .normalize = i == 0, .gate = gate, .up = up, .down = down};
        assert_ok(ls_add_moe(s->g, &y, x, router, &moe[i], LS_ACT_SILU, i ? "experts" : "experts normalised", &e));
    }
}

static void operators(void **state) {
    (void)state;
    enum { COLS = 24 };
    ls_error e = {0};
    for (int c = 0; c < 2; c++) {
        small_graph s;
        int x;
        begin(&s, contracts[c], COLS, &x);
        add_norms(&s, x, COLS);
        add_ropes(&s, x, COLS);
        add_elementwise(&s, x, COLS);
        add_experts(&s, x, COLS);
        assert_ok(small_end(&s, x, NULL, &e));
        float logits[ROWS * SMALL_VOCAB];
        for (int pass = 0; pass < 2; pass++) { /* positions from 0, then from 7 */
            assert_ok(small_pass(&s, tokens, ROWS, 0, logits, &e));
            for (size_t i = 0; i < s.g->n_nodes; i++) check_node(&s, (int)i, ROWS, pass * ROWS, s.g->nodes[i].op == LS_OP_MOE && pass ? LS_CARRIER_I8 : LS_CARRIER_F32);
        }
        small_destroy(&s);
    }
}

/* ---- Attention ------------------------------------------------------------------------------------------------------------------------- */

typedef struct attention_case {
    int heads, kv_heads, head_dim, window, sequences, slot;
    float softcap;
    ls_carrier carrier;
} attention_case;

/* Two passes of one slot; the caches of the other slots must stay as they are. */
static void check_attention(ls_contract contract, const attention_case *a) {
    enum { COLS = 64 };
    ls_error e = {0};
    small_graph s;
    int x, part[3], y, width = a->heads * a->head_dim, kv = a->kv_heads * a->head_dim;
    begin(&s, contract, COLS, &x);
    for (int i = 0; i < 3; i++) assert_ok(ls_add_slice(s.g, &part[i], x, 3 * i, i ? kv : width, (const char *[]){"q", "k", "v"}[i], &e));
    ls_attention_spec spec = {.heads = a->heads, .kv_heads = a->kv_heads, .head_dim = a->head_dim, .window = a->window, .scale = 0.3f, .softcap = a->softcap};
    assert_ok(ls_add_attention(s.g, &y, part[0], part[1], part[2], &spec, "attention", &e));
    assert_ok(small_end(&s, y, NULL, &e));
    size_t plane = (size_t)CAPACITY * (size_t)kv, all = plane * (size_t)a->sequences;
    float *caches[2] = {calloc(all, sizeof(float)), calloc(all, sizeof(float))}, got[ROWS * COLS];
    assert_true(caches[0] && caches[1]);
    for (size_t i = 0; i < all; i++)
        if (i / plane != (size_t)a->slot) caches[0][i] = caches[1][i] = (float)(i % 97);
    emit_program *p = load_node(&s, y, ROWS, a->carrier, a->sequences);
    for (int pass = 0; pass < 3; pass++) {
        int32_t slot = a->slot, place = pass * ROWS;
        int64_t rows;
        assert_ok(small_pass(&s, tokens, ROWS, 0, NULL, &e));
        const float *q = output_of(&s, part[0], &rows), *k = output_of(&s, part[1], &rows), *v = output_of(&s, part[2], &rows), *want = output_of(&s, y, &rows);
        emit_run(p, (const void *const[]){q, k, v, &slot, &place, caches[0], caches[1]}, (void *const[]){got, caches[0], caches[1]});
        char what[120];
        snprintf(what, sizeof what, "attention of %d/%d heads of %d, window %d, cap %g, %s carried by %s, pass %d", a->heads, a->kv_heads, a->head_dim, a->window,
                 (double)a->softcap, ls_contract_name(contract), carriers[a->carrier], pass);
        compare(what, got, want, (size_t)(ROWS * width), (size_t)width);
        compare("keys kept", caches[0] + (size_t)slot * plane + (size_t)place * (size_t)kv, k, (size_t)(ROWS * kv), (size_t)kv);
        compare("values kept", caches[1] + (size_t)slot * plane + (size_t)place * (size_t)kv, v, (size_t)(ROWS * kv), (size_t)kv);
    }
    for (size_t i = 0; i < all; i++)
        if (i / plane != (size_t)a->slot && (caches[0][i] != (float)(i % 97) || caches[1][i] != (float)(i % 97))) fail_msg("another slot's cache changed");
    emit_unload(p);
    free(caches[0]);
    free(caches[1]);
    small_destroy(&s);
}

static void attention(void **state) {
    (void)state;
    static const attention_case cases[] = {
        {.heads = 4, .kv_heads = 2, .head_dim = 8, .sequences = 1, .carrier = LS_CARRIER_F32},
        {.heads = 2, .kv_heads = 2, .head_dim = 16, .sequences = 4, .slot = 3, .window = 5, .carrier = LS_CARRIER_I8},
        {.heads = 3, .kv_heads = 1, .head_dim = 12, .sequences = MAX_SEQUENCES, .slot = 15, .softcap = 2, .carrier = LS_CARRIER_F64},
        {.heads = 1, .kv_heads = 1, .head_dim = 33, .sequences = 1, .window = 1, .softcap = 50, .carrier = LS_CARRIER_F32},
        {.heads = 5, .kv_heads = 5, .head_dim = 1, .sequences = 2, .slot = 1, .carrier = LS_CARRIER_I8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t c = 0; c < sizeof attention_contracts / sizeof *attention_contracts; c++) check_attention(attention_contracts[c], &cases[i]);
}

static int open_engine(void **state) {
    (void)state;
    emit_engine_open();
    return 0;
}

static int close_engine(void **state) {
    (void)state;
    emit_engine_close();
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(operators), cmocka_unit_test(attention), cmocka_unit_test(packed_values), cmocka_unit_test(float_formats),
                                       cmocka_unit_test(quantised_formats)};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
