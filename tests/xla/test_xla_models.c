/* Every fixture through the XLA backend on a real engine: under the exact contracts the logits of the whole prompt and of 64
 * decode steps equal the native executor's bit for bit, for one sequence and for ragged batches, also where a slot begins with a kept block of
 * another; under float the tokens are those of transformers and every node, given the reference's inputs, stays within its bound.
 *
 *   test_xla_models ENGINE [single|ragged|float|real ...] [exact16|exact24|exact16-kv8 ...] [=FIXTURE ...]
 *
 * Without a contract, exact16 and exact24.
 * "real" runs the downloaded models that LS_SMOLLM2_GGUF and LS_GEMMA3_GGUF name (make test sets both).
 * ENGINE: a PJRT plugin file, "iree" (compiled here, run by the wheel's Python runtime) or "iree-linked". */
#include "test.h"

#include <stdlib.h>

#include "fixture_models.h"
#include "iree_python_engine.h"
#include "xla/executor_internal.h"
#include "xla/iree.h"
#include "xla/pjrt.h"

enum { STEPS = 64, SLOTS = 4 };

static const char *engine_name;
static int n_arguments;
static char **arguments;
static ls_engine *engine;

static ls_code open_engine(ls_engine **out, ls_error *e) {
    if (!strcmp(engine_name, "iree")) return iree_python_engine_open(out, &(ls_iree_options){.device = "local-task"}, LS_IREE_SCRIPT, e);
    if (!strcmp(engine_name, "iree-linked")) return ls_iree_open(out, NULL, e);
    return ls_pjrt_open(out, &(ls_pjrt_options){.plugin = engine_name}, e);
}

/* One sequence on the native executor (reference under float): the prompt's first |n| ids, then greedy steps. */
typedef struct run {
    int n;
    float *logits;       /* [n + STEPS, vocab] */
    int32_t ids[STEPS];  /* chosen after row n - 1, n, ... */
} run;

static int32_t largest(const float *x, int n) {
    int32_t best = 0;
    for (int k = 1; k < n; k++)
        if (x[k] > x[best]) best = k;
    return best;
}

static void native_run(const fixture *f, int n, run *r) {
    ls_executor *x;
    ls_error e = {0};
    size_t v = (size_t)f->vocab;
    ls_executor_options o = {.max_seqs = 1, .context = n + STEPS, .max_rows = n, .threads = 1};
    r->n = n;
    if (f->graph->contract == LS_CONTRACT_FLOAT) assert_ok(ls_reference_create(&x, f->graph, &o, &e));
    else assert_ok(ls_native_create(&x, f->graph, f->checkpoint, &o, &e));
    assert_ok(ls_calloc(&r->logits, (size_t)(n + STEPS) * v, sizeof(float), "logits", &e));
    assert_ok(fixture_prefill(x, f->prompt, n, 0, n, f->vocab, r->logits, &e));
    for (int i = 0; i < STEPS; i++) {
        int32_t slot = 0, row = 0;
        r->ids[i] = largest(r->logits + (size_t)(n - 1 + i) * v, f->vocab);
        ls_batch b = {.n_rows = 1, .token = &r->ids[i], .slot = &slot, .n_out = 1, .out_row = &row};
        assert_ok(x->forward(x, &b, r->logits + (size_t)(n + i) * v, &e));
    }
    x->destroy(x);
}

static void must_equal(const fixture *f, const char *what, const float *want, const float *got, size_t rows) {
    for (size_t i = 0; i < rows * (size_t)f->vocab; i++)
        if (memcmp(want + i, got + i, sizeof *want))
            fail_msg("%s %s, %s: row %zu column %zu: native %.9g, xla %.9g; find the node with lockstep verify", f->name, ls_contract_name(f->graph->contract), what,
                     i / (size_t)f->vocab, i % (size_t)f->vocab, (double)want[i], (double)got[i]);
}

