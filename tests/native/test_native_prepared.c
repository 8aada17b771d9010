/* Rows that bring embeddings and belong to image blocks, on the reference and the native executor: equal bits at every level, whole and
 * in chunks, alone and beside text; near a float evaluation; and the refusals of malformed blocks. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "contract/exact.h"
#include "fixture_models.h"
#include "native/cpu.h"
#include "prepared_rows.h"

enum { N = 300, CONTEXT = 320 };

/* Longer than the window of gemma3, which is 6; adjacent; across the end of a range of 256 keys; of one row. */
static const ls_span blocks[] = {{3, 12}, {12, 31}, {40, 41}, {250, 290}};
static const int cuts[] = {0, 2, 12, 31, 40, 41, 100, 250, 290, 300};

enum { BLOCKS = sizeof blocks / sizeof *blocks, CUTS = sizeof cuts / sizeof *cuts };

static ls_executor *create(const fixture *f, const char *level, int threads, bool f64) {
    ls_executor_options o = {.max_seqs = 3, .context = CONTEXT, .max_rows = 2 * N, .level = level, .threads = threads, .f64 = f64};
    ls_executor *x;
    ls_error e = {0};
    if (level) assert_ok(ls_native_create(&x, f->graph, f->checkpoint, &o, &e));
    else assert_ok(ls_reference_create(&x, f->graph, &o, &e));
    return x;
}

static float *logits_of(const fixture *f, const char *level, int threads, const prepared_rows *p, bool f64) {
    ls_error e = {0};
    ls_executor *x = create(f, level, threads, f64);
    float *y = calloc((size_t)p->n * (size_t)f->vocab, sizeof *y);
    assert_non_null(y);
    assert_ok(prepared_rows_pass(x, p, 0, p->n, 0, y, &e));
    x->destroy(x);
    return y;
}

static void same(const fixture *f, const char *what, const char *level, const float *got, const float *want, int rows) {
    for (int64_t i = 0; i < (int64_t)rows * f->vocab; i++)
        if (ls_bits(got[i]) != ls_bits(want[i]))
            fail_msg("%s %s, %s at level %s: row %lld, column %lld is %a, wanted %a", f->name, ls_contract_name(f->graph->contract), what, level,
                     (long long)(i / f->vocab), (long long)(i % f->vocab), (double)got[i], (double)want[i]);
}

/* In pieces, in the second slot, while slot 0 takes a text in the same passes: rows of both in turn. */
static void mixed(const fixture *f, const char *level, const prepared_rows *p, const float *want) {
    ls_error e = {0};
    ls_executor *x = create(f, level, 2, false), *alone = create(f, level, 1, false);
    size_t v = (size_t)f->vocab;
    float *got = calloc(2 * N * v, sizeof *got), *text = calloc(N * v, sizeof *text);
    int32_t token[2 * N], slot[2 * N], row[2 * N], words[N];
    const float *embedding[2 * N];
    ls_span block[2 * N];
    for (int i = 0; i < N; i++) words[i] = (int32_t)((i * 31 + 5) % f->vocab);
    assert_ok(fixture_prefill(alone, words, N, 0, 64, f->vocab, text, &e));
    for (int c = 0; c + 1 < CUTS; c++) {
        int n = 0;
        for (int i = cuts[c]; i < cuts[c + 1]; i++)
            for (int s = 0; s < 2; s++, n++) {
                token[n] = s ? p->token[i] : words[i];
                slot[n] = s;
                row[n] = n;
                embedding[n] = s ? p->embedding[i] : NULL;
                block[n] = s ? p->block[i] : (ls_span){0, 0};
            }
        ls_batch b = {.n_rows = n, .token = token, .slot = slot, .n_out = n, .out_row = row, .embedding = embedding, .block = block};
        assert_ok(x->forward(x, &b, got, &e));
        for (int i = 0; i < n; i++) same(f, "mixed", level, got + (size_t)i * v, (i % 2 ? want : text) + (size_t)(cuts[c] + i / 2) * v, 1);
    }
    free(got);
    free(text);
    x->destroy(x);
    alone->destroy(alone);
}

static void chunks(const fixture *f, const char *level, const prepared_rows *p, const float *want) {
    ls_error e = {0};
    ls_executor *x = create(f, level, 1, false);
    float *got = calloc((size_t)N * (size_t)f->vocab, sizeof *got);
    for (int c = 0; c + 1 < CUTS; c++) assert_ok(prepared_rows_pass(x, p, cuts[c], cuts[c + 1], 2, got + (size_t)cuts[c] * (size_t)f->vocab, &e));
    same(f, "chunks", level, got, want, N);
    free(got);
    x->destroy(x);
}

