/* Python's two ways of formatting text: "%s" % args, and "{}".format(...) with the common format specifications. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text/chat_template_builtin.h"

typedef struct spec {
    char fill, align, sign, type; /* 0: not given */
    bool alternate, zero, comma;
    int64_t width, precision;     /* -1: not given */
} spec;

enum { MAX_WIDTH = 10000, MAX_PRECISION = 100 };

/* Pads |text| to the width of the specification; |numeric| text is right-aligned by default. */
static ls_code put(ls_jvm *vm, ls_jbuf *b, const spec *f, const ls_jstr *text, bool numeric) {
    int64_t n = (int64_t)ls_utf8_count(text->p, text->n), total = f->width > n ? f->width - n : 0;
    char align = f->align ? f->align : numeric ? '>' : '<', fill = f->fill ? f->fill : ' ';
    size_t head = 0;
    if (align == '=' && text->n && strchr("+- ", *text->p)) head = 1;
    if (align == '=' && f->alternate && text->n > head + 1 && isalpha((unsigned char)text->p[head + 1])) head += 2;
    int64_t left = align == '<' ? 0 : align == '^' ? total / 2 : total;
    LS_TRY(ls_jbuf_part(vm, b, text, 0, head));
    LS_TRY(ls_jbuf_pad(vm, b, fill, left));
    LS_TRY(ls_jbuf_part(vm, b, text, head, text->n));
    return ls_jbuf_pad(vm, b, fill, total - left);
}

static ls_code put_text(ls_jvm *vm, ls_jbuf *b, const spec *f, const ls_jstr *s) {
    ls_jstr cut = *s;
    if (f->precision >= 0) cut.n = ls_utf8_offset(s->p, s->n, (size_t)f->precision);
    return put(vm, b, f, &cut, false);
}

/* Puts ',' between groups of three digits of the whole part. */
static void group_digits(char *text, size_t cap) {
    size_t start = strspn(text, "+- "), digits = strspn(text + start, "0123456789");
    for (size_t at = digits; at > 3; at -= 3) {
        size_t n = strlen(text);
        if (n + 2 > cap) return;
        memmove(text + start + at - 2, text + start + at - 3, n - start - at + 4);
        text[start + at - 3] = ',';
    }
}

static void int_digits(uint64_t v, unsigned base, bool upper, char out[70]) {
    char reversed[70];
    size_t n = 0;
    do reversed[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[v % base];
    while (v /= base);
    for (size_t i = 0; i < n; i++) out[i] = reversed[n - 1 - i];
    out[n] = 0;
}

static ls_code put_int(ls_jvm *vm, ls_jbuf *b, const spec *f, int64_t v) {
    char digits[70], text[200];
    unsigned base = f->type == 'x' || f->type == 'X' ? 16 : f->type == 'o' ? 8 : f->type == 'b' ? 2 : 10;
    int_digits(v < 0 ? -(uint64_t)v : (uint64_t)v, base, f->type == 'X', digits);
    const char *sign = v < 0 ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "";
    const char *prefix = f->alternate && base != 10 ? base == 16  ? f->type == 'X' ? "0X" : "0x"
                                                      : base == 8 ? "0o"
                                                                  : "0b"
                                                    : "";
    int zeros = f->precision > (int64_t)strlen(digits) ? (int)(f->precision - (int64_t)strlen(digits)) : 0;
    snprintf(text, sizeof text, "%s%s%0*d%s", sign, prefix, zeros, 0, digits);
    if (!zeros) snprintf(text, sizeof text, "%s%s%s", sign, prefix, digits);
    if (f->comma) group_digits(text, sizeof text);
    ls_jstr s = {.p = text, .n = strlen(text)};
    return put(vm, b, f, &s, true);
}

static ls_code put_float(ls_jvm *vm, ls_jbuf *b, const spec *f, double v) {
    char text[600], pattern[16];
    char type = f->type == '%' || !f->type ? 'f' : f->type;
    int precision = f->precision < 0 ? 6 : (int)f->precision;
    if (f->type == '%') v *= 100;
    snprintf(pattern, sizeof pattern, "%%%s%s.*%c",
             f->sign == '+'   ? "+"
             : f->sign == ' ' ? " "
                              : "",
             f->alternate ? "#" : "", type);
    snprintf(text, sizeof text, pattern, precision, v);
    if (f->comma) group_digits(text, sizeof text);
    size_t n = strlen(text);
    if (f->type == '%' && n < sizeof text) text[n++] = '%';
    ls_jstr s = {.p = text, .n = n};
    return put(vm, b, f, &s, true);
}

static ls_code check_limits(ls_jvm *vm, const spec *f) {
    if (f->width > MAX_WIDTH || f->precision > MAX_PRECISION)
        LS_FAIL(vm->e, LS_OUT_OF_RANGE, "a format has a width over %d or a precision over %d", MAX_WIDTH,
                MAX_PRECISION);
    return LS_OK;
}

static int64_t read_digits(const char *p, size_t n, size_t *i) {
    int64_t v = 0;
    for (; *i < n && isdigit((unsigned char)p[*i]); ++*i)
        if (v < 1000000) v = v * 10 + (p[*i] - '0');
    return v;
}

/* ---- "%..." % args -------------------------------------------------------------------------------------------- */

typedef struct percent {
    const ls_jstr *format;
    size_t i;
    ls_jv args;
    size_t used; /* items of an argument tuple taken so far */
} percent;

static ls_code next_arg(ls_jvm *vm, percent *p, ls_jv *out) {
    bool tuple = p->args.kind == LS_JV_TUPLE;
    if (p->used >= (tuple ? p->args.list->n : 1))
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "not enough arguments for the format string");
    *out = tuple ? p->args.list->v[p->used] : p->args;
    p->used++;
    return LS_OK;
}

