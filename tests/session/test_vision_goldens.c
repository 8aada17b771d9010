/* Whole models that see, fixtures/vision/gemma3_*, against transformers (tools/make_vision_goldens.py): tower and projected rows from
 * the goldens' pixels, logits of the prompt with those rows in place, and 64 greedy tokens, natively under both exact contracts. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "fixture_models.h"
#include "prepared_rows.h"
#include "session/encode.h"

enum { GREEDY = 64, NAME = 64 };

typedef struct model {
    ls_checkpoint *c, *golden;
    ls_graph *graph;
    ls_vision v;
} model;

static void model_open(model *m, const char *name, ls_contract contract) {
    ls_error e = {0};
    char path[512];
    const ls_build_options build = {.contract = contract};
    snprintf(path, sizeof path, "%s/vision/%s", LS_FIXTURES, name);
    assert_ok(ls_checkpoint_open(&m->c, path, &e));
    snprintf(path, sizeof path, "%s/vision/%s/golden.safetensors", LS_FIXTURES, name);
    assert_ok(ls_checkpoint_open(&m->golden, path, &e));
    assert_ok(ls_model_build(&m->graph, m->c, &build, &e));
    assert_ok(ls_vision_build(&m->v, m->c, &build, &e));
    assert_non_null(m->v.graph);
}

static void model_close(model *m) {
    ls_vision_deinit(&m->v);
    ls_graph_destroy(m->graph);
    ls_checkpoint_close(m->c);
    ls_checkpoint_close(m->golden);
}

static const ls_tensor *find_golden(const model *m, const char *which, const char *part) {
    char name[2 * NAME];
    snprintf(name, sizeof name, "%s.%s", which, part);
    return ls_checkpoint_find(m->golden, name);
}

static const ls_tensor *golden(const model *m, const char *which, const char *part) {
    const ls_tensor *t = find_golden(m, which, part);
    if (!t) fail_msg("golden %s.%s is missing", which, part);
    return t;
}

static double relative_rms(const float *got, const float *want, size_t n) {
    double error = 0, square = 0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        square += (double)want[i] * (double)want[i];
    }
    return sqrt(error / square);
}

static double largest(const float *got, const float *want, size_t n) {
    double d = 0;
    for (size_t i = 0; i < n; i++) d = fmax(d, fabs((double)got[i] - (double)want[i]));
    return d;
}

/* What a contract may differ by from transformers' f32. */
typedef struct bounds {
    ls_contract contract;
    double tower, projected, logits; /* relative RMS; relative RMS; absolute, 0: not compared */
} bounds;

/* Keeps the rows of the node "post_layernorm", image after image. */
typedef struct kept {
    float *rows;
    size_t n;
} kept;

static void keep(void *user, const ls_node *node, float *values, int64_t rows, int64_t cols) {
    kept *k = user;
    const char *end = strrchr(node->name, '.');
    if (!end || strcmp(end, ".post_layernorm")) return;
    memcpy(k->rows + k->n, values, (size_t)(rows * cols) * sizeof *values);
    k->n += (size_t)(rows * cols);
}

/* The projected rows of all images of |which|: f32 [images * tokens, hidden], the caller's to free. */
static float *see(const model *m, const char *which, const bounds *b) {
    const ls_tensor *pixels = golden(m, which, "pixel_values"), *tower = golden(m, which, "tower"), *rows = golden(m, which, "projected");
    size_t each = (size_t)(rows->shape[1] * rows->shape[2]), image = (size_t)(pixels->shape[1] * pixels->shape[2] * pixels->shape[3]);
    float *out = malloc(rows->bytes);
    kept k = {malloc(tower->bytes), 0};
    ls_error e = {0};
    ls_executor *x;
    ls_executor_options o = ls_encode_options(&m->v, 1);
    o.threads = 2;
    o.observer = keep;
    o.observer_user = &k;
    assert_int_equal(rows->shape[1], m->v.graph->image_out);
    assert_int_equal(rows->shape[2], m->graph->hidden);
    assert_ok(ls_native_create(&x, m->v.graph, m->c, &o, &e));
    for (int64_t i = 0; i < pixels->shape[0]; i++) {
        const float *one = (const float *)pixels->data + (size_t)i * image;
        assert_ok(ls_encode_images(x, &m->v, &one, 1, out + (size_t)i * each, &e));
    }
    x->destroy(x);
    assert_int_equal(k.n * sizeof(float), tower->bytes);
    double t = relative_rms(k.rows, tower->data, k.n), p = relative_rms(out, rows->data, rows->bytes / sizeof(float));
    if (!(t < b->tower) || !(p < b->projected))
        fail_msg("%s, %s: relative RMS %g of the tower, %g of the rows", which, ls_contract_name(b->contract), t, p);
    free(k.rows);
    return out;
}

