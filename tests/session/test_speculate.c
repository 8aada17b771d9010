/* Guessing: the same tokens, finishes and logits with it and without on every fixture, whoever guesses and however badly, alone and among
 * others, with the prefix cache and cancellations between. */
#include "stream.h"

#include <string.h>

#include "fixture_models.h"
#include "session/drafter.h"

enum { N = 5, SLOTS = 3, CHUNK = 32, CACHE = 64 << 20 };

/* Prompts that go round, so that lookup finds something, greedy and drawn, with and without penalties. */
static void requests(stream s[N], const ls_model *m) {
    memset(s, 0, N * sizeof *s);
    for (int i = 0; i < N; i++) {
        for (int round = 0; round < 3; round++) stream_append(&s[i], (uint32_t)i / 2, 5 + (size_t)i, ls_model_vocab(m));
        s[i].max_new = i ? 10 + 3 * i : 30;
        s[i].ignore_eos = i != 1;
        if (i == 2) s[i].sampling = (ls_sampling){.seed = 7, .temperature = 0.8, .top_k = 20};
        if (i == 3) s[i].sampling = (ls_sampling){.repetition_penalty = 1.3, .dry_multiplier = 0.8};
        if (i == 4) s[i].sampling = (ls_sampling){.seed = 3, .temperature = 0.3, .top_p = 0.9, .presence_penalty = 0.5, .frequency_penalty = 0.1};
    }
}

static ls_session *guessing(ls_model *m, bool lookup, ls_model *draft, int guesses, size_t cache) {
    ls_error e = {0};
    ls_session *s = NULL;
    ls_session_options o = {.struct_size = sizeof o, .lookup = lookup, .draft = draft, .guesses = guesses, .prefix_cache_bytes = cache};
    assert_ok(ls_session_create_with(&s, m, &o, &e));
    assert_int_equal(ls_session_capabilities(s).speculative_decode, lookup || draft);
    return s;
}

/* All at once, then the last one alone; returns what passes checked. |cancel|: the first one is cancelled on the way. */
static ls_statistics check(const char *what, ls_model *m, ls_session *s, const stream want[N], bool cancel) {
    ls_error e = {0};
    stream got[N];
    memcpy(got, want, sizeof got);
    for (int i = 0; i < N; i++) stream_submit(s, &got[i]);
    if (cancel) {
        assert_ok(ls_session_step(s, &e));
        stream_collect(s, got, N);
        assert_true(ls_session_cancel(s, got[0].id));
    }
    stream_run(s, got, N);
    for (int i = cancel; i < N; i++) stream_same(what, &want[i], &got[i]);
    stream_submit(s, &got[N - 1]);
    stream_run(s, &got[N - 1], 1);
    stream_same(what, &want[N - 1], &got[N - 1]);
    ls_statistics t = ls_session_statistics(s);
    ls_session_destroy(s);
    for (int i = 0; i < SLOTS; i++) assert_int_equal(m->executor->length(m->executor, i), 0);
    assert_true(t.accepted <= t.drafted);
    return t;
}

static void check_model(const char *name, const char *contract, uint64_t *found) {
    stream want[N];
    ls_error e = {0};
    ls_session *plain = NULL;
    ls_model *m = stream_model(name, contract, NULL, SLOTS, CHUNK), *same = stream_model(name, contract, NULL, SLOTS, CHUNK);
    ls_model *other = stream_model("qwen2", contract, NULL, SLOTS + 1, 7);
    requests(want, m);
    assert_ok(ls_session_create(&plain, m, &e));
    for (int i = 0; i < N; i++) {
        stream_submit(plain, &want[i]);
        stream_run(plain, &want[i], 1);
    }
    ls_session_destroy(plain);
    *found += check(name, m, guessing(m, true, NULL, 0, 0), want, false).accepted;
    /* The model itself as its drafter is always right; what it guesses past an end of sequence, which one request may meet, is not looked at. */
    ls_statistics t = check(name, m, guessing(m, false, same, 5, 0), want, true);
    assert_true(t.drafted > 0);
    assert_true(t.drafted - t.accepted <= 5);
    if (ls_model_vocab(other) == ls_model_vocab(m)) {
        check(name, m, guessing(m, false, other, 3, CACHE), want, true);
        check(name, m, guessing(m, true, other, LS_MAX_GUESSES, CACHE), want, false);
    }
    ls_model_destroy(m);
    ls_model_destroy(same);
    ls_model_destroy(other);
}

static void test_every_model(void **state) {
    (void)state;
    char names[FIXTURE_MAX][128];
    int n = fixture_names(names);
    uint64_t found = 0;
    assert_true(n > 20);
    for (int i = 0; i < n; i++) check_model(names[i], i % 3 ? i % 3 == 1 ? "exact16" : "exact16-kv8" : "exact24", &found);
    assert_true(found > 0); /* lookup was right now and then */
}

