/* Every fixture under the float contract on the reference executor against transformers: f64 logits, f32 logits within
 * the error that transformers' own f32 has, 64 greedy tokens; and a prompt in chunks gives the bits of the whole
 * prompt. */
#include "test.h"

#include <math.h>

#include "fixture_models.h"

typedef struct result {
    float *logits; /* [n_prompt, vocab] */
    int32_t greedy[64];
} result;

/* The prompt in chunks of |chunk| rows, then 64 greedy tokens. */
static ls_code run(result *r, const fixture *f, bool f64, int chunk, ls_error *e) {
    ls_executor *x;
    ls_executor_options o = {.max_seqs = 1, .context = f->n_prompt + 64, .max_rows = chunk, .f64 = f64};
    LS_TRY(ls_reference_create(&x, f->graph, &o, e));
    ls_code rc = ls_calloc(&r->logits, (size_t)f->n_prompt * (size_t)f->vocab, sizeof *r->logits, "logits", e);
    if (!rc) rc = fixture_prefill(x, f->prompt, f->n_prompt, 0, chunk, f->vocab, r->logits, e);
    if (!rc)
        rc = fixture_greedy(x, 0, f->vocab, r->logits + (size_t)(f->n_prompt - 1) * (size_t)f->vocab, 64, r->greedy, e);
    x->destroy(x);
    return rc;
}

static double rms_error(const float *got, const double *want, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
    return sqrt(sum / (double)n);
}

static void check_tokens(const char *name, const char *type, const int32_t *got, const int32_t *want) {
    for (int i = 0; i < 64; i++)
        if (got[i] != want[i])
            fail_msg("%s: %s token %d is %d, transformers gives %d", name, type, i, (int)got[i], (int)want[i]);
}

/* The f64 bound is not rounding of the logits to f32 alone: a graph holds scales and epsilons as f32. */
static void check_errors(const fixture *f, const float *narrow, const float *wide) {
    size_t n = (size_t)f->n_prompt * (size_t)f->vocab;
    double f64 = rms_error(wide, f->logits_f64, n), f32 = rms_error(narrow, f->logits_f64, n),
           torch = rms_error(f->logits, f->logits_f64, n);
    print_message("%-20s rms error f64 %.2g, f32 %.2g, transformers f32 %.2g\n", f->name, f64, f32, torch);
    assert_true(f64 <= torch / 5);
    assert_true(f32 <= 2 * torch);
}

static void check(const char *name) {
    fixture f;
    ls_error e = {0};
    result narrow, wide, chunks;
    assert_ok(fixture_open(&f, name, LS_CONTRACT_FLOAT, &e));
    assert_non_null(f.logits_f64);
    assert_ok(run(&narrow, &f, false, f.n_prompt, &e));
    assert_ok(run(&wide, &f, true, f.n_prompt, &e));
    assert_ok(run(&chunks, &f, false, 5, &e));
    check_errors(&f, narrow.logits, wide.logits);
    check_tokens(name, "f32", narrow.greedy, f.greedy);
    check_tokens(name, "f64", wide.greedy, f.greedy);
    check_tokens(name, "chunked", chunks.greedy, f.greedy);
    assert_memory_equal(chunks.logits, narrow.logits, (size_t)f.n_prompt * (size_t)f.vocab * sizeof(float));
    ls_free(narrow.logits);
    ls_free(wide.logits);
    ls_free(chunks.logits);
    fixture_close(&f);
}

static void fixtures_match_transformers(void **state) {
    (void)state;
    char names[FIXTURE_MAX][128];
    int n = fixture_names(names);
    assert_true(n > 0);
    for (int i = 0; i < n; i++) check(names[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fixtures_match_transformers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
