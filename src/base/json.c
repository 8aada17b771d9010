/* JSON: bounded parsing and typed reads. */
#include "base/json.h"

#include <math.h>

ls_code ls_json_parse(json_t **out, const char *text, size_t len, const char *name, ls_error *e) {
    json_error_t je;
    *out = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &je);
    if (!*out) LS_FAIL(e, LS_INVALID_ARGUMENT, "%s: line %d column %d: %s", name, je.line, je.column, je.text);
    return LS_OK;
}

ls_code ls_json_load(json_t **out, const char *path, size_t max, ls_error *e) {
    ls_str s = {.max = max + 2};
    ls_code rc = ls_file_read(&s, path, max, e);
    if (!rc) rc = ls_json_parse(out, s.data, s.len, path, e);
    ls_str_deinit(&s);
    return rc;
}

static const json_t *present(const json_t *obj, const char *key) {
    const json_t *v = obj ? json_object_get(obj, key) : NULL;
    return v && !json_is_null(v) ? v : NULL;
}

ls_code ls_json_get_int(const json_t *obj, const char *key, int64_t lo, int64_t hi, int64_t *out, ls_error *e) {
    const json_t *v = present(obj, key);
    if (!v) return LS_OK;
    double r = json_is_real(v) ? json_real_value(v) : 0;
    bool ok = json_is_integer(v) || (json_is_real(v) && r == floor(r) && fabs(r) < 9e15);
    if (!ok) LS_FAIL(e, LS_INVALID_ARGUMENT, "config key \"%s\" must be an integer", key);
    int64_t x = json_is_integer(v) ? (int64_t)json_integer_value(v) : (int64_t)r;
    if (x < lo || x > hi)
        LS_FAIL(e, LS_OUT_OF_RANGE, "config key \"%s\" is %lld; allowed are %lld to %lld", key, (long long)x, (long long)lo, (long long)hi);
    *out = x;
    return LS_OK;
}

ls_code ls_json_get_real(const json_t *obj, const char *key, double *out, ls_error *e) {
    const json_t *v = present(obj, key);
    if (!v) return LS_OK;
    if (!json_is_number(v) || !isfinite(json_number_value(v)))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "config key \"%s\" must be a finite number", key);
    *out = json_number_value(v);
    return LS_OK;
}

ls_code ls_json_get_bool(const json_t *obj, const char *key, bool *out, ls_error *e) {
    const json_t *v = present(obj, key);
    if (!v) return LS_OK;
    if (!json_is_boolean(v)) LS_FAIL(e, LS_INVALID_ARGUMENT, "config key \"%s\" must be true or false", key);
    *out = json_is_true(v);
    return LS_OK;
}

ls_code ls_json_get_str(const json_t *obj, const char *key, const char **out, ls_error *e) {
    const json_t *v = present(obj, key);
    if (!v) return LS_OK;
    if (!json_is_string(v)) LS_FAIL(e, LS_INVALID_ARGUMENT, "config key \"%s\" must be a string", key);
    *out = json_string_value(v);
    return LS_OK;
}