static ls_code read_percent_key(ls_jvm *vm, percent *p, ls_jv *value) {
    const char *s = p->format->p;
    size_t begin = ++p->i;
    while (p->i < p->format->n && s[p->i] != ')') p->i++;
    if (p->i == p->format->n) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "incomplete key in a format string");
    if (p->args.kind != LS_JV_DICT) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "a format with keys needs a mapping");
    ls_jv key;
    LS_TRY(ls_jv_slice(vm, p->format, begin, p->i++, &key));
    LS_TRY(ls_jdict_get(vm, p->args.dict, key, value));
    if (value->kind == LS_JV_MISSING)
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "a key of the format string is not in the mapping");
    p->used = 1;
    return LS_OK;
}

static ls_code read_percent_number(ls_jvm *vm, percent *p, int64_t *out) {
    if (p->i < p->format->n && p->format->p[p->i] == '*') {
        ls_jv v;
        p->i++;
        LS_TRY(next_arg(vm, p, &v));
        return ls_jv_want_int(vm, v, "a width or precision", out);
    }
    *out = read_digits(p->format->p, p->format->n, &p->i);
    return LS_OK;
}

static ls_code read_percent_spec(ls_jvm *vm, percent *p, spec *f) {
    const char *s = p->format->p;
    size_t n = p->format->n;
    *f = (spec){.precision = -1};
    for (; p->i < n && s[p->i] && strchr("#0- +", s[p->i]); p->i++) {
        if (s[p->i] == '#') f->alternate = true;
        else if (s[p->i] == '0') f->zero = true;
        else if (s[p->i] == '-') f->align = '<';
        else if (f->sign != '+') f->sign = s[p->i];
    }
    LS_TRY(read_percent_number(vm, p, &f->width));
    if (f->width < 0) {
        f->align = '<';
        f->width = -f->width;
    }
    if (p->i < n && s[p->i] == '.') {
        p->i++;
        LS_TRY(read_percent_number(vm, p, &f->precision));
        if (f->precision < 0) f->precision = 0;
    }
    while (p->i < n && s[p->i] && strchr("hlL", s[p->i])) p->i++;
    if (p->i >= n) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "incomplete format");
    f->type = s[p->i++];
    return check_limits(vm, f);
}

static ls_code put_percent(ls_jvm *vm, ls_jbuf *b, spec *f, ls_jv v) {
    ls_jbuf text = {0};
    ls_jv s;
    int64_t i;
    if (f->type == 's' || f->type == 'r') {
        LS_TRY(f->type == 's' ? ls_jbuf_value(vm, &text, v) : ls_jbuf_repr(vm, &text, v));
        LS_TRY(ls_jbuf_finish(vm, &text, &s));
        f->align = f->align ? f->align : '>';
        return put_text(vm, b, f, s.s);
    }
    if (f->type == 'c' && v.kind == LS_JV_STR && ls_utf8_count(v.s->p, v.s->n) == 1) {
        f->align = f->align ? f->align : '>';
        return put(vm, b, f, v.s, false);
    }
    if (v.kind == LS_JV_UNDEFINED) return ls_jv_fail_undefined(vm, v);
    bool whole = strchr("diu", f->type) != NULL, based = strchr("xXo", f->type) != NULL,
         real = strchr("eEfFgG", f->type) != NULL;
    if (!f->type || !(whole || based || real))
        LS_FAIL(vm->e, LS_UNIMPLEMENTED, "format character '%c' is not supported",
                isprint((unsigned char)f->type) ? f->type : '?');
    if (!ls_jv_is_number(v)) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "%%%c needs a number, not %s", f->type, ls_jv_type(v));
    if (f->zero && f->align != '<') {
        f->align = '=';
        f->fill = '0';
    }
    if (real) return put_float(vm, b, f, ls_jv_as_real(v));
    if (whole && v.kind == LS_JV_FLOAT) {
        if (!(v.f > -9.2e18 && v.f < 9.2e18)) LS_FAIL(vm->e, LS_OUT_OF_RANGE, "%%d: the number does not fit 64 bits");
        v = ls_jv_int((int64_t)v.f);
    }
    if (!ls_jv_as_int(v, &i)) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "%%%c needs an integer", f->type);
    return put_int(vm, b, f, i);
}

