/* The float operators except attention, in f32 and f64: known values, and formulas written a second time in f64. */
#include "test.h"

#include "float_near.h"
#include "small_graph.h"

enum { C = 12, T = 8 };

static const int32_t tokens[T] = {3, 0, 31, 7, 7, 12, 1, 30};

/* Starts a float graph on |table| (NULL: random numbers). */
static void begin(small_graph *s, int64_t cols, const float *table) {
    ls_error e = {0};
    assert_ok(small_begin(s, LS_CONTRACT_FLOAT, cols, table, &e));
}

/* Ends the graph with node |v|, runs the tokens above from position 0 and returns the output of that node. */
static const float *run(small_graph *s, int v, bool wide) {
    ls_error e = {0};
    ls_executor_options o = small_options(wide);
    static float logits[T * SMALL_VOCAB];
    assert_ok(small_end(s, v, &o, &e));
    assert_ok(small_pass(s, tokens, T, 0, logits, &e));
    return small_output_of(s, s->g->nodes[v].name);
}

static const float *input(const small_graph *s, int t) {
    return s->table + (int64_t)tokens[t] * s->g->nodes[s->value].cols;
}

/* ---- Embedding and linear ------------------------------------------------------------------------------------- */

static void embedding_rows_times_scale(void **state) {
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        small_graph s;
        ls_error e = {0};
        int v;
        begin(&s, C, NULL);
        const ls_param *table = small_param("other", SMALL_VOCAB, C, NULL);
        assert_ok(ls_add_embed(s.g, &v, table, 1.7f, "scaled", &e));
        const float *y = run(&s, v, wide), *x = small_output_of(&s, "x");
        for (int i = 0; i < T * C; i++) {
            float w = small_numbers(table)[tokens[i / C] * C + i % C];
            assert_true(x[i] == s.table[tokens[i / C] * C + i % C]);
            assert_true(y[i] == w * 1.7f); /* one rounding either way */
        }
        small_destroy(&s);
    }
}

static void linear_is_dot_products_plus_bias(void **state) {
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        small_graph s;
        ls_error e = {0};
        int v;
        begin(&s, C, NULL);
        const ls_param *w = small_param("w", 5, C, NULL), *b = small_param("b", 1, 5, NULL);
        assert_ok(ls_add_linear(s.g, &v, s.value, w, b, "y", &e));
        const float *y = run(&s, v, wide);
        for (int i = 0; i < T * 5; i++) {
            double want = 0;
            for (int k = 0; k < C; k++) want += (double)input(&s, i / 5)[k] * (double)small_numbers(w)[i % 5 * C + k];
            assert_near(y[i], want + (double)small_numbers(b)[i % 5], wide, 4.0, C + 1);
        }
        small_destroy(&s);
    }
}

/* 2^24 + 1 is lost in f32 when it is added first, so the order of the sum shows. */
static void linear_sums_in_ascending_order(void **state) {
    (void)state;
    float ones[SMALL_VOCAB * 3];
    for (int i = 0; i < SMALL_VOCAB * 3; i++) ones[i] = 1;
    const float w[6] = {0x1p24f, 1, -0x1p24f, 0x1p24f, -0x1p24f, 1};
    for (int wide = 0; wide < 2; wide++) {
        small_graph s;
        ls_error e = {0};
        int v;
        begin(&s, 3, ones);
        assert_ok(ls_add_linear(s.g, &v, s.value, small_param("w", 2, 3, w), NULL, "y", &e));
        const float *y = run(&s, v, wide);
        assert_true(y[0] == (wide ? 1.0f : 0.0f) && y[1] == 1.0f);
        small_destroy(&s);
    }
}

static void linear_reads_rows_of_a_stacked_tensor(void **state) {
    (void)state;
    small_graph s;
    ls_error e = {0};
    int v, part;
    begin(&s, C, NULL);
    const ls_param *whole = small_param("stack", 9, C, NULL);
    ls_param slice = *whole;
    slice.row_begin = 4;
    slice.rows = 3;
    assert_ok(ls_add_linear(s.g, &v, s.value, whole, NULL, "whole", &e));
    assert_ok(ls_add_linear(s.g, &part, s.value, &slice, NULL, "part", &e));
    const float *y = run(&s, part, false), *all = small_output_of(&s, "whole");
    for (int t = 0; t < T; t++) assert_memory_equal(y + t * 3, all + t * 9 + 4, 3 * sizeof *y);
    small_destroy(&s);
}

