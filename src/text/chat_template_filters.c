/* Filters on text and numbers, the general ones (default, string, list, ...), and the search over all filter tables. */
#include <math.h>
#include <string.h>

#include "text/chat_template_builtin.h"

static bool given(ls_jv v) { return v.kind != LS_JV_MISSING && v.kind != LS_JV_NONE; }

const ls_jbuiltin *ls_jfilter_find(const char *name, size_t len) {
    const ls_jbuiltin *const tables[] = {ls_jstr_filters, ls_jseq_filters, ls_jnumber_filters};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const ls_jbuiltin *fn = ls_jbuiltin_find(tables[i], name, len);
        if (fn) return fn;
    }
    return NULL;
}

ls_code ls_jfilter_apply(ls_jvm *vm, ls_jv name, ls_jv self, const ls_jcall *call, ls_jv *out) {
    const ls_jstr *s;
    LS_TRY(ls_jv_want_str(vm, name, "the name of a filter", &s));
    const ls_jbuiltin *fn = ls_jfilter_find(s->p, s->n);
    if (!fn) LS_FAIL(vm->e, LS_UNIMPLEMENTED, "unknown filter '%.*s'", s->n < 60 ? (int)s->n : 60, s->p);
    return ls_jbuiltin_call(vm, fn, self, call, out);
}

/* ---- Text ---------------------------------------------------------------------------------------------------- */

static ls_code filter_trim(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    const ls_jstr *s, *chars = NULL;
    LS_TRY(ls_jv_str(vm, self, &s));
    if (given(call->args[0])) LS_TRY(ls_jv_want_str(vm, call->args[0], "the argument of trim", &chars));
    return ls_jstr_strip(vm, s, chars, 3, out);
}

static ls_code in_case(ls_jvm *vm, ls_jv self, ls_jcase how, ls_jv *out) {
    const ls_jstr *s;
    LS_TRY(ls_jv_str(vm, self, &s));
    return ls_jstr_case(vm, s, how, out);
}

static ls_code filter_upper(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    return in_case(vm, self, LS_CASE_UPPER, out);
}

static ls_code filter_lower(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    return in_case(vm, self, LS_CASE_LOWER, out);
}

static ls_code filter_capitalize(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    return in_case(vm, self, LS_CASE_CAPITALIZE, out);
}

/* jinja2's own title: words begin after white space and any of -({[<. */
static ls_code filter_title(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    const ls_jstr *s;
    LS_TRY(ls_jv_str(vm, self, &s));
    ls_jbuf b = {0};
    size_t begin = 0;
    while (begin < s->n) {
        size_t first = begin + ls_utf8_step(s->p + begin), end = first;
        uint32_t cp = 0;
        ls_utf8_decode(s->p + begin, s->n - begin, &cp);
        bool gap = ls_py_isspace(cp) || (cp && cp < 128 && strchr("-({[<", (int)cp));
        for (; !gap && end < s->n; end += ls_utf8_step(s->p + end)) {
            ls_utf8_decode(s->p + end, s->n - end, &cp);
            if (ls_py_isspace(cp) || (cp && cp < 128 && strchr("-({[<", (int)cp))) break;
        }
        ls_jv head, tail;
        LS_TRY(ls_jv_slice(vm, s, begin, first, &head));
        LS_TRY(ls_jv_slice(vm, s, first, end, &tail));
        LS_TRY(ls_jstr_case(vm, head.s, LS_CASE_UPPER, &head));
        LS_TRY(ls_jstr_case(vm, tail.s, LS_CASE_LOWER, &tail));
        LS_TRY(ls_jbuf_str(vm, &b, head.s));
        LS_TRY(ls_jbuf_str(vm, &b, tail.s));
        begin = end;
    }
    return ls_jbuf_finish(vm, &b, out);
}

static ls_code filter_replace(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    const ls_jstr *s, *old, *by;
    int64_t count = -1;
    LS_TRY(ls_jv_str(vm, self, &s));
    LS_TRY(ls_jv_str(vm, call->args[0], &old));
    LS_TRY(ls_jv_str(vm, call->args[1], &by));
    if (given(call->args[2])) LS_TRY(ls_jv_want_int(vm, call->args[2], "the count of replace", &count));
    return ls_jstr_replace(vm, s, old, by, count, out);
}

static ls_code filter_escape(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    return ls_jstr_escape(vm, self, out);
}

static ls_code filter_forceescape(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    const ls_jstr *s;
    LS_TRY(ls_jv_str(vm, self, &s));
    ls_jstr plain = *s;
    plain.markup = false;
    ls_jv v;
    LS_TRY(ls_jv_slice(vm, &plain, 0, plain.n, &v));
    return ls_jstr_escape(vm, v, out);
}

static ls_code filter_safe(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    const ls_jstr *s;
    LS_TRY(ls_jv_str(vm, self, &s));
    ls_jstr markup = *s;
    markup.markup = true;
    return ls_jv_slice(vm, &markup, 0, markup.n, out);
}

static ls_code filter_string(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    const ls_jstr *s;
    LS_TRY(ls_jv_str(vm, self, &s));
    *out = ls_jv_of_str(s);
    return LS_OK;
}