ls_code ls_jformat_percent(ls_jvm *vm, const ls_jstr *format, ls_jv args, ls_jv *out) {
    percent p = {.format = format, .args = args};
    ls_jbuf b = {0};
    while (p.i < format->n) {
        const char *hit = memchr(format->p + p.i, '%', format->n - p.i);
        size_t end = hit ? (size_t)(hit - format->p) : format->n;
        LS_TRY(ls_jbuf_part(vm, &b, format, p.i, end));
        if (!hit) break;
        p.i = end + 1;
        ls_jv value = ls_jv_missing();
        spec f;
        if (p.i < format->n && format->p[p.i] == '(') LS_TRY(read_percent_key(vm, &p, &value));
        LS_TRY(read_percent_spec(vm, &p, &f));
        if (f.type == '%') {
            LS_TRY(ls_jbuf_text(vm, &b, "%"));
            continue;
        }
        if (value.kind == LS_JV_MISSING) LS_TRY(next_arg(vm, &p, &value));
        LS_TRY(put_percent(vm, &b, &f, value));
    }
    /* Python lets anything with subscripts, tuples and strings excepted, go unused: it could be a mapping. */
    bool subscripts =
        args.kind == LS_JV_DICT || args.kind == LS_JV_LIST || args.kind == LS_JV_RANGE || args.kind == LS_JV_UNDEFINED;
    bool unused = args.kind == LS_JV_TUPLE ? p.used < args.list->n : !p.used && !subscripts;
    if (unused) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "not all arguments of the format string are used");
    return ls_jbuf_finish(vm, &b, out);
}

/* ---- "{...}".format(args) -------------------------------------------------------------------------------------- */

static ls_code read_brace_spec(ls_jvm *vm, const char *p, size_t n, spec *f) {
    size_t i = 0;
    *f = (spec){.precision = -1};
    if (n > 1 && strchr("<>=^", p[1]) && (unsigned char)p[0] < 128) {
        f->fill = p[0];
        f->align = p[1];
        i = 2;
    } else if (n && p[0] && strchr("<>=^", p[0])) {
        f->align = p[i++];
    }
    if (i < n && p[i] && strchr("+- ", p[i])) f->sign = p[i++];
    if (i < n && p[i] == '#') f->alternate = p[i++] == '#';
    if (i < n && p[i] == '0' && !f->align) {
        f->fill = '0';
        f->align = '=';
        i++;
    }
    f->width = read_digits(p, n, &i);
    if (i < n && p[i] == ',') f->comma = p[i++] == ',';
    if (i < n && p[i] == '.') {
        i++;
        f->precision = read_digits(p, n, &i);
    }
    if (i < n) f->type = p[i++];
    if (i < n)
        LS_FAIL(vm->e, LS_UNIMPLEMENTED, "format specification '%.*s' is not supported", n < 60 ? (int)n : 60, p);
    return check_limits(vm, f);
}

static ls_code put_braces(ls_jvm *vm, ls_jbuf *b, ls_jv v, const char *text, size_t n) {
    spec f;
    if (!n) return ls_jbuf_value(vm, b, v);
    LS_TRY(read_brace_spec(vm, text, n, &f));
    int64_t i;
    if (v.kind == LS_JV_STR && (!f.type || f.type == 's') && f.align != '=') return put_text(vm, b, &f, v.s);
    if (v.kind == LS_JV_INT && (!f.type || strchr("dxXob", f.type)) && f.precision < 0 && ls_jv_as_int(v, &i))
        return put_int(vm, b, &f, i);
    if ((v.kind == LS_JV_INT || v.kind == LS_JV_FLOAT) && f.type && strchr("eEfFgG%", f.type))
        return put_float(vm, b, &f, ls_jv_as_real(v));
    LS_FAIL(vm->e, LS_UNIMPLEMENTED, "format specification '%.*s' is not supported for %s", n < 60 ? (int)n : 60, text,
            ls_jv_type(v));
}

