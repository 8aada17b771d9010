/* The scheduler on the fake executor: admission order, events, end of sequence, cancellation, capacity, failures, and
 * independence of neighbours and chunks. */
#include "test.h"

#include "fake_executor.h"
#include "session/session.h"

enum { MAX_OUT = 64 };

/* What happened to one request. */
typedef struct outcome {
    uint64_t id;
    int32_t out[MAX_OUT];
    size_t n;
    ls_finish finish;
    char sha[65];
} outcome;

static ls_session *make(fake_executor *f, int slots, int chunk, const int32_t *eos, size_t n_eos) {
    ls_error e = {0};
    ls_session *s = NULL;
    fake_init(f, slots > chunk ? slots : chunk);
    ls_session_config c = {.executor = &f->base, .vocab = FAKE_VOCAB, .context = FAKE_CONTEXT, .slots = slots, .chunk = chunk, .eos = eos, .n_eos = n_eos};
    assert_ok(ls_session_create_on(&s, &c, &e));
    return s;
}

static uint64_t submit(ls_session *s, const int32_t *prompt, size_t n, int max_new, const ls_sampling *sampling) {
    ls_error e = {0};
    uint64_t id = 0;
    ls_request r = {.struct_size = sizeof r, .prompt = prompt, .n_prompt = n, .max_new = max_new, .sampling = sampling, .hash_logits = true};
    assert_ok(ls_session_submit(s, &r, &id, &e));
    return id;
}

static void collect(ls_session *s, outcome *o, size_t n) {
    ls_event event;
    while (ls_session_next_event(s, &event))
        for (size_t i = 0; i < n; i++) {
            if (o[i].id != event.id) continue;
            assert_int_equal(o[i].finish, LS_FINISH_NONE);
            if (event.finish) {
                o[i].finish = event.finish;
                assert_int_equal(event.n_output, o[i].n);
                memcpy(o[i].sha, event.logits_sha256, sizeof o[i].sha);
            } else {
                o[i].out[o[i].n++] = event.token;
            }
        }
}

static void run_all(ls_session *s, outcome *o, size_t n) {
    ls_error e = {0};
    while (!ls_session_is_idle(s)) {
        assert_ok(ls_session_step(s, &e));
        collect(s, o, n);
    }
    collect(s, o, n);
}

/* The greedy continuation computed without a session. */
static size_t expected(const int32_t *prompt, int n, int max_new, int32_t eos, int32_t *out) {
    int32_t tokens[FAKE_CONTEXT];
    float logits[FAKE_VOCAB];
    memcpy(tokens, prompt, (size_t)n * sizeof *tokens);
    size_t made = 0;
    for (; made < (size_t)max_new; made++) {
        fake_logits(tokens, n, logits);
        int best = 0;
        for (int v = 1; v < FAKE_VOCAB; v++)
            if (logits[v] > logits[best]) best = v;
        if (best == eos) break;
        tokens[n++] = out[made] = best;
    }
    return made;
}

static void test_greedy(void **state) {
    (void)state;
    static const int32_t prompt[] = {5, 6, 7};
    fake_executor f;
    ls_session *s = make(&f, 1, 2, NULL, 0);
    outcome o = {.id = submit(s, prompt, 3, 10, NULL)};
    run_all(s, &o, 1);
    int32_t want[MAX_OUT];
    assert_int_equal(expected(prompt, 3, 10, -1, want), 10);
    assert_int_equal(o.n, 10);
    assert_memory_equal(o.out, want, sizeof *want * 10);
    assert_int_equal(o.finish, LS_FINISH_LENGTH);
    assert_int_equal(f.rows_of_call[0], 2); /* 3 prompt rows in chunks of 2 */
    assert_int_equal(f.rows_of_call[1], 1);
    assert_int_equal(f.length[0], 0); /* the slot is free again */
    ls_session_destroy(s);
}

