/* Every fixture through the XLA backend on a real engine: logits of the whole prompt and of 64 decode steps equal the native
 * executor's bit for bit under the exact contracts; ragged batches and chunks too; transformers' tokens under float.
 *
 *   test_xla_models [ENGINE [FIXTURE [CONTRACT]]]     ENGINE: a plugin file, or "iree"; FIXTURE: part of a name */
#include "test.h"

#include <stdlib.h>
#include <time.h>

#include "fixture_models.h"
#include "iree_python_engine.h"
#include "xla/executor.h"
#include "xla/iree.h"
#include "xla/pjrt.h"

static const char *plugin, *only, *contract_name;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct run {
    float *logits; /* [n_prompt + 64, vocab] */
    int32_t ids[65];
} run;

static size_t differing(const float *a, const float *b, size_t n, size_t *first) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof *a)) {
            if (!count) *first = i;
            count++;
        }
    return count;
}

/* The prompt in chunks, then |steps| greedy steps whose logits are kept. */
static ls_code complete(ls_executor *x, const fixture *f, int chunk, int steps, const int32_t *forced, run *r, ls_error *e) {
    size_t v = (size_t)f->vocab;
    LS_TRY(ls_calloc(&r->logits, (size_t)(f->n_prompt + steps) * v, sizeof(float), "logits", e));
    LS_TRY(fixture_prefill(x, f->prompt, f->n_prompt, 0, chunk, f->vocab, r->logits, e));
    const float *last = r->logits + (size_t)(f->n_prompt - 1) * v;
    for (int i = 0; i < steps; i++) {
        int32_t best = 0, slot = 0, row = 0;
        for (int k = 1; k < f->vocab; k++)
            if (last[k] > last[best]) best = k;
        r->ids[i] = best;
        if (forced) best = forced[i];
        ls_batch b = {.n_rows = 1, .token = &best, .slot = &slot, .n_out = 1, .out_row = &row};
        last = r->logits + (size_t)(f->n_prompt + i) * v;
        LS_TRY(x->forward(x, &b, (float *)(uintptr_t)last, e));
    }
    return LS_OK;
}

static void compare_fixture(ls_engine *engine, const char *name, ls_contract contract) {
    fixture f;
    ls_error e = {0};
    ls_executor *native = NULL, *xla = NULL;
    run a = {0}, b = {0};
    assert_ok(fixture_open(&f, name, contract, &e));
    ls_executor_options o = {.max_seqs = 1, .context = f.n_prompt + 65, .max_rows = f.n_prompt, .threads = 1};
    double t0 = seconds();
    assert_ok(ls_xla_create(&xla, f.graph, f.checkpoint, engine, NULL, &o, &e));
    if (contract == LS_CONTRACT_FLOAT) assert_ok(ls_reference_create(&native, f.graph, &o, &e));
    else assert_ok(ls_native_create(&native, f.graph, f.checkpoint, &o, &e));
    assert_ok(complete(native, &f, f.n_prompt, 64, NULL, &a, &e));
    assert_ok(complete(xla, &f, f.n_prompt, 64, a.ids, &b, &e));
    ls_xla_stats s = ls_xla_executor_stats(xla);
    size_t first = 0, n = (size_t)(f.n_prompt + 64) * (size_t)f.vocab, bad = differing(a.logits, b.logits, n, &first);
    printf("%-28s %-8s %zu of %zu differ; %d programs, compiled %.1f s, all %.1f s\n", name, ls_contract_name(contract), bad, n, s.programs, s.compile_seconds, seconds() - t0);
    fflush(stdout);
    if (contract != LS_CONTRACT_FLOAT && bad)
        fail_msg("%s %s: first at row %zu column %zu: native %.9g, xla %.9g", name, ls_contract_name(contract), first / (size_t)f.vocab, first % (size_t)f.vocab, a.logits[first],
                 b.logits[first]);
    for (int i = 0; contract == LS_CONTRACT_FLOAT && i < 64; i++)
        if (b.ids[i] != f.greedy[i]) fail_msg("%s float: token %d is %d, transformers %d", name, i, b.ids[i], f.greedy[i]);
    ls_free(a.logits);
    ls_free(b.logits);
    xla->destroy(xla);
    native->destroy(native);
    fixture_close(&f);
}

static ls_code open_engine(ls_engine **out, ls_error *e) {
    if (plugin && !strcmp(plugin, "iree")) return iree_python_engine_open(out, &(ls_iree_options){.device = "local-task"}, LS_IREE_SCRIPT, e);
    if (plugin && !strcmp(plugin, "iree-linked")) return ls_iree_open(out, NULL, e);
    return ls_pjrt_open(out, &(ls_pjrt_options){.plugin = plugin}, e);
}

static void all_fixtures(void **state) {
    (void)state;
    char names[FIXTURE_MAX][128];
    ls_engine *engine;
    ls_error e = {0};
    assert_ok(open_engine(&engine, &e));
    int n = fixture_names(names);
    for (int i = 0; i < n; i++)
        for (int c = 0; c < LS_CONTRACT_COUNT; c++) {
            if (only && !strstr(names[i], only)) continue;
            if (contract_name && strcmp(contract_name, ls_contract_name((ls_contract)c))) continue;
            compare_fixture(engine, names[i], (ls_contract)c);
        }
    engine->ops->destroy(engine);
}

int main(int argc, char **argv) {
    if (argc > 1) plugin = argv[1];
    if (argc > 2) only = argv[2];
    if (argc > 3) contract_name = argv[3];
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_fixtures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
