/* Resizing against Pillow and torchvision, and sizes that are refused. */
#include "media_fixtures.h"

#include "media/resample.h"

static ls_resize_rule rule_of(const char *name) {
    return !strcmp(name, "pillow") ? LS_RESIZE_PILLOW : !strcmp(name, "pillow-12") ? LS_RESIZE_PILLOW_12 : LS_RESIZE_TORCHVISION;
}

static void test_pixels_equal(void **state) {
    (void)state;
    json_t *root = media_json("resize.json"), *row;
    size_t i;
    json_array_foreach(json_object_get(root, "resizes"), i, row) {
        ls_error e = {0};
        ls_image image = pattern(item(row, "from", 0), item(row, "from", 1)), out;
        char hex[65];
        assert_ok(ls_resize(&out, ls_image_whole(&image), item(row, "to", 0), item(row, "to", 1), (ls_filter)int_of(row, "filter"),
                            rule_of(text_of(row, "rule")), &e));
        ls_image_sha256(&out, hex);
        if (strcmp(hex, text_of(row, "sha256")))
            fail_msg("%d x %d to %d x %d, filter %d, %s: other pixels", image.width, image.height, out.width, out.height, (int)int_of(row, "filter"),
                     text_of(row, "rule"));
        ls_image_deinit(&image);
        ls_image_deinit(&out);
    }
    assert_true(i > 200);
    json_decref(root);
}

/* A part of a picture is resized as if it were all there is. */
static void test_view(void **state) {
    (void)state;
    ls_error e = {0};
    ls_image image = pattern(50, 40), part, a, b;
    assert_ok(ls_image_create(&part, 20, 30, &e));
    ls_image_view view = {image.pixels + 3 * (7 * 50 + 11), 150, 20, 30};
    for (int y = 0; y < 30; y++) memcpy(part.pixels + y * 60, view.pixels + y * 150, 60);
    for (int filter = 0; filter < 4; filter++)
        for (int rule = 0; rule < 3; rule++)
            for (int size = 9; size < 40; size += 11) {
                assert_ok(ls_resize(&a, view, size, 30, (ls_filter)filter, (ls_resize_rule)rule, &e));
                assert_ok(ls_resize(&b, ls_image_whole(&part), size, 30, (ls_filter)filter, (ls_resize_rule)rule, &e));
                assert_memory_equal(a.pixels, b.pixels, (size_t)size * 90);
                ls_image_deinit(&a);
                ls_image_deinit(&b);
            }
    ls_image_deinit(&image);
    ls_image_deinit(&part);
}

static void test_errors(void **state) {
    (void)state;
    ls_error e = {0};
    ls_image image = pattern(5, 4), out;
    assert_error(ls_resize(&out, ls_image_whole(&image), 0, 4, LS_FILTER_BILINEAR, LS_RESIZE_PILLOW, &e), LS_INVALID_ARGUMENT, "to 0 x 4");
    assert_error(ls_resize(&out, ls_image_whole(&image), 1 << 20, 1 << 20, LS_FILTER_BILINEAR, LS_RESIZE_PILLOW, &e), LS_INVALID_ARGUMENT, "at most");
    assert_error(ls_resize(&out, (ls_image_view){image.pixels, 15, 5, 0}, 4, 4, LS_FILTER_BILINEAR, LS_RESIZE_PILLOW, &e), LS_INVALID_ARGUMENT, "5 x 0");
    assert_null(out.pixels);
    ls_image_deinit(&image);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pixels_equal), cmocka_unit_test(test_view), cmocka_unit_test(test_errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
