/* Prompts with pictures against Gemma3Processor; typed placeholders, capacity, counts that do not fit. */
#include "media_fixtures.h"

#include "media/expand.h"

static const char *const kinds[] = {"boi", "image", "eoi"};

/* The tokenizer that the goldens were made with: Gemma's, small, and the three image tokens. */
static ls_tokenizer *open_tokenizer(const json_t *golden, bool special) {
    ls_error e = {0};
    ls_tokenizer *t = NULL;
    json_t *root = NULL;
    assert_ok(ls_json_load(&root, LS_FIXTURES "/text/tokenizer/gemma.json", 16 << 20, &e));
    for (size_t i = 0; i < 3; i++) {
        const json_t *token = json_object_get(json_object_get(golden, "tokens"), kinds[i]);
        json_t *added = json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", int_of(token, "id"), "content", text_of(token, "text"), "single_word", 0,
                                  "lstrip", 0, "rstrip", 0, "normalized", 0, "special", special ? 1 : 0);
        assert_int_equal(json_array_append_new(json_object_get(root, "added_tokens"), added), 0);
    }
    json_t *config = json_pack("{s:s, s:s}", "bos_token", "<s>", "eos_token", "</s>");
    assert_ok(ls_tokenizer_open_json(&t, root, config, &e));
    json_decref(config);
    json_decref(root);
    return t;
}

static ls_image_tokens tokens_of(const json_t *golden, int32_t count) {
    const json_t *o = json_object_get(golden, "tokens");
    int32_t id[3];
    for (size_t i = 0; i < 3; i++) id[i] = (int32_t)int_of(json_object_get(o, kinds[i]), "id");
    return (ls_image_tokens){id[0], id[1], id[2], count};
}

static void compare(const ls_image_prompt *p, const json_t *row, const char *text) {
    const json_t *ids = json_object_get(row, "ids"), *types = json_object_get(row, "types");
    size_t block = 0;
    if (p->ids.n != json_array_size(ids)) fail_msg("\"%s\": %zu ids, want %zu", text, p->ids.n, json_array_size(ids));
    for (size_t i = 0; i < p->ids.n; i++) {
        if (p->ids.ids[i] != json_integer_value(json_array_get(ids, i))) fail_msg("\"%s\": id %zu is %d", text, i, p->ids.ids[i]);
        while (block < p->n_blocks && p->blocks[block].end <= i) block++;
        bool inside = block < p->n_blocks && p->blocks[block].begin <= i;
        if (inside != (json_integer_value(json_array_get(types, i)) == 1)) fail_msg("\"%s\": row %zu is %s", text, i, inside ? "image" : "text");
    }
}

static void test_ids_equal_transformers(void **state) {
    (void)state;
    json_t *root = media_json("prompts.json"), *row;
    ls_tokenizer *t = open_tokenizer(root, true);
    size_t i;
    json_array_foreach(json_object_get(root, "prompts"), i, row) {
        ls_error e = {0};
        const char *text = text_of(row, "text");
        ls_byte_range all = {0, strlen(text)};
        ls_prompt_text in = {.text = text, .len = all.end, .parse = &all, .n_parse = 1, .add_special = true};
        ls_image_tokens k = tokens_of(root, (int32_t)int_of(row, "count"));
        int32_t crops[8];
        size_t n = json_array_size(json_object_get(row, "crops")), blocks = n;
        for (size_t j = 0; j < n; j++) blocks += (size_t)(crops[j] = item(row, "crops", j));
        ls_image_prompt p;
        assert_ok(ls_image_prompt_expand(&p, t, &k, &in, crops, n, 4096, &e));
        compare(&p, row, text);
        assert_int_equal(p.n_blocks, blocks);
        ls_image_prompt_deinit(&p);
        size_t most = json_array_size(json_object_get(row, "ids"));
        assert_error(ls_image_prompt_expand(&p, t, &k, &in, crops, n, most - 1, &e), LS_RESOURCE_EXHAUSTED, "context");
        assert_null(p.ids.ids);
    }
    assert_true(i > 80);
    ls_tokenizer_close(t);
    json_decref(root);
}

/* Expands |text|, of which |parse| may spell control tokens. */
static ls_code expand(ls_image_prompt *p, const char *text, ls_byte_range parse, size_t n_images, size_t capacity, bool special, ls_error *e) {
    json_t *root = media_json("prompts.json");
    ls_tokenizer *t = open_tokenizer(root, special);
    ls_image_tokens k = tokens_of(root, 2);
    ls_prompt_text in = {.text = text, .len = strlen(text), .parse = &parse, .n_parse = parse.end > parse.begin, .add_special = true};
    ls_code rc = ls_image_prompt_expand(p, t, &k, &in, NULL, n_images, capacity, e);
    ls_tokenizer_close(t);
    json_decref(root);
    return rc;
}