static ls_code filter_indent(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    const ls_jstr *s, *pad;
    ls_jbuf spaces = {0}, b = {0};
    ls_jv v = call->args[0];
    const ls_jlist *lines;
    bool first = ls_jv_truth(call->args[1]), blank = ls_jv_truth(call->args[2]);
    LS_TRY(ls_jv_want_str(vm, self, "the value of indent", &s));
    if (v.kind != LS_JV_STR) {
        int64_t width = 4;
        if (v.kind != LS_JV_MISSING) LS_TRY(ls_jv_want_int(vm, v, "the width of indent", &width));
        LS_TRY(ls_jbuf_pad(vm, &spaces, ' ', width));
        LS_TRY(ls_jbuf_finish(vm, &spaces, &v));
    }
    pad = v.s;
    LS_TRY(ls_jbuf_str(vm, &b, s));
    LS_TRY(ls_jbuf_text(vm, &b, "\n")); /* keeps a last empty line */
    LS_TRY(ls_jbuf_finish(vm, &b, &v));
    LS_TRY(ls_jstr_splitlines(vm, v.s, false, &v));
    lines = v.list;
    b = (ls_jbuf){0};
    for (size_t i = 0; i < lines->n; i++) {
        if (i) LS_TRY(ls_jbuf_text(vm, &b, "\n"));
        bool padded = i == 0 ? first : blank || lines->v[i].s->n;
        if (padded) LS_TRY(ls_jbuf_str(vm, &b, pad));
        LS_TRY(ls_jbuf_str(vm, &b, lines->v[i].s));
    }
    return ls_jbuf_finish(vm, &b, out);
}

static ls_code filter_format(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    const ls_jstr *s;
    ls_jv args;
    LS_TRY(ls_jv_str(vm, self, &s));
    if (call->n && call->n_kw)
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "format takes positional or keyword arguments, not both");
    if (call->n_kw) {
        LS_TRY(ls_jv_dict(vm, LS_JV_DICT, &args));
        for (size_t i = 0; i < call->n_kw; i++)
            LS_TRY(ls_jdict_set(vm, args.dict, ls_jv_of_str(call->kw[i].name), call->kw[i].value));
    } else {
        LS_TRY(ls_jv_list(vm, LS_JV_TUPLE, call->args, call->n, &args));
    }
    return ls_jformat_percent(vm, s, args, out);
}

static ls_code filter_center(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    const ls_jstr *s;
    ls_jv width = call->args[0].kind == LS_JV_MISSING ? ls_jv_int(80) : call->args[0];
    LS_TRY(ls_jv_str(vm, self, &s));
    const ls_jcall center = {.args = &width, .n = 1};
    return ls_jbuiltin_call(vm, ls_jbuiltin_find(ls_jstr_methods, "center", 6), ls_jv_of_str(s), &center, out);
}

const ls_jbuiltin ls_jstr_filters[] = {{"trim", "?chars", filter_trim},
                                       {"upper", "", filter_upper},
                                       {"lower", "", filter_lower},
                                       {"capitalize", "", filter_capitalize},
                                       {"title", "", filter_title},
                                       {"replace", "old new ?count", filter_replace},
                                       {"escape", "", filter_escape},
                                       {"e", "", filter_escape},
                                       {"forceescape", "", filter_forceescape},
                                       {"safe", "", filter_safe},
                                       {"string", "", filter_string},
                                       {"indent", "?width ?first ?blank", filter_indent},
                                       {"format", NULL, filter_format},
                                       {"center", "?width", filter_center},
                                       {"tojson", "?ensure_ascii ?indent ?separators ?sort_keys", ls_jtojson},
                                       {NULL, NULL, NULL}};

/* ---- Numbers and general ------------------------------------------------------------------------------------- */

static ls_code filter_default(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    bool use = self.kind == LS_JV_UNDEFINED || (ls_jv_truth(call->args[1]) && !ls_jv_truth(self));
    *out = use ? call->args[0] : self;
    return out->kind == LS_JV_MISSING ? ls_jv_text(vm, "", 0, false, out) : LS_OK;
}

/* int(x) of a double; false for NaN, infinities and values past 64 bits. */
static bool truncate_real(double f, int64_t *out) {
    if (!(f > -9223372036854775808.0 && f < 9223372036854775808.0)) return false;
    *out = (int64_t)f;
    return true;
}

static ls_code filter_int(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    int64_t base = 10, i = 0;
    double f = 0;
    bool ok = false;
    if (self.kind == LS_JV_UNDEFINED) return ls_jv_fail_undefined(vm, self);
    if (given(call->args[1])) LS_TRY(ls_jv_want_int(vm, call->args[1], "the base of int", &base));
    if (base != 2 && base != 8 && base != 10 && base != 16)
        LS_FAIL(vm->e, LS_UNIMPLEMENTED, "int: base %lld; 2, 8, 10 and 16 are supported", (long long)base);
    if (self.kind == LS_JV_STR)
        ok = ls_jstr_to_int(self.s, (int)base, &i) || (ls_jstr_to_float(self.s, &f) && truncate_real(f, &i));
    else if (self.kind == LS_JV_FLOAT) ok = truncate_real(self.f, &i);
    else ok = ls_jv_as_int(self, &i);
    *out = ok ? ls_jv_int(i) : call->args[0].kind == LS_JV_MISSING ? ls_jv_int(0) : call->args[0];
    return LS_OK;
}

