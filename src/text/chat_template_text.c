/* Text of the template language: string building with origins, Python's str() and repr(), UTF-8 steps. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "text/chat_template_value.h"

/* ---- Building strings ---------------------------------------------------------------------------------------- */

static ls_code make_room(ls_jvm *vm, ls_jbuf *b, size_t extra) {
    size_t need;
    if (!ls_size_add(b->n, extra, &need)) return ls_jvm_alloc(vm, &b->p, SIZE_MAX, 1);
    if (need <= b->cap) return LS_OK;
    size_t cap = b->cap > SIZE_MAX / 4 ? need : b->cap * 2 > need ? b->cap * 2 : need + 16;
    char *p, *origin = NULL;
    LS_TRY(ls_jvm_alloc(vm, &p, cap, 1));
    if (b->n) memcpy(p, b->p, b->n);
    if (b->origin) {
        LS_TRY(ls_jvm_alloc(vm, &origin, cap, 1));
        memcpy(origin, b->origin, b->n);
    }
    b->p = p;
    b->origin = origin;
    b->cap = cap;
    return LS_OK;
}

/* Makes the per-byte origin exist, filled for what is there. */
static ls_code split_origin(ls_jvm *vm, ls_jbuf *b) {
    if (b->origin) return LS_OK;
    LS_TRY(ls_jvm_alloc(vm, &b->origin, b->cap, 1));
    memset(b->origin, b->input, b->n);
    return LS_OK;
}

ls_code ls_jbuf_add(ls_jvm *vm, ls_jbuf *b, const char *p, size_t n, bool input) {
    if (!n) return LS_OK;
    LS_TRY(make_room(vm, b, n));
    if (!b->n && !b->origin) b->input = input;
    if (b->input != input) LS_TRY(split_origin(vm, b));
    if (b->origin) memset(b->origin + b->n, input, n);
    memcpy(b->p + b->n, p, n);
    b->n += n;
    return LS_OK;
}

ls_code ls_jbuf_text(ls_jvm *vm, ls_jbuf *b, const char *text) { return ls_jbuf_add(vm, b, text, strlen(text), false); }

ls_code ls_jbuf_part(ls_jvm *vm, ls_jbuf *b, const ls_jstr *s, size_t begin, size_t end) {
    size_t n = end - begin;
    if (!n) return LS_OK;
    if (!s->origin) return ls_jbuf_add(vm, b, s->p + begin, n, s->input);
    LS_TRY(make_room(vm, b, n));
    LS_TRY(split_origin(vm, b));
    memcpy(b->origin + b->n, s->origin + begin, n);
    memcpy(b->p + b->n, s->p + begin, n);
    b->n += n;
    return LS_OK;
}

ls_code ls_jbuf_str(ls_jvm *vm, ls_jbuf *b, const ls_jstr *s) { return ls_jbuf_part(vm, b, s, 0, s->n); }

ls_code ls_jbuf_pad(ls_jvm *vm, ls_jbuf *b, char c, int64_t count) {
    if (count <= 0) return LS_OK;
    LS_TRY(make_room(vm, b, (size_t)count));
    if (b->n && b->input) LS_TRY(split_origin(vm, b));
    if (!b->n && !b->origin) b->input = false;
    if (b->origin) memset(b->origin + b->n, 0, (size_t)count);
    memset(b->p + b->n, c, (size_t)count);
    b->n += (size_t)count;
    return LS_OK;
}

ls_code ls_jbuf_finish(ls_jvm *vm, const ls_jbuf *b, ls_jv *out) {
    ls_jstr *s;
    LS_TRY(ls_jvm_alloc(vm, &s, 1, sizeof *s));
    *s = (ls_jstr){.p = b->p ? b->p : "", .n = b->n, .origin = b->origin, .input = b->input};
    *out = ls_jv_of_str(s);
    return LS_OK;
}

bool ls_jstr_is_input(const ls_jstr *s, size_t i) { return s->origin ? s->origin[i] : s->input; }

bool ls_jstr_is(const ls_jstr *s, const char *text) { return s->n == strlen(text) && !memcmp(s->p, text, s->n); }

/* ---- str() and repr() ---------------------------------------------------------------------------------------- */

