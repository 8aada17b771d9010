/* Decoding: every kind of file against Pillow's pixels, limits, and files that are cut off, corrupt or lie. */
#include "media_fixtures.h"

static const uint8_t *bytes(const ls_str *s) { return (const uint8_t *)s->data; }

static void decode_and_compare(const char *name, const ls_str *file, const ls_image_info *info, bool stored, const char *sha256) {
    ls_error e = {0};
    ls_image image;
    ls_image_options o = {.ignore_orientation = stored};
    char hex[65];
    assert_ok(ls_image_decode(&image, bytes(file), file->len, &o, &e));
    int32_t width, height;
    ls_image_shown_size(info, &o, &width, &height);
    assert_true(image.width == width && image.height == height);
    ls_image_sha256(&image, hex);
    if (strcmp(hex, sha256)) fail_msg("%s, %s: pixels differ from Pillow's", name, stored ? "as stored" : "turned");
    ls_image_deinit(&image);
}

static void test_pixels_equal_pillow(void **state) {
    (void)state;
    json_t *root = media_json("decode.json"), *row;
    size_t i;
    json_array_foreach(json_object_get(root, "images"), i, row) {
        const char *name = text_of(row, "file");
        ls_str file = media_file(name);
        ls_error e = {0};
        ls_image_info info;
        assert_ok(ls_image_probe(&info, bytes(&file), file.len, NULL, &e));
        assert_int_equal(info.width, int_of(row, "width"));
        assert_int_equal(info.height, int_of(row, "height"));
        assert_int_equal(info.frames, int_of(row, "frames"));
        assert_non_null(strstr(".png.jpg.webp", strrchr(name, '.')));
        decode_and_compare(name, &file, &info, true, text_of(row, "stored"));
        decode_and_compare(name, &file, &info, false, text_of(row, "turned"));
        ls_str_deinit(&file);
    }
    assert_true(i > 80);
    json_decref(root);
}

static void test_open_names_the_file(void **state) {
    (void)state;
    ls_error e = {0};
    ls_image image;
    assert_ok(ls_image_open(&image, LS_FIXTURES "/media/images/exif6.jpg", NULL, &e));
    assert_int_equal(image.width, 20);
    assert_int_equal(image.height, 29);
    ls_image_deinit(&image);
    assert_error(ls_image_open(&image, LS_FIXTURES "/media/decode.json", NULL, &e), LS_INVALID_ARGUMENT, "decode.json: ");
    assert_null(image.pixels);
    assert_error(ls_image_open(&image, LS_FIXTURES "/media/images/absent.png", NULL, &e), LS_NOT_FOUND, "absent.png");
}

/* A file that is cut anywhere is an error, or, where only what follows the pixels is lost, the same picture. */
static void test_cut_files(void **state) {
    (void)state;
    json_t *root = media_json("decode.json"), *row;
    size_t i;
    json_array_foreach(json_object_get(root, "images"), i, row) {
        const char *name = text_of(row, "file");
        ls_str file = media_file(name);
        size_t step = file.len < 1200 ? 1 : file.len / 60;
        for (size_t len = 0; len < file.len; len += step) {
            ls_error e = {0};
            ls_image image;
            ls_image_options o = {.ignore_orientation = true};
            char hex[65];
            uint8_t *cut = NULL;
            assert_ok(ls_calloc(&cut, len, 1, "cut file", &e)); /* a block of its own, so that a sanitizer sees reads past its end */
            memcpy(cut, file.data, len);
            ls_code rc = ls_image_decode(&image, cut, len, &o, &e);
            if (rc && rc != LS_DATA_LOSS && rc != LS_INVALID_ARGUMENT) fail_msg("%s cut at %zu: %s", name, len, e.text);
            if (!rc) {
                ls_image_sha256(&image, hex);
                if (strcmp(hex, text_of(row, "stored"))) fail_msg("%s cut at %zu gave another picture", name, len);
            }
            ls_image_deinit(&image);
            ls_free(cut);
        }
        ls_str_deinit(&file);
    }
    json_decref(root);
}

/* Random damage: any answer, but no crash and no picture of another size than the header's. */
static void test_damaged_files(void **state) {
    (void)state;
    json_t *root = media_json("decode.json"), *row;
    uint32_t random = 1;
    size_t i;
    ls_image_options o = {.max_pixels = 1 << 16};
    json_array_foreach(json_object_get(root, "images"), i, row) {
        ls_str file = media_file(text_of(row, "file"));
        for (int round = 0; round < 24 && file.len < 6000; round++) {
            ls_error e = {0};
            ls_image image;
            ls_image_info info;
            size_t at = (random = random * 1664525u + 1013904223u) % file.len;
            char was = file.data[at];
            file.data[at] = (char)(random >> 24);
            if (!ls_image_decode(&image, bytes(&file), file.len, &o, &e)) {
                assert_ok(ls_image_probe(&info, bytes(&file), file.len, &o, &e));
                assert_int_equal((int64_t)info.width * info.height, (int64_t)image.width * image.height);
            }
            ls_image_deinit(&image);
            file.data[at] = was;
        }
        ls_str_deinit(&file);
    }
    json_decref(root);
}

