/* The methods of strings, each as Python's method of that name. */
#include <string.h>

#include <utf8proc.h>

#include "text/chat_template_builtin.h"

typedef enum side { LEFT = 1, RIGHT = 2, BOTH = 3 } side;

static bool given(ls_jv v) { return v.kind != LS_JV_MISSING && v.kind != LS_JV_NONE; }

static ls_code optional_int(ls_jvm *vm, ls_jv v, int64_t missing, int64_t *out) {
    *out = missing;
    return given(v) ? ls_jv_want_int(vm, v, "an argument", out) : LS_OK;
}

/* ---- Stripping and case -------------------------------------------------------------------------------------- */

static ls_code strip(ls_jvm *vm, ls_jv self, const ls_jcall *call, side sides, ls_jv *out) {
    const ls_jstr *chars = NULL;
    if (given(call->args[0])) LS_TRY(ls_jv_want_str(vm, call->args[0], "the argument of strip", &chars));
    return ls_jstr_strip(vm, self.s, chars, sides, out);
}

static ls_code str_strip(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return strip(vm, self, call, BOTH, out);
}
static ls_code str_lstrip(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return strip(vm, self, call, LEFT, out);
}
static ls_code str_rstrip(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return strip(vm, self, call, RIGHT, out);
}

#define CASE_METHOD(name, how)                                                                    \
    static ls_code str_##name(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {          \
        (void)call;                                                                               \
        return ls_jstr_case(vm, self.s, how, out);                                                \
    }
CASE_METHOD(upper, LS_CASE_UPPER)
CASE_METHOD(lower, LS_CASE_LOWER)
CASE_METHOD(title, LS_CASE_TITLE)
CASE_METHOD(capitalize, LS_CASE_CAPITALIZE)
CASE_METHOD(swapcase, LS_CASE_SWAP)

/* removeprefix and removesuffix */
static ls_code remove_end(ls_jvm *vm, ls_jv self, const ls_jcall *call, bool prefix, ls_jv *out) {
    const ls_jstr *s = self.s, *part;
    LS_TRY(ls_jv_want_str(vm, call->args[0], "the argument of removeprefix or removesuffix", &part));
    size_t at = prefix || part->n > s->n ? 0 : s->n - part->n;
    bool hit = part->n <= s->n && !memcmp(s->p + at, part->p, part->n);
    return ls_jv_slice(vm, s, hit && prefix ? part->n : 0, hit && !prefix ? at : s->n, out);
}

static ls_code str_removeprefix(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return remove_end(vm, self, call, true, out);
}
static ls_code str_removesuffix(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return remove_end(vm, self, call, false, out);
}

/* ---- Splitting and joining ----------------------------------------------------------------------------------- */

/* Growable array of parts in the arena. */
typedef struct parts {
    ls_jv *v;
    size_t n, cap;
} parts;

static ls_code add_part(ls_jvm *vm, parts *p, const ls_jstr *s, size_t begin, size_t end) {
    LS_TRY(ls_jvm_work(vm, 1));
    if (p->n == p->cap) {
        ls_jv *grown;
        size_t cap = p->cap ? p->cap * 2 : 8;
        LS_TRY(ls_jvm_alloc(vm, &grown, cap, sizeof *grown));
        if (p->n) memcpy(grown, p->v, p->n * sizeof *grown);
        p->v = grown;
        p->cap = cap;
    }
    return ls_jv_slice(vm, s, begin, end, &p->v[p->n++]);
}

static size_t next_space(const ls_jstr *s, size_t i) {
    for (uint32_t cp; i < s->n; i += ls_utf8_step(s->p + i)) {
        ls_utf8_decode(s->p + i, s->n - i, &cp);
        if (ls_py_isspace(cp)) break;
    }
    return i;
}

static ls_code split_spaces(ls_jvm *vm, const ls_jstr *s, int64_t max, parts *p) {
    for (size_t i = ls_py_strip_left(s->p, s->n); i < s->n;) {
        size_t end = max >= 0 && (int64_t)p->n >= max ? s->n : next_space(s, i);
        LS_TRY(add_part(vm, p, s, i, end));
        if (max >= 0 && (int64_t)p->n > max) break;
        i = end + ls_py_strip_left(s->p + end, s->n - end);
    }
    return LS_OK;
}