static void test_other_backends(void **state) {
    (void)state;
    stream want[N];
    ls_error e = {0};
    ls_session *s = NULL;
    ls_model *m = stream_model("qwen2", NULL, "reference", SLOTS, CHUNK), *draft = stream_model("qwen2", "float", "reference", SLOTS, CHUNK);
    requests(want, m);
    assert_ok(ls_session_create(&s, m, &e));
    for (int i = 0; i < N; i++) stream_submit(s, &want[i]);
    stream_run(s, want, N);
    ls_session_destroy(s);
    assert_true(check("reference", m, guessing(m, true, draft, 0, 0), want, true).accepted > 0);
    ls_model_destroy(m);
    ls_model_destroy(draft);
}

static void test_refusals(void **state) {
    (void)state;
    ls_error e = {0};
    ls_session *s = NULL, *first = NULL;
    ls_model *m = stream_model("llama", NULL, NULL, SLOTS, CHUNK), *small = stream_model("llama", NULL, NULL, 1, CHUNK), *graph = NULL;
    ls_session_options o = {.struct_size = sizeof o, .draft = small};
    assert_error(ls_session_create_with(&s, m, &o, &e), LS_FAILED_PRECONDITION, "the draft model has 1 slots, the model 3");
    o.draft = m;
    assert_error(ls_session_create_with(&s, m, &o, &e), LS_FAILED_PRECONDITION, "is in use");
    o = (ls_session_options){.struct_size = sizeof o, .lookup = true, .guesses = LS_MAX_GUESSES + 1};
    assert_error(ls_session_create_with(&s, m, &o, &e), LS_INVALID_ARGUMENT, "65 guesses");
    o = (ls_session_options){.struct_size = sizeof o, .guesses = 3};
    assert_error(ls_session_create_with(&s, m, &o, &e), LS_INVALID_ARGUMENT, "by nobody");
    o.struct_size = 0;
    assert_error(ls_session_create_with(&s, m, &o, &e), LS_INVALID_ARGUMENT, "struct_size");
    assert_ok(ls_model_open(&graph, LS_FIXTURES "/models/llama", &(ls_model_options){.struct_size = sizeof(ls_model_options), .parts = LS_LOAD_GRAPH}, &e));
    o = (ls_session_options){.struct_size = sizeof o, .draft = graph};
    assert_error(ls_session_create_with(&s, m, &o, &e), LS_FAILED_PRECONDITION, "without an executor");
    ls_model *one = stream_model("llama", NULL, NULL, 1, CHUNK), *wide = stream_model("qwen2", NULL, NULL, 1, CHUNK);
    o.draft = wide;
    assert_error(ls_session_create_with(&s, one, &o, &e), LS_INVALID_ARGUMENT, "vocabularies differ");
    o.draft = small;
    assert_ok(ls_session_create_with(&first, one, &o, &e));
    assert_error(ls_session_create(&s, small, &e), LS_FAILED_PRECONDITION, "already has a session");
    ls_session_destroy(first);
    assert_ok(ls_session_create(&s, small, &e)); /* free again */
    ls_session_destroy(s);
    ls_model *all[] = {m, small, graph, one, wide};
    for (int i = 0; i < 5; i++) ls_model_destroy(all[i]);
}

static void expect(const int32_t *token, size_t n, size_t most, const int32_t *want, size_t n_want) {
    int32_t all[32];
    memcpy(all, token, n * sizeof *all);
    assert_int_equal(ls_lookup(all, n, most), n_want);
    if (n_want) assert_memory_equal(all + n, want, n_want * sizeof *want);
}

static void test_lookup(void **state) {
    (void)state;
    expect((int32_t[]){1, 2, 3, 9, 1, 2, 4, 8, 1, 2}, 10, 2, (int32_t[]){4, 8}, 2); /* the latest of two equal matches */
    expect((int32_t[]){5, 1, 2, 3, 9, 1, 2, 4, 5, 1, 2}, 11, 1, (int32_t[]){3}, 1); /* a longer match wins */
    expect((int32_t[]){7, 8, 7, 8}, 4, 5, (int32_t[]){7, 8, 7, 8, 7}, 5);           /* a loop goes on */
    expect((int32_t[]){1, 2, 3}, 3, 4, NULL, 0);
    expect((int32_t[]){1}, 1, 4, NULL, 0);
    expect((int32_t[]){3, 3}, 2, 0, NULL, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lookup),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_every_model),
        cmocka_unit_test(test_other_backends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
