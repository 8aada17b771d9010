/* verify on prompts with pictures: equality of native and reference through processor, tower and text model; each planted fault is named at
 * its node, whole and by bisection; faults that do not apply. */
#include "verify/verify_image.h"

#include "test.h"

#define MODEL LS_FIXTURES "/vision/gemma3_random"
#define TEXT "language_model.model."

static const ls_picture pictures[2] = {{.path = MODEL "/two_0.png"}, {.path = MODEL "/two_1.png"}};
static const char one[] = "[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}, {\"type\": \"text\", \"text\": \"What is it?\"}]}]";
static const char two[] = "[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}, {\"type\": \"image\"}, {\"type\": \"text\", \"text\": \"What is it?\"}]}]";

/* The names of the stages before the comparisons. */
static void note(void *user, const ls_verify_stage *s) {
    ls_str *told = user;
    ls_error e = {0};
    if (!strcmp(s->name, "preparing")) assert_ok(ls_str_printf(told, &e, "%s;", s->detail));
}

static ls_model *open_model(const char *contract) {
    ls_error e = {0};
    ls_model *m;
    ls_model_options o = {.struct_size = sizeof o, .parts = LS_LOAD_GRAPH, .contract = contract, .context = 128};
    assert_ok(ls_model_open(&m, MODEL, &o, &e));
    return m;
}

static ls_code run(ls_verify_image_report *r, ls_model *m, size_t n, const char *negative, bool bisect, int chunk, ls_error *e) {
    const char *text = n == 1 ? one : two;
    ls_prepare_options p = {.struct_size = sizeof p, .text = text, .len = strlen(text), .chat = true, .pictures = pictures, .n_pictures = n};
    ls_verify_options o = {.threads = 1, .negative = negative, .bisect = bisect, .chunk = chunk, .decode = 2};
    assert_int_equal(ls_side_parse(&o.left, "native", e), LS_OK);
    assert_int_equal(ls_side_parse(&o.right, "reference", e), LS_OK);
    return ls_verify_image_run(r, m, &o, &p, e);
}

static void equal(void **state) {
    (void)state;
    static const char *const contracts[] = {"exact16", "exact24"};
    static const int chunks[] = {3, 20, 64}; /* no chunk splits an image of 16 rows */
    ls_error e = {0};
    for (int c = 0; c < 2; c++) {
        ls_model *m = open_model(contracts[c]);
        for (int k = 0; k < 3; k++) {
            ls_verify_image_report r;
            ls_str s = {0};
            assert_ok(run(&r, m, 2, NULL, false, chunks[k], &e));
            assert_true(ls_verify_image_equal(&r) && r.has_vision && r.has_text);
            assert_int_equal(r.n_images, 2);
            assert_int_equal(r.vision.n_images, 2);
            assert_int_equal(ls_verify_total(&r.vision).compared, r.vision.graph->n_nodes);
            assert_int_equal(ls_verify_total(&r.text).compared, r.text.graph->n_nodes);
            assert_ok(ls_verify_image_text(&r, &s, &e));
            assert_non_null(strstr(s.data, "processor.pixel_values: 2 images"));
            ls_str_deinit(&s);
            json_t *j = ls_verify_image_json(&r, m, MODEL);
            assert_true(json_is_true(json_object_get(j, "equal")) && json_is_object(json_object_get(j, "text")));
            json_decref(j);
            ls_verify_image_report_deinit(&r);
        }
        ls_model_destroy(m);
    }
}

static void faults_are_named(void **state) {
    (void)state;
    static const struct {
        const char *fault, *node;
        bool text;
    } faults[] = {{"causal-mask", TEXT "layers.0.self_attn.attention", true},
                  {"mask-multiplied", TEXT "layers.0.self_attn.attention", true},
                  {"embedding-scaled-twice", TEXT "embed_tokens", true},
                  {"image-prescale-missing", TEXT "embed_tokens", true},
                  {"swapped-images", TEXT "embed_tokens", true},
                  {"post-layernorm-missing", "vision_tower.vision_model.post_layernorm", false},
                  {"node:" TEXT "layers.2.mlp.down_proj", TEXT "layers.2.mlp.down_proj", true},
                  {"node:vision_tower.vision_model.encoder.layers.1.mlp.fc1", "vision_tower.vision_model.encoder.layers.1.mlp.fc1", false}};
    ls_error e = {0};
    ls_model *m = open_model("exact16");
    for (size_t i = 0; i < 2 * (sizeof faults / sizeof *faults); i++) {
        ls_verify_image_report r;
        assert_ok(run(&r, m, 2, faults[i / 2].fault, i % 2, 64, &e));
        const ls_verify_report *of = faults[i / 2].text ? &r.text : &r.vision;
        if (of->first < 0) fail_msg("%s was not seen", faults[i / 2].fault);
        if (strcmp(of->graph->nodes[of->first].name, faults[i / 2].node))
            fail_msg("%s: named at %s", faults[i / 2].fault, of->graph->nodes[of->first].name);
        assert_int_equal(r.has_text, faults[i / 2].text); /* a tower that diverges ends the comparison */
        ls_verify_image_report_deinit(&r);
    }
    ls_model_destroy(m);
}

static void preparing_is_told(void **state) {
    (void)state;
    ls_error e = {0};
    ls_str told = {0};
    ls_verify_image_report r;
    ls_model *m = open_model("exact16");
    ls_prepare_options p = {.struct_size = sizeof p, .text = one, .len = strlen(one), .chat = true, .pictures = pictures, .n_pictures = 1};
    ls_verify_options o = {.threads = 1, .stage = note, .stage_user = &told};
    assert_ok(ls_side_parse(&o.left, "native", &e));
    assert_ok(ls_side_parse(&o.right, "native", &e));
    assert_ok(ls_verify_image_run(&r, m, &o, &p, &e));
    assert_string_equal(told.data, "pixel values;image rows;");
    ls_verify_image_report_deinit(&r);
    ls_str_deinit(&told);
    ls_model_destroy(m);
}

static void refusals(void **state) {
    (void)state;
    ls_error e = {0};
    ls_verify_image_report r;
    ls_model *m = open_model("exact16");
    assert_error(run(&r, m, 1, "swapped-images", false, 64, &e), LS_FAILED_PRECONDITION, "fewer than two images");
    assert_error(run(&r, m, 1, "no-such-fault", false, 64, &e), LS_NOT_FOUND, "there is no fault");
    ls_model_destroy(m);
    ls_model_options o = {.struct_size = sizeof o, .parts = LS_LOAD_GRAPH};
    assert_ok(ls_model_open(&m, LS_FIXTURES "/models/gemma3", &o, &e));
    assert_error(run(&r, m, 1, NULL, false, 64, &e), LS_UNIMPLEMENTED, "image input is refused");
    ls_model_destroy(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal), cmocka_unit_test(faults_are_named), cmocka_unit_test(preparing_is_told),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