static ls_code split_by(ls_jvm *vm, const ls_jstr *s, const ls_jstr *sep, int64_t max, parts *p) {
    size_t from = 0, hit;
    while (max-- != 0 && (hit = ls_find_bytes(s->p, s->n, sep->p, sep->n, from)) != SIZE_MAX) {
        LS_TRY(add_part(vm, p, s, from, hit));
        from = hit + sep->n;
    }
    return add_part(vm, p, s, from, s->n);
}

/* The cost of a plain search from the right, charged before it. */
static ls_code charge_search(ls_jvm *vm, const ls_jstr *s, const ls_jstr *sub) {
    return ls_jvm_work(vm, s->n / 64 * (1 + sub->n / 8));
}

static size_t find_last(const ls_jstr *s, size_t end, const ls_jstr *sub, size_t begin) {
    if (sub->n > end || end - sub->n < begin) return SIZE_MAX;
    for (size_t i = end - sub->n + 1; i-- > begin;)
        if (!memcmp(s->p + i, sub->p, sub->n)) return i;
    return SIZE_MAX;
}

static size_t last_space_end(const ls_jstr *s, size_t n) { /* start of the last word in s[0, n) */
    while (n) {
        size_t start = n - 1;
        while (start && ((unsigned char)s->p[start] & 0xC0) == 0x80) start--;
        uint32_t cp = 0;
        ls_utf8_decode(s->p + start, n - start, &cp);
        if (ls_py_isspace(cp)) break;
        n = start;
    }
    return n;
}

/* Both rsplit forms collect parts from the right and are reversed at the end. */
static ls_code rsplit_into(ls_jvm *vm, const ls_jstr *s, const ls_jstr *sep, int64_t max, parts *p) {
    size_t end = sep ? s->n : ls_py_strip_right(s->p, s->n);
    while (sep || end) {
        size_t hit = sep ? find_last(s, end, sep, 0) : last_space_end(s, end);
        bool stop = max >= 0 && (int64_t)p->n >= max;
        if (stop || (sep && hit == SIZE_MAX)) {
            LS_TRY(add_part(vm, p, s, 0, end));
            break;
        }
        LS_TRY(add_part(vm, p, s, sep ? hit + sep->n : hit, end));
        end = sep ? hit : ls_py_strip_right(s->p, hit);
    }
    for (size_t i = 0; i < p->n / 2; i++) {
        ls_jv swap = p->v[i];
        p->v[i] = p->v[p->n - 1 - i];
        p->v[p->n - 1 - i] = swap;
    }
    return LS_OK;
}

static ls_code split(ls_jvm *vm, ls_jv self, const ls_jcall *call, bool from_right, ls_jv *out) {
    const ls_jstr *sep = NULL;
    int64_t max;
    parts p = {0};
    if (given(call->args[0])) LS_TRY(ls_jv_want_str(vm, call->args[0], "the separator of split", &sep));
    if (sep && !sep->n) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "split: empty separator");
    LS_TRY(optional_int(vm, call->args[1], -1, &max));
    LS_TRY(ls_jvm_work(vm, self.s->n / 64));
    if (from_right && sep) LS_TRY(charge_search(vm, self.s, sep));
    if (from_right) LS_TRY(rsplit_into(vm, self.s, sep, max, &p));
    else if (sep) LS_TRY(split_by(vm, self.s, sep, max, &p));
    else LS_TRY(split_spaces(vm, self.s, max, &p));
    return ls_jv_list(vm, LS_JV_LIST, p.v, p.n, out);
}

static ls_code str_split(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return split(vm, self, call, false, out);
}
static ls_code str_rsplit(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return split(vm, self, call, true, out);
}

static ls_code str_splitlines(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return ls_jstr_splitlines(vm, self.s, ls_jv_truth(call->args[0]), out);
}

static ls_code partition(ls_jvm *vm, ls_jv self, const ls_jcall *call, bool last, ls_jv *out) {
    const ls_jstr *s = self.s, *sep;
    ls_jv *v;
    LS_TRY(ls_jv_want_str(vm, call->args[0], "the separator of partition", &sep));
    if (!sep->n) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "partition: empty separator");
    LS_TRY(charge_search(vm, s, sep));
    size_t hit = last ? find_last(s, s->n, sep, 0) : ls_find_bytes(s->p, s->n, sep->p, sep->n, 0);
    LS_TRY(ls_jvm_alloc(vm, &v, 3, sizeof *v));
    size_t begin = hit != SIZE_MAX ? hit : last ? 0 : s->n, end = hit != SIZE_MAX ? hit + sep->n : begin;
    LS_TRY(ls_jv_slice(vm, s, 0, begin, &v[0]));
    LS_TRY(ls_jv_slice(vm, s, begin, end, &v[1]));
    LS_TRY(ls_jv_slice(vm, s, end, s->n, &v[2]));
    return ls_jv_list(vm, LS_JV_TUPLE, v, 3, out);
}