static void test_not_a_picture(void **state) {
    (void)state;
    static const struct {
        const char *data;
        size_t len;
        ls_code code;
        const char *part;
    } cases[] = {{"", 0, LS_INVALID_ARGUMENT, "empty"},
                 {"hello", 5, LS_INVALID_ARGUMENT, "5 bytes are no image"},
                 {"GIF89a....", 10, LS_UNIMPLEMENTED, "GIF"},
                 {"BM........", 10, LS_UNIMPLEMENTED, "BMP"},
                 {"II*\0......", 10, LS_UNIMPLEMENTED, "TIFF"},
                 {"....ftypavif", 12, LS_UNIMPLEMENTED, "AVIF"},
                 {"\x89PNG\r\n\x1a\n", 8, LS_DATA_LOSS, "PNG"},
                 {"\xff\xd8\xff", 3, LS_DATA_LOSS, "JPEG"},
                 {"RIFF\x04\0\0\0WEBP", 12, LS_DATA_LOSS, "WebP"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_error e = {0};
        ls_image image;
        assert_error(ls_image_decode(&image, (const uint8_t *)cases[i].data, cases[i].len, NULL, &e), cases[i].code, cases[i].part);
        assert_null(image.pixels);
    }
}

static void test_limits(void **state) {
    (void)state;
    ls_error e = {0};
    ls_image image;
    ls_str file = media_file("landscape.jpg"), moving = media_file("animated.webp");
    assert_error(ls_image_decode(&image, bytes(&file), file.len, &(ls_image_options){.max_pixels = 400 * 300 - 1}, &e), LS_RESOURCE_EXHAUSTED,
                 "400 x 300 = 120000 pixels; at most 119999");
    assert_ok(ls_image_decode(&image, bytes(&file), file.len, &(ls_image_options){.max_pixels = 400 * 300}, &e));
    ls_image_deinit(&image);
    assert_error(ls_image_decode(&image, bytes(&file), file.len, &(ls_image_options){.max_bytes = 1000}, &e), LS_RESOURCE_EXHAUSTED, "at most 1000");
    assert_error(ls_image_decode(&image, bytes(&moving), moving.len, &(ls_image_options){.max_frames = 2}, &e), LS_RESOURCE_EXHAUSTED, "3 frames; at most 2");
    ls_image_info info;
    const ls_image_options exact = {.max_bytes = (int64_t)file.len}, less = {.max_bytes = (int64_t)file.len - 1};
    assert_ok(ls_image_probe_file(&info, LS_FIXTURES "/media/images/landscape.jpg", &exact, &e));
    assert_true(info.width == 400 && info.height == 300);
    assert_error(ls_image_probe_file(&info, LS_FIXTURES "/media/images/landscape.jpg", &less, &e), LS_RESOURCE_EXHAUSTED, "bytes; at most");
    ls_str_deinit(&file);
    ls_str_deinit(&moving);
}

/* Small files that claim to be enormous are refused from the header. */
static void test_bombs(void **state) {
    (void)state;
    ls_error e = {0};
    ls_image image;
    ls_str png = media_file("rgb8.png"), jpeg = media_file("444.jpg"), webp = media_file("animated_offset.webp");
    memcpy(png.data + 16, "\x7f\xff\xff\xff\x7f\xff\xff\xff", 8);
    assert_error(ls_image_decode(&image, bytes(&png), png.len, NULL, &e), LS_RESOURCE_EXHAUSTED, "2147483647 x 2147483647");
    memcpy(png.data + 16, "\xff\xff\xff\xff", 4);
    assert_error(ls_image_decode(&image, bytes(&png), png.len, NULL, &e), LS_INVALID_ARGUMENT, "4294967295");
    memcpy(png.data + 16, "\0\0\0\0", 4);
    assert_error(ls_image_decode(&image, bytes(&png), png.len, NULL, &e), LS_INVALID_ARGUMENT, "0 x");
    char *size = memmem(jpeg.data, jpeg.len, "\xff\xc0\x00\x11\x08", 5);
    assert_non_null(size);
    memcpy(size + 5, "\xff\xdc\xff\xdc", 4);
    assert_error(ls_image_decode(&image, bytes(&jpeg), jpeg.len, NULL, &e), LS_RESOURCE_EXHAUSTED, "65500 x 65500");
    memcpy(webp.data + 24, "\xff\x7f\x00\xff\x7f\x00", 6);
    assert_error(ls_image_decode(&image, bytes(&webp), webp.len, NULL, &e), LS_RESOURCE_EXHAUSTED, "32768 x 32768");
    ls_str_deinit(&png);
    ls_str_deinit(&jpeg);
    ls_str_deinit(&webp);
}

static void test_create(void **state) {
    (void)state;
    ls_error e = {0};
    ls_image image;
    char hex[65], other[65];
    assert_error(ls_image_create(&image, 0, 5, &e), LS_INVALID_ARGUMENT, "0 x 5");
    assert_error(ls_image_create(&image, 0x7fffffff, 0x7fffffff, &e), LS_INVALID_ARGUMENT, "pixels");
    assert_ok(ls_image_create(&image, 2, 3, &e));
    ls_image_sha256(&image, hex);
    image.width = 3, image.height = 2;
    ls_image_sha256(&image, other);
    assert_string_not_equal(hex, other);
    ls_image_deinit(&image);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pixels_equal_pillow), cmocka_unit_test(test_open_names_the_file), cmocka_unit_test(test_cut_files),
                                       cmocka_unit_test(test_damaged_files),       cmocka_unit_test(test_not_a_picture),      cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_bombs),               cmocka_unit_test(test_create)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
