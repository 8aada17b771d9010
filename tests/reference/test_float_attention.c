/* Attention under the float contract: the formula written a second time in f64 over positions, windows, soft caps and
 * grouped heads, and the identities that hold bit for bit. */
#include "test.h"

#include "float_near.h"
#include "small_graph.h"

enum { HEADS = 4, DIM = 3, C = HEADS * DIM, T = 40 };

static int32_t tokens[T];

/* Node "y": attention of random projections "q", "k", "v" of the embedding, as |spec| says. */
static void build(small_graph *s, const ls_attention_spec *spec) {
    ls_error e = {0};
    int q, k, v, y, kv = spec->kv_heads * spec->head_dim;
    assert_ok(small_begin(s, LS_CONTRACT_FLOAT, C, NULL, &e));
    for (int t = 0; t < T; t++) tokens[t] = (t * 7 + t / 5) % SMALL_VOCAB;
    assert_ok(
        ls_add_linear(s->g, &q, s->value, small_param("wq", spec->heads * spec->head_dim, C, NULL), NULL, "q", &e));
    assert_ok(ls_add_linear(s->g, &k, s->value, small_param("wk", kv, C, NULL), NULL, "k", &e));
    assert_ok(ls_add_linear(s->g, &v, s->value, small_param("wv", kv, C, NULL), NULL, "v", &e));
    assert_ok(ls_add_attention(s->g, &y, q, k, v, spec, "y", &e));
}

static void run(small_graph *s, bool wide) {
    ls_error e = {0};
    ls_executor_options o = small_options(wide);
    static float logits[T * SMALL_VOCAB];
    assert_ok(small_end(s, (int)s->g->n_nodes - 1, &o, &e));
    assert_ok(small_pass(s, tokens, T, 0, logits, &e));
}

/* The same with image blocks: rows 3 to 9 and 20 to 36 see each other whatever the window. */
static const ls_span image[] = {{3, 10}, {20, 37}};

static ls_span image_of(int t) {
    for (int i = 0; i < 2; i++)
        if (t >= image[i].begin && t < image[i].end) return image[i];
    return (ls_span){0, 0};
}

static void run_blocks(small_graph *s, bool wide) {
    ls_error e = {0};
    ls_executor_options o = small_options(wide);
    int32_t slot[T] = {0}, row[T];
    ls_span block[T];
    static float logits[T * SMALL_VOCAB];
    for (int t = 0; t < T; t++) {
        row[t] = t;
        block[t] = image_of(t);
    }
    assert_ok(small_end(s, (int)s->g->n_nodes - 1, &o, &e));
    assert_ok(small_batch(s, &(ls_batch){.n_rows = T, .token = tokens, .slot = slot, .n_out = T, .out_row = row, .block = block}, logits, &e));
}

/* Column |d| of head |h| at row |t|: the weighted mean over every key of the slot, those not visible with weight 0. */
static double formula(const small_graph *s, const ls_attention_spec *spec, bool blocks, int t, int h, int d) {
    const float *q = small_output_of(s, "q"), *k = small_output_of(s, "k"), *v = small_output_of(s, "v");
    int dim = spec->head_dim, g = h / (spec->heads / spec->kv_heads), width = spec->kv_heads * dim;
    double sum = 0, mean = 0;
    for (int j = 0; j < T; j++) {
        double z = 0;
        for (int i = 0; i < dim; i++)
            z += (double)q[(t * spec->heads + h) * dim + i] * (double)k[j * width + g * dim + i];
        z *= (double)spec->scale;
        if (spec->softcap != 0) z = (double)spec->softcap * tanh(z / (double)spec->softcap);
        bool seen = j <= t && (!spec->window || t - j < spec->window);
        if (blocks && image_of(t).end && image_of(t).begin == image_of(j).begin) seen = true;
        double w = seen ? exp(z) : 0;
        sum += w;
        mean += w * (double)v[j * width + g * dim + d];
    }
    return mean / sum;
}

