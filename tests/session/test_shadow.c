/* Shadow mode: with the reference computing every pass of the native executor again, every fixture under every exact contract gives the tokens and
 * logits that it gives without, each kernel call at a level of its own, and a mistake in one node is found in the pass that makes it. */
#include "test.h"

#include "fixture_models.h"
#include "session/session.h"
#include "session/shadow.h"
#include "stream.h"

enum { SLOTS = 2, CHUNK = 7, PROMPT = 23, OUT = 8 };

static ls_model *open_model(const char *name, const char *contract, bool shadow) {
    char path[512];
    ls_model *m;
    ls_error e = {0};
    snprintf(path, sizeof path, LS_FIXTURES "/models/%s", name);
    ls_model_options o = {.struct_size = sizeof o, .contract = contract, .context = 64, .slots = SLOTS, .chunk = CHUNK, .threads = 2, .shadow = shadow,
                          .level = shadow ? "random" : NULL};
    assert_ok(ls_model_open(&m, path, &o, &e));
    return m;
}

/* Two requests, one drawn and one greedy, of different lengths. */
static void answers(const char *name, const char *contract, bool shadow, stream out[SLOTS]) {
    ls_error e = {0};
    ls_session *s;
    ls_model *m = open_model(name, contract, shadow);
    assert_ok(ls_session_create(&s, m, &e));
    for (int i = 0; i < SLOTS; i++) {
        out[i] = (stream){.max_new = OUT - 2 * i, .ignore_eos = true, .sampling = {.struct_size = sizeof(ls_sampling), .temperature = i ? 0 : 0.8, .seed = 5}};
        stream_append(&out[i], (uint32_t)i, (size_t)(PROMPT - 4 * i), ls_model_vocab(m));
        stream_submit(s, &out[i]);
    }
    stream_run(s, out, SLOTS);
    ls_session_destroy(s);
    ls_model_destroy(m);
}

static void every_fixture_says_the_same(void **state) {
    static const char *const contracts[] = {"exact16", "exact24", "exact16-kv8"};
    char names[FIXTURE_MAX][128];
    int n = fixture_names(names);
    (void)state;
    assert_true(n > 0);
    for (int i = 0; i < n; i++)
        for (int c = 0; c < 3; c++) {
            stream plain[SLOTS], shadowed[SLOTS];
            answers(names[i], contracts[c], false, plain);
            answers(names[i], contracts[c], true, shadowed);
            for (int k = 0; k < SLOTS; k++) stream_same(names[i], &plain[k], &shadowed[k]);
        }
}

/* The reference runs a graph in which one norm has another epsilon: the pass fails, names the node and changes nothing. */
static void a_difference_is_found(void **state) {
    ls_error e = {0};
    ls_checkpoint *c;
    ls_graph *right, *wrong;
    ls_executor *x;
    ls_build_options build = {.contract = LS_CONTRACT_EXACT16, .context = 128};
    const ls_executor_options o = {.max_seqs = 1, .context = 128, .max_rows = 16, .threads = 2};
    int32_t token[16], slot[16] = {0};
    (void)state;
    for (int i = 0; i < 16; i++) token[i] = i + 3;
    assert_ok(ls_checkpoint_open(&c, LS_FIXTURES "/models/llama", &e));
    assert_ok(ls_model_build(&right, c, &build, &e));
    assert_ok(ls_model_build(&wrong, c, &build, &e));
    size_t fault = 0;
    while (wrong->nodes[fault].op != LS_OP_RMS_NORM || !strstr(wrong->nodes[fault].name, "layers.1.post")) fault++;
    wrong->nodes[fault].eps *= 2;
    const ls_batch b = {.n_rows = 16, .token = token, .slot = slot};
    for (int k = 0; k < 2; k++) {
        assert_ok(ls_shadow_create(&x, right, k ? wrong : right, c, &o, &e));
        for (int i = 0; i < 2; i++) {
            if (k) assert_error(x->forward(x, &b, NULL, &e), LS_INTERNAL, wrong->nodes[fault].name);
            else assert_ok(x->forward(x, &b, NULL, &e));
        }
        assert_int_equal(x->length(x, 0), k ? 0 : 32);
        x->destroy(x);
    }
    ls_graph_destroy(right);
    ls_graph_destroy(wrong);
    ls_checkpoint_close(c);
}

static void other_backends_have_none(void **state) {
    ls_error e = {0};
    ls_model *m;
    (void)state;
    ls_model_options o = {.struct_size = sizeof o, .backend = "reference", .shadow = true};
    assert_error(ls_model_open(&m, LS_FIXTURES "/models/llama", &o, &e), LS_INVALID_ARGUMENT, "shadow is for backend native");
    o.backend = "xla";
    assert_error(ls_model_open(&m, LS_FIXTURES "/models/llama", &o, &e), LS_INVALID_ARGUMENT, "shadow is for backend native");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_fixture_says_the_same), cmocka_unit_test(a_difference_is_found),
                                       cmocka_unit_test(other_backends_have_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