static void test_admission_is_fifo(void **state) {
    (void)state;
    fake_executor f;
    ls_error e = {0};
    ls_session *s = make(&f, 2, 4, NULL, 0);
    outcome o[5] = {0};
    for (int i = 0; i < 5; i++) {
        int32_t p = i + 1;
        o[i].id = submit(s, &p, 1, i < 2 ? 2 : 3, NULL);
    }
    assert_int_equal(o[0].id + 4, o[4].id);
    assert_int_equal(ls_session_pending(s), 5);
    assert_ok(ls_session_step(s, &e)); /* 0 and 1 enter, make a first and a second token, and finish */
    assert_int_equal(ls_session_pending(s), 3);
    assert_int_equal(ls_session_active(s), 0);
    collect(s, o, 5);
    assert_int_equal(o[0].finish, LS_FINISH_LENGTH);
    assert_int_equal(o[1].finish, LS_FINISH_LENGTH);
    assert_int_equal(o[2].n, 0);
    assert_ok(ls_session_step(s, &e)); /* 2 and 3 reuse the slots, in index order */
    assert_int_equal(f.first_slot_of_call[3], 0);
    assert_int_equal(f.first_slot_of_call[4], 1);
    assert_int_equal(f.rows_of_call[5], 2);
    run_all(s, o, 5);
    for (int i = 0; i < 5; i++) assert_int_equal(o[i].finish, LS_FINISH_LENGTH);
    ls_session_destroy(s);
}

static void test_one_token_budget_frees_the_slot_at_once(void **state) {
    (void)state;
    fake_executor f;
    ls_error e = {0};
    ls_session *s = make(&f, 1, 4, NULL, 0);
    int32_t p = 3;
    outcome o[2] = {{.id = submit(s, &p, 1, 1, NULL)}, {.id = submit(s, &p, 1, 1, NULL)}};
    assert_ok(ls_session_step(s, &e));
    assert_int_equal(f.n_calls, 1); /* nothing to decode */
    assert_int_equal(ls_session_pending(s), 1);
    run_all(s, o, 2);
    assert_int_equal(o[0].n + o[1].n, 2);
    ls_session_destroy(s);
}

static void test_eos_is_withheld(void **state) {
    (void)state;
    static const int32_t prompt[] = {9, 9};
    int32_t plain[MAX_OUT];
    expected(prompt, 2, 8, -1, plain);
    const int32_t eos[] = {-5, plain[3]};
    size_t until = 0;
    while (plain[until] != plain[3]) until++;
    fake_executor f;
    ls_error e = {0};
    ls_session *s = make(&f, 1, 4, eos, 2);
    outcome o = {.id = submit(s, prompt, 2, 8, NULL)};
    run_all(s, &o, 1);
    assert_int_equal(o.finish, LS_FINISH_STOP);
    assert_int_equal(o.n, until);
    /* Stopping wins when the budget ends on the same token. */
    outcome exact = {.id = submit(s, prompt, 2, (int)until + 1, NULL)};
    run_all(s, &exact, 1);
    assert_int_equal(exact.finish, LS_FINISH_STOP);
    ls_request r = {.struct_size = sizeof r, .prompt = prompt, .n_prompt = 2, .max_new = 8, .ignore_eos = true};
    outcome ignored = {0};
    assert_ok(ls_session_submit(s, &r, &ignored.id, &e));
    run_all(s, &ignored, 1);
    assert_int_equal(ignored.finish, LS_FINISH_LENGTH);
    assert_memory_equal(ignored.out, plain, 8 * sizeof *plain);
    ls_session_destroy(s);
}

static void test_cancel(void **state) {
    (void)state;
    fake_executor f;
    ls_error e = {0};
    ls_session *s = make(&f, 1, 4, NULL, 0);
    int32_t p = 3;
    outcome o[4] = {0};
    for (int i = 0; i < 4; i++) o[i].id = submit(s, &p, 1, 20, NULL);
    assert_true(ls_session_cancel(s, o[2].id)); /* waiting, in the middle */
    assert_false(ls_session_cancel(s, o[2].id));
    assert_false(ls_session_cancel(s, 999));
    assert_ok(ls_session_step(s, &e));
    assert_true(ls_session_cancel(s, o[0].id)); /* active */
    assert_int_equal(f.length[0], 0);
    assert_true(ls_session_cancel(s, o[3].id)); /* waiting, the last */
    outcome late = {.id = submit(s, &p, 1, 20, NULL)};
    o[2].finish = o[3].finish = LS_FINISH_NONE;
    outcome all[5] = {o[0], o[1], o[2], o[3], late};
    run_all(s, all, 5);
    assert_int_equal(all[0].finish, LS_FINISH_CANCELLED);
    assert_int_equal(all[0].n, 2);
    assert_int_equal(all[1].finish, LS_FINISH_LENGTH);
    assert_int_equal(all[2].finish, LS_FINISH_CANCELLED);
    assert_int_equal(all[3].finish, LS_FINISH_CANCELLED);
    assert_int_equal(all[4].finish, LS_FINISH_LENGTH);
    ls_session_destroy(s);
}

