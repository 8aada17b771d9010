/* A whole Gemma 3 folder: picture files to pixel values, chat prompts to ids, against transformers' own for that checkpoint. */
#include "media_fixtures.h"

#include "media/expand.h"
#include "media/processor.h"
#include "weights/weights.h"

#define FOLDER LS_FIXTURES "/vision/gemma3_random"

typedef struct fixture {
    json_t *golden, *config;
    ls_checkpoint *tensors;
    ls_tokenizer *tokenizer;
    ls_image_processor processor;
} fixture;

static int set_up(void **state) {
    static fixture f;
    ls_error e = {0};
    assert_ok(ls_json_load(&f.golden, FOLDER "/golden.json", 1 << 20, &e));
    assert_ok(ls_json_load(&f.config, FOLDER "/config.json", 1 << 20, &e));
    assert_ok(ls_checkpoint_open(&f.tensors, FOLDER "/golden.safetensors", &e));
    assert_ok(ls_tokenizer_open_folder(&f.tokenizer, FOLDER, &e));
    assert_ok(ls_image_processor_load(&f.processor, FOLDER, &e));
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    json_decref(f->golden);
    json_decref(f->config);
    ls_checkpoint_close(f->tensors);
    ls_tokenizer_close(f->tokenizer);
    return 0;
}

static const ls_tensor *tensor(fixture *f, const json_t *row, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "%s.%s", text_of(row, "name"), name);
    return ls_checkpoint_find(f->tensors, full);
}

static void test_pixel_values(void **state) {
    fixture *f = *state;
    json_t *row, *file;
    size_t i, j;
    json_array_foreach(json_object_get(f->golden, "cases"), i, row) {
        size_t n = 3 * (size_t)f->processor.width * (size_t)f->processor.height;
        json_array_foreach(json_object_get(row, "images"), j, file) {
            char path[1024];
            ls_error e = {0};
            ls_image image;
            ls_pixel_values v;
            snprintf(path, sizeof path, "%s/%s", FOLDER, json_string_value(file));
            assert_ok(ls_image_open(&image, path, NULL, &e));
            assert_ok(ls_image_process(&f->processor, &image, &v, &e));
            assert_int_equal(v.n, 1);
            assert_memory_equal(v.values, (const float *)tensor(f, row, "pixel_values")->data + j * n, n * sizeof(float));
            ls_pixel_values_deinit(&v);
            ls_image_deinit(&image);
        }
    }
}

static void test_ids(void **state) {
    fixture *f = *state;
    json_t *row;
    size_t i;
    ls_image_tokens k = {(int32_t)int_of(f->config, "boi_token_index"), (int32_t)int_of(f->config, "image_token_index"),
                         (int32_t)int_of(f->config, "eoi_token_index"), f->processor.tokens};
    json_array_foreach(json_object_get(f->golden, "cases"), i, row) {
        ls_error e = {0};
        const char *text = text_of(row, "prompt");
        ls_byte_range all = {0, strlen(text)};
        ls_image_prompt p;
        const ls_tensor *ids = tensor(f, row, "input_ids"), *types = tensor(f, row, "token_type_ids");
        const ls_prompt_text in = {.text = text, .len = all.end, .parse = &all, .n_parse = 1, .add_special = true};
        assert_ok(ls_image_prompt_expand(&p, f->tokenizer, &k, &in, NULL,
                                         json_array_size(json_object_get(row, "images")), 4096, &e));
        assert_int_equal(p.ids.n, ids->shape[0]);
        assert_memory_equal(p.ids.ids, ids->data, p.ids.n * sizeof(int32_t));
        for (size_t t = 0, b = 0; t < p.ids.n; t++) {
            while (b < p.n_blocks && p.blocks[b].end <= t) b++;
            assert_int_equal(b < p.n_blocks && p.blocks[b].begin <= t, ((const int32_t *)types->data)[t]);
        }
        ls_image_prompt_deinit(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pixel_values), cmocka_unit_test(test_ids)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
