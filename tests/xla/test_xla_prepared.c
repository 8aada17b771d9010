/* Rows that bring embeddings and belong to image blocks, on the XLA executor with a real plugin: equal to the reference, in fused modules
 * and node by node, in pieces that keep blocks whole, and near it under float; and in sessions, also where what the prefix
 * cache has of a prompt ends in the middle of a block. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "cpu_engine.h"
#include "fixture_models.h"
#include "prepared_rows.h"
#include "session/session.h"
#include "xla/executor.h"

enum { N = 86, LONG = 300, CONTEXT = 512, ROWS = 320 };

static const ls_span blocks[] = {{3, 12}, {12, 31}, {56, 72}}; /* the last one across the end of a kept block of 64 */

static ls_executor *create(const fixture *f, bool xla, ls_observer observer) {
    ls_executor_options o = {.max_seqs = 2, .context = CONTEXT, .max_rows = ROWS, .observer = observer};
    ls_executor *x;
    ls_error e = {0};
    if (xla) assert_ok(ls_xla_create(&x, f->graph, f->checkpoint, cpu_engine, NULL, &o, &e));
    else assert_ok(ls_reference_create(&x, f->graph, &o, &e));
    return x;
}

static void near(const fixture *f, const char *what, const float *got, const float *want, int rows) {
    bool exact = f->graph->contract != LS_CONTRACT_FLOAT;
    for (int64_t i = 0; i < (int64_t)rows * f->vocab; i++)
        if (exact ? memcmp(&got[i], &want[i], sizeof *got) != 0 : !(fabsf(got[i] - want[i]) <= 1e-4f))
            fail_msg("%s %s, %s: row %lld, column %lld is %a, wanted %a", f->name, ls_contract_name(f->graph->contract), what, (long long)(i / f->vocab),
                     (long long)(i % f->vocab), (double)got[i], (double)want[i]);
}

/* |n| rows at |cuts| [n_cuts + 1], then a decoded row, against one reference pass. */
static void check(const char *name, ls_contract contract, int n, const ls_span *b, int n_blocks, const int *cuts, int n_cuts, ls_observer observer) {
    fixture f;
    ls_error e = {0};
    prepared_rows p;
    assert_ok(fixture_open(&f, name, contract, &e));
    size_t v = (size_t)f.vocab;
    float *want = calloc((size_t)n * v, sizeof *want), *got = calloc((size_t)n * v, sizeof *got);
    prepared_rows_make(&p, f.graph, n, b, n_blocks, 5);
    ls_executor *reference = create(&f, false, NULL), *x = create(&f, true, observer);
    assert_ok(prepared_rows_pass(reference, &p, 0, n, 0, want, &e));
    for (int c = 0; c < n_cuts; c++) assert_ok(prepared_rows_pass(x, &p, cuts[c], cuts[c + 1], 1, got + (size_t)cuts[c] * v, &e));
    near(&f, "rows", got, want, n);
    int32_t next = 7, zero = 0, one = 1;
    ls_batch decode = {.n_rows = 1, .token = &next, .slot = &zero, .n_out = 1, .out_row = &zero};
    assert_ok(reference->forward(reference, &decode, want, &e));
    decode.slot = &one;
    assert_ok(x->forward(x, &decode, got, &e));
    near(&f, "the row after them", got, want, 1);
    reference->destroy(reference);
    x->destroy(x);
    free(want);
    free(got);
    prepared_rows_free(&p);
    fixture_close(&f);
}

static void whole_and_in_pieces(void **state) {
    (void)state;
    static const int whole[] = {0, N}, pieces[] = {0, 3, 31, 55, N};
    check("gemma3", LS_CONTRACT_EXACT16, N, blocks, 3, whole, 1, NULL);
    check("gemma3", LS_CONTRACT_EXACT16, N, blocks, 3, pieces, 4, NULL);
    check("gemma3", LS_CONTRACT_EXACT24, N, blocks, 3, whole, 1, NULL);
    check("gemma3", LS_CONTRACT_FLOAT, N, blocks, 3, pieces, 4, NULL);
}

static void seen(void *user, const ls_node *node, float *values, int64_t rows, int64_t cols) {
    (void)user, (void)node, (void)values, (void)rows, (void)cols;
}

static void node_by_node(void **state) {
    (void)state;
    static const int pieces[] = {0, 3, N};
    check("gemma3", LS_CONTRACT_EXACT16, N, blocks, 3, pieces, 2, seen);
}

/* A block of 290 rows is one piece, padded to 512 rows; what follows it another. */
static void long_block(void **state) {
    (void)state;
    static const int whole[] = {0, LONG};
    check("llama", LS_CONTRACT_EXACT16, LONG, (ls_span[]){{5, 295}}, 1, whole, 1, NULL);
}

/* ---- Sessions -------------------------------------------------------------------------------------------------------------- */

enum { NEW = 4, REQUESTS = 6, SLOTS = 4, PREFIX = 64 << 20 };

typedef struct stream {
    uint64_t id;
    int32_t out[NEW];
    size_t n;
    char sha[65];
} stream;