static void test_refusals_change_nothing(void **state) {
    (void)state;
    fake_executor f;
    ls_error e = {0};
    ls_session *s = make(&f, 1, 4, NULL, 0);
    const int32_t prompt[] = {1, 2, 3}, outside[] = {1, FAKE_VOCAB};
    uint64_t id = 77;
    ls_request r = {.struct_size = sizeof r, .prompt = prompt, .n_prompt = 0, .max_new = 4};
    assert_error(ls_session_submit(s, &r, &id, &e), LS_INVALID_ARGUMENT, "prompt is empty");
    r.n_prompt = 3;
    r.max_new = 0;
    assert_error(ls_session_submit(s, &r, &id, &e), LS_INVALID_ARGUMENT, "max_new is 0");
    r.max_new = 254;
    assert_error(ls_session_submit(s, &r, &id, &e), LS_RESOURCE_EXHAUSTED, "prompt of 3 tokens + 254 new tokens is more than the context of 256");
    r.n_prompt = SIZE_MAX;
    assert_error(ls_session_submit(s, &r, &id, &e), LS_RESOURCE_EXHAUSTED, "context of 256");
    r = (ls_request){.struct_size = sizeof r, .prompt = outside, .n_prompt = 2, .max_new = 4};
    assert_error(ls_session_submit(s, &r, &id, &e), LS_INVALID_ARGUMENT, "prompt token 1 is 97");
    int anything = 0;
    r = (ls_request){.struct_size = sizeof r, .prompt = prompt, .n_prompt = 3, .max_new = 4, .prepared = (ls_prepared_prefill *)&anything};
    assert_error(ls_session_submit(s, &r, &id, &e), LS_UNIMPLEMENTED, "token ids only");
    ls_sampling hot = {.struct_size = sizeof hot, .temperature = -1};
    r = (ls_request){.struct_size = sizeof r, .prompt = prompt, .n_prompt = 3, .max_new = 4, .sampling = &hot};
    assert_error(ls_session_submit(s, &r, &id, &e), LS_INVALID_ARGUMENT, "temperature is -1");
    r.struct_size = 0;
    assert_error(ls_session_submit(s, &r, &id, &e), LS_INVALID_ARGUMENT, "struct_size");
    assert_int_equal(id, 77);
    assert_true(ls_session_is_idle(s));
    assert_int_equal(f.n_calls, 0);
    outcome full = {.id = submit(s, prompt, 3, 253, NULL)}; /* exactly the context */
    assert_int_equal(full.id, 1);
    ls_session_destroy(s); /* with a request waiting */
}

static void test_executor_failures(void **state) {
    (void)state;
    fake_executor f;
    ls_error e = {0};
    ls_session *s = make(&f, 2, 4, NULL, 0);
    int32_t p = 3;
    outcome o[3] = {0};
    for (int i = 0; i < 3; i++) o[i].id = submit(s, &p, 1, 4, NULL);
    f.fail_after = 1; /* prefill of the second request */
    assert_error(ls_session_step(s, &e), LS_UNAVAILABLE, "request 2: ordered failure");
    collect(s, o, 3);
    assert_int_equal(o[1].finish, LS_FINISH_ERROR);
    assert_int_equal(o[0].finish, LS_FINISH_NONE);
    f.fail_after = f.n_calls + 1; /* the decode pass after the prefill of the third */
    assert_error(ls_session_step(s, &e), LS_UNAVAILABLE, "ordered failure");
    collect(s, o, 3);
    assert_int_equal(o[0].finish, LS_FINISH_ERROR);
    assert_int_equal(o[2].finish, LS_FINISH_ERROR);
    assert_true(ls_session_is_idle(s));
    outcome again = {.id = submit(s, &p, 1, 4, NULL)};
    run_all(s, &again, 1);
    assert_int_equal(again.finish, LS_FINISH_LENGTH);
    ls_session_destroy(s);
}