/* The value that the part of a replacement field before '!' and ':' names: an argument and its attributes and items. */
static ls_code find_field(ls_jvm *vm, const ls_jstr *field, const ls_jcall *call, size_t *automatic, ls_jv *out) {
    size_t n = 0;
    while (n < field->n && field->p[n] != '.' && field->p[n] != '[') n++;
    size_t i = 0;
    int64_t at = read_digits(field->p, n, &i);
    if (!n) at = (int64_t)(*automatic)++;
    if (i == n) {
        if ((uint64_t)at >= call->n)
            LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "format: there is no argument %lld", (long long)at);
        *out = call->args[at];
    } else {
        *out = ls_jv_missing();
        for (size_t k = 0; k < call->n_kw; k++)
            if (call->kw[k].name->n == n && !memcmp(call->kw[k].name->p, field->p, n)) *out = call->kw[k].value;
        if (out->kind == LS_JV_MISSING)
            LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "format: there is no argument '%.*s'", n < 60 ? (int)n : 60, field->p);
    }
    while (n < field->n) {
        bool item = field->p[n] == '[';
        size_t begin = ++n, digits;
        while (n < field->n && (item ? field->p[n] != ']' : field->p[n] != '.' && field->p[n] != '[')) n++;
        ls_jv key;
        LS_TRY(ls_jv_slice(vm, field, begin, n, &key));
        digits = begin;
        int64_t number = read_digits(field->p, n, &digits);
        if (!item) LS_TRY(ls_jv_getattr(vm, *out, key.s, out));
        else LS_TRY(ls_jv_getitem(vm, *out, digits == n && n > begin ? ls_jv_int(number) : key, out));
        n += item && n < field->n;
    }
    return LS_OK;
}

static ls_code put_field(ls_jvm *vm, ls_jbuf *b, const ls_jstr *field, const ls_jcall *call, size_t *automatic) {
    const char *colon = memchr(field->p, ':', field->n);
    size_t name = colon ? (size_t)(colon - field->p) : field->n;
    const char *bang = memchr(field->p, '!', name);
    size_t end = bang ? (size_t)(bang - field->p) : name;
    ls_jstr head = *field;
    head.n = end;
    ls_jv value;
    LS_TRY(find_field(vm, &head, call, automatic, &value));
    if (bang) {
        char how = name == end + 2 ? bang[1] : 0;
        ls_jbuf text = {0};
        if (how != 'r' && how != 's')
            LS_FAIL(vm->e, LS_UNIMPLEMENTED, "format: only the conversions !r and !s are supported");
        LS_TRY(how == 'r' ? ls_jbuf_repr(vm, &text, value) : ls_jbuf_value(vm, &text, value));
        LS_TRY(ls_jbuf_finish(vm, &text, &value));
    }
    return put_braces(vm, b, value, field->p + name + (colon != NULL), field->n - name - (colon != NULL));
}

ls_code ls_jformat_braces(ls_jvm *vm, const ls_jstr *format, const ls_jcall *call, ls_jv *out) {
    ls_jbuf b = {0};
    size_t automatic = 0;
    for (size_t i = 0; i < format->n; i++) {
        char c = format->p[i];
        if (c != '{' && c != '}') {
            LS_TRY(ls_jbuf_part(vm, &b, format, i, i + 1));
        } else if (i + 1 < format->n && format->p[i + 1] == c) {
            LS_TRY(ls_jbuf_part(vm, &b, format, i, i + 1));
            i++;
        } else {
            const char *close = c == '{' ? memchr(format->p + i, '}', format->n - i) : NULL;
            if (!close) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "format: a single '%c'", c);
            size_t end = (size_t)(close - format->p);
            if (memchr(format->p + i + 1, '{', end - i - 1))
                LS_FAIL(vm->e, LS_UNIMPLEMENTED, "format: nested fields are not supported");
            ls_jstr field = *format;
            field.p += i + 1;
            field.n = end - i - 1;
            if (field.origin) field.origin += i + 1;
            LS_TRY(put_field(vm, &b, &field, call, &automatic));
            i = end;
        }
    }
    return ls_jbuf_finish(vm, &b, out);
}