static ls_executor *xla_create(const fixture *f, int slots) {
    ls_executor *x;
    ls_error e = {0};
    ls_executor_options o = {.max_seqs = slots, .context = f->n_prompt + STEPS, .max_rows = f->n_prompt > slots ? f->n_prompt : slots};
    assert_ok(ls_xla_create(&x, f->graph, f->checkpoint, engine, NULL, &o, &e));
    return x;
}

/* Keys and values of a sequence as the native executor computed them: f32 [layers][rows, kv_heads * head_dim] each. */
typedef struct kept_kv {
    const ls_graph *g;
    float *k[64], *v[64];
} kept_kv;

static void keep_kv(void *user, const ls_node *node, float *values, int64_t rows, int64_t cols) {
    kept_kv *kept = user;
    ls_error e = {0};
    for (size_t i = 0; i < kept->g->n_nodes; i++) {
        const ls_node *n = &kept->g->nodes[i];
        if (n->op != LS_OP_ATTENTION) continue;
        float **to = &kept->g->nodes[n->in[1]] == node ? kept->k : &kept->g->nodes[n->in[2]] == node ? kept->v : NULL;
        if (!to) continue;
        assert_ok(ls_calloc(&to[n->layer], (size_t)(rows * cols), sizeof **to, "keys and values", &e));
        memcpy(to[n->layer], values, (size_t)(rows * cols) * sizeof **to);
    }
}

/* The device's cache f32 [B, L, C, kv, d] holds in |slot| the |rows| that native attention read. */
static void must_hold(const fixture *f, const ls_xla *x, const ls_buffer *cache, int slot, int rows, float *const *want, const char *what) {
    ls_error e = {0};
    float *got;
    int64_t row = x->kv_heads * x->head_dim, layer = x->capacity * row;
    size_t n = (size_t)(x->sequences * f->graph->n_caches * layer);
    assert_ok(ls_calloc(&got, n, sizeof *got, "cache", &e));
    assert_ok(engine->ops->read(engine, cache, got, n * sizeof *got, &e));
    for (int i = 0; i < f->graph->n_caches; i++)
        if (memcmp(got + (slot * f->graph->n_caches + i) * layer, want[i], (size_t)(rows * row) * sizeof *got))
            fail_msg("%s: %s of layer %d, slot %d differ", f->name, what, i, slot);
    ls_free(got);
}

/* After |steps| of |r|: the cache of |slot| holds the keys and values of the whole sequence. */
static void check_kv(const fixture *f, const ls_executor *xla, int slot, const run *r, int steps) {
    kept_kv kept = {.g = f->graph};
    ls_error e = {0};
    ls_executor *native;
    float *logits;
    int32_t ids[64 + STEPS];
    int n = r->n + steps;
    const ls_xla *x = (const ls_xla *)(const void *)xla;
    ls_executor_options o = {.max_seqs = 1, .context = n, .max_rows = n, .threads = 1, .observer = keep_kv, .observer_user = &kept};
    assert_true(f->graph->n_caches <= 64 && r->n <= 64);
    memcpy(ids, f->prompt, (size_t)r->n * sizeof *ids);
    memcpy(ids + r->n, r->ids, (size_t)steps * sizeof *ids);
    assert_ok(ls_native_create(&native, f->graph, f->checkpoint, &o, &e));
    assert_ok(ls_calloc(&logits, (size_t)n * (size_t)f->vocab, sizeof *logits, "logits", &e));
    assert_ok(fixture_prefill(native, ids, n, 0, n, f->vocab, logits, &e));
    must_hold(f, x, x->k, slot, n, kept.k, "keys");
    must_hold(f, x, x->v, slot, n, kept.v, "values");
    for (int i = 0; i < f->graph->n_caches; i++) {
        ls_free(kept.k[i]);
        ls_free(kept.v[i]);
    }
    ls_free(logits);
    native->destroy(native);
}

