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

#endif
