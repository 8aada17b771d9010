/* Rows that bring embeddings and belong to image blocks, on the XLA executor with a real plugin: equal to the reference, in fused modules
 * and node by node, in pieces that keep blocks whole, and near it under float. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "fixture_models.h"
#include "prepared_rows.h"
#include "xla/executor.h"
#include "xla/pjrt.h"

enum { N = 40, LONG = 300, CONTEXT = 512, ROWS = 320 };

static const ls_span blocks[] = {{3, 12}, {12, 31}, {34, 35}};

static ls_engine *engine;

static ls_executor *create(const fixture *f, bool xla, ls_observer observer) {
    ls_executor_options o = {.max_seqs = 2, .context = CONTEXT, .max_rows = ROWS, .observer = observer};
    ls_executor *x;
    ls_error e = {0};
    if (xla) assert_ok(ls_xla_create(&x, f->graph, f->checkpoint, engine, NULL, &o, &e));
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
    static const int whole[] = {0, N}, pieces[] = {0, 3, 31, 34, N};
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

static int open_engine(void **state) {
    (void)state;
    ls_error e = {0};
    assert_ok(ls_pjrt_open(&engine, &(ls_pjrt_options){.plugin = LS_PLUGINS "/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"}, &e));
    return 0;
}

static int close_engine(void **state) {
    (void)state;
    engine->ops->destroy(engine);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_and_in_pieces),
        cmocka_unit_test(node_by_node),
        cmocka_unit_test(long_block),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