/* The observed q, k and v are rounded to f32 under f64 too, so its bound is that of f32. */
static void check(ls_attention_spec spec, bool blocks, bool wide) {
    small_graph s;
    build(&s, &spec);
    if (blocks) run_blocks(&s, wide);
    else run(&s, wide);
    const float *y = small_output_of(&s, "y");
    for (int t = 0; t < T; t++)
        for (int h = 0; h < spec.heads; h++)
            for (int d = 0; d < spec.head_dim; d++)
                assert_near(y[(t * spec.heads + h) * spec.head_dim + d], formula(&s, &spec, blocks, t, h, d), false, 4, 24);
    small_destroy(&s);
}

static void matches_the_formula(void **state) {
    (void)state;
    for (int wide = 0; wide < 2; wide++)
        for (int kv_heads = 1; kv_heads <= HEADS; kv_heads *= 2)
            for (int window = 0; window <= T + 1; window = window < 3 ? window + 1 : 3 * window - 1)
                for (int cap = 0; cap < 2; cap++) {
                    ls_attention_spec spec = {
                        .heads = HEADS, .kv_heads = kv_heads, .head_dim = DIM, .window = window, .scale = 0.6f, .softcap = cap ? 1.5f : 0};
                    check(spec, false, wide);
                    check(spec, true, wide);
                }
}

/* y of a graph with |spec|, copied out. */
static void result_of(const ls_attention_spec *spec, float *y) {
    small_graph s;
    build(&s, spec);
    run(&s, false);
    memcpy(y, small_output_of(&s, "y"), T * C * sizeof *y);
    small_destroy(&s);
}

static const ls_attention_spec usual = {.heads = HEADS, .kv_heads = 2, .head_dim = DIM, .scale = 0.6f};

static void window_of_all_positions_is_no_window(void **state) {
    (void)state;
    static float a[T * C], b[T * C], c[T * C];
    ls_attention_spec spec = usual;
    result_of(&spec, a);
    spec.window = T;
    result_of(&spec, b);
    spec.window = T - 1;
    result_of(&spec, c);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_equal(a, c, (T - 1) * C * sizeof *a);
    assert_memory_not_equal(a + (T - 1) * C, c + (T - 1) * C, C * sizeof *a);
}

static void window_of_one_gives_the_value(void **state) {
    (void)state;
    small_graph s;
    ls_attention_spec spec = usual;
    spec.window = 1;
    build(&s, &spec);
    run(&s, false);
    const float *y = small_output_of(&s, "y"), *v = small_output_of(&s, "v");
    for (int t = 0; t < T; t++)
        for (int h = 0; h < HEADS; h++)
            assert_memory_equal(y + (t * HEADS + h) * DIM, v + (t * 2 + h / 2) * DIM, DIM * sizeof *y);
    small_destroy(&s);
}

/* Grouped heads equal as many key heads, each group's copied by a matrix of zeros and ones (whose products are exact).
 */
static void grouped_heads_are_repeated_heads(void **state) {
    (void)state;
    static float copy[C * 2 * DIM];
    memset(copy, 0, sizeof copy);
    for (int i = 0; i < C; i++) copy[i * 2 * DIM + i / DIM / 2 * DIM + i % DIM] = 1;
    small_graph s;
    ls_error e = {0};
    int k, v, y;
    build(&s, &usual); /* nodes: 0 "x", 1 "q", 2 "k", 3 "v", 4 "y" */
    const ls_param *p = small_param("copy", C, 2 * DIM, copy);
    assert_ok(ls_add_linear(s.g, &k, 2, p, NULL, "k_repeated", &e));
    assert_ok(ls_add_linear(s.g, &v, 3, p, NULL, "v_repeated", &e));
    ls_attention_spec full = usual;
    full.kv_heads = HEADS;
    assert_ok(ls_add_attention(s.g, &y, 1, k, v, &full, "y_repeated", &e));
    run(&s, false);
    assert_memory_equal(small_output_of(&s, "y"), small_output_of(&s, "y_repeated"), T * C * sizeof(float));
    small_destroy(&s);
}