static void test_events_must_be_taken(void **state) {
    (void)state;
    fake_executor f;
    ls_error e = {0};
    ls_session *s = make(&f, 1, 4, NULL, 0);
    int32_t p = 3;
    submit(s, &p, 1, 100, NULL);
    ls_code rc = LS_OK;
    for (int i = 0; i < 100 && !rc; i++) rc = ls_session_step(s, &e);
    assert_int_equal(rc, LS_FAILED_PRECONDITION);
    assert_non_null(strstr(e.text, "ls_session_next_event"));
    ls_session_destroy(s);
}

/* Twelve different requests, each alone and then together in several arrangements: outputs and hashes of all logits. */
static void test_independence(void **state) {
    (void)state;
    enum { N = 12 };
    static const int slots[] = {1, 2, 3, 8}, chunks[] = {1, 3, 16, 64};
    int32_t prompt[N][40];
    size_t length[N];
    ls_sampling sampling[N];
    outcome alone[N] = {0};
    for (int i = 0; i < N; i++) {
        length[i] = 1 + (size_t)i * 3;
        for (size_t j = 0; j < length[i]; j++) prompt[i][j] = (int32_t)((j * 7 + (size_t)i * 13) % FAKE_VOCAB);
        sampling[i] = (ls_sampling){.struct_size = sizeof(ls_sampling), .seed = (uint64_t)i, .temperature = i % 3 ? 0.5 * i : 0, .top_k = i * 2, .top_p = i % 2 ? 0.9 : 0,
                                    .repetition_penalty = i % 4 ? 0 : 1.3, .dry_multiplier = i % 5 ? 0 : 0.8, .presence_penalty = i % 6 ? 0 : 0.5};
        fake_executor f;
        ls_session *s = make(&f, 1, 64, NULL, 0);
        alone[i].id = submit(s, prompt[i], length[i], 5 + i * 2, &sampling[i]);
        run_all(s, &alone[i], 1);
        assert_int_equal(alone[i].n, 5 + i * 2);
        ls_session_destroy(s);
    }
    for (size_t a = 0; a < 16; a++) {
        fake_executor f;
        ls_session *s = make(&f, slots[a / 4], chunks[a % 4], NULL, 0);
        outcome o[N] = {0};
        for (int k = 0; k < N; k++) {
            int i = (k * 5 + (int)a) % N; /* another order each time: 5 and 12 share no factor */
            o[i].id = submit(s, prompt[i], length[i], 5 + i * 2, &sampling[i]);
        }
        run_all(s, o, N);
        for (int i = 0; i < N; i++) {
            assert_int_equal(o[i].n, alone[i].n);
            assert_memory_equal(o[i].out, alone[i].out, o[i].n * sizeof *o[i].out);
            assert_string_equal(o[i].sha, alone[i].sha);
            assert_int_equal(strlen(o[i].sha), 64);
        }
        ls_session_destroy(s);
    }
}

static void test_one_session_per_model(void **state) {
    (void)state;
    fake_executor f;
    ls_error e = {0};
    bool in_use = false;
    fake_init(&f, 4);
    ls_session_config c = {.executor = &f.base, .vocab = FAKE_VOCAB, .context = 16, .slots = 2, .chunk = 4, .in_use = &in_use};
    ls_session *s = NULL, *second = NULL;
    assert_ok(ls_session_create_on(&s, &c, &e));
    assert_error(ls_session_create_on(&second, &c, &e), LS_FAILED_PRECONDITION, "already has a session");
    assert_true(ls_session_capabilities(s).batched_serving);
    assert_false(ls_session_capabilities(s).multimodal);
    ls_session_destroy(s);
    assert_false(in_use);
    c.slots = 0;
    assert_error(ls_session_create_on(&s, &c, &e), LS_INVALID_ARGUMENT, "0 slots");
    c.slots = 1;
    c.chunk = LS_MAX_CHUNK + 1;
    assert_error(ls_session_create_on(&s, &c, &e), LS_INVALID_ARGUMENT, "chunk of");
    ls_session_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_admission_is_fifo),
        cmocka_unit_test(test_one_token_budget_frees_the_slot_at_once),
        cmocka_unit_test(test_eos_is_withheld),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_refusals_change_nothing),
        cmocka_unit_test(test_executor_failures),
        cmocka_unit_test(test_events_must_be_taken),
        cmocka_unit_test(test_independence),
        cmocka_unit_test(test_one_session_per_model),
    };
    return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
