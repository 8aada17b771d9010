/* Operations on strings that filters and methods share: strip, replace, split into lines, join, escape, numbers. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat_template_builtin.h"

static bool has_char(const ls_jstr *set, const char *c, size_t step) {
    for (size_t i = 0, k; i < set->n; i += k) {
        k = ls_utf8_step(set->p + i);
        if (k == step && !memcmp(set->p + i, c, k)) return true;
    }
    return false;
}

ls_code ls_jstr_strip(ls_jvm *vm, const ls_jstr *s, const ls_jstr *chars, int sides, ls_jv *out) {
    size_t begin = 0, end = s->n;
    if (!chars) {
        if (sides & 1) begin = ls_py_strip_left(s->p, s->n);
        if (sides & 2) end = begin + ls_py_strip_right(s->p + begin, s->n - begin);
        return ls_jv_slice(vm, s, begin, end, out);
    }
    while ((sides & 1) && begin < end && has_char(chars, s->p + begin, ls_utf8_step(s->p + begin)))
        begin += ls_utf8_step(s->p + begin);
    while ((sides & 2) && begin < end) {
        size_t last = end - 1;
        while (((unsigned char)s->p[last] & 0xC0) == 0x80) last--;
        if (!has_char(chars, s->p + last, end - last)) break;
        end = last;
    }
    LS_TRY(ls_jvm_work(vm, (s->n - (end - begin)) * (1 + chars->n) / 64));
    return ls_jv_slice(vm, s, begin, end, out);
}

/* Replacing the empty string puts |by| before every character and at the end. */
static ls_code insert_between(ls_jvm *vm, const ls_jstr *s, const ls_jstr *by, int64_t count, ls_jv *out) {
    ls_jbuf b = {0};
    size_t i = 0;
    for (;;) {
        if (count-- == 0) break;
        LS_TRY(ls_jvm_work(vm, 1));
        LS_TRY(ls_jbuf_str(vm, &b, by));
        if (i == s->n) break;
        size_t step = ls_utf8_step(s->p + i);
        LS_TRY(ls_jbuf_part(vm, &b, s, i, i + step));
        i += step;
    }
    LS_TRY(ls_jbuf_part(vm, &b, s, i, s->n));
    return ls_jbuf_finish(vm, &b, out);
}

ls_code ls_jstr_replace(ls_jvm *vm, const ls_jstr *s, const ls_jstr *old, const ls_jstr *by, int64_t count,
                        ls_jv *out) {
    if (!old->n) return insert_between(vm, s, by, count, out);
    ls_jbuf b = {0};
    size_t from = 0, hit;
    LS_TRY(ls_jvm_work(vm, s->n / 64));
    while (count-- != 0 && (hit = ls_find_bytes(s->p, s->n, old->p, old->n, from)) != SIZE_MAX) {
        LS_TRY(ls_jvm_work(vm, 1));
        LS_TRY(ls_jbuf_part(vm, &b, s, from, hit));
        LS_TRY(ls_jbuf_str(vm, &b, by));
        from = hit + old->n;
    }
    if (!from) return ls_jv_slice(vm, s, 0, s->n, out);
    LS_TRY(ls_jbuf_part(vm, &b, s, from, s->n));
    return ls_jbuf_finish(vm, &b, out);
}