/* One row of 32 four-bit weights, all 15, with f16 scale 1 + 2^-10 and bias 2^-8: the weight needs 13 bits, two more
 * than an f16 has. */
static void mlx_weights_are_scaled_in_f32(void **state) {
    (void)state;
    static const uint32_t words[4] = {0xFFFFFFFFu, 0xFFFFFFFFu, 0xFFFFFFFFu, 0xFFFFFFFFu};
    static const uint16_t scale = 0x3C01, bias = 0x1C00;
    const ls_tensor t = {.name = "mlx",
                         .dtype = "U32",
                         .format = LS_MLX_AFFINE,
                         .rank = 2,
                         .shape = {1, 32},
                         .data = words,
                         .bytes = sizeof words,
                         .mlx_bits = 4,
                         .mlx_group = 32,
                         .scale_format = LS_F16,
                         .scales = &scale,
                         .biases = &bias,
                         .scale_bytes = 2};
    const ls_param w = {.name = "mlx", .tensor = &t, .rows = 1, .cols = 32};
    float table[SMALL_VOCAB * 32] = {0};
    for (int i = 0; i < SMALL_VOCAB; i++) table[i * 32 + 5] = 1;
    small_graph s;
    ls_error e = {0};
    int v;
    begin(&s, 32, table);
    assert_ok(ls_add_linear(s.g, &v, s.value, &w, NULL, "y", &e));
    assert_true(run(&s, v, false)[0] == 15.0f * 0x1.004p0f + 0x1p-8f);
    small_destroy(&s);
}

/* ---- Norms ---------------------------------------------------------------------------------------------------- */

static void rms_norm_of_known_rows(void **state) {
    (void)state;
    float table[SMALL_VOCAB * 4] = {0};
    for (int i = 0; i < SMALL_VOCAB; i++) memcpy(table + i * 4, (float[4]){3, 4, 0, 0}, 16);
    const float w[4] = {1, 2, 3, 4};
    small_graph s;
    ls_error e = {0};
    int plain, weighted, plus_one;
    begin(&s, 4, table);
    const ls_param *p = small_param("w", 1, 4, w);
    assert_ok(
        ls_add_rms_norm(s.g, &plain, s.value, NULL, 0x1p-100f, 0, 0, "plain", &e)); /* mean square 25/4, root 5/2 */
    assert_ok(ls_add_rms_norm(s.g, &weighted, s.value, p, 0x1p-100f, 0, 0, "weighted", &e));
    assert_ok(ls_add_rms_norm(s.g, &plus_one, s.value, p, 0x1p-100f, 1, 0, "plus_one", &e));
    run(&s, plus_one, true);
    assert_memory_equal(small_output_of(&s, "plain"), ((float[4]){1.2f, 1.6f, 0, 0}), 16);
    assert_memory_equal(small_output_of(&s, "weighted"), ((float[4]){1.2f, 3.2f, 0, 0}), 16);
    assert_memory_equal(small_output_of(&s, "plus_one"), ((float[4]){2.4f, 4.8f, 0, 0}), 16);
    small_destroy(&s);
}

/* Weight of the group (4) or of the row (C), no weight, bias alone: norm |kind| 0 RMS, 1 layer. */
static void check_grouped_norm(int kind, int64_t w_len, int64_t b_len, bool wide) {
    small_graph s;
    ls_error e = {0};
    int v;
    const float eps = 1e-3f;
    begin(&s, C, NULL);
    const ls_param *w = w_len ? small_param("w", 1, w_len, NULL) : NULL,
                   *b = b_len ? small_param("b", 1, b_len, NULL) : NULL;
    if (kind) assert_ok(ls_add_layer_norm(s.g, &v, s.value, w, b, eps, 4, "y", &e));
    else assert_ok(ls_add_rms_norm(s.g, &v, s.value, w, eps, 1, 4, "y", &e));
    const float *y = run(&s, v, wide);
    for (int i = 0; i < T * C; i++) {
        const float *x = input(&s, i / C) + i % C / 4 * 4;
        double mean = 0, square = 0;
        for (int k = 0; k < 4 && kind; k++) mean += (double)x[k] / 4;
        for (int k = 0; k < 4; k++) square += ((double)x[k] - mean) * ((double)x[k] - mean) / 4;
        double want = ((double)x[i % 4] - mean) / sqrt(square + (double)eps);
        if (w) want *= (kind ? 0.0 : 1.0) + (double)small_numbers(w)[i % C % w_len];
        if (b) want += (double)small_numbers(b)[i % C % b_len];
        assert_near(y[i], want, wide, 4.0, 8);
    }
    small_destroy(&s);
}

