/* Translation of Oniguruma's Ruby syntax to PCRE2's.
 *
 * The two agree on most of what tokenizers use; this file covers the differences: what \s and \w contain, scripts
 * versus script extensions, intervals followed by "+", \h, \v, \u, the meaning of (?m), lines for ^ and $ (an option
 * of the compiler call). Everything it does not know it refuses. */
#include <ctype.h>
#include <string.h>

#include "text/tokenizer_regex.h"

#define SPACES "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define WORDS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"

typedef struct translator {
    const char *p, *end, *begin;
    ls_str *out;
    ls_error *e;
} translator;

static ls_code emit(translator *t, const char *s) { return ls_str_append(t->out, s, SIZE_MAX, t->e); }

static ls_code copy(translator *t, size_t n) {
    LS_TRY(ls_str_append(t->out, t->p, n, t->e));
    t->p += n;
    return LS_OK;
}

static ls_code refuse(const translator *t, const char *what) {
    LS_FAIL(t->e, LS_UNIMPLEMENTED, "regular expression \"%.200s\": %s at byte %zu is not supported", t->begin, what,
            (size_t)(t->p - t->begin));
}

static int peek(const translator *t, size_t k) { return (size_t)(t->end - t->p) > k ? (unsigned char)t->p[k] : -1; }

/* \p{Name}, \P{Name}, \p{^Name}: categories pass; a script name means the Script property, not Script_Extensions. */
static ls_code property(translator *t) {
    static const struct { const char *longer, *shorter; } names[] = {
        {"letter", "L"}, {"mark", "M"}, {"number", "N"}, {"punctuation", "P"}, {"symbol", "S"}, {"separator", "Z"},
        {"other", "C"}, {"any", "Any"}, {"alphabetic", "Alphabetic"}};
    char name[40], low[40];
    size_t n = 0;
    bool negative = peek(t, 1) == 'P';
    if (peek(t, 2) != '{') return refuse(t, "\\p without braces");
    t->p += 3;
    if (peek(t, 0) == '^') negative = !negative, t->p++;
    for (; peek(t, 0) > 0 && peek(t, 0) != '}'; t->p++) {
        if (n + 1 >= sizeof name || !(isalnum(peek(t, 0)) || peek(t, 0) == '_')) return refuse(t, "this property name");
        name[n] = *t->p;
        low[n++] = (char)tolower((unsigned char)*t->p);
    }
    if (peek(t, 0) != '}' || !n) return refuse(t, "an unfinished property name");
    t->p++;
    name[n] = low[n] = 0;
    const char *kind = n > 2 ? "sc:" : "", *use = name;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(low, names[i].longer)) kind = "", use = names[i].shorter;
    return ls_str_printf(t->out, t->e, "\\%c{%s%s}", negative ? 'P' : 'p', kind, use);
}

static ls_code hex_escape(translator *t) {
    char digits[9];
    size_t n = 0;
    bool unicode = peek(t, 1) == 'u', braces = !unicode && peek(t, 2) == '{';
    size_t at = braces ? 3 : 2, want = unicode ? 4 : braces ? 8 : 2;
    while (n < want && peek(t, at + n) > 0 && isxdigit(peek(t, at + n))) digits[n] = t->p[at + n], n++;
    digits[n] = 0;
    bool raw_byte = !unicode && !braces && n == 2 && digits[0] > '7';
    if (!n || (unicode && n != 4) || (braces && peek(t, at + n) != '}') || raw_byte) return refuse(t, "this hexadecimal escape");
    t->p += at + n + (braces ? 1 : 0);
    return ls_str_printf(t->out, t->e, "\\x{%s}", digits);
}

/* A set such as \s inside a class must not become the start of a range. */
static ls_code guard_hyphen(translator *t, bool in_class) {
    if (!in_class || peek(t, 0) != '-' || peek(t, 1) == ']') return LS_OK;
    t->p++;
    return emit(t, "\\-");
}

static ls_code set_escape(translator *t, bool in_class) {
    int c = peek(t, 1);
    if (c == 'p' || c == 'P') LS_TRY(property(t));
    else if (c == 'W' && in_class) return refuse(t, "\\W inside a class");
    else {
        t->p += 2;
        if (c == 's') LS_TRY(emit(t, in_class ? SPACES : "[" SPACES "]"));
        else if (c == 'S') LS_TRY(emit(t, in_class ? "\\S\\x{180e}" : "[^" SPACES "]"));
        else if (c == 'w') LS_TRY(emit(t, in_class ? WORDS : "[" WORDS "]"));
        else if (c == 'W') LS_TRY(emit(t, "[^" WORDS "]"));
        else LS_TRY(emit(t, c == 'd' ? "\\d" : "\\D"));
    }
    return guard_hyphen(t, in_class);
}