static void check(const char *name, ls_contract contract) {
    fixture f;
    ls_error e = {0};
    ls_cpu cpu;
    prepared_rows p;
    ls_cpu_detect(&cpu);
    assert_ok(fixture_open(&f, name, contract, &e));
    prepared_rows_make(&p, f.graph, N, blocks, BLOCKS, 11);
    float *want = logits_of(&f, NULL, 0, &p, false);
    for (int l = 0; l < LS_LEVEL_COUNT; l++) {
        if (!cpu.has[l]) continue;
        const char *level = ls_level_name((ls_level)l);
        for (int threads = 1; threads <= 3; threads += 2) {
            float *got = logits_of(&f, level, threads, &p, false);
            same(&f, "whole", level, got, want, N);
            free(got);
        }
        chunks(&f, level, &p, want);
        mixed(&f, level, &p, want);
    }
    free(want);
    prepared_rows_free(&p);
    fixture_close(&f);
}

static void equal_bits(void **unused) {
    (void)unused;
    check("gemma3", LS_CONTRACT_EXACT16);
    check("gemma3", LS_CONTRACT_EXACT24);
    check("llama", LS_CONTRACT_EXACT16);
}

/* Logits of one executor, row by row, against f64; the largest difference. */
static double distance(const fixture *f, const float *a, const float *b) {
    double most = 0;
    for (int64_t i = 0; i < (int64_t)N * f->vocab; i++) most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

/* Without its blocks, or with its embeddings scaled, the sequence gives something else by far. */
static void near_f64(void **unused) {
    (void)unused;
    fixture f, exact;
    ls_error e = {0};
    prepared_rows p;
    assert_ok(fixture_open(&f, "gemma3", LS_CONTRACT_FLOAT, &e));
    assert_ok(fixture_open(&exact, "gemma3", LS_CONTRACT_EXACT24, &e));
    prepared_rows_make(&p, f.graph, N, blocks, BLOCKS, 11);
    float *want = logits_of(&f, NULL, 0, &p, true), *f32 = logits_of(&f, NULL, 0, &p, false), *wide = logits_of(&exact, "c", 1, &p, false);
    assert_true(distance(&f, f32, want) < 1e-3);
    assert_true(distance(&f, wide, want) < 1e-3);
    for (int i = 0; i < N; i++) p.block[i] = (ls_span){0, 0};
    float *causal = logits_of(&exact, "c", 1, &p, false);
    assert_true(distance(&f, causal, want) > 0.1);
    free(want);
    free(f32);
    free(wide);
    free(causal);
    prepared_rows_free(&p);
    fixture_close(&f);
    fixture_close(&exact);
}

/* A span that holds the row's own position only is the same as none. */
static void block_of_one(void **unused) {
    (void)unused;
    fixture f;
    ls_error e = {0};
    prepared_rows p;
    assert_ok(fixture_open(&f, "gemma3", LS_CONTRACT_EXACT16, &e));
    prepared_rows_make(&p, f.graph, 20, (ls_span[]){{4, 5}}, 1, 3);
    float *with = logits_of(&f, "c", 1, &p, false);
    p.block[4] = (ls_span){0, 0};
    float *without = logits_of(&f, "c", 1, &p, false);
    same(&f, "a block of one row", "c", with, without, 20);
    free(with);
    free(without);
    prepared_rows_free(&p);
    fixture_close(&f);
}

static void refused(ls_executor *x, const prepared_rows *p, int begin, int end, const char *part) {
    ls_error e = {0};
    static float logits[64 * 256];
    int length = x->length(x, 0);
    assert_error(prepared_rows_pass(x, p, begin, end, 0, logits, &e), LS_OUT_OF_RANGE, part);
    assert_int_equal(x->length(x, 0), length);
}

static void refusals(void **unused) {
    (void)unused;
    fixture f;
    ls_error e = {0};
    prepared_rows p;
    static float logits[64 * 256];
    assert_ok(fixture_open(&f, "gemma3", LS_CONTRACT_EXACT16, &e));
    for (int native = 0; native < 2; native++) {
        ls_executor *x = create(&f, native ? "c" : NULL, 1, false);
        prepared_rows_make(&p, f.graph, 20, (ls_span[]){{4, 9}}, 1, 3);
        refused(x, &p, 0, 6, "row 4: its block [4, 9) must hold its position 4 and end within the pass, at or before 6");
        assert_ok(prepared_rows_pass(x, &p, 0, 4, 0, logits, &e));
        refused(x, &p, 4, 8, "row 0: its block [4, 9)");
        p.block[4] = (ls_span){5, 9};
        refused(x, &p, 4, 9, "must hold its position 4");
        p.block[4] = (ls_span){-1, 9};
        refused(x, &p, 4, 9, "its block [-1, 9)");
        p.block[4] = (ls_span){6, 2};
        refused(x, &p, 4, 9, "its block [6, 2)");
        p.block[4] = (ls_span){0, 9}; /* reaches back into an earlier pass: fine */
        assert_ok(prepared_rows_pass(x, &p, 4, 9, 0, logits, &e));
        p.embedding[9] = NULL;
        p.token[9] = -1;
        assert_error(prepared_rows_pass(x, &p, 9, 10, 0, logits, &e), LS_INVALID_ARGUMENT, "token -1 is outside the vocabulary");
        prepared_rows_free(&p);
        x->destroy(x);
    }
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_bits),
        cmocka_unit_test(near_f64),
        cmocka_unit_test(block_of_one),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
