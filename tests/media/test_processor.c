/* Pixel values of Gemma 3's two processors against transformers, their settings, and identities. */
#include "media_fixtures.h"

#include "base/sha256.h"
#include "media/processor.h"

/* A file, or the pattern of a size. */
static ls_image picture(const json_t *row) {
    char path[1024];
    ls_error e = {0};
    ls_image image;
    if (!text_of(row, "file")) return pattern(item(row, "size", 0), item(row, "size", 1));
    snprintf(path, sizeof path, "%s/media/images/%s", LS_FIXTURES, text_of(row, "file"));
    assert_ok(ls_image_open(&image, path, NULL, &e));
    return image;
}

static void check_image(const ls_image_processor *p, const json_t *row, size_t group) {
    ls_error e = {0};
    ls_image image = picture(row);
    ls_pixel_values v;
    char hex[65];
    assert_ok(ls_image_process(p, &image, &v, &e));
    assert_int_equal(v.n, item(row, "shape", 0));
    assert_int_equal(v.n, 1 + int_of(row, "crops"));
    assert_int_equal(v.height, item(row, "shape", 2));
    assert_int_equal(v.width, item(row, "shape", 3));
    ls_sha256_hex_of(v.values, (size_t)v.n * 3 * (size_t)v.height * (size_t)v.width * sizeof *v.values, hex);
    if (strcmp(hex, text_of(row, "sha256")))
        fail_msg("group %zu, %s %d x %d: other pixel values", group, text_of(row, "file") ? text_of(row, "file") : "", image.width, image.height);
    ls_pixel_values_deinit(&v);
    ls_image_deinit(&image);
}

static void test_pixel_values_equal_transformers(void **state) {
    (void)state;
    json_t *root = media_json("processor.json"), *group, *row;
    size_t i, j, n = 0;
    json_array_foreach(json_object_get(root, "groups"), i, group) {
        ls_error e = {0};
        ls_image_processor p;
        assert_ok(ls_image_processor_from_json(&p, json_object_get(group, "settings"), NULL, &e));
        json_array_foreach(json_object_get(group, "images"), j, row) check_image(&p, row, i);
        n += j;
    }
    assert_true(n > 200);
    json_decref(root);
}

static ls_code load(ls_image_processor *p, const char *text, ls_error *e) {
    json_t *o = NULL;
    LS_TRY(ls_json_parse(&o, text, strlen(text), "settings", e));
    ls_code rc = ls_image_processor_from_json(p, o, NULL, e);
    json_decref(o);
    return rc;
}

static void test_defaults(void **state) {
    (void)state;
    ls_error e = {0};
    ls_image_processor p;
    assert_ok(load(&p, "{}", &e));
    assert_int_equal(p.width, 224);
    assert_int_equal(p.filter, LS_FILTER_BILINEAR);
    assert_int_equal(p.rule, LS_RESIZE_PILLOW);
    assert_int_equal(p.tokens, 256);
    assert_false(p.fast || p.pan_and_scan);
    assert_ok(load(&p, "{\"image_processor_type\": \"Gemma3ImageProcessorFast\", \"size\": 48, \"image_mean\": 0.25}", &e));
    assert_int_equal(p.rule, LS_RESIZE_TORCHVISION);
    assert_int_equal(p.height, 48);
    assert_true(p.fast && p.mean[2] == 0.25);
}

/* null: off for the slow processor, the default for the fast one, as in transformers. */
static void test_null_steps(void **state) {
    (void)state;
    ls_error e = {0};
    ls_image_processor p;
    assert_ok(load(&p, "{\"do_resize\": null, \"do_rescale\": null, \"do_normalize\": null}", &e));
    assert_false(p.resize || p.rescale || p.normalize);
    assert_ok(load(&p, "{\"image_processor_type\": \"Gemma3ImageProcessorFast\", \"do_resize\": null, \"do_rescale\": null, \"do_normalize\": null}", &e));
    assert_true(p.resize && p.rescale && p.normalize);
}

