/* Translation of Oniguruma's Ruby syntax to PCRE2's.
 *
 * The two agree on most of what tokenizers use; this file covers the differences: what \s and \w contain, scripts
 * versus script extensions, intervals followed by "+", \h, \v, \u, the meaning of (?m), lines for ^ and $ (an option
 * of the compiler call). Everything it does not know it refuses. */
#include <ctype.h>
#include <string.h>

#include "text/tokenizer_regex.h"
#include "text/tokenizer_unicode_tables.h"

#define SPACES "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define WORDS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define LATIN1_NUMBERS "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}" /* words for Oniguruma's \w, but not inside a class */

#define LATE_HAN "\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}" /* assigned after Unicode 14 */

enum { MAX_GROUPS = 64 };

typedef struct translator {
    const char *p, *end, *begin;
    ls_str *out;
    ls_error *e;
    size_t atom;                /* where the last repeatable item begins in |out| */
    size_t groups[MAX_GROUPS];  /* where the open groups begin in |out| */
    size_t depth;
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

/* The characters of a category that the system's PCRE2 may not know yet. "" is every category of words. */
static ls_code late_chars(translator *t, const char *category) {
    for (size_t i = 0; i < ls_uc_late.n; i++) {
        const ls_late_range *r = &ls_uc_late.v[i];
        bool in_words = strchr("LM", r->category[0]) || !strcmp(r->category, "Nd") || !strcmp(r->category, "Nl") || !strcmp(r->category, "Pc");
        if (*category ? strncmp(r->category, category, strlen(category)) : !in_words) continue;
        LS_TRY(ls_str_printf(t->out, t->e, r->first == r->last ? "\\x{%x}" : "\\x{%x}-\\x{%x}", (unsigned)r->first, (unsigned)r->last));
    }
    return LS_OK;
}

/* A category as a class of its own or as part of the class being written. */
static ls_code category(translator *t, const char *name, bool negative, bool in_class) {
    if (in_class && negative) return ls_str_printf(t->out, t->e, "\\P{%s}", name);
    if (!in_class) LS_TRY(emit(t, negative ? "[^" : "["));
    LS_TRY(ls_str_printf(t->out, t->e, "\\p{%s}", name));
    LS_TRY(late_chars(t, name));
    return in_class ? LS_OK : emit(t, "]");
}

/* \p{Name}, \P{Name}, \p{^Name}: categories pass; a script name means the Script property, not Script_Extensions. */
static ls_code property(translator *t, bool in_class) {
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
    if (!strcmp(low, "han") && !negative)
        return emit(t, in_class ? "\\p{sc:Han}" LATE_HAN : "[\\p{sc:Han}" LATE_HAN "]");
    if (!*kind && strlen(use) <= 2) {
        char canonical[3] = {(char)toupper((unsigned char)use[0]), (char)tolower((unsigned char)use[1]), 0};
        return category(t, canonical, negative, in_class);
    }
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

static ls_code word_set(translator *t, bool negative, bool in_class) {
    if (!in_class) LS_TRY(emit(t, negative ? "[^" : "["));
    LS_TRY(emit(t, in_class ? WORDS : WORDS LATIN1_NUMBERS));
    LS_TRY(late_chars(t, ""));
    return in_class ? LS_OK : emit(t, "]");
}

static ls_code set_escape(translator *t, bool in_class) {
    int c = peek(t, 1);
    if (c == 'p' || c == 'P') LS_TRY(property(t, in_class));
    else if (c == 'W' && in_class) return refuse(t, "\\W inside a class");
    else {
        t->p += 2;
        if (c == 's') LS_TRY(emit(t, in_class ? SPACES : "[" SPACES "]"));
        else if (c == 'S') LS_TRY(emit(t, in_class ? "\\S\\x{180e}" : "[^" SPACES "]"));
        else if (c == 'w' || c == 'W') LS_TRY(word_set(t, c == 'W', in_class));
        else LS_TRY(category(t, "Nd", c == 'D', in_class));
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
        if (c == 'b')
            return emit(t, "(?:(?<=[" WORDS LATIN1_NUMBERS "])(?![" WORDS LATIN1_NUMBERS "])|(?<![" WORDS LATIN1_NUMBERS "])(?=[" WORDS LATIN1_NUMBERS "]))");
        return emit(t, "(?:(?<=[" WORDS LATIN1_NUMBERS "])(?=[" WORDS LATIN1_NUMBERS "])|(?<![" WORDS LATIN1_NUMBERS "])(?![" WORDS LATIN1_NUMBERS "]))");
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

/* Puts the item that ends here, quantifier and all, into a group, so that another quantifier can follow. */
static ls_code wrap_atom(translator *t, const char *tail) {
    LS_TRY(emit(t, "(?:"));
    char *at = t->out->data + t->atom;
    memmove(at + 3, at, t->out->len - 3 - t->atom);
    memcpy(at, "(?:", 3);
    return emit(t, tail);
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
        t->atom = t->out->len;
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
    return wrap_atom(t, c == '+' ? ")+" : ")?");
}

static ls_code open_group(translator *t) {
    if (t->depth == MAX_GROUPS) return refuse(t, "deeper nesting of groups");
    t->groups[t->depth++] = t->out->len;
    return group(t);
}

static ls_code close_group(translator *t) {
    if (!t->depth) return refuse(t, "a \")\" without a group");
    t->atom = t->groups[--t->depth];
    return copy(t, 1);
}

/* A character, which may be a quantifier of the item before it. */
static ls_code plain(translator *t) {
    size_t n = (size_t)ls_utf8_decode(t->p, (size_t)(t->end - t->p), NULL);
    if (!strchr("?*+", *t->p)) t->atom = t->out->len;
    return copy(t, n ? n : 1);
}

ls_code ls_regex_translate(const char *pattern, size_t len, ls_str *out, ls_error *e) {
    translator t = {.p = pattern, .begin = pattern, .end = pattern + len, .out = out, .e = e};
    while (t.p < t.end) {
        switch (*t.p) {
        case '\\':
            t.atom = out->len;
            LS_TRY(escape(&t, false));
            break;
        case '[':
            t.atom = out->len;
            LS_TRY(class(&t));
            break;
        case '(': LS_TRY(open_group(&t)); break;
        case ')': LS_TRY(close_group(&t)); break;
        case '{': LS_TRY(interval(&t)); break;
        case ']': case '}':
            t.atom = out->len;
            LS_TRY(emit(&t, "\\"));
            LS_TRY(copy(&t, 1));
            break;
        default: LS_TRY(plain(&t));
        }
    }
    return LS_OK;
}