static void norms_of_groups(void **state) {
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        check_grouped_norm(0, 0, 0, wide);
        check_grouped_norm(0, 4, 0, wide);
        check_grouped_norm(0, C, 0, wide);
        check_grouped_norm(1, 4, 4, wide);
        check_grouped_norm(1, C, C, wide);
        check_grouped_norm(1, 4, C, wide);
        check_grouped_norm(1, C, 4, wide);
        check_grouped_norm(1, 0, 4, wide);
        check_grouped_norm(1, 0, 0, wide);
    }
}

/* A row scaled by a power of two (and eps by its square) has the same RMS norm, bit for bit. */
static void rms_norm_does_not_see_scale(void **state) {
    (void)state;
    small_graph s;
    ls_error e = {0};
    int a, b, four;
    begin(&s, C, NULL);
    assert_ok(ls_add_scale(s.g, &four, s.value, 4.0f, "four", &e));
    assert_ok(ls_add_rms_norm(s.g, &a, s.value, NULL, 0x1p-120f, 0, 0, "of_x", &e));
    assert_ok(ls_add_rms_norm(s.g, &b, four, NULL, 0x1p-116f, 0, 0, "of_4x", &e));
    run(&s, b, false);
    assert_memory_equal(small_output_of(&s, "of_x"), small_output_of(&s, "of_4x"), T * C * sizeof(float));
    small_destroy(&s);
}

/* ---- Rotary embedding ----------------------------------------------------------------------------------------- */

static const double frequencies[3] = {1.0, 0.25, 0x1.9p-6};

/* Two heads of 6 columns; returns node "y" of the rope |r|, whose frequencies are the first rot_dim / 2 above. */
static const float *run_rope(small_graph *s, ls_rope r, bool wide) {
    ls_error e = {0};
    int v, index;
    r.inv_freq = frequencies;
    begin(s, C, NULL);
    assert_ok(ls_graph_add_rope(s->g, &index, &r, &e));
    assert_ok(ls_add_rope(s->g, &v, s->value, 2, 6, index, "y", &e));
    return run(s, v, wide);
}

/* The pair as a complex number, times amplitude e^(i angle). */
static void rope_turns_pairs(void **state) {
    (void)state;
    for (int wide = 0; wide < 2; wide++)
        for (int interleaved = 0; interleaved < 2; interleaved++)
            for (int rot = 2; rot <= 6; rot += 2) {
                small_graph s;
                const float *y =
                    run_rope(&s, (ls_rope){.rot_dim = rot, .interleaved = interleaved, .amplitude = 1.25f}, wide);
                for (int i = 0; i < T * 2; i++) { /* row i / 2, head i % 2 */
                    const float *x = input(&s, i / 2) + i % 2 * 6, *z = y + i * 6;
                    for (int p = 0; p < rot / 2; p++) {
                        int lo = interleaved ? 2 * p : p, hi = interleaved ? 2 * p + 1 : p + rot / 2;
                        double angle = (double)(i / 2) * frequencies[p],
                               radius = 1.25 * hypot((double)x[lo], (double)x[hi]);
                        double phase = atan2((double)x[hi], (double)x[lo]) + angle;
                        assert_near(z[lo], radius * cos(phase), wide, 2.0, 3);
                        assert_near(z[hi], radius * sin(phase), wide, 2.0, 3);
                    }
                    assert_memory_equal(z + rot, x + rot, (size_t)(6 - rot) * sizeof *z);
                }
                small_destroy(&s);
            }
}