static void test_refused_settings(void **state) {
    (void)state;
    static const struct {
        const char *text;
        ls_code code;
        const char *part;
    } cases[] = {{"{\"image_processor_type\": \"CLIPImageProcessor\"}", LS_UNIMPLEMENTED, "CLIPImageProcessor"},
                 {"{\"size\": {\"shortest_edge\": 224}}", LS_UNIMPLEMENTED, "height"},
                 {"{\"size\": {\"height\": 0, \"width\": 224}}", LS_OUT_OF_RANGE, "height"},
                 {"{\"size\": {\"height\": 100000, \"width\": 224}}", LS_OUT_OF_RANGE, "height"},
                 {"{\"size\": \"large\"}", LS_UNIMPLEMENTED, "size"},
                 {"{\"resample\": 4}", LS_UNIMPLEMENTED, "resample"},
                 {"{\"resample\": 7}", LS_OUT_OF_RANGE, "resample"},
                 {"{\"image_mean\": [0.5, 0.5]}", LS_INVALID_ARGUMENT, "2 numbers"},
                 {"{\"image_mean\": [0.5, 0.5, \"a\"]}", LS_INVALID_ARGUMENT, "image_mean"},
                 {"{\"image_std\": [0.5, 0.0, 0.5]}", LS_INVALID_ARGUMENT, "channel 1"},
                 {"{\"rescale_factor\": 0}", LS_INVALID_ARGUMENT, "rescale_factor"},
                 {"{\"do_resize\": 3}", LS_INVALID_ARGUMENT, "do_resize"},
                 {"{\"pan_and_scan_max_num_crops\": 65}", LS_OUT_OF_RANGE, "pan_and_scan_max_num_crops"},
                 {"{\"pan_and_scan_min_crop_size\": 0}", LS_OUT_OF_RANGE, "pan_and_scan_min_crop_size"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_error e = {0};
        ls_image_processor p;
        assert_error(load(&p, cases[i].text, &e), cases[i].code, cases[i].part);
    }
}

static void test_refused_pictures(void **state) {
    (void)state;
    ls_error e = {0};
    ls_image_processor p;
    ls_pixel_values v;
    ls_image image = pattern(5, 2);
    assert_ok(load(&p, "{\"do_resize\": false, \"size\": 5}", &e));
    assert_error(ls_image_process(&p, &image, &v, &e), LS_INVALID_ARGUMENT, "the picture is 5 x 2");
    assert_null(v.values);
    assert_ok(load(&p, "{\"do_pan_and_scan\": true, \"pan_and_scan_min_crop_size\": 1, \"size\": 8}", &e));
    p.min_ratio = 1;
    ls_image_deinit(&image);
    image = pattern(5, 1); /* four crops of 2 need 7 columns */
    assert_error(ls_image_process(&p, &image, &v, &e), LS_INVALID_ARGUMENT, "leave none for the last");
    assert_null(v.values);
    ls_image_deinit(&image);
}

/* Every setting and the pixels are in the key; what does not matter is not in the text. */
static void test_identity(void **state) {
    (void)state;
    ls_error e = {0};
    ls_image_processor base, p;
    ls_image image = pattern(6, 5);
    ls_str text = {0};
    char key[65], other[65];
    assert_ok(load(&base, "{\"size\": 8}", &e));
    assert_ok(ls_image_processor_text(&base, &text, &e));
    assert_string_equal(text.data, "lockstep image processor 1\narithmetic numpy\nresize pillow-13 bilinear\nsize 8 8\nrescale 3f70101010101010\n"
                                   "normalize 0 3fe0000000000000 3fe0000000000000\nnormalize 1 3fe0000000000000 3fe0000000000000\n"
                                   "normalize 2 3fe0000000000000 3fe0000000000000\ntokens 256\n");
    ls_str_deinit(&text);
    assert_ok(ls_image_key(&base, &image, key, &e));
    for (int i = 0; i < 10; i++) {
        p = base;
        if (i == 0) p.width = 9;
        if (i == 1) p.fast = true;
        if (i == 2) p.rule = LS_RESIZE_PILLOW_12;
        if (i == 3) p.filter = LS_FILTER_BICUBIC;
        if (i == 4) p.rescale_factor = 0.5;
        if (i == 5) p.mean[2] = 0.25;
        if (i == 6) p.std[0] = 0.25;
        if (i == 7) p.pan_and_scan = true;
        if (i == 8) p.tokens = 64;
        if (i == 9) image.pixels[40] ^= 1;
        assert_ok(ls_image_key(&p, &image, other, &e));
        assert_string_not_equal(key, other);
    }
    ls_image_deinit(&image);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pixel_values_equal_transformers), cmocka_unit_test(test_defaults), cmocka_unit_test(test_null_steps),
                                       cmocka_unit_test(test_refused_settings), cmocka_unit_test(test_refused_pictures), cmocka_unit_test(test_identity)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
