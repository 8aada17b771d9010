/* Operators: arithmetic and comparison with Python's rules, on 64-bit integers (overflow is an error) and doubles. */
#include <math.h>
#include <string.h>

#include "text/chat_template_builtin.h"

static ls_code overflow(ls_jvm *vm) {
    LS_FAIL(vm->e, LS_OUT_OF_RANGE, "integer arithmetic leaves the range of 64 bits");
}

static ls_code multiply(ls_jvm *vm, int64_t a, int64_t b, int64_t *out) {
    uint64_t x = a < 0 ? -(uint64_t)a : (uint64_t)a, y = b < 0 ? -(uint64_t)b : (uint64_t)b;
    bool negative = (a < 0) != (b < 0);
    uint64_t limit = (uint64_t)INT64_MAX + negative;
    if (x && y > limit / x) return overflow(vm);
    uint64_t r = x * y;
    *out = negative && r ? -(int64_t)(r - 1) - 1 : (int64_t)r;
    return LS_OK;
}

static ls_code int_power(ls_jvm *vm, int64_t base, int64_t exponent, int64_t *out) {
    *out = 1;
    if (base == 0 || base == 1) {
        *out = exponent ? base : 1;
        return LS_OK;
    }
    if (base == -1) {
        *out = exponent % 2 ? -1 : 1;
        return LS_OK;
    }
    for (; exponent > 0; exponent--) LS_TRY(multiply(vm, *out, base, out));
    return LS_OK;
}

static ls_code int_divide(ls_jvm *vm, ls_jop op, int64_t a, int64_t b, int64_t *out) {
    if (!b) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "division by zero");
    if (b == -1) {
        if (op == LS_JOP_FLOORDIV && a == INT64_MIN) return overflow(vm);
        *out = op == LS_JOP_MOD ? 0 : -a;
        return LS_OK;
    }
    int64_t q = a / b, r = a % b;
    bool adjust = r && (r < 0) != (b < 0); /* Python rounds the quotient down */
    *out = op == LS_JOP_MOD ? r + (adjust ? b : 0) : q - adjust;
    return LS_OK;
}

static ls_code int_arithmetic(ls_jvm *vm, ls_jop op, int64_t a, int64_t b, int64_t *out) {
    switch (op) {
    case LS_JOP_ADD:
        if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) return overflow(vm);
        *out = a + b;
        return LS_OK;
    case LS_JOP_SUB:
        if (b < 0 ? a > INT64_MAX + b : a < INT64_MIN + b) return overflow(vm);
        *out = a - b;
        return LS_OK;
    case LS_JOP_MUL: return multiply(vm, a, b, out);
    case LS_JOP_POW: return int_power(vm, a, b, out);
    default: return int_divide(vm, op, a, b, out);
    }
}

static ls_code real_arithmetic(ls_jvm *vm, ls_jop op, double a, double b, double *out) {
    bool divides = op == LS_JOP_DIV || op == LS_JOP_FLOORDIV || op == LS_JOP_MOD;
    if ((divides && b == 0) || (op == LS_JOP_POW && a == 0 && b < 0))
        LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "division by zero");
    double mod = fmod(a, b);
    if (divides && mod && (mod < 0) != (b < 0)) mod += b;
    if (divides && mod == 0) mod = copysign(0, b);
    switch (op) {
    case LS_JOP_ADD: *out = a + b; break;
    case LS_JOP_SUB: *out = a - b; break;
    case LS_JOP_MUL: *out = a * b; break;
    case LS_JOP_DIV: *out = a / b; break;
    case LS_JOP_MOD: *out = mod; break;
    case LS_JOP_POW: *out = pow(a, b); break;
    default: { /* Python's float floor division: an exact quotient, rounded down */
        double q = (a - mod) / b, f = floor(q);
        if (q - f > 0.5) f += 1;
        *out = q == 0 ? copysign(0, a / b) : f;
    }
    }
    if (op == LS_JOP_POW && isnan(*out) && !isnan(a) && !isnan(b))
        LS_FAIL(vm->e, LS_UNIMPLEMENTED, "a root of a negative number is complex, which is not supported");
    if (isinf(*out) && isfinite(a) && isfinite(b) && op == LS_JOP_POW)
        LS_FAIL(vm->e, LS_OUT_OF_RANGE, "the power does not fit a double");
    return LS_OK;
}