/* Equal scores weigh all visible values alike, however large the scores are. */
static void equal_scores_give_the_mean(void **state) {
    (void)state;
    float table[SMALL_VOCAB * 4];
    for (int i = 0; i < SMALL_VOCAB; i++) {
        table[4 * i] = table[4 * i + 1] = 1e18f; /* q and k of two columns: score 2e36 */
        table[4 * i + 2] = (float)i;
        table[4 * i + 3] = (float)-i;
    }
    small_graph s;
    ls_error e = {0};
    int q, v, y;
    assert_ok(small_begin(&s, LS_CONTRACT_FLOAT, 4, table, &e));
    for (int t = 0; t < T; t++) tokens[t] = t % 4;
    assert_ok(ls_add_slice(s.g, &q, s.value, 0, 2, "q", &e));
    assert_ok(ls_add_slice(s.g, &v, s.value, 2, 2, "v", &e));
    assert_ok(ls_add_attention(s.g, &y, q, q, v,
                               &(ls_attention_spec){.heads = 1, .kv_heads = 1, .head_dim = 2, .window = 4, .scale = 1},
                               "y", &e));
    run(&s, false);
    for (int t = 3; t < T; t++) {
        assert_true(small_output_of(&s, "y")[2 * t] == 1.5f);
        assert_true(small_output_of(&s, "y")[2 * t + 1] == -1.5f);
    }
    small_destroy(&s);
}

/* The bits of two keys: scores summed in order, exp(z - max) / sum by a division, then the sum of products. */
static void operations_keep_their_order(void **state) {
    (void)state;
    small_graph s;
    ls_attention_spec spec = usual;
    spec.window = 2;
    build(&s, &spec);
    run(&s, false);
    const float *q = small_output_of(&s, "q"), *k = small_output_of(&s, "k"), *v = small_output_of(&s, "v"),
                *y = small_output_of(&s, "y");
    for (int t = 1; t < T; t++)
        for (int h = 0; h < HEADS; h++) {
            const float *a = q + (t * HEADS + h) * DIM, *b = k + ((t - 1) * 2 + h / 2) * DIM, *c = b + 2 * DIM,
                        *u = v + (b - k), *w = v + (c - k);
            float x = ((a[0] * b[0] + a[1] * b[1]) + a[2] * b[2]) * spec.scale,
                  z = ((a[0] * c[0] + a[1] * c[1]) + a[2] * c[2]) * spec.scale;
            float max = fmaxf(x, z), ex = expf(x - max), ez = expf(z - max), sum = ex + ez;
            for (int d = 0; d < DIM; d++)
                assert_true(y[(t * HEADS + h) * DIM + d] == ex / sum * u[d] + ez / sum * w[d]);
        }
    small_destroy(&s);
}

/* Scores t * j: the last is the largest, and e^961 is beyond f64. The newest value takes all but e^-t of the weight. */
static void large_scores_do_not_overflow(void **state) {
    (void)state;
    float table[SMALL_VOCAB * 2];
    for (int i = 0; i < SMALL_VOCAB; i++) table[2 * i] = table[2 * i + 1] = (float)i;
    for (int wide = 0; wide < 2; wide++) {
        small_graph s;
        ls_error e = {0};
        int q, v, y;
        assert_ok(small_begin(&s, LS_CONTRACT_FLOAT, 2, table, &e));
        for (int t = 0; t < T; t++) tokens[t] = t < SMALL_VOCAB ? t : SMALL_VOCAB - 1;
        assert_ok(ls_add_slice(s.g, &q, s.value, 0, 1, "q", &e));
        assert_ok(ls_add_slice(s.g, &v, s.value, 1, 1, "v", &e));
        assert_ok(ls_add_attention(
            s.g, &y, q, q, v, &(ls_attention_spec){.heads = 1, .kv_heads = 1, .head_dim = 1, .scale = 1}, "y", &e));
        run(&s, wide);
        for (int t = 12; t < T; t++) assert_true(fabsf(small_output_of(&s, "y")[t] - (float)tokens[t]) < 1e-4f);
        small_destroy(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_formula),           cmocka_unit_test(window_of_all_positions_is_no_window),
        cmocka_unit_test(window_of_one_gives_the_value), cmocka_unit_test(grouped_heads_are_repeated_heads),
        cmocka_unit_test(equal_scores_give_the_mean),    cmocka_unit_test(operations_keep_their_order),
        cmocka_unit_test(large_scores_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