static void rope_leaves_position_zero(void **state) {
    (void)state;
    small_graph s;
    const float *y = run_rope(&s, (ls_rope){.rot_dim = 6, .amplitude = 1}, false);
    assert_memory_equal(y, input(&s, 0), C * sizeof *y);
    small_destroy(&s);
}

/* q . k after rotation depends on the distance of the positions alone. */
static void rope_keeps_products_at_equal_distance(void **state) {
    (void)state;
    float table[SMALL_VOCAB * C];
    for (int i = 0; i < SMALL_VOCAB * C; i++) table[i] = (float)(i % C) - 4.5f; /* every token the same row */
    small_graph s;
    ls_error e = {0};
    int v, index;
    begin(&s, C, table);
    assert_ok(ls_graph_add_rope(s.g, &index, &(ls_rope){.rot_dim = 6, .amplitude = 1, .inv_freq = frequencies}, &e));
    assert_ok(ls_add_rope(s.g, &v, s.value, 2, 6, index, "y", &e));
    const float *y = run(&s, v, true);
    for (int distance = 0; distance < T; distance++)
        for (int t = distance; t < T; t++) {
            double first = 0, dot = 0;
            for (int d = 0; d < 6; d++) {
                first += (double)y[distance * C + d] * (double)y[d];
                dot += (double)y[t * C + d] * (double)y[(t - distance) * C + d];
            }
            assert_true(fabs(dot - first) < 1e-4);
        }
    small_destroy(&s);
}

/* ---- Elementwise ---------------------------------------------------------------------------------------------- */

static double formula(ls_act act, double x) {
    switch (act) {
        case LS_ACT_SILU: return x / (1 + exp(-x));
        case LS_ACT_SIGMOID: return 0.5 * (1 + tanh(x / 2));
        case LS_ACT_GELU: return x * erfc(-x / sqrt(2.0)) / 2;
        case LS_ACT_GELU_TANH: return x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x))) / 2;
        case LS_ACT_GELU_QUICK: return x / (1 + exp(-1.702 * x));
        default: return fmax(x, 0);
    }
}

/* Every activation, alone and as a gate, from -30 to 30 and at the ends of the range. */
static void activations(void **state) {
    (void)state;
    float table[SMALL_VOCAB * C];
    for (int i = 0; i < SMALL_VOCAB * C; i++) table[i] = ((float)i - 191.5f) / 6.4f;
    table[tokens[0] * C] = -1e30f;
    table[tokens[0] * C + 1] = 1e12f;
    table[tokens[0] * C + 2] = 0;
    for (int wide = 0; wide < 2; wide++)
        for (int act = 0; act < LS_ACT_COUNT; act++) {
            small_graph s;
            ls_error e = {0};
            int v, up;
            begin(&s, C, table);
            assert_ok(ls_add_embed(s.g, &up, small_param("up", SMALL_VOCAB, C, NULL), 1, "up", &e));
            assert_ok(ls_add_activation(s.g, &v, s.value, (ls_act)act, "act", &e));
            assert_ok(ls_add_glu(s.g, &v, s.value, up, (ls_act)act, "glu", &e));
            const float *glu = run(&s, v, wide), *y = small_output_of(&s, "act"), *u = small_output_of(&s, "up");
            for (int i = 0; i < T * C; i++) {
                double x = (double)input(&s, i / C)[i % C], want = formula((ls_act)act, x);
                assert_near(y[i], want, wide, fmax(fabs(x), 1), 4);
                assert_near(glu[i], want * (double)u[i], wide, fmax(fabs(x), 1), 5);
            }
            small_destroy(&s);
        }
}

