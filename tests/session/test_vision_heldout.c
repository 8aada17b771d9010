/* The trained model fixtures/vision/gemma3_shapes on pictures it has not seen: the goldens' tokens alone, in mixed batches of eight with text,
 * with a prefix cache and without, with equal bits; and at least 95 % exact answers to the held-out questions, transformers' word for word, also
 * by its 4-bit variant. */
#include "vision_fixture.h"

#include <stdlib.h>

enum { SLOTS = 8, QUESTIONS = 256, CONTEXT = 256, GOAL_PERCENT = 95 };

static vision_fixture fixture;

/* ---- Goldens ---------------------------------------------------------------------------------------------------------------------- */

/* The bits of whole prompts one at a time, in chunks, in batches and from the prefix cache too. */
static void goldens(const char *contract) {
    static char sha[VISION_CASES][65];
    vision_goldens(&fixture, "native", contract, 512, sha);
    vision_cached_goldens(&fixture, "native", contract, 32, sha);
}

static void exact16_goldens(void **state) {
    (void)state;
    goldens("exact16");
}

static void exact24_goldens(void **state) {
    (void)state;
    goldens("exact24");
}

/* ---- Held-out questions ------------------------------------------------------------------------------------------------------------ */

typedef struct asked {
    vision_case question;
    uint64_t id;
    int32_t out[VISION_NEW];
    size_t n;
} asked;

static json_t *load(const char *folder, const char *name) {
    ls_error e = {0};
    char path[500];
    json_t *j;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(ls_json_load(&j, path, 1 << 24, &e));
    return j;
}

static void submit(ls_model *m, ls_session *s, asked *a, const json_t *j) {
    ls_error e = {0};
    *a = (asked){0};
    vision_read_question(&a->question, j);
    ls_prepared_prefill *p = vision_prepare(&fixture, &a->question, m);
    const ls_request q = {.struct_size = sizeof q, .prepared = p, .max_new = VISION_NEW};
    assert_ok(ls_session_submit(s, &q, &a->id, &e));
    ls_prepared_destroy(p);
    ls_str_deinit(&a->question.messages);
}

static void answer_all(ls_model *m, asked *a, const json_t *questions) {
    ls_error e = {0};
    ls_session *s;
    size_t n = json_array_size(questions);
    assert_ok(ls_session_create(&s, m, &e));
    for (size_t i = 0; i < n; i++) submit(m, s, &a[i], json_array_get(questions, i));
    while (!ls_session_is_idle(s)) {
        assert_ok(ls_session_step(s, &e));
        for (ls_event v; ls_session_next_event(s, &v);)
            if (!v.finish) a[v.id - a[0].id].out[a[v.id - a[0].id].n++] = v.token;
    }
    ls_session_destroy(s);
}

/* What transformers answered: the expected text but where accuracy.json says otherwise. */
static const char *theirs(const json_t *wrong, size_t number, const char *expected) {
    for (size_t i = 0; i < json_array_size(wrong); i++) {
        const json_t *w = json_array_get(wrong, i);
        if ((size_t)json_integer_value(json_object_get(w, "number")) == number) return json_string_value(json_object_get(w, "answer"));
    }
    return expected;
}

static void check_answers(const ls_model *m, const asked *a, const json_t *questions, const json_t *wrong, bool as_transformers) {
    ls_error e = {0};
    size_t right = 0, n = json_array_size(questions);
    for (size_t i = 0; i < n; i++) {
        const char *expected = json_string_value(json_object_get(json_array_get(questions, i), "expected"));
        char *text;
        size_t len;
        assert_ok(ls_model_decode(m, a[i].out, a[i].n, true, &text, &len, &e));
        right += !strcmp(text, expected);
        if (as_transformers) assert_string_equal(text, theirs(wrong, i, expected));
        ls_buffer_free(text);
    }
    if (right * 100 < n * GOAL_PERCENT) fail_msg("%zu of %zu answers are right; the goal is %d %%", right, n, GOAL_PERCENT);
}

/* |folder|: the model and transformers' answers; pictures and questions are the fixture's. */
static void held_out(const char *folder, const char *contract, bool as_transformers) {
    json_t *questions = load(fixture.folder, "heldout.json"), *accuracy = load(folder, "accuracy.json");
    const json_t *wrong = json_object_get(json_object_get(accuracy, "held_out"), "wrong");
    asked *a = calloc(QUESTIONS, sizeof *a);
    const ls_model_options o = {.struct_size = sizeof o, .contract = contract, .slots = SLOTS, .context = CONTEXT, .threads = 2};
    ls_error e = {0};
    ls_model *m;
    assert_ok(ls_model_open(&m, folder, &o, &e));
    assert_in_range(json_array_size(questions), 100, QUESTIONS);
    answer_all(m, a, questions);
    check_answers(m, a, questions, wrong, as_transformers);
    ls_model_destroy(m);
    free(a);
    json_decref(questions);
    json_decref(accuracy);
}

static void exact16_answers(void **state) {
    (void)state;
    held_out(fixture.folder, "exact16", false);
}

static void exact24_answers(void **state) {
    (void)state;
    held_out(fixture.folder, "exact24", true);
}

static void four_bit_answers(void **state) {
    (void)state;
    held_out(LS_FIXTURES "/vision/gemma3_shapes_mlx4", "exact24", true);
}

/* ---- All -------------------------------------------------------------------------------------------------------------------------- */

static int open_all(void **state) {
    (void)state;
    vision_open(&fixture, LS_FIXTURES "/vision/gemma3_shapes");
    return 0;
}

static int close_all(void **state) {
    (void)state;
    vision_close(&fixture);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(exact16_goldens), cmocka_unit_test(exact24_goldens), cmocka_unit_test(exact16_answers),
                                       cmocka_unit_test(exact24_answers), cmocka_unit_test(four_bit_answers)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}