static ls_code arithmetic(ls_jvm *vm, ls_jop op, ls_jv a, ls_jv b, ls_jv *out) {
    int64_t x, y, r;
    bool ints = ls_jv_as_int(a, &x) && ls_jv_as_int(b, &y);
    if (ints && op != LS_JOP_DIV && !(op == LS_JOP_POW && y < 0)) {
        LS_TRY(int_arithmetic(vm, op, x, y, &r));
        *out = ls_jv_int(r);
        return LS_OK;
    }
    double f = 0;
    LS_TRY(real_arithmetic(vm, op, ls_jv_as_real(a), ls_jv_as_real(b), &f));
    *out = ls_jv_float(f);
    return LS_OK;
}

/* ---- Strings and lists --------------------------------------------------------------------------------------- */

static ls_code set_markup(ls_jvm *vm, ls_jv *io, bool markup) {
    if (!markup) return LS_OK;
    ls_jstr *s;
    LS_TRY(ls_jvm_alloc(vm, &s, 1, sizeof *s));
    *s = *io->s;
    s->markup = true;
    *io = ls_jv_of_str(s);
    return LS_OK;
}

static ls_code add_strings(ls_jvm *vm, ls_jv a, ls_jv b, ls_jv *out) {
    ls_jbuf buf = {0};
    bool markup = a.s->markup || b.s->markup; /* Markup escapes what it is joined with */
    if (markup) LS_TRY(ls_jstr_escape(vm, a, &a));
    if (markup) LS_TRY(ls_jstr_escape(vm, b, &b));
    LS_TRY(ls_jbuf_str(vm, &buf, a.s));
    LS_TRY(ls_jbuf_str(vm, &buf, b.s));
    LS_TRY(ls_jbuf_finish(vm, &buf, out));
    return set_markup(vm, out, markup);
}

static ls_code add_lists(ls_jvm *vm, ls_jv a, ls_jv b, ls_jv *out) {
    size_t n = a.list->n + b.list->n;
    ls_jv *v;
    LS_TRY(ls_jvm_alloc(vm, &v, n, sizeof *v));
    if (a.list->n) memcpy(v, a.list->v, a.list->n * sizeof *v);
    if (b.list->n) memcpy(v + a.list->n, b.list->v, b.list->n * sizeof *v);
    return ls_jv_list(vm, a.kind, v, n, out);
}

static ls_code repeat(ls_jvm *vm, ls_jv what, int64_t times, ls_jv *out) {
    size_t count = times > 0 ? (size_t)times : 0;
    if (what.kind == LS_JV_STR) {
        ls_jbuf buf = {0};
        if (!what.s->n) count = 0;
        for (size_t i = 0; i < count; i++) {
            LS_TRY(ls_jvm_work(vm, 1));
            LS_TRY(ls_jbuf_str(vm, &buf, what.s));
        }
        LS_TRY(ls_jbuf_finish(vm, &buf, out));
        return set_markup(vm, out, what.s->markup);
    }
    size_t n = what.list->n, total;
    ls_jv *v;
    if (!ls_size_mul(n, count, &total)) return overflow(vm);
    LS_TRY(ls_jvm_alloc(vm, &v, total, sizeof *v));
    for (size_t i = 0; i < total; i++) v[i] = what.list->v[i % n];
    return ls_jv_list(vm, what.kind, v, total, out);
}

static bool is_list(ls_jv v) { return v.kind == LS_JV_LIST || v.kind == LS_JV_TUPLE; }