static void elementwise(void **state) {
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        small_graph s;
        ls_error e = {0};
        int x, y, v;
        begin(&s, C, NULL);
        x = s.value;
        assert_ok(ls_add_embed(s.g, &y, small_param("other", SMALL_VOCAB, C, NULL), 1, "y", &e));
        assert_ok(ls_add_mul(s.g, &v, x, y, "mul", &e));
        assert_ok(ls_add_add(s.g, &v, x, y, "add", &e));
        assert_ok(ls_add_scale(s.g, &v, x, 0.3f, "scale", &e));
        assert_ok(ls_add_clamp(s.g, &v, x, 0.4f, "clamp", &e));
        assert_ok(ls_add_softcap(s.g, &v, x, 0.6f, "softcap", &e));
        assert_ok(ls_add_slice(s.g, &v, y, 5, 1, "column", &e));
        assert_ok(ls_add_mul(s.g, &v, x, v, "rows", &e));
        assert_ok(ls_add_slice(s.g, &v, v, 3, 7, "slice", &e));
        const float *slice = run(&s, v, wide), *u = small_output_of(&s, "y"), *rows = small_output_of(&s, "rows");
        for (int i = 0; i < T * C; i++) {
            double a = (double)input(&s, i / C)[i % C], b = (double)u[i];
            assert_near(small_output_of(&s, "mul")[i], a * b, wide, 1, 1);
            assert_near(small_output_of(&s, "add")[i], a + b, wide, 2, 1);
            assert_near(small_output_of(&s, "scale")[i], a * (double)0.3f, wide, 1, 1);
            assert_near(small_output_of(&s, "clamp")[i], fmax(fmin(a, (double)0.4f), -(double)0.4f), wide, 1, 1);
            assert_near(small_output_of(&s, "softcap")[i], (double)0.6f * tanh(a / (double)0.6f), wide, 1, 4);
            assert_near(rows[i], a * (double)u[i / C * C + 5], wide, 1, 1);
        }
        for (int t = 0; t < T; t++) assert_memory_equal(slice + t * 7, rows + t * C + 3, 7 * sizeof *slice);
        small_destroy(&s);
    }
}

/* The bits of one f32 operation after the other, in the order of the float contract. Another order (x / (1 + e) for
 * SiLU, x * (r * w) for a norm) gives other bits somewhere among these inputs, which is asserted too. */
static void operations_keep_their_order(void **state) {
    (void)state;
    small_graph s;
    ls_error e = {0};
    int v, others[2] = {0};
    begin(&s, C, NULL);
    const ls_param *w = small_param("w", 1, C, NULL);
    assert_ok(ls_add_activation(s.g, &v, s.value, LS_ACT_SILU, "silu", &e));
    assert_ok(ls_add_activation(s.g, &v, s.value, LS_ACT_GELU, "gelu", &e));
    assert_ok(ls_add_activation(s.g, &v, s.value, LS_ACT_GELU_TANH, "gelu_tanh", &e));
    assert_ok(ls_add_rms_norm(s.g, &v, s.value, w, 1e-5f, 0, 0, "norm", &e));
    const float *norm = run(&s, v, false);
    for (int t = 0; t < T; t++) {
        float sum = 0;
        for (int k = 0; k < C; k++) sum += input(&s, t)[k] * input(&s, t)[k];
        float r = 1 / sqrtf(sum / C + 1e-5f);
        for (int k = 0; k < C; k++) {
            int i = t * C + k;
            float x = input(&s, t)[k], wk = small_numbers(w)[k], ex = expf(-x), u = x + 0.044715f * ((x * x) * x);
            assert_true(norm[i] == (x * r) * wk);
            assert_true(small_output_of(&s, "silu")[i] == x * (1 / (1 + ex)));
            assert_true(small_output_of(&s, "gelu")[i] == (x * 0.5f) * (1 + erff(x * 0.70710677f)));
            assert_true(small_output_of(&s, "gelu_tanh")[i] == (x * 0.5f) * (1 + tanhf(0.7978846f * u)));
            others[0] += norm[i] != x * (r * wk);
            others[1] += small_output_of(&s, "silu")[i] != x / (1 + ex);
        }
    }
    for (int i = 0; i < 2; i++) assert_true(others[i] > 0);
    small_destroy(&s);
}

/* ---- Mixture of experts --------------------------------------------------------------------------------------- */

enum { EXPERTS = 5, INNER = 6 };

typedef struct expert_weights {
    ls_param gate[EXPERTS], up[EXPERTS], down[EXPERTS];
} expert_weights;