static bool ends_line(uint32_t c) {
    return (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

ls_code ls_jstr_splitlines(ls_jvm *vm, const ls_jstr *s, bool keep_ends, ls_jv *out) {
    size_t n = 0, begin = 0, count = 0;
    for (size_t i = 0; i < s->n; i++) count += (unsigned char)s->p[i] < 32 || (unsigned char)s->p[i] >= 0xC2;
    ls_jv *lines;
    LS_TRY(ls_jvm_alloc(vm, &lines, count + 1, sizeof *lines));
    for (size_t i = 0; i < s->n;) {
        uint32_t cp = 0;
        size_t end = i;
        ls_utf8_decode(s->p + i, s->n - i, &cp);
        i += ls_utf8_step(s->p + i);
        if (!ends_line(cp)) continue;
        if (cp == '\r' && i < s->n && s->p[i] == '\n') i++;
        LS_TRY(ls_jv_slice(vm, s, begin, keep_ends ? i : end, &lines[n++]));
        begin = i;
    }
    if (begin < s->n) LS_TRY(ls_jv_slice(vm, s, begin, s->n, &lines[n++]));
    return ls_jv_list(vm, LS_JV_LIST, lines, n, out);
}

ls_code ls_jstr_join(ls_jvm *vm, const ls_jstr *sep, const ls_jlist *items, bool convert, ls_jv *out) {
    ls_jbuf b = {0};
    for (size_t i = 0; i < items->n; i++) {
        if (!convert && items->v[i].kind != LS_JV_STR)
            LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "join: item %zu is not a string but %s", i, ls_jv_type(items->v[i]));
        LS_TRY(ls_jvm_work(vm, 1));
        if (i) LS_TRY(ls_jbuf_str(vm, &b, sep));
        LS_TRY(ls_jbuf_value(vm, &b, items->v[i]));
    }
    return ls_jbuf_finish(vm, &b, out);
}

ls_code ls_jstr_escape(ls_jvm *vm, ls_jv v, ls_jv *out) {
    static const char special[] = "&<>'\"";
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const ls_jstr *s;
    LS_TRY(ls_jv_str(vm, v, &s));
    *out = ls_jv_of_str(s);
    if (s->markup) return LS_OK;
    ls_jbuf b = {0};
    size_t plain = 0;
    for (size_t i = 0; i < s->n; i++) {
        const char *hit = s->p[i] ? strchr(special, s->p[i]) : NULL;
        if (!hit) continue;
        const char *name = names[hit - special];
        LS_TRY(ls_jbuf_part(vm, &b, s, plain, i));
        LS_TRY(ls_jbuf_add(vm, &b, name, strlen(name), ls_jstr_is_input(s, i)));
        plain = i + 1;
    }
    LS_TRY(ls_jbuf_part(vm, &b, s, plain, s->n));
    LS_TRY(ls_jbuf_finish(vm, &b, out));
    ls_jstr *markup;
    LS_TRY(ls_jvm_alloc(vm, &markup, 1, sizeof *markup));
    *markup = *out->s;
    markup->markup = true;
    *out = ls_jv_of_str(markup);
    return LS_OK;
}

/* ---- Numbers ------------------------------------------------------------------------------------------------- */

static int digit_value(char c) {
    return c >= '0' && c <= '9' ? c - '0' : isalpha((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : 99;
}

bool ls_jstr_to_int(const ls_jstr *s, int base, int64_t *out) {
    size_t i = ls_py_strip_left(s->p, s->n), n = ls_py_strip_right(s->p, s->n);
    bool negative = i < n && s->p[i] == '-';
    if (i < n && (s->p[i] == '-' || s->p[i] == '+')) i++;
    char mark = base == 16 ? 'x' : base == 8 ? 'o' : base == 2 ? 'b' : 0;
    if (mark && i + 2 < n && s->p[i] == '0' && tolower((unsigned char)s->p[i + 1]) == mark) i += 2;
    if (i >= n) return false;
    uint64_t v = 0;
    bool digit = false;
    for (; i < n; i++) {
        if (s->p[i] == '_' && digit && i + 1 < n) {
            digit = false;
            continue;
        }
        int d = digit_value(s->p[i]);
        if (d >= base || v > ((uint64_t)INT64_MAX - (uint64_t)d) / (uint64_t)base) return false;
        v = v * (uint64_t)base + (uint64_t)d;
        digit = true;
    }
    *out = negative ? -(int64_t)v : (int64_t)v;
    return digit;
}

bool ls_jstr_to_float(const ls_jstr *s, double *out) {
    char text[128];
    size_t i = ls_py_strip_left(s->p, s->n), n = ls_py_strip_right(s->p, s->n), k = 0;
    if (i >= n || n - i >= sizeof text) return false;
    for (; i < n; i++) {
        bool between = k && isdigit((unsigned char)text[k - 1]) && i + 1 < n && isdigit((unsigned char)s->p[i + 1]);
        if (s->p[i] == '_' && between) continue;
        if (!s->p[i] || s->p[i] == 'x' || s->p[i] == 'X' || s->p[i] == '(')
            return false; /* strtod knows more than Python */
        text[k++] = s->p[i];
    }
    text[k] = 0;
    char *end;
    *out = strtod(text, &end);
    return end == text + k && !isspace((unsigned char)text[0]);
}

double ls_py_round(double x, int64_t digits) {
    if (!isfinite(x) || digits > 323) return x;
    if (digits < -308) return copysign(0, x);
    char text[700]; /* exact decimal rounding of the double, half to even on exact ties, as C's printf does */
    if (digits >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)digits, x);
        return strtod(text, NULL);
    }
    double scale = pow(10, (double)-digits);
    return nearbyint(x / scale) * scale;
}
