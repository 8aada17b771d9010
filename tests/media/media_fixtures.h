/* What the tests of src/media share: fixtures by name. */
#ifndef LS_TESTS_MEDIA_FIXTURES_H
#define LS_TESTS_MEDIA_FIXTURES_H

#include "test.h"

#include "base/json.h"
#include "media/image.h"

/* Parses fixtures/media/NAME. Free with json_decref. */
static inline json_t *media_json(const char *name) {
    char path[1024];
    ls_error e = {0};
    json_t *root = NULL;
    snprintf(path, sizeof path, "%s/media/%s", LS_FIXTURES, name);
    assert_ok(ls_json_load(&root, path, 16 << 20, &e));
    return root;
}

/* Reads the picture file fixtures/media/images/NAME whole. Free with ls_str_deinit. */
static inline ls_str media_file(const char *name) {
    char path[1024];
    ls_error e = {0};
    ls_str s = {0};
    snprintf(path, sizeof path, "%s/media/images/%s", LS_FIXTURES, name);
    assert_ok(ls_file_read(&s, path, 16 << 20, &e));
    return s;
}

static inline const char *text_of(const json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }
static inline int64_t int_of(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

/* tools/image_fixture_files.py's pattern(w, h). */
static inline ls_image pattern(int32_t w, int32_t h) {
    ls_error e = {0};
    ls_image image;
    assert_ok(ls_image_create(&image, w, h, &e));
    uint8_t *p = image.pixels;
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++, p += 3) {
            p[0] = (uint8_t)((x * 7 + y * 3) % 256);
            p[1] = (uint8_t)((x * y) % 256);
            p[2] = (x / 3 + y / 2) % 2 ? 255 : 0;
            if ((x + 2 * y) % 11 == 0) memset(p, 0, 3);
            if ((2 * x + y) % 13 == 0) memset(p, 255, 3);
        }
    return image;
}

static inline int32_t item(const json_t *o, const char *key, size_t i) { return (int32_t)json_integer_value(json_array_get(json_object_get(o, key), i)); }

#endif