static ls_code str_partition(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return partition(vm, self, call, false, out);
}
static ls_code str_rpartition(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return partition(vm, self, call, true, out);
}

static ls_code str_join(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    const ls_jlist *items;
    LS_TRY(ls_jv_items(vm, call->args[0], &items));
    return ls_jstr_join(vm, self.s, items, false, out);
}

static ls_code str_replace(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    const ls_jstr *old, *by;
    int64_t count;
    LS_TRY(ls_jv_want_str(vm, call->args[0], "the first argument of replace", &old));
    LS_TRY(ls_jv_want_str(vm, call->args[1], "the second argument of replace", &by));
    LS_TRY(optional_int(vm, call->args[2], -1, &count));
    return ls_jstr_replace(vm, self.s, old, by, count, out);
}

/* ---- Searching ----------------------------------------------------------------------------------------------- */

/* The byte range that start and end (characters, maybe negative or missing) select; *ok: start is not past end. */
static ls_code byte_range(ls_jvm *vm, const ls_jstr *s, ls_jv start, ls_jv end, size_t *begin, size_t *stop, bool *ok) {
    int64_t n = (int64_t)ls_utf8_count(s->p, s->n), a, b;
    LS_TRY(ls_jvm_work(vm, s->n / 64));
    LS_TRY(optional_int(vm, start, 0, &a));
    LS_TRY(optional_int(vm, end, n, &b));
    if (a < 0) a = a < -n ? 0 : a + n;
    if (b < 0) b = b < -n ? 0 : b + n;
    if (b > n) b = n;
    *ok = a <= b;
    *begin = ls_utf8_offset(s->p, s->n, *ok ? (size_t)a : 0);
    *stop = ls_utf8_offset(s->p, s->n, (size_t)b);
    return LS_OK;
}

static ls_code find(ls_jvm *vm, ls_jv self, const ls_jcall *call, bool last, int64_t *out) {
    const ls_jstr *s = self.s, *sub;
    size_t begin, end;
    bool ok;
    LS_TRY(ls_jv_want_str(vm, call->args[0], "the argument of find", &sub));
    LS_TRY(byte_range(vm, s, call->args[1], call->args[2], &begin, &end, &ok));
    LS_TRY(charge_search(vm, s, sub));
    size_t hit = !ok    ? SIZE_MAX
                 : last ? find_last(s, end, sub, begin)
                        : ls_find_bytes(s->p, end, sub->p, sub->n, begin);
    *out = hit == SIZE_MAX ? -1 : (int64_t)ls_utf8_count(s->p, hit);
    return LS_OK;
}

static ls_code find_value(ls_jvm *vm, ls_jv self, const ls_jcall *call, bool last, bool must, ls_jv *out) {
    int64_t at;
    LS_TRY(find(vm, self, call, last, &at));
    if (must && at < 0) LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "index: substring not found");
    *out = ls_jv_int(at);
    return LS_OK;
}

static ls_code str_find(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return find_value(vm, self, call, false, false, out);
}
static ls_code str_rfind(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return find_value(vm, self, call, true, false, out);
}
static ls_code str_index(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return find_value(vm, self, call, false, true, out);
}
static ls_code str_rindex(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return find_value(vm, self, call, true, true, out);
}

static ls_code str_count(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    const ls_jstr *s = self.s, *sub;
    size_t begin, end, hit;
    bool ok;
    int64_t count = 0;
    LS_TRY(ls_jv_want_str(vm, call->args[0], "the argument of count", &sub));
    LS_TRY(byte_range(vm, s, call->args[1], call->args[2], &begin, &end, &ok));
    if (ok && !sub->n) count = (int64_t)ls_utf8_count(s->p + begin, end - begin) + 1;
    while (ok && sub->n && (hit = ls_find_bytes(s->p, end, sub->p, sub->n, begin)) != SIZE_MAX) {
        count++;
        begin = hit + sub->n;
    }
    *out = ls_jv_int(count);
    return LS_OK;
}

static ls_code has_end(ls_jvm *vm, const ls_jstr *s, ls_jv part, bool prefix, bool *out) {
    const ls_jstr *p;
    LS_TRY(ls_jv_want_str(vm, part, "the argument of startswith or endswith", &p));
    *out = p->n <= s->n && !memcmp(prefix ? s->p : s->p + s->n - p->n, p->p, p->n);
    return LS_OK;
}