/* The prompt's rows: |seen| in the places of token type 1, a run of them a block. */
static void place(prepared_rows *p, const model *m, const char *which, const float *seen) {
    const int32_t *ids = golden(m, which, "input_ids")->data, *type = golden(m, which, "token_type_ids")->data;
    size_t row = 0;
    *p = (prepared_rows){.n = (int)golden(m, which, "input_ids")->shape[0]};
    p->token = calloc((size_t)p->n, sizeof *p->token);
    p->embedding = calloc((size_t)p->n, sizeof *p->embedding);
    p->block = calloc((size_t)p->n, sizeof *p->block);
    for (int i = 0; i < p->n; i++) {
        p->token[i] = ids[i];
        if (!type[i]) continue;
        ls_span s = {i, i + 1};
        if (i && type[i - 1]) s.begin = p->block[i - 1].begin;
        while (s.end < p->n && type[s.end]) s.end++;
        p->block[i] = s;
        p->embedding[i] = seen + row++ * (size_t)m->graph->hidden;
    }
}

static void answer(const model *m, const char *which, const bounds *b) {
    const ls_tensor *want = golden(m, which, "logits"), *greedy = golden(m, which, "greedy_ids");
    float *seen = find_golden(m, which, "pixel_values") ? see(m, which, b) : NULL;
    size_t vocab = (size_t)m->graph->vocab, rows = (size_t)want->shape[0];
    prepared_rows p;
    ls_error e = {0};
    ls_executor *x;
    int32_t out[GREEDY];
    place(&p, m, which, seen);
    ls_executor_options o = {.max_seqs = 1, .context = p.n + GREEDY, .max_rows = p.n, .threads = 2};
    float *logits = malloc((size_t)p.n * vocab * sizeof *logits);
    assert_ok(ls_native_create(&x, m->graph, m->c, &o, &e));
    assert_ok(prepared_rows_pass(x, &p, 0, p.n, 0, logits, &e));
    double d = largest(logits + ((size_t)p.n - rows) * vocab, want->data, rows * vocab);
    if (b->logits > 0 && !(d < b->logits)) fail_msg("%s, %s: logits differ by %g", which, ls_contract_name(b->contract), d);
    assert_ok(fixture_greedy(x, 0, (int)vocab, logits + (size_t)(p.n - 1) * vocab, GREEDY, out, &e));
    for (int i = 0; i < GREEDY; i++)
        if (out[i] != ((const int32_t *)greedy->data)[i])
            fail_msg("%s, %s: token %d is %d, transformers has %d", which, ls_contract_name(b->contract), i, out[i], ((const int32_t *)greedy->data)[i]);
    x->destroy(x);
    prepared_rows_free(&p);
    free(logits);
    free(seen);
}

static void all_cases(const char *name) {
    static const bounds all[] = {{LS_CONTRACT_EXACT24, 1e-4, 1e-4, 2e-3}, {LS_CONTRACT_EXACT16, 5e-3, 5e-3, 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        model m;
        int cases = 0;
        model_open(&m, name, all[i].contract);
        for (size_t t = 0; t < ls_checkpoint_count(m.golden); t++) {
            const char *tensor = ls_checkpoint_at(m.golden, t)->name, *end = strstr(tensor, ".input_ids");
            char which[NAME];
            if (!end) continue;
            snprintf(which, sizeof which, "%.*s", (int)(end - tensor), tensor);
            answer(&m, which, &all[i]);
            cases++;
        }
        assert_true(cases >= 3);
        model_close(&m);
    }
}

static void random_weights(void **state) {
    (void)state;
    all_cases("gemma3_random");
}

static void trained(void **state) {
    (void)state;
    all_cases("gemma3_shapes");
}

static void four_bits(void **state) {
    (void)state;
    all_cases("gemma3_shapes_mlx4");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_weights), cmocka_unit_test(trained), cmocka_unit_test(four_bits)};
    return cmocka_run_group_tests_name("vision goldens", tests, NULL, NULL);
}
