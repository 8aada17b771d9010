/* The sampler against goldens computed from docs/sampling.md by tools/make_session_goldens.py, and its stated limits. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "session/sampler.h"

enum { MAX_VOCAB = 512 };

static json_t *golden(void) {
    ls_error e = {0};
    json_t *root = NULL;
    assert_ok(ls_json_load(&root, LS_FIXTURES "/session/sampler.json", 1 << 20, &e));
    return root;
}

static double number(const json_t *c, const char *key) { return json_number_value(json_object_get(c, key)); }

static size_t integers(const json_t *array, int32_t *out, size_t max) {
    size_t n = json_array_size(array);
    assert_true(n <= max);
    for (size_t i = 0; i < n; i++) out[i] = (int32_t)json_integer_value(json_array_get(array, i));
    return n;
}

static size_t load_row(const json_t *root, const json_t *c, float *logits) {
    const json_t *row = json_object_get(json_object_get(root, "rows"), json_string_value(json_object_get(c, "row")));
    size_t n = json_array_size(row);
    assert_in_range(n, 1, MAX_VOCAB);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)json_integer_value(json_array_get(row, i));
        memcpy(logits + i, &bits, sizeof bits);
    }
    return n;
}

static ls_sampling load_options(const json_t *c, int32_t *breakers) {
    return (ls_sampling){.struct_size = sizeof(ls_sampling), .seed = (uint64_t)json_integer_value(json_object_get(c, "seed")),
                         .temperature = number(c, "temperature"), .top_k = (int)number(c, "top_k"), .top_p = number(c, "top_p"),
                         .min_p = number(c, "min_p"), .repetition_penalty = number(c, "repetition_penalty"),
                         .frequency_penalty = number(c, "frequency_penalty"), .presence_penalty = number(c, "presence_penalty"),
                         .penalty_window = (int)number(c, "penalty_window"), .dry_multiplier = number(c, "dry_multiplier"),
                         .dry_base = number(c, "dry_base"), .dry_allowed_length = (int)number(c, "dry_allowed_length"),
                         .dry_window = (int)number(c, "dry_window"), .dry_breakers = breakers,
                         .n_dry_breakers = integers(json_object_get(c, "dry_breakers"), breakers, LS_MAX_BREAKERS)};
}

static void check_case(const json_t *root, const json_t *c, size_t index) {
    ls_error e = {0};
    float logits[MAX_VOCAB];
    int32_t history[64], want[8], breakers[LS_MAX_BREAKERS];
    ls_sampler s;
    ls_sampler_params p;
    size_t vocab = load_row(root, c, logits), n = integers(json_object_get(c, "history"), history, 50);
    ls_sampling options = load_options(c, breakers);
    assert_ok(ls_sampler_init(&s, vocab, &e));
    assert_ok(ls_sampler_prepare(&p, &options, &e));
    assert_ok(ls_sampler_reserve(&s, &p, &e));
    bool penalized = ls_sampler_has_penalty(&p), drawn = p.temperature_q != 0;
    assert_true(!s.value == !(penalized || drawn) && !s.key == !drawn && !s.dry == !penalized && !s.count == !penalized);
    size_t steps = integers(json_object_get(c, "tokens"), want, 8);
    for (size_t i = 0; i < steps; i++) {
        int32_t got = ls_sampler_next(&s, &p, logits, history, n);
        if (got != want[i]) fail_msg("case %zu, step %zu: got %d, want %d", index, i, (int)got, (int)want[i]);
        history[n++] = got;
    }
    for (size_t i = 0; i < vocab && penalized; i++) assert_true(!s.count[i] && !s.dry[i]);
    ls_sampler_deinit(&s);
}

static void test_cases(void **state) {
    (void)state;
    json_t *root = golden(), *cases = json_object_get(root, "cases");
    assert_true(json_array_size(cases) > 300);
    for (size_t i = 0; i < json_array_size(cases); i++) check_case(root, json_array_get(cases, i), i);
    json_decref(root);
}

/* The first of the largest logits that are numbers, 0 without one: docs/sampling.md. */
static int32_t greedy(const float *logits, size_t vocab) {
    int32_t best = -1;
    for (size_t i = 0; i < vocab; i++)
        if (!isnan(logits[i]) && (best < 0 || logits[i] > logits[best])) best = (int32_t)i;
    return best < 0 ? 0 : best;
}

/* Vocabularies of every length, of few values so that many are equal, both zeros, infinities and NaN, these in a run at the beginning too. */
static void test_greedy(void **state) {
    (void)state;
    enum { MOST = 300, ROUNDS = 60 };
    static const float special[] = {NAN, -0.0f, 0.0f, -INFINITY, INFINITY, -1, 1, 2};
    float logits[MOST];
    ls_sampler_params p;
    uint32_t seed = 7;
    ls_error e = {0};
    assert_ok(ls_sampler_prepare(&p, NULL, &e));
    for (size_t vocab = 1; vocab <= MOST; vocab++)
        for (size_t round = 0; round < ROUNDS; round++) {
            ls_sampler s;
            assert_ok(ls_sampler_init(&s, vocab, &e));
            const size_t kinds = round % 3 ? 8 : 4, without = round % 5 ? 0 : (round * vocab) / ROUNDS; /* every fifth begins with NaN */
            for (size_t i = 0; i < vocab; i++) {
                seed = seed * 1664525 + 1013904223;
                float value = seed >> 20 & 1 && round % 2 ? (float)(seed >> 24) : special[(seed >> 27) % kinds];
                logits[i] = i < without ? NAN : value;
            }
            assert_int_equal(ls_sampler_next(&s, &p, logits, NULL, 0), greedy(logits, vocab));
            ls_sampler_deinit(&s);
        }
}