static ls_code filter_float(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    double f = 0;
    if (self.kind == LS_JV_UNDEFINED) return ls_jv_fail_undefined(vm, self);
    bool ok = ls_jv_is_number(self) || (self.kind == LS_JV_STR && ls_jstr_to_float(self.s, &f));
    if (ls_jv_is_number(self)) f = ls_jv_as_real(self);
    *out = ok ? ls_jv_float(f) : call->args[0].kind == LS_JV_MISSING ? ls_jv_float(0) : call->args[0];
    return LS_OK;
}

static ls_code want_number(ls_jvm *vm, ls_jv v, const char *what) {
    if (v.kind == LS_JV_UNDEFINED) return ls_jv_fail_undefined(vm, v);
    if (!ls_jv_is_number(v)) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "%s needs a number, not %s", what, ls_jv_type(v));
    return LS_OK;
}

static ls_code filter_abs(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    LS_TRY(want_number(vm, self, "abs"));
    if (self.kind == LS_JV_FLOAT) {
        *out = ls_jv_float(fabs(self.f));
        return LS_OK;
    }
    *out = self.kind == LS_JV_BOOL ? ls_jv_int(self.b) : self;
    return out->i < 0 ? ls_jv_negate(vm, *out, out) : LS_OK;
}

/* round(i, -digits) of an integer: to a multiple of a power of ten, half to even. */
static ls_code round_int(ls_jvm *vm, int64_t i, int64_t digits, ls_jv *out) {
    *out = ls_jv_int(digits < -18 ? 0 : i);
    if (digits >= 0 || digits < -18) return LS_OK;
    int64_t unit = 1;
    for (; digits < 0; digits++) unit *= 10;
    int64_t rest = i % unit;
    if (rest < 0) rest += unit;
    bool up = rest > unit / 2 || (rest == unit / 2 && ((i - rest) / unit) % 2 != 0);
    LS_TRY(ls_jv_binary(vm, LS_JOP_SUB, ls_jv_int(i), ls_jv_int(rest), out));
    return up ? ls_jv_binary(vm, LS_JOP_ADD, *out, ls_jv_int(unit), out) : LS_OK;
}

static ls_code filter_round(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    int64_t digits = 0, i;
    const ls_jstr *method = NULL;
    LS_TRY(want_number(vm, self, "round"));
    if (call->args[0].kind != LS_JV_MISSING)
        LS_TRY(ls_jv_want_int(vm, call->args[0], "the precision of round", &digits));
    if (call->args[1].kind != LS_JV_MISSING) LS_TRY(ls_jv_want_str(vm, call->args[1], "the method of round", &method));
    if (!method || ls_jstr_is(method, "common")) {
        if (ls_jv_as_int(self, &i)) return round_int(vm, i, digits, out);
        *out = ls_jv_float(ls_py_round(self.f, digits));
        return LS_OK;
    }
    bool up = ls_jstr_is(method, "ceil");
    if (!up && !ls_jstr_is(method, "floor"))
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "round: method must be common, ceil or floor");
    double scale = pow(10, (double)digits), x = ls_jv_as_real(self) * scale;
    if (!isfinite(x) || fabs(x) >= 9e18) LS_FAIL(vm->e, LS_OUT_OF_RANGE, "round: the number does not fit 64 bits");
    *out = ls_jv_float((up ? ceil(x) : floor(x)) / scale);
    return LS_OK;
}

static ls_code filter_length(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    size_t n;
    LS_TRY(ls_jv_len(vm, self, &n));
    *out = ls_jv_int((int64_t)n);
    return LS_OK;
}

static ls_code filter_attr(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    const ls_jstr *name;
    LS_TRY(ls_jv_want_str(vm, call->args[0], "the argument of attr", &name));
    if (self.kind != LS_JV_DICT) return ls_jv_getattr(vm, self, name, out);
    ls_jv empty = self; /* attr never looks at the items of a dict */
    ls_jdict none = {0};
    empty.dict = &none;
    LS_TRY(ls_jv_getattr(vm, empty, name, out));
    return out->kind == LS_JV_METHOD ? ls_jv_getattr(vm, self, name, out) : LS_OK;
}

const ls_jbuiltin ls_jnumber_filters[] = {{"default", "?default_value ?boolean", filter_default},
                                          {"d", "?default_value ?boolean", filter_default},
                                          {"int", "?default ?base", filter_int},
                                          {"float", "?default", filter_float},
                                          {"abs", "", filter_abs},
                                          {"round", "?precision ?method", filter_round},
                                          {"length", "", filter_length},
                                          {"count", "", filter_length},
                                          {"attr", "name", filter_attr},
                                          {NULL, NULL, NULL}};