/* The whole prompt, every row's logits, the caches, then 64 steps. */
static void check_single(const fixture *f) {
    run r = {0};
    ls_error e = {0};
    native_run(f, f->n_prompt, &r);
    ls_executor *x = xla_create(f, 1);
    float *got;
    size_t v = (size_t)f->vocab;
    assert_ok(ls_calloc(&got, (size_t)f->n_prompt * v, sizeof *got, "logits", &e));
    assert_ok(fixture_prefill(x, f->prompt, f->n_prompt, 0, f->n_prompt, f->vocab, got, &e));
    must_equal(f, "prompt", r.logits, got, (size_t)f->n_prompt);
    check_kv(f, x, 0, &r, 0);
    for (int i = 0; i < STEPS; i++) {
        int32_t slot = 0, row = 0;
        ls_batch b = {.n_rows = 1, .token = &r.ids[i], .slot = &slot, .n_out = 1, .out_row = &row};
        assert_ok(x->forward(x, &b, got, &e));
        must_equal(f, "decode step", r.logits + (size_t)(f->n_prompt + i) * v, got, 1);
    }
    check_kv(f, x, 0, &r, STEPS);
    x->destroy(x);
    ls_free(got);
    ls_free(r.logits);
}

/* The last slot begins anew with part of a block that the first one holds; the others go back a step and take it again beside it. */
static void check_block(const fixture *f, ls_executor *x, const run r[SLOTS], float *got) {
    ls_error e = {0};
    size_t v = (size_t)f->vocab;
    const int known = x->sharing->positions - r[0].n < STEPS ? x->sharing->positions - r[0].n - 1 : STEPS - 1; /* steps of the first run in the block */
    int32_t token[SLOTS], slot[SLOTS] = {0, 1, 2, 3}, row[SLOTS] = {0, 1, 2, 3};
    void *block;
    assert_true(known >= 0);
    assert_ok(x->sharing->hold(x, 0, 0, &block, &e));
    x->truncate(x, SLOTS - 1, 0);
    assert_ok(x->sharing->attach(x, SLOTS - 1, &block, 1, r[0].n + known, &e));
    x->sharing->release(x, block);
    check_kv(f, x, SLOTS - 1, &r[0], known);
    for (int s = 0; s < SLOTS; s++) {
        x->truncate(x, s, r[s].n + STEPS - 1);
        token[s] = s == SLOTS - 1 ? r[0].ids[known] : r[s].ids[STEPS - 1];
    }
    ls_batch b = {.n_rows = SLOTS, .token = token, .slot = slot, .n_out = SLOTS, .out_row = row};
    assert_ok(x->forward(x, &b, got, &e));
    for (int s = 0; s < SLOTS; s++) {
        const float *want = s == SLOTS - 1 ? r[0].logits + (size_t)(r[0].n + known) * v : r[s].logits + (size_t)(r[s].n + STEPS - 1) * v;
        must_equal(f, s == SLOTS - 1 ? "a step behind a kept block" : "a step beside it", want, got + (size_t)s * v, 1);
    }
}

/* Four sequences of different lengths, each prefilled alone, then decoded together. */
static void check_ragged(const fixture *f) {
    run r[SLOTS] = {0};
    ls_error e = {0};
    size_t v = (size_t)f->vocab;
    float *got;
    ls_executor *x = xla_create(f, SLOTS);
    assert_ok(ls_calloc(&got, SLOTS * v, sizeof *got, "logits", &e));
    for (int s = 0; s < SLOTS; s++) {
        int32_t slot[64], row = f->n_prompt - 4 * s - 1;
        assert_true(row >= 0 && row < 64);
        native_run(f, row + 1, &r[s]);
        for (int i = 0; i <= row; i++) slot[i] = s;
        ls_batch b = {.n_rows = row + 1, .token = f->prompt, .slot = slot, .n_out = 1, .out_row = &row};
        assert_ok(x->forward(x, &b, got, &e));
        must_equal(f, "prefill into a slot", r[s].logits + (size_t)row * v, got, 1);
    }
    for (int i = 0; i < STEPS; i++) {
        int32_t token[SLOTS], slot[SLOTS] = {0, 1, 2, 3}, row[SLOTS] = {0, 1, 2, 3};
        for (int s = 0; s < SLOTS; s++) token[s] = r[s].ids[i];
        ls_batch b = {.n_rows = SLOTS, .token = token, .slot = slot, .n_out = SLOTS, .out_row = row};
        assert_ok(x->forward(x, &b, got, &e));
        for (int s = 0; s < SLOTS; s++) must_equal(f, "ragged step", r[s].logits + (size_t)(r[s].n + i) * v, got + (size_t)s * v, 1);
    }
    for (int s = 0; s < SLOTS; s++) check_kv(f, x, s, &r[s], STEPS);
    check_block(f, x, r, got);
    x->destroy(x);
    ls_free(got);
    for (int s = 0; s < SLOTS; s++) ls_free(r[s].logits);
}