/* startswith and endswith: a string or a tuple of them, optionally within a range. */
static ls_code ends_with(ls_jvm *vm, ls_jv self, const ls_jcall *call, bool prefix, ls_jv *out) {
    size_t begin, end;
    bool ok, hit = false;
    LS_TRY(byte_range(vm, self.s, call->args[1], call->args[2], &begin, &end, &ok));
    ls_jstr range = {.p = self.s->p + begin, .n = ok ? end - begin : 0};
    ls_jv what = call->args[0];
    if (what.kind == LS_JV_TUPLE)
        for (size_t i = 0; !hit && i < what.list->n; i++) LS_TRY(has_end(vm, &range, what.list->v[i], prefix, &hit));
    else LS_TRY(has_end(vm, &range, what, prefix, &hit));
    *out = ls_jv_bool(ok && hit);
    return LS_OK;
}

static ls_code str_startswith(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return ends_with(vm, self, call, true, out);
}
static ls_code str_endswith(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return ends_with(vm, self, call, false, out);
}

/* ---- Character classes --------------------------------------------------------------------------------------- */

static bool is_letter(uint32_t cp) {
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}
static bool is_decimal(uint32_t cp) { return utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_ND; }
static bool is_digit(uint32_t cp) {
    return is_decimal(cp) || cp == 0xB2 || cp == 0xB3 || cp == 0xB9 || cp == 0x2070 || (cp >= 0x2074 && cp <= 0x2079) ||
           (cp >= 0x2080 && cp <= 0x2089);
}
static bool is_numeric(uint32_t cp) {
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return is_digit(cp) || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}
static bool is_alnum(uint32_t cp) { return is_letter(cp) || is_numeric(cp); }
static bool is_ascii(uint32_t cp) { return cp < 128; }

static bool all_chars(const ls_jstr *s, bool (*test)(uint32_t)) {
    for (size_t i = 0; i < s->n; i += ls_utf8_step(s->p + i)) {
        uint32_t cp = 0;
        ls_utf8_decode(s->p + i, s->n - i, &cp);
        if (!test(cp)) return false;
    }
    return true;
}

#define CLASS_METHOD(name, test, of_empty)                                                         \
    static ls_code str_##name(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {           \
        (void)call;                                                                                \
        *out = ls_jv_bool(self.s->n ? all_chars(self.s, test) : of_empty);                          \
        return ls_jvm_work(vm, self.s->n / 64);                                                    \
    }
CLASS_METHOD(isalpha, is_letter, false)
CLASS_METHOD(isdecimal, is_decimal, false)
CLASS_METHOD(isdigit, is_digit, false)
CLASS_METHOD(isnumeric, is_numeric, false)
CLASS_METHOD(isalnum, is_alnum, false)
CLASS_METHOD(isspace, ls_py_isspace, false)
CLASS_METHOD(isascii, is_ascii, true)

/* isupper and islower: at least one cased letter, and none of the other case. */
static ls_code is_case(ls_jvm *vm, const ls_jstr *s, utf8proc_category_t want, ls_jv *out) {
    bool any = false;
    for (size_t i = 0; i < s->n; i += ls_utf8_step(s->p + i)) {
        uint32_t cp = 0;
        ls_utf8_decode(s->p + i, s->n - i, &cp);
        utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
        bool cased = c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
        if (cased && c != want) {
            any = false;
            break;
        }
        any = any || cased;
    }
    *out = ls_jv_bool(any);
    return ls_jvm_work(vm, s->n / 64);
}

static ls_code str_isupper(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    return is_case(vm, self.s, UTF8PROC_CATEGORY_LU, out);
}

static ls_code str_islower(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    (void)call;
    return is_case(vm, self.s, UTF8PROC_CATEGORY_LL, out);
}

/* ---- Padding and formatting ---------------------------------------------------------------------------------- */