static void test_pieces(void **state) {
    (void)state;
    json_t *root = golden(), *v;
    size_t i;
    json_array_foreach(json_object_get(root, "exp2"), i, v)
        assert_int_equal(ls_sample_exp2_neg((uint32_t)json_integer_value(json_array_get(v, 0))), json_integer_value(json_array_get(v, 1)));
    json_array_foreach(json_object_get(root, "fixed"), i, v) {
        uint32_t bits = (uint32_t)json_integer_value(json_array_get(v, 0));
        float x;
        memcpy(&x, &bits, sizeof x);
        assert_int_equal(ls_sample_fixed(x), json_integer_value(json_array_get(v, 1)));
    }
    json_array_foreach(json_object_get(root, "random"), i, v) {
        uint64_t seed = strtoull(json_string_value(json_array_get(v, 0)), NULL, 10);
        uint64_t want = strtoull(json_string_value(json_array_get(v, 2)), NULL, 10);
        assert_true(ls_sample_random(seed, (uint64_t)json_integer_value(json_array_get(v, 1))) == want);
    }
    json_decref(root);
}

/* Frequencies of 20000 draws against the exact probabilities 8/15, 4/15, 2/15, 1/15 (logits ln 8 .. ln 1). */
static void test_distribution(void **state) {
    (void)state;
    static const float logits[] = {0, 2.0794415f, 0.6931472f, 1.3862944f};
    static const double want[] = {1.0 / 15, 8.0 / 15, 2.0 / 15, 4.0 / 15};
    enum { DRAWS = 20000 };
    ls_error e = {0};
    ls_sampler s;
    ls_sampler_params p;
    ls_sampling options = {.struct_size = sizeof options, .temperature = 1, .seed = 42};
    int32_t history[1] = {0};
    int hits[4] = {0};
    assert_ok(ls_sampler_init(&s, 4, &e));
    assert_ok(ls_sampler_prepare(&p, &options, &e));
    assert_ok(ls_sampler_reserve(&s, &p, &e));
    for (uint64_t i = 0; i < DRAWS; i++) {
        p.seed = i;
        hits[ls_sampler_next(&s, &p, logits, history, 1)]++;
    }
    for (int i = 0; i < 4; i++) {
        double deviation = hits[i] / (double)DRAWS - want[i];
        assert_true(deviation < 0.015 && deviation > -0.015); /* more than four standard deviations */
    }
    ls_sampler_deinit(&s);
}

static void test_option_ranges(void **state) {
    (void)state;
    ls_error e = {0};
    ls_sampler_params p;
    ls_sampling s = {.struct_size = sizeof s, .top_p = 1.5};
    assert_error(ls_sampler_prepare(&p, &s, &e), LS_INVALID_ARGUMENT, "top-p is 1.5; allowed are 0 to 1");
    s = (ls_sampling){.struct_size = sizeof s, .temperature = 0.0 / (s.top_p - 1.5)};
    assert_error(ls_sampler_prepare(&p, &s, &e), LS_INVALID_ARGUMENT, "temperature");
    s = (ls_sampling){.struct_size = sizeof s, .top_k = -1};
    assert_error(ls_sampler_prepare(&p, &s, &e), LS_INVALID_ARGUMENT, "top-k is -1");
    s = (ls_sampling){.struct_size = sizeof s, .repetition_penalty = 0.001};
    assert_error(ls_sampler_prepare(&p, &s, &e), LS_INVALID_ARGUMENT, "repetition penalty");
    s = (ls_sampling){.struct_size = sizeof s, .n_dry_breakers = LS_MAX_BREAKERS + 1};
    assert_error(ls_sampler_prepare(&p, &s, &e), LS_INVALID_ARGUMENT, "DRY breakers");
    s = (ls_sampling){.struct_size = sizeof(size_t) + sizeof(uint64_t), .seed = 9, .temperature = -5}; /* an older, shorter struct */
    assert_ok(ls_sampler_prepare(&p, &s, &e));
    assert_int_equal(p.temperature_q, 0);
    assert_int_equal(p.seed, 9);
    ls_sampler sampler;
    assert_error(ls_sampler_init(&sampler, (size_t)1 << LS_SAMPLE_ID_BITS, &e), LS_INVALID_ARGUMENT, "vocabulary of");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_greedy), cmocka_unit_test(test_pieces),
                                       cmocka_unit_test(test_distribution), cmocka_unit_test(test_option_ranges)};
    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
