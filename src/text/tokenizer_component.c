/* Walking component trees and reading their common fields. */
#include "text/tokenizer_component.h"

#include <string.h>

enum { MAX_LEVELS = 8 };

typedef struct walk {
    const char *part, *list;
    ls_component_fn fn;
    void *user;
    int count;
} walk;

static ls_code visit(walk *w, const json_t *node, int level, ls_error *e) {
    if (!node || json_is_null(node)) return LS_OK;
    if (!json_is_object(node)) LS_FAIL(e, LS_INVALID_ARGUMENT, "%s: must be an object or null", w->part);
    const char *type = NULL;
    LS_TRY(ls_json_get_str(node, "type", &type, e));
    if (!type) LS_FAIL(e, LS_INVALID_ARGUMENT, "%s: has no \"type\"", w->part);
    if (strcmp(type, "Sequence")) {
        if (++w->count > LS_MAX_COMPONENTS)
            LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%s: more than %d components", w->part, LS_MAX_COMPONENTS);
        return w->fn(w->user, type, node, e);
    }
    if (level >= MAX_LEVELS) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%s: Sequences nested more than %d deep", w->part, MAX_LEVELS);
    const json_t *children = json_object_get(node, w->list), *child;
    if (!json_is_array(children)) LS_FAIL(e, LS_INVALID_ARGUMENT, "%s: a Sequence needs an array \"%s\"", w->part, w->list);
    size_t i;
    json_array_foreach(children, i, child) LS_TRY(visit(w, child, level + 1, e));
    return LS_OK;
}

ls_code ls_component_each(const json_t *node, const char *part, const char *list, ls_component_fn fn, void *user, ls_error *e) {
    walk w = {.part = part, .list = list, .fn = fn, .user = user};
    return visit(&w, node, 0, e);
}

ls_code ls_component_unknown(const char *part, const char *type, const char *supported, ls_error *e) {
    LS_FAIL(e, LS_UNIMPLEMENTED, "%s type \"%.80s\" is not supported; supported are Sequence, %s", part, type, supported);
}

ls_code ls_component_text(const json_t *node, const char *key, const char **text, size_t *len, ls_error *e) {
    const json_t *v = json_object_get(node, key);
    if (!json_is_string(v)) LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer component: \"%s\" must be a string", key);
    *text = json_string_value(v);
    *len = json_string_length(v);
    return LS_OK;
}

ls_code ls_component_char(const json_t *node, const char *key, uint32_t *cp, ls_error *e) {
    const char *text;
    size_t len;
    LS_TRY(ls_component_text(node, key, &text, &len, e));
    if (!len || (size_t)ls_utf8_decode(text, len, cp) != len)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer component: \"%s\" must be one character", key);
    return LS_OK;
}

ls_code ls_component_pattern(const json_t *node, const char *key, ls_regex **out, ls_error *e) {
    const json_t *v = json_object_get(node, key);
    const char *text;
    size_t len;
    bool literal = json_object_get(v, "String") != NULL;
    if (!json_is_object(v)) LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer component: \"%s\" must be {\"String\": s} or {\"Regex\": s}", key);
    LS_TRY(ls_component_text(v, literal ? "String" : "Regex", &text, &len, e));
    return ls_regex_create(out, text, len, literal, e);
}