/* gate and up lie in one stacked tensor each, down in a tensor an expert: both ways checkpoints store them. */
static void make_experts(expert_weights *w) {
    const ls_param *gate = small_param("gate", EXPERTS * INNER, C, NULL),
                   *up = small_param("up", EXPERTS * INNER, C, NULL);
    for (int i = 0; i < EXPERTS; i++) {
        w->gate[i] = *gate;
        w->up[i] = *up;
        w->gate[i].rows = w->up[i].rows = INNER;
        w->gate[i].row_begin = w->up[i].row_begin = i * INNER;
        w->down[i] = *small_param("down", C, INNER, NULL);
    }
}

static double product(const ls_param *w, int row, const double *x) {
    double sum = 0;
    for (int k = 0; k < w->cols; k++) sum += (double)small_numbers(w)[(w->row_begin + row) * w->cols + k] * x[k];
    return sum;
}

/* One row: experts ranked by repeated search for the largest score. */
static void moe_formula(const expert_weights *w, const ls_moe *m, const double *x, const float *logits, double *y) {
    double p[EXPERTS], sum = 0, kept = 0, inner[INNER];
    bool keep[EXPERTS] = {false};
    for (int i = 0; i < EXPERTS; i++) sum += p[i] = exp((double)logits[i]);
    for (int n = 0; n < m->top_k; n++) {
        int best = -1;
        for (int i = 0; i < EXPERTS; i++)
            if (!keep[i] && (best < 0 || logits[i] > logits[best])) best = i;
        keep[best] = true;
        kept += p[best];
    }
    for (int k = 0; k < C; k++) y[k] = 0;
    for (int i = 0; i < EXPERTS; i++) {
        if (!keep[i]) continue;
        for (int k = 0; k < INNER; k++)
            inner[k] = formula(LS_ACT_SILU, product(&w->gate[i], k, x)) * product(&w->up[i], k, x);
        for (int k = 0; k < C; k++) y[k] += p[i] / (m->normalize ? kept : sum) * product(&w->down[i], k, inner);
    }
}

static void check_moe(int top_k, bool normalize, bool ties, bool wide) {
    small_graph s;
    ls_error e = {0};
    int v, router;
    expert_weights w;
    float zeros[SMALL_VOCAB * EXPERTS] = {0};
    begin(&s, C, NULL);
    make_experts(&w);
    ls_moe m = {.experts = EXPERTS, .top_k = top_k, .normalize = normalize, .gate = w.gate, .up = w.up, .down = w.down};
    assert_ok(
        ls_add_embed(s.g, &router, small_param("router", SMALL_VOCAB, EXPERTS, ties ? zeros : NULL), 2, "router", &e));
    assert_ok(ls_add_moe(s.g, &v, s.value, router, &m, LS_ACT_SILU, "y", &e));
    const float *y = run(&s, v, wide), *logits = small_output_of(&s, "router");
    for (int t = 0; t < T; t++) {
        double x[C], want[C];
        for (int k = 0; k < C; k++) x[k] = (double)input(&s, t)[k];
        moe_formula(&w, &m, x, logits + t * EXPERTS, want);
        for (int k = 0; k < C; k++) assert_near(y[t * C + k], want[k], wide, 8, C);
    }
    small_destroy(&s);
}

static void mixture_of_experts(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++)
        for (int top_k = 1; top_k <= EXPERTS; top_k++) check_moe(top_k, i & 1, i & 2, i & 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding_rows_times_scale),
        cmocka_unit_test(linear_is_dot_products_plus_bias),
        cmocka_unit_test(linear_sums_in_ascending_order),
        cmocka_unit_test(linear_reads_rows_of_a_stacked_tensor),
        cmocka_unit_test(mlx_weights_are_scaled_in_f32),
        cmocka_unit_test(rms_norm_of_known_rows),
        cmocka_unit_test(norms_of_groups),
        cmocka_unit_test(rms_norm_does_not_see_scale),
        cmocka_unit_test(rope_turns_pairs),
        cmocka_unit_test(rope_leaves_position_zero),
        cmocka_unit_test(rope_keeps_products_at_equal_distance),
        cmocka_unit_test(activations),
        cmocka_unit_test(elementwise),
        cmocka_unit_test(operations_keep_their_order),
        cmocka_unit_test(mixture_of_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