/* A prompt without placeholders equals one that begins with them, behind BOS where BOS is spelled. */
static void test_bare_prompts(void **state) {
    (void)state;
    ls_error e = {0};
    ls_image_prompt bare, spelled;
    static const struct {
        const char *bare, *spelled;
        size_t bare_parse, spelled_parse;
    } cases[] = {{"What?", "<start_of_image><start_of_image>What?", 0, 32},
                 {"\nWhat?", "<start_of_image><start_of_image>\nWhat?", 0, 32},
                 {"", "<start_of_image><start_of_image>", 0, 32},
                 {"<s>What?", "<s><start_of_image><start_of_image>What?", 3, 35},
                 {"<s>What?", "<start_of_image><start_of_image><s>What?", 0, 32}}; /* a typed <s> is text */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(expand(&bare, cases[i].bare, (ls_byte_range){0, cases[i].bare_parse}, 2, 100, true, &e));
        assert_ok(expand(&spelled, cases[i].spelled, (ls_byte_range){0, cases[i].spelled_parse}, 2, 100, true, &e));
        assert_int_equal(bare.ids.n, spelled.ids.n);
        assert_memory_equal(bare.ids.ids, spelled.ids.ids, bare.ids.n * sizeof(int32_t));
        assert_int_equal(bare.n_blocks, 2);
        assert_int_equal(bare.ids.ids[0], 1);
        ls_image_prompt_deinit(&bare);
        ls_image_prompt_deinit(&spelled);
    }
}

/* What a user typed never becomes an image, nor do its tokens. */
static void test_typed_placeholders(void **state) {
    (void)state;
    ls_error e = {0};
    ls_image_prompt p;
    const char *text = "<start_of_image>Is <start_of_image><image_soft_token><end_of_image> text?";
    assert_ok(expand(&p, text, (ls_byte_range){0, 16}, 1, 100, true, &e));
    assert_int_equal(p.n_blocks, 1);
    size_t soft = 0, boi = 0;
    for (size_t i = 0; i < p.ids.n; i++) {
        soft += p.ids.ids[i] == p.ids.ids[p.blocks[0].begin];
        boi += p.ids.ids[i] == p.ids.ids[p.blocks[0].begin - 1];
    }
    assert_int_equal(soft, 2);
    assert_int_equal(boi, 1);
    ls_image_prompt_deinit(&p);
    assert_ok(expand(&p, text, (ls_byte_range){0, 0}, 0, 100, true, &e));
    assert_int_equal(p.n_blocks, 0);
    ls_image_prompt_deinit(&p);
    assert_error(expand(&p, text, (ls_byte_range){0, strlen(text)}, 1, 100, true, &e), LS_INVALID_ARGUMENT, "2 image placeholders");
}

static void test_refusals(void **state) {
    (void)state;
    ls_error e = {0};
    ls_image_prompt p;
    ls_byte_range all = {0, 17};
    assert_error(expand(&p, "<start_of_image>a", all, 2, 100, true, &e), LS_INVALID_ARGUMENT, "1 image placeholders (<start_of_image>) and the request 2");
    assert_error(expand(&p, "<start_of_image>a", all, 0, 100, true, &e), LS_INVALID_ARGUMENT, "0 images");
    assert_error(expand(&p, "<start_of_image>a", all, 1, 3, true, &e), LS_RESOURCE_EXHAUSTED, "do not fit the context of 3");
    assert_error(expand(&p, "<start_of_image>a", all, 1, 5, true, &e), LS_RESOURCE_EXHAUSTED, "the context holds 5: shorten");
    assert_error(expand(&p, "a<image_soft_token>", (ls_byte_range){0, 19}, 1, 100, true, &e), LS_INVALID_ARGUMENT, "<image_soft_token> at byte 1");
    assert_error(expand(&p, "<start_of_image>a", all, 1, 100, false, &e), LS_FAILED_PRECONDITION, "no special token");
    assert_error(expand(&p, "a", (ls_byte_range){0, 0}, (size_t)1 << 60, (size_t)1 << 61, true, &e), LS_RESOURCE_EXHAUSTED, "do not fit");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ids_equal_transformers), cmocka_unit_test(test_bare_prompts),
                                       cmocka_unit_test(test_typed_placeholders), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