/* 64 greedy tokens of transformers. */
static void check_float(const fixture *f) {
    ls_error e = {0};
    ls_executor *x = xla_create(f, 1);
    float *got;
    int32_t ids[STEPS];
    assert_ok(ls_calloc(&got, (size_t)f->n_prompt * (size_t)f->vocab, sizeof *got, "logits", &e));
    assert_ok(fixture_prefill(x, f->prompt, f->n_prompt, 0, f->n_prompt, f->vocab, got, &e));
    assert_ok(fixture_greedy(x, 0, f->vocab, got + (size_t)(f->n_prompt - 1) * (size_t)f->vocab, STEPS, ids, &e));
    for (int i = 0; i < STEPS; i++)
        if (ids[i] != f->greedy[i]) fail_msg("%s float: token %d is %d, transformers has %d", f->name, i, (int)ids[i], (int)f->greedy[i]);
    x->destroy(x);
    ls_free(got);
}

/* A downloaded model: a prompt of eight tokens, then eight greedy steps, under exact16. */
static void check_real(const char *path) {
    enum { PROMPT = 8, MORE = 8 };
    static const int32_t prompt[PROMPT] = {2, 504, 3575, 282, 4649, 314, 7042, 30};
    ls_error e = {0};
    fixture f = {.n_prompt = PROMPT, .prompt = prompt};
    snprintf(f.name, sizeof f.name, "%s", strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
    assert_ok(ls_checkpoint_open(&f.checkpoint, path, &e));
    assert_ok(ls_model_build(&f.graph, f.checkpoint, &(ls_build_options){.contract = LS_CONTRACT_EXACT16, .context = 256}, &e));
    f.vocab = (int)f.graph->vocab;
    ls_executor *native, *xla;
    ls_executor_options o = {.max_seqs = 1, .context = 256, .max_rows = PROMPT};
    float *a, *b;
    assert_ok(ls_native_create(&native, f.graph, f.checkpoint, &o, &e));
    assert_ok(ls_xla_create(&xla, f.graph, f.checkpoint, engine, NULL, &o, &e));
    assert_ok(ls_calloc(&a, PROMPT * (size_t)f.vocab, sizeof *a, "logits", &e));
    assert_ok(ls_calloc(&b, PROMPT * (size_t)f.vocab, sizeof *b, "logits", &e));
    int32_t slot[PROMPT] = {0}, last = PROMPT - 1, token;
    ls_batch batch = {.n_rows = PROMPT, .token = prompt, .slot = slot, .n_out = 1, .out_row = &last};
    for (int i = 0; i <= MORE; i++) {
        assert_ok(native->forward(native, &batch, a, &e));
        assert_ok(xla->forward(xla, &batch, b, &e));
        must_equal(&f, i ? "decode step" : "prompt", a, b, 1);
        token = largest(a, f.vocab);
        last = 0;
        batch = (ls_batch){.n_rows = 1, .token = &token, .slot = slot, .n_out = 1, .out_row = &last};
    }
    xla->destroy(xla);
    native->destroy(native);
    ls_free(a);
    ls_free(b);
    ls_graph_destroy(f.graph);
    ls_checkpoint_close(f.checkpoint);
}

static void downloaded_models_equal_native(void **state) {
    (void)state;
    static const char *const names[] = {"LS_SMOLLM2_GGUF", "LS_GEMMA3_GGUF"};
    int ran = 0;
    for (int i = 0; i < 2; i++) {
        const char *path = getenv(names[i]);
        if (path) check_real(path);
        ran += path != NULL;
    }
    if (!ran) skip(); /* outside make test */
}

/* Whether |word| is among the arguments. */
static bool given(const char *word) {
    for (int i = 2; i < n_arguments; i++)
        if (!strcmp(arguments[i], word)) return true;
    return false;
}

static bool wanted_fixture(const char *name) {
    bool any = false, named = false;
    for (int i = 2; i < n_arguments; i++) {
        any |= *arguments[i] == '=';
        named |= *arguments[i] == '=' && !strcmp(arguments[i] + 1, name);
    }
    return named || !any;
}

static bool wanted_contract(ls_contract c) {
    bool any = given("exact16") || given("exact24") || given("exact16-kv8");
    return any ? given(ls_contract_name(c)) : c != LS_CONTRACT_EXACT16_KV8;
}

static int each_fixture(ls_contract c, void (*check)(const fixture *f)) {
    char names[FIXTURE_MAX][128];
    int n = fixture_names(names), ran = 0;
    for (int i = 0; i < n; i++) {
        fixture f;
        ls_error e = {0};
        if (!wanted_fixture(names[i])) continue;
        assert_ok(fixture_open(&f, names[i], c, &e));
        check(&f);
        fixture_close(&f);
        ran++;
    }
    return ran;
}

static void each_exact(void (*check)(const fixture *f)) {
    int ran = 0;
    for (int i = 0; i < LS_EXACT_CONTRACTS; i++)
        if (wanted_contract(ls_contract_exact_at(i))) ran += each_fixture(ls_contract_exact_at(i), check);
    assert_true(ran > 0);
}

static void single_equals_native(void **state) {
    (void)state;
    each_exact(check_single);
}

static void ragged_equals_native(void **state) {
    (void)state;
    each_exact(check_ragged);
}

static void float_gives_the_tokens_of_transformers(void **state) {
    (void)state;
    assert_true(each_fixture(LS_CONTRACT_FLOAT, check_float) > 0);
}

/* |mode| was given, or no mode was. */
static bool asked(const char *mode) {
    return given(mode) || !(given("single") || given("ragged") || given("float") || given("real"));
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: test_xla_models ENGINE [single|ragged|float|real ...] [exact16|exact24|exact16-kv8 ...] [=FIXTURE ...]\n");
        return 2;
    }
    engine_name = argv[1];
    n_arguments = argc;
    arguments = argv;
    ls_error e = {0};
    if (open_engine(&engine, &e)) {
        fprintf(stderr, "%s: %s\n", engine_name, e.text);
        return 1;
    }
    int failed = 0;
    if (asked("single")) failed += cmocka_run_group_tests_name("single", ((const struct CMUnitTest[]){cmocka_unit_test(single_equals_native)}), NULL, NULL);
    if (asked("ragged")) failed += cmocka_run_group_tests_name("ragged", ((const struct CMUnitTest[]){cmocka_unit_test(ragged_equals_native)}), NULL, NULL);
    if (asked("float"))
        failed += cmocka_run_group_tests_name("float", ((const struct CMUnitTest[]){cmocka_unit_test(float_gives_the_tokens_of_transformers)}), NULL, NULL);
    if (asked("real")) failed += cmocka_run_group_tests_name("real", ((const struct CMUnitTest[]){cmocka_unit_test(downloaded_models_equal_native)}), NULL, NULL);
    engine->ops->destroy(engine);
    return failed ? 1 : 0;
}