static ls_code escape(translator *t, bool in_class) {
    int c = peek(t, 1);
    if (c < 0) return refuse(t, "a backslash at the end");
    if (c < 128 && strchr("sSwWdDpP", c) && c) return set_escape(t, in_class);
    if (c == 'x' || c == 'u') return hex_escape(t);
    if (c < 128 && strchr("rntfae", c) && c) return copy(t, 2);
    if (c == 'v') {
        t->p += 2;
        return emit(t, "\\x{b}");
    }
    if (!in_class && (c == 'b' || c == 'B')) {
        t->p += 2;
        return emit(t, c == 'b' ? "(?:(?<=[" WORDS "])(?![" WORDS "])|(?<![" WORDS "])(?=[" WORDS "]))"
                                : "(?:(?<=[" WORDS "])(?=[" WORDS "])|(?<![" WORDS "])(?![" WORDS "]))");
    }
    if (!in_class && (c == 'A' || c == 'z' || c == 'Z' || c == 'G')) return copy(t, 2);
    if (c < 128 && isalnum(c)) return refuse(t, "this escape");
    if (c == 0) return refuse(t, "an escaped NUL");
    if (c < 128) return copy(t, 2);
    t->p++;
    return LS_OK; /* an escaped character outside ASCII is itself: the caller's loop copies it */
}

static ls_code class(translator *t) {
    LS_TRY(copy(t, 1));
    if (peek(t, 0) == '^') LS_TRY(copy(t, 1));
    for (bool first = true; peek(t, 0) >= 0; first = false) {
        int c = peek(t, 0);
        if (c == ']' && !first) return copy(t, 1);
        if (c == '[') return refuse(t, peek(t, 1) == ':' ? "a POSIX bracket" : "a class inside a class");
        if (c == '&' && peek(t, 1) == '&') return refuse(t, "the intersection of classes");
        if (c == '\\') {
            LS_TRY(escape(t, true));
        } else {
            if (c == ']' || c == ':' || c == '.' || c == '=') LS_TRY(emit(t, "\\"));
            LS_TRY(copy(t, 1));
        }
    }
    return refuse(t, "an unfinished class");
}

/* "(": plain, (?:, lookaround, atomic, and the options i and m (Ruby's m lets "." match a newline: PCRE2's s). */
static ls_code group(translator *t) {
    if (peek(t, 1) == '*') return refuse(t, "\"(*\"");
    if (peek(t, 1) != '?') return copy(t, 1);
    int c = peek(t, 2), d = peek(t, 3);
    if (c == ':' || c == '=' || c == '!' || c == '>') return copy(t, 3);
    if (c == '<' && (d == '=' || d == '!')) return copy(t, 4);
    LS_TRY(copy(t, 2));
    for (; peek(t, 0) == 'i' || peek(t, 0) == 'm' || peek(t, 0) == '-'; t->p++)
        LS_TRY(ls_str_append(t->out, peek(t, 0) == 'm' ? "s" : t->p, 1, t->e));
    if (peek(t, 0) != ':' && peek(t, 0) != ')') return refuse(t, "this kind of group");
    return copy(t, 1);
}

/* {n}, {n,}, {,m}, {n,m}. In Ruby's syntax a "+" behind an interval repeats it (PCRE2: possessive), and a "?" behind {n}
 * makes it optional (PCRE2: lazy). Braces that are no interval are literal. */
static ls_code interval(translator *t) {
    size_t k = 1, digits_lo = 0, digits_hi = 0;
    while (isdigit(peek(t, k) < 0 ? 0 : peek(t, k))) k++, digits_lo++;
    bool comma = peek(t, k) == ',';
    if (comma) k++;
    while (comma && isdigit(peek(t, k) < 0 ? 0 : peek(t, k))) k++, digits_hi++;
    if (peek(t, k) != '}' || (!digits_lo && !digits_hi) || digits_lo > 5 || digits_hi > 5) {
        LS_TRY(emit(t, "\\"));
        return copy(t, 1);
    }
    if (!digits_lo) {
        LS_TRY(emit(t, "{0"));
        t->p++;
        k--;
    }
    LS_TRY(copy(t, k + 1));
    int c = peek(t, 0);
    if (c != '+' && (c != '?' || comma)) return LS_OK;
    t->p++;
    return emit(t, c == '+' ? "{1,}" : "{0,1}");
}

ls_code ls_regex_translate(const char *pattern, size_t len, ls_str *out, ls_error *e) {
    translator t = {.p = pattern, .begin = pattern, .end = pattern + len, .out = out, .e = e};
    while (t.p < t.end) {
        switch (*t.p) {
        case '\\': LS_TRY(escape(&t, false)); break;
        case '[': LS_TRY(class(&t)); break;
        case '(': LS_TRY(group(&t)); break;
        case '{': LS_TRY(interval(&t)); break;
        case ']': case '}':
            LS_TRY(emit(&t, "\\"));
            LS_TRY(copy(&t, 1));
            break;
        default: LS_TRY(copy(&t, 1));
        }
    }
    return LS_OK;
}