static ls_code pad(ls_jvm *vm, ls_jv self, const ls_jcall *call, side where, ls_jv *out) {
    int64_t width;
    const ls_jstr *fill = NULL;
    LS_TRY(ls_jv_want_int(vm, call->args[0], "the width", &width));
    if (given(call->args[1])) LS_TRY(ls_jv_want_str(vm, call->args[1], "the fill character", &fill));
    if (fill && (fill->n != 1 || (unsigned char)*fill->p >= 128))
        LS_FAIL(vm->e, LS_UNIMPLEMENTED, "the fill character must be one ASCII character");
    char c = fill ? *fill->p : ' ';
    int64_t n = (int64_t)ls_utf8_count(self.s->p, self.s->n), total = width > n ? width - n : 0;
    int64_t left = where == LEFT ? total : where == RIGHT ? 0 : total / 2 + (total & width & 1);
    ls_jbuf b = {0};
    LS_TRY(ls_jbuf_pad(vm, &b, c, left));
    LS_TRY(ls_jbuf_str(vm, &b, self.s));
    LS_TRY(ls_jbuf_pad(vm, &b, c, total - left));
    return ls_jbuf_finish(vm, &b, out);
}

static ls_code str_center(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return pad(vm, self, call, BOTH, out);
}
static ls_code str_ljust(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return pad(vm, self, call, RIGHT, out);
}
static ls_code str_rjust(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return pad(vm, self, call, LEFT, out);
}

static ls_code str_zfill(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    int64_t width;
    LS_TRY(ls_jv_want_int(vm, call->args[0], "the width", &width));
    size_t sign = self.s->n && (*self.s->p == '+' || *self.s->p == '-');
    ls_jbuf b = {0};
    LS_TRY(ls_jbuf_part(vm, &b, self.s, 0, sign));
    int64_t n = (int64_t)ls_utf8_count(self.s->p, self.s->n);
    LS_TRY(ls_jbuf_pad(vm, &b, '0', width > n ? width - n : 0));
    LS_TRY(ls_jbuf_part(vm, &b, self.s, sign, self.s->n));
    return ls_jbuf_finish(vm, &b, out);
}

static ls_code str_format(ls_jvm *vm, ls_jv self, const ls_jcall *call, ls_jv *out) {
    return ls_jformat_braces(vm, self.s, call, out);
}

const ls_jbuiltin ls_jstr_methods[] = {{"strip", "/ ?chars", str_strip},
                                       {"lstrip", "/ ?chars", str_lstrip},
                                       {"rstrip", "/ ?chars", str_rstrip},
                                       {"upper", "", str_upper},
                                       {"lower", "", str_lower},
                                       {"title", "", str_title},
                                       {"capitalize", "", str_capitalize},
                                       {"swapcase", "", str_swapcase},
                                       {"removeprefix", "/ prefix", str_removeprefix},
                                       {"removesuffix", "/ suffix", str_removesuffix},
                                       {"split", "?sep ?maxsplit", str_split},
                                       {"rsplit", "?sep ?maxsplit", str_rsplit},
                                       {"splitlines", "?keepends", str_splitlines},
                                       {"partition", "/ sep", str_partition},
                                       {"rpartition", "/ sep", str_rpartition},
                                       {"join", "/ iterable", str_join},
                                       {"replace", "/ old new ?count", str_replace},
                                       {"find", "/ sub ?start ?end", str_find},
                                       {"rfind", "/ sub ?start ?end", str_rfind},
                                       {"index", "/ sub ?start ?end", str_index},
                                       {"rindex", "/ sub ?start ?end", str_rindex},
                                       {"count", "/ sub ?start ?end", str_count},
                                       {"startswith", "/ prefix ?start ?end", str_startswith},
                                       {"endswith", "/ suffix ?start ?end", str_endswith},
                                       {"isalpha", "", str_isalpha},
                                       {"isdecimal", "", str_isdecimal},
                                       {"isdigit", "", str_isdigit},
                                       {"isnumeric", "", str_isnumeric},
                                       {"isalnum", "", str_isalnum},
                                       {"isspace", "", str_isspace},
                                       {"isascii", "", str_isascii},
                                       {"isupper", "", str_isupper},
                                       {"islower", "", str_islower},
                                       {"center", "/ width ?fillchar", str_center},
                                       {"ljust", "/ width ?fillchar", str_ljust},
                                       {"rjust", "/ width ?fillchar", str_rjust},
                                       {"zfill", "/ width", str_zfill},
                                       {"format", NULL, str_format},
                                       {NULL, NULL, NULL}};

bool ls_jmethod_is_unsupported(const char *name, size_t len) {
    static const char *const names[] = {"casefold",  "encode",       "expandtabs",  "format_map",
                                        "istitle",   "isidentifier", "isprintable", "maketrans",
                                        "translate", "fromkeys",     NULL};
    for (size_t i = 0; names[i]; i++)
        if (strlen(names[i]) == len && !memcmp(names[i], name, len)) return true;
    return false;
}