void ls_py_float(double f, char out[40]) {
    if (isnan(f) || isinf(f)) {
        snprintf(out, 40, "%s", isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    char e[40];
    for (int precision = 0; precision <= 16; precision++) {
        snprintf(e, sizeof e, "%.*e", precision, f);
        if (strtod(e, NULL) == f) break;
    }
    int exponent = (int)strtol(strchr(e, 'e') + 1, NULL, 10), n = 0;
    char digits[24];
    for (const char *p = e; *p != 'e'; p++)
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0') n--;
    const char *sign = e[0] == '-' ? "-" : "";
    if (exponent < -4 || exponent >= 16) {
        snprintf(out, 40, "%s%c%s%.*se%c%02d", sign, digits[0], n > 1 ? "." : "", n - 1, digits + 1,
                 exponent < 0 ? '-' : '+', abs(exponent));
    } else if (exponent < 0) {
        snprintf(out, 40, "%s0.%.*s%.*s", sign, -exponent - 1, "0000", n, digits);
    } else if (n <= exponent + 1) {
        snprintf(out, 40, "%s%.*s%.*s.0", sign, n, digits, exponent + 1 - n, "0000000000000000");
    } else {
        snprintf(out, 40, "%s%.*s.%.*s", sign, exponent + 1, digits, n - exponent - 1, digits + exponent + 1);
    }
}

static bool is_printable(uint32_t cp) {
    if (cp == ' ') return true;
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

static ls_code repr_str(ls_jvm *vm, ls_jbuf *b, const ls_jstr *s) {
    bool single = memchr(s->p, '\'', s->n) != NULL, dbl = memchr(s->p, '"', s->n) != NULL;
    char quote = single && !dbl ? '"' : '\'';
    if (s->markup) LS_TRY(ls_jbuf_text(vm, b, "Markup("));
    LS_TRY(ls_jbuf_add(vm, b, &quote, 1, false));
    size_t plain = 0, step;
    for (size_t i = 0; i < s->n; i += step) {
        uint32_t cp = 0;
        char text[16] = "";
        step = ls_utf8_step(s->p + i);
        ls_utf8_decode(s->p + i, s->n - i, &cp);
        if (cp == (uint32_t)quote || cp == '\\') snprintf(text, sizeof text, "\\%c", (char)cp);
        else if (cp == '\n' || cp == '\r' || cp == '\t')
            snprintf(text, sizeof text, "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
        else if (is_printable(cp)) continue;
        else snprintf(text, sizeof text, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
        LS_TRY(ls_jbuf_part(vm, b, s, plain, i));
        LS_TRY(ls_jbuf_add(vm, b, text, strlen(text), ls_jstr_is_input(s, i)));
        plain = i + step;
    }
    LS_TRY(ls_jbuf_part(vm, b, s, plain, s->n));
    LS_TRY(ls_jbuf_add(vm, b, &quote, 1, false));
    return s->markup ? ls_jbuf_text(vm, b, ")") : LS_OK;
}

static ls_code repr_list(ls_jvm *vm, ls_jbuf *b, const ls_jlist *list, const char *open, const char *close) {
    LS_TRY(ls_jbuf_text(vm, b, open));
    for (size_t i = 0; i < list->n; i++) {
        if (i) LS_TRY(ls_jbuf_text(vm, b, ", "));
        LS_TRY(ls_jbuf_repr(vm, b, list->v[i]));
    }
    return ls_jbuf_text(vm, b, close);
}

static ls_code repr_dict(ls_jvm *vm, ls_jbuf *b, const ls_jdict *d) {
    LS_TRY(ls_jbuf_text(vm, b, "{"));
    for (size_t i = 0; i < d->n; i++) {
        if (i) LS_TRY(ls_jbuf_text(vm, b, ", "));
        LS_TRY(ls_jbuf_repr(vm, b, d->v[i].key));
        LS_TRY(ls_jbuf_text(vm, b, ": "));
        LS_TRY(ls_jbuf_repr(vm, b, d->v[i].value));
    }
    return ls_jbuf_text(vm, b, "}");
}

static ls_code repr_view(ls_jvm *vm, ls_jbuf *b, ls_jv v) {
    static const char *const open[] = {"dict_keys([", "dict_values([", "dict_items(["};
    const ls_jlist *items;
    LS_TRY(ls_jv_items(vm, v, &items));
    return repr_list(vm, b, items, open[v.view->part], "])");
}

static ls_code repr_range(ls_jvm *vm, ls_jbuf *b, const ls_jrange *r) {
    char text[100];
    int n = snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64, r->start, r->stop);
    if (r->step != 1) snprintf(text + n, sizeof text - (size_t)n, ", %" PRId64 ")", r->step);
    else snprintf(text + n, sizeof text - (size_t)n, ")");
    return ls_jbuf_text(vm, b, text);
}

static ls_code repr_scalar(ls_jvm *vm, ls_jbuf *b, ls_jv v) {
    char text[40] = "";
    if (v.kind == LS_JV_INT) snprintf(text, sizeof text, "%" PRId64, v.i);
    else if (v.kind == LS_JV_FLOAT) ls_py_float(v.f, text);
    else if (v.kind == LS_JV_BOOL) snprintf(text, sizeof text, v.b ? "True" : "False");
    else if (v.kind == LS_JV_NONE) snprintf(text, sizeof text, "None");
    else if (v.kind == LS_JV_UNDEFINED) snprintf(text, sizeof text, "Undefined");
    else
        LS_FAIL(vm->e, LS_UNIMPLEMENTED, "a value of type %s cannot be printed; print its items or call it",
                ls_jv_type(v));
    return ls_jbuf_text(vm, b, text);
}

ls_code ls_jbuf_repr(ls_jvm *vm, ls_jbuf *b, ls_jv v) {
    LS_TRY(ls_jvm_enter(vm));
    LS_TRY(ls_jvm_work(vm, 1));
    switch (v.kind) {
    case LS_JV_STR: LS_TRY(repr_str(vm, b, v.s)); break;
    case LS_JV_LIST: LS_TRY(repr_list(vm, b, v.list, "[", "]")); break;
    case LS_JV_TUPLE: LS_TRY(repr_list(vm, b, v.list, "(", v.list->n == 1 ? ",)" : ")")); break;
    case LS_JV_DICT: LS_TRY(repr_dict(vm, b, v.dict)); break;
    case LS_JV_VIEW: LS_TRY(repr_view(vm, b, v)); break;
    case LS_JV_RANGE: LS_TRY(repr_range(vm, b, v.range)); break;
    case LS_JV_NAMESPACE:
        LS_TRY(ls_jbuf_text(vm, b, "<Namespace "));
        LS_TRY(repr_dict(vm, b, v.dict));
        LS_TRY(ls_jbuf_text(vm, b, ">"));
        break;
    default: LS_TRY(repr_scalar(vm, b, v));
    }
    vm->depth--;
    return LS_OK;
}

ls_code ls_jbuf_value(ls_jvm *vm, ls_jbuf *b, ls_jv v) {
    if (v.kind == LS_JV_STR) return ls_jbuf_str(vm, b, v.s);
    return v.kind == LS_JV_UNDEFINED ? LS_OK : ls_jbuf_repr(vm, b, v);
}

/* ---- Characters ---------------------------------------------------------------------------------------------- */

bool ls_py_isspace(uint32_t c) {
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t ls_py_strip_left(const char *p, size_t n) {
    uint32_t cp;
    size_t i = 0;
    for (int k; (k = ls_utf8_decode(p + i, n - i, &cp)) && ls_py_isspace(cp);) i += (size_t)k;
    return i;
}

size_t ls_py_strip_right(const char *p, size_t n) {
    while (n) {
        size_t start = n - 1;
        while (start && ((unsigned char)p[start] & 0xC0) == 0x80) start--;
        uint32_t cp;
        if (!ls_utf8_decode(p + start, n - start, &cp) || !ls_py_isspace(cp)) break;
        n = start;
    }
    return n;
}

size_t ls_utf8_count(const char *p, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += ((unsigned char)p[i] & 0xC0) != 0x80;
    return count;
}

size_t ls_utf8_step(const char *p) {
    unsigned char c = (unsigned char)*p;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

size_t ls_utf8_offset(const char *p, size_t n, size_t at) {
    size_t i = 0;
    for (; at && i < n; at--) i += ls_utf8_step(p + i);
    return i;
}

size_t ls_find_bytes(const char *p, size_t n, const char *sub, size_t m, size_t from) {
    if (from > n || m > n - from) return SIZE_MAX;
    if (!m) return from;
    const char *hit = memmem(p + from, n - from, sub, m);
    return hit ? (size_t)(hit - p) : SIZE_MAX;
}
