/* Models that see, on backend xla with a real plugin: the goldens' 64 tokens for every case of fixtures/vision/gemma3_shapes, held-out
 * pictures, one and two, and text, alone and in a mixed batch of eight; under the exact contracts with the bits of the native executor, and
 * under float with projected rows and logits as near as f32 should be. */
#include "../session/vision_fixture.h"

#include <stdlib.h>

enum { SLOTS = 8 };

static vision_fixture fixture;

static void check_tokens(const vision_stream *s) {
    assert_int_equal(s->finish, LS_FINISH_LENGTH);
    for (size_t i = 0; i < VISION_NEW; i++)
        if (s->out[i] != s->of->greedy[i]) fail_msg("%s: token %zu is %d, transformers chose %d", s->of->name, i, (int)s->out[i], (int)s->of->greedy[i]);
}

/* |n| requests, case after case, in the model's slots. */
static void serve(ls_model *m, vision_stream *s, int n) {
    ls_error e = {0};
    ls_session *session;
    assert_ok(ls_session_create(&session, m, &e));
    for (int i = 0; i < n; i++) {
        const vision_case *c = &fixture.cases[i % fixture.n_cases];
        s[i] = (vision_stream){.of = c, .prepared = vision_prepare(&fixture, c, m)};
        vision_submit(session, &s[i]);
        ls_prepared_destroy(s[i].prepared);
    }
    vision_run(session, s, n);
    for (int i = 0; i < n; i++) check_tokens(&s[i]);
    ls_session_destroy(session);
}

/* One request at a time, and eight in a ragged batch. */
static void exact_bits(const char *contract) {
    vision_stream want[VISION_CASES], got[SLOTS];
    ls_model *m = vision_model(&fixture, "native", contract, 1, 64);
    serve(m, want, fixture.n_cases);
    ls_model_destroy(m);
    for (int slots = 1; slots <= SLOTS; slots += SLOTS - 1) {
        m = vision_model(&fixture, "xla", contract, slots, 64);
        serve(m, got, SLOTS);
        ls_model_destroy(m);
        for (int i = 0; i < SLOTS; i++)
            if (strcmp(got[i].sha, want[i % fixture.n_cases].sha))
                fail_msg("%s, %s, %d slots: logits differ from native's", contract, got[i].of->name, slots);
    }
}

static void exact16(void **state) {
    (void)state;
    exact_bits("exact16");
}

static void exact24(void **state) {
    (void)state;
    exact_bits("exact24");
}

static void float_f32(void **state) {
    (void)state;
    vision_stream got[VISION_CASES];
    ls_model *m = vision_model(&fixture, "xla", "float", 1, 64);
    serve(m, got, fixture.n_cases);
    for (int i = 0; i < fixture.n_cases; i++) vision_check_numbers(&fixture, &fixture.cases[i], m, 1e-4, 0.002);
    ls_model_destroy(m);
    m = vision_model(&fixture, "xla", "float", SLOTS, 64);
    serve(m, got, SLOTS);
    ls_model_destroy(m);
}

static int open_all(void **state) {
    (void)state;
    setenv("LOCKSTEP_PJRT_PLUGIN", LS_PLUGINS "/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so", 1);
    vision_open(&fixture, LS_FIXTURES "/vision/gemma3_shapes");
    return 0;
}

static int close_all(void **state) {
    (void)state;
    vision_close(&fixture);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(exact16), cmocka_unit_test(exact24), cmocka_unit_test(float_f32)};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, open_all, close_all);
}