ls_code ls_jv_binary(ls_jvm *vm, ls_jop op, ls_jv a, ls_jv b, ls_jv *out) {
    int64_t times;
    if (op == LS_JOP_MOD && a.kind == LS_JV_STR) return ls_jformat_percent(vm, a.s, b, out);
    if (a.kind == LS_JV_UNDEFINED) return ls_jv_fail_undefined(vm, a);
    if (b.kind == LS_JV_UNDEFINED) return ls_jv_fail_undefined(vm, b);
    if (ls_jv_is_number(a) && ls_jv_is_number(b)) return arithmetic(vm, op, a, b, out);
    if (op == LS_JOP_ADD && a.kind == LS_JV_STR && b.kind == LS_JV_STR) return add_strings(vm, a, b, out);
    if (op == LS_JOP_ADD && is_list(a) && a.kind == b.kind) return add_lists(vm, a, b, out);
    if (op == LS_JOP_MUL && (a.kind == LS_JV_STR || is_list(a)) && ls_jv_as_int(b, &times))
        return repeat(vm, a, times, out);
    if (op == LS_JOP_MUL && (b.kind == LS_JV_STR || is_list(b)) && ls_jv_as_int(a, &times))
        return repeat(vm, b, times, out);
    static const char *const signs[] = {"+", "-", "*", "/", "//", "%", "**"};
    LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "operator %s does not take %s and %s", signs[op], ls_jv_type(a), ls_jv_type(b));
}

ls_code ls_jv_negate(ls_jvm *vm, ls_jv a, ls_jv *out) {
    if (a.kind == LS_JV_UNDEFINED) return ls_jv_fail_undefined(vm, a);
    if (a.kind == LS_JV_FLOAT) {
        *out = ls_jv_float(-a.f);
        return LS_OK;
    }
    return ls_jv_binary(vm, LS_JOP_SUB, ls_jv_int(0), a, out);
}

ls_code ls_jv_relation(ls_jvm *vm, ls_jop op, ls_jv a, ls_jv b, bool *out) {
    if (op == LS_JOP_IN || op == LS_JOP_NOT_IN) LS_TRY(ls_jv_contains(vm, b, a, out));
    else if (op == LS_JOP_EQ || op == LS_JOP_NE) LS_TRY(ls_jv_equal(vm, a, b, out));
    if (op == LS_JOP_IN || op == LS_JOP_EQ) return LS_OK;
    if (op == LS_JOP_NOT_IN || op == LS_JOP_NE) {
        *out = !*out;
        return LS_OK;
    }
    bool nan = (a.kind == LS_JV_FLOAT && isnan(a.f)) || (b.kind == LS_JV_FLOAT && isnan(b.f));
    int order;
    LS_TRY(ls_jv_compare(vm, a, b, &order));
    *out = !nan && (op == LS_JOP_LT   ? order < 0
                    : op == LS_JOP_LE ? order <= 0
                    : op == LS_JOP_GT ? order > 0
                                      : order >= 0);
    return LS_OK;
}

/* ---- Sorting ------------------------------------------------------------------------------------------------- */

static ls_code merge(ls_jvm *vm, const ls_jpair *a, size_t n, const ls_jpair *b, size_t m, bool reverse,
                     ls_jpair *out) {
    size_t i = 0, j = 0;
    while (i < n && j < m) {
        int order;
        LS_TRY(ls_jv_compare(vm, reverse ? a[i].key : b[j].key, reverse ? b[j].key : a[i].key, &order));
        *out++ = order < 0 ? b[j++] : a[i++]; /* on equal keys the earlier element stays first */
    }
    if (i < n) memcpy(out, a + i, (n - i) * sizeof *a);
    else if (j < m) memcpy(out, b + j, (m - j) * sizeof *b);
    return LS_OK;
}

ls_code ls_jv_sort(ls_jvm *vm, ls_jpair *v, size_t n, bool reverse) {
    ls_jpair *other;
    LS_TRY(ls_jvm_alloc(vm, &other, n, sizeof *other));
    ls_jpair *from = v, *to = other;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t i = 0; i < n; i += 2 * width) {
            size_t mid = i + width < n ? i + width : n, end = mid + width < n ? mid + width : n;
            LS_TRY(merge(vm, from + i, mid - i, from + mid, end - mid, reverse, to + i));
        }
        ls_jpair *swap = from;
        from = to;
        to = swap;
    }
    if (from != v) memcpy(v, from, n * sizeof *v);
    return LS_OK;
}