static ls_prepared_prefill *prepared_of(const fixture *f, const prepared_rows *p, int32_t *words) {
    ls_prepared_prefill *made;
    ls_error e = {0};
    ls_prepared_block block[3];
    size_t at[N], n = 0, hidden = (size_t)f->graph->hidden;
    float *values = calloc(N, hidden * sizeof *values);
    for (int i = 0; i < 3; i++) block[i] = (ls_prepared_block){(size_t)blocks[i].begin, (size_t)blocks[i].end};
    for (int i = 0; i < N; i++) {
        words[i] = p->token[i] < 0 ? 3 : p->token[i];
        if (!p->embedding[i]) continue;
        memcpy(values + n * hidden, p->embedding[i], hidden * sizeof *values);
        at[n++] = (size_t)i;
    }
    ls_prepared_options o = {.struct_size = sizeof o, .tokens = words, .n_tokens = N, .length = N, .rows_at = at, .blocks = block, .n_blocks = 3,
                             .embeddings = {LS_ELEMENT_F32, 2, {(int64_t)n, f->graph->hidden}, values, n * hidden * sizeof *values}};
    assert_ok(ls_prepared_create(&made, &o, NULL, &e));
    free(values);
    return made;
}

static ls_session *session_of(const fixture *f, ls_executor *x, int slots, size_t prefix) {
    ls_session *s;
    ls_error e = {0};
    ls_session_config c = {.executor = x, .vocab = f->vocab, .context = CONTEXT, .slots = slots, .chunk = 24, .hidden = f->graph->hidden, .max_rows = N,
                           .prefix_bytes = prefix, .identity = "test"};
    assert_ok(ls_session_create_on(&s, &c, &e));
    return s;
}

/* Request |i| is the image prompt when even, the same words without an image when odd; |each|: one after another. */
static void serve(ls_session *s, ls_prepared_prefill *image, const int32_t *words, bool each, stream r[REQUESTS]) {
    ls_error e = {0};
    memset(r, 0, REQUESTS * sizeof *r);
    for (int i = 0; i < REQUESTS; i++) {
        ls_request q = {.struct_size = sizeof q, .max_new = NEW, .ignore_eos = true, .hash_logits = true};
        if (i % 2) q.prompt = words, q.n_prompt = (size_t)(N - i);
        else q.prepared = image;
        assert_ok(ls_session_submit(s, &q, &r[i].id, &e));
        while ((each || i == REQUESTS - 1) && !ls_session_is_idle(s)) {
            assert_ok(ls_session_step(s, &e));
            for (ls_event v; ls_session_next_event(s, &v);)
                for (int k = 0; k <= i; k++) {
                    if (r[k].id != v.id) continue;
                    if (v.finish) memcpy(r[k].sha, v.logits_sha256, sizeof v.logits_sha256);
                    else r[k].out[r[k].n++] = v.token;
                }
        }
    }
}

static void same_answers(const char *what, const stream want[REQUESTS], const stream got[REQUESTS]) {
    for (int i = 0; i < REQUESTS; i++)
        if (memcmp(want[i].out, got[i].out, sizeof got[i].out) || strcmp(want[i].sha, got[i].sha)) fail_msg("%s: request %d differs from native's", what, i);
}

/* Images and text in one ragged batch, more requests than slots, equal to the native executor's answers to each alone, and with a prefix cache, from
 * which prompts that come again take 64 positions: those with an image begin in its middle. */
static void mixed_batches(void **state) {
    (void)state;
    fixture f;
    ls_error e = {0};
    prepared_rows p;
    int32_t words[N];
    stream want[REQUESTS], got[REQUESTS];
    assert_ok(fixture_open(&f, "gemma3", LS_CONTRACT_EXACT16, &e));
    prepared_rows_make(&p, f.graph, N, blocks, 3, 5);
    ls_prepared_prefill *image = prepared_of(&f, &p, words);
    ls_executor *native, *x;
    ls_executor_options o = {.max_seqs = 1, .context = CONTEXT, .max_rows = N, .threads = 1};
    assert_ok(ls_native_create(&native, f.graph, f.checkpoint, &o, &e));
    ls_session *s = session_of(&f, native, 1, 0);
    serve(s, image, words, true, want);
    ls_session_destroy(s);
    native->destroy(native);
    o.max_seqs = SLOTS;
    assert_ok(ls_xla_create(&x, f.graph, f.checkpoint, cpu_engine, NULL, &o, &e));
    for (size_t prefix = 0; prefix <= PREFIX; prefix += PREFIX) {
        s = session_of(&f, x, SLOTS, prefix);
        for (int round = 0; round < 2; round++) {
            uint64_t before = ls_session_statistics(s).reused_tokens;
            serve(s, image, words, false, got);
            same_answers(prefix ? "with a prefix cache" : "in a batch", want, got);
            assert_int_equal(ls_session_statistics(s).reused_tokens - before, prefix ? 64 * (round ? REQUESTS : REQUESTS - 2) : 0);
        }
        ls_session_destroy(s);
    }
    x->destroy(x);
    ls_prepared_destroy(image);
    prepared_rows_free(&p);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_and_in_pieces),
        cmocka_unit_test(node_by_node),
        cmocka_unit_test(long_block),
        cmocka_unit_test(mixed_batches),
    };
    return cmocka_run_group_tests(tests, cpu_engine_open, cpu_engine_close);
}
