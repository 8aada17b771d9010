/* The tojson filter as transformers defines it: Python's json.dumps, with ensure_ascii off unless asked for. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/chat_template_builtin.h"

typedef struct writer {
    ls_jvm *vm;
    ls_jbuf buf;
    bool ascii, sort_keys;
    const ls_jstr *indent; /* NULL: everything on one line */
    const ls_jstr *item_sep, *key_sep;
} writer;

static ls_code write_value(writer *w, ls_jv v, size_t level);

/* The escape of |cp| in |text|; false when the character stands for itself. */
static bool escape_char(uint32_t cp, bool ascii, char text[16]) {
    static const char named[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    const char *hit = cp && cp < 128 ? strchr(named, (int)cp) : NULL;
    if (hit) snprintf(text, 16, "\\%c", letters[hit - named]);
    else if (cp < 32 || (ascii && cp > 126 && cp < 0x10000)) snprintf(text, 16, "\\u%04x", cp);
    else if (ascii && cp >= 0x10000)
        snprintf(text, 16, "\\u%04x\\u%04x", 0xD800 + ((cp - 0x10000) >> 10), 0xDC00 + ((cp - 0x10000) & 0x3FF));
    else return false;
    return true;
}

static ls_code write_string(writer *w, const ls_jstr *s) {
    LS_TRY(ls_jbuf_text(w->vm, &w->buf, "\""));
    size_t plain = 0;
    for (size_t i = 0, step; i < s->n; i += step) {
        uint32_t cp = 0;
        char text[16];
        step = ls_utf8_step(s->p + i);
        ls_utf8_decode(s->p + i, s->n - i, &cp);
        if (!escape_char(cp, w->ascii, text)) continue;
        LS_TRY(ls_jbuf_part(w->vm, &w->buf, s, plain, i));
        LS_TRY(ls_jbuf_add(w->vm, &w->buf, text, strlen(text), ls_jstr_is_input(s, i)));
        plain = i + step;
    }
    LS_TRY(ls_jbuf_part(w->vm, &w->buf, s, plain, s->n));
    return ls_jbuf_text(w->vm, &w->buf, "\"");
}

static ls_code new_line(writer *w, size_t level) {
    if (!w->indent) return LS_OK;
    LS_TRY(ls_jbuf_text(w->vm, &w->buf, "\n"));
    for (size_t i = 0; i < level; i++) LS_TRY(ls_jbuf_str(w->vm, &w->buf, w->indent));
    return LS_OK;
}

static const char *scalar_text(ls_jv v, char text[40]) {
    switch (v.kind) {
    case LS_JV_NONE: return "null";
    case LS_JV_BOOL: return v.b ? "true" : "false";
    case LS_JV_INT: snprintf(text, 40, "%lld", (long long)v.i); return text;
    case LS_JV_FLOAT:
        if (isnan(v.f)) return "NaN";
        if (isinf(v.f)) return v.f < 0 ? "-Infinity" : "Infinity";
        ls_py_float(v.f, text);
        return text;
    default: return NULL;
    }
}

static ls_code write_key(writer *w, ls_jv key) {
    char text[40];
    if (key.kind == LS_JV_STR) return write_string(w, key.s);
    const char *scalar = scalar_text(key, text);
    if (!scalar) LS_FAIL(w->vm->e, LS_INVALID_ARGUMENT, "tojson: a key of type %s is not allowed", ls_jv_type(key));
    LS_TRY(ls_jbuf_text(w->vm, &w->buf, "\""));
    LS_TRY(ls_jbuf_text(w->vm, &w->buf, scalar));
    return ls_jbuf_text(w->vm, &w->buf, "\"");
}

static ls_code sorted_pairs(writer *w, const ls_jdict *d, ls_jpair **out) {
    ls_jpair *order;
    LS_TRY(ls_jvm_alloc(w->vm, &order, d->n, sizeof *order));
    LS_TRY(ls_jvm_alloc(w->vm, out, d->n, sizeof **out));
    for (size_t i = 0; i < d->n; i++) order[i] = (ls_jpair){d->v[i].key, ls_jv_int((int64_t)i)};
    LS_TRY(ls_jv_sort(w->vm, order, d->n, false));
    for (size_t i = 0; i < d->n; i++) (*out)[i] = d->v[order[i].value.i];
    return LS_OK;
}

static ls_code write_dict(writer *w, const ls_jdict *d, size_t level) {
    if (!d->n) return ls_jbuf_text(w->vm, &w->buf, "{}");
    ls_jpair *pairs = d->v;
    if (w->sort_keys) LS_TRY(sorted_pairs(w, d, &pairs));
    LS_TRY(ls_jbuf_text(w->vm, &w->buf, "{"));
    for (size_t i = 0; i < d->n; i++) {
        if (i) LS_TRY(ls_jbuf_str(w->vm, &w->buf, w->item_sep));
        LS_TRY(new_line(w, level + 1));
        LS_TRY(write_key(w, pairs[i].key));
        LS_TRY(ls_jbuf_str(w->vm, &w->buf, w->key_sep));
        LS_TRY(write_value(w, pairs[i].value, level + 1));
    }
    LS_TRY(new_line(w, level));
    return ls_jbuf_text(w->vm, &w->buf, "}");
}

static ls_code write_list(writer *w, const ls_jlist *list, size_t level) {
    if (!list->n) return ls_jbuf_text(w->vm, &w->buf, "[]");
    LS_TRY(ls_jbuf_text(w->vm, &w->buf, "["));
    for (size_t i = 0; i < list->n; i++) {
        if (i) LS_TRY(ls_jbuf_str(w->vm, &w->buf, w->item_sep));
        LS_TRY(new_line(w, level + 1));
        LS_TRY(write_value(w, list->v[i], level + 1));
    }
    LS_TRY(new_line(w, level));
    return ls_jbuf_text(w->vm, &w->buf, "]");
}

static ls_code write_value(writer *w, ls_jv v, size_t level) {
    LS_TRY(ls_jvm_enter(w->vm));
    LS_TRY(ls_jvm_work(w->vm, 1));
    char text[40];
    const char *scalar = scalar_text(v, text);
    if (scalar) LS_TRY(ls_jbuf_text(w->vm, &w->buf, scalar));
    else if (v.kind == LS_JV_STR) LS_TRY(write_string(w, v.s));
    else if (v.kind == LS_JV_DICT) LS_TRY(write_dict(w, v.dict, level));
    else if (v.kind == LS_JV_LIST || v.kind == LS_JV_TUPLE) LS_TRY(write_list(w, v.list, level));
    else LS_FAIL(w->vm->e, LS_INVALID_ARGUMENT, "tojson: a value of type %s cannot be written as JSON", ls_jv_type(v));
    w->vm->depth--;
    return LS_OK;
}

static ls_code read_indent(writer *w, ls_jv v) {
    int64_t n;
    if (v.kind == LS_JV_STR) {
        w->indent = v.s;
        return LS_OK;
    }
    if (v.kind == LS_JV_MISSING || v.kind == LS_JV_NONE) return LS_OK;
    LS_TRY(ls_jv_want_int(w->vm, v, "tojson: indent", &n));
    if (n > 1000) LS_FAIL(w->vm->e, LS_OUT_OF_RANGE, "tojson: indent of %lld; at most 1000", (long long)n);
    ls_jbuf spaces = {0};
    ls_jv text;
    LS_TRY(ls_jbuf_pad(w->vm, &spaces, ' ', n));
    LS_TRY(ls_jbuf_finish(w->vm, &spaces, &text));
    w->indent = text.s;
    return LS_OK;
}

static ls_code read_separators(writer *w, ls_jv v) {
    static const ls_jstr comma_space = {.p = ", ", .n = 2}, comma = {.p = ",", .n = 1}, colon = {.p = ": ", .n = 2};
    w->item_sep = w->indent ? &comma : &comma_space;
    w->key_sep = &colon;
    if (v.kind == LS_JV_MISSING || v.kind == LS_JV_NONE) return LS_OK;
    const ls_jlist *pair;
    LS_TRY(ls_jv_items(w->vm, v, &pair));
    if (pair->n != 2) LS_FAIL(w->vm->e, LS_INVALID_ARGUMENT, "tojson: separators must be a pair");
    LS_TRY(ls_jv_want_str(w->vm, pair->v[0], "tojson: a separator", &w->item_sep));
    return ls_jv_want_str(w->vm, pair->v[1], "tojson: a separator", &w->key_sep);
}

ls_code ls_jtojson(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    writer w = {.vm = vm, .ascii = ls_jv_truth(call->args[0]), .sort_keys = ls_jv_truth(call->args[3])};
    LS_TRY(read_indent(&w, call->args[1]));
    LS_TRY(read_separators(&w, call->args[2]));
    LS_TRY(write_value(&w, self, 0));
    return ls_jbuf_finish(vm, &w.buf, out);
}
