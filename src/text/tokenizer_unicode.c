/* Character classes, UTF-8 repair, byte-level alphabet and normal forms, over utf8proc and our own tables. */
#include "text/tokenizer_unicode.h"

#include <string.h>
#include <utf8proc.h>

#include "text/tokenizer_unicode_tables.h"

static bool in_table(const ls_char_table *t, uint32_t cp) {
    size_t lo = 0, hi = t->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (cp > t->v[mid].last) lo = mid + 1;
        else hi = mid;
    }
    return lo < t->n && cp >= t->v[lo].first;
}

static bool is_late(uint32_t cp) {
    size_t lo = 0, hi = ls_uc_late.n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (cp > ls_uc_late.v[mid].last) lo = mid + 1;
        else hi = mid;
    }
    return lo < ls_uc_late.n && cp >= ls_uc_late.v[lo].first;
}

bool ls_uc_space(uint32_t cp) {
    if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13);
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

bool ls_uc_numeric(uint32_t cp) { return cp < 0x80 ? cp >= '0' && cp <= '9' : in_table(&ls_uc_numbers, cp); }

bool ls_uc_mark(uint32_t cp) { return cp >= 0x300 && in_table(&ls_uc_marks, cp); }

bool ls_uc_punct(uint32_t cp) {
    if (cp < 0x80) return (cp >= 33 && cp <= 47) || (cp >= 58 && cp <= 64) || (cp >= 91 && cp <= 96) || (cp >= 123 && cp <= 126);
    return in_table(&ls_uc_punctuation, cp);
}

bool ls_uc_word(uint32_t cp) { return in_table(&ls_uc_words, cp); }

uint32_t ls_uc_next(const char *s, size_t len, size_t *pos) {
    uint32_t cp = 0xFFFD;
    int n = ls_utf8_decode(s + *pos, len - *pos, &cp);
    *pos += n ? (size_t)n : 1;
    return cp;
}

ls_code ls_uc_append(ls_str *out, uint32_t cp, ls_error *e) {
    char b[4];
    int n = ls_utf8_encode(cp, b);
    return ls_str_append(out, b, (size_t)n, e);
}

size_t ls_utf8_bad_len(const char *str, size_t len, bool *incomplete) {
    const unsigned char *s = (const unsigned char *)str;
    size_t want = s[0] < 0xC2 ? 1 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF5 ? 4 : 1, n = 1;
    unsigned char lo = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80, hi = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    for (; n < want && n < len && s[n] >= lo && s[n] <= hi; n++) lo = 0x80, hi = 0xBF;
    *incomplete = n == len && n < want;
    return n;
}

ls_code ls_utf8_repair(const char *s, size_t len, ls_str *out, ls_error *e) {
    size_t from = 0, i = 0;
    while (i < len) {
        int n = (unsigned char)s[i] < 0x80 ? 1 : ls_utf8_decode(s + i, len - i, NULL);
        if (n) {
            i += (size_t)n;
            continue;
        }
        bool incomplete;
        LS_TRY(ls_str_append(out, s + from, i - from, e));
        LS_TRY(ls_str_append(out, "\xEF\xBF\xBD", 3, e));
        i += ls_utf8_bad_len(s + i, len - i, &incomplete);
        from = i;
    }
    return ls_str_append(out, s ? s + from : "", len - from, e);
}

static bool byte_is_itself(unsigned b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; }

uint32_t ls_byte_char(uint8_t byte) {
    if (byte_is_itself(byte)) return byte;
    if (byte <= 32) return 256u + byte;
    return byte <= 160 ? 256u + 33 + (byte - 127u) : 256u + 67;
}

int ls_byte_of_char(uint32_t cp) {
    if (cp < 256) return byte_is_itself(cp) ? (int)cp : -1;
    if (cp <= 256 + 32) return (int)cp - 256;
    if (cp < 256 + 67) return (int)cp - 256 - 33 + 127;
    return cp == 256 + 67 ? 173 : -1;
}

typedef struct chars {
    utf8proc_int32_t *v;
    size_t n, cap;
} chars;

static ls_code decompose(const char *s, size_t len, bool compat, chars *c, ls_error *e) {
    utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0);
    for (size_t i = 0; i < len;) {
        utf8proc_int32_t part[32];
        int boundary = 0;
        uint32_t cp = ls_uc_next(s, len, &i);
        bool whole = cp >= 0x300 && (is_late(cp) || (in_table(&ls_uc_whole, cp) && (compat || cp == 0x11938)));
        utf8proc_ssize_t n = whole ? 1 : utf8proc_decompose_char((utf8proc_int32_t)cp, part, 32, options, &boundary);
        if (whole) part[0] = (utf8proc_int32_t)cp;
        if (n < 0 || n > 32) LS_FAIL(e, LS_INTERNAL, "Unicode decomposition of U+%04X failed", (unsigned)cp);
        for (utf8proc_ssize_t k = 0; k < n; k++) {
            LS_TRY(ls_grow(&c->v, c->n, &c->cap, sizeof *c->v, SIZE_MAX / 8, "normalised text", e));
            c->v[c->n++] = part[k];
        }
    }
    return LS_OK;
}

static unsigned ccc(utf8proc_int32_t cp) { return (unsigned)utf8proc_get_property(cp)->combining_class; }

/* Canonical ordering of one run of combining marks: a stable counting sort by class, so that a megabyte of marks stays
 * linear. */
static ls_code order_run(utf8proc_int32_t *v, size_t n, ls_error *e) {
    bool sorted = true;
    for (size_t i = 1; i < n && sorted; i++) sorted = ccc(v[i - 1]) <= ccc(v[i]);
    if (sorted) return LS_OK;
    size_t start[257] = {0};
    utf8proc_int32_t *copy = NULL;
    LS_TRY(ls_calloc(&copy, n, sizeof *copy, "combining marks", e));
    memcpy(copy, v, n * sizeof *v);
    for (size_t i = 0; i < n; i++) start[(ccc(v[i]) & 255) + 1]++;
    for (size_t i = 1; i < 257; i++) start[i] += start[i - 1];
    for (size_t i = 0; i < n; i++) v[start[ccc(copy[i]) & 255]++] = copy[i];
    ls_free(copy);
    return LS_OK;
}

static ls_code order_marks(chars *c, ls_error *e) {
    for (size_t i = 0; i < c->n;) {
        size_t j = i;
        while (j < c->n && ccc(c->v[j])) j++;
        if (j - i > 1) LS_TRY(order_run(c->v + i, j - i, e));
        i = j + (j == i);
    }
    return LS_OK;
}

ls_code ls_uc_normalize(ls_normal_form form, const char *s, size_t len, ls_str *out, ls_error *e) {
    size_t ascii = 0;
    while (ascii < len && (unsigned char)s[ascii] < 0x80) ascii++;
    if (ascii == len) return ls_str_append(out, s, len, e);
    chars c = {0};
    ls_code rc = LS_OK;
    LS_GOTO(decompose(s, len, form == LS_NFKC || form == LS_NFKD, &c, e));
    LS_GOTO(order_marks(&c, e));
    if (form == LS_NFC || form == LS_NFKC) {
        utf8proc_ssize_t n = utf8proc_normalize_utf32(c.v, (utf8proc_ssize_t)c.n, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
        if (n < 0) LS_FAIL_GOTO(e, LS_INTERNAL, "Unicode composition failed: %s", utf8proc_errmsg(n));
        c.n = (size_t)n;
    }
    for (size_t i = 0; i < c.n; i++) LS_GOTO(ls_uc_append(out, (uint32_t)c.v[i], e));
out:
    ls_free(c.v);
    return rc;
}

ls_code ls_uc_lowercase(const char *s, size_t len, ls_str *out, ls_error *e) {
    for (size_t i = 0; i < len;) {
        uint32_t cp = ls_uc_next(s, len, &i);
        size_t late = 0;
        while (cp >= 0x300 && late < ls_uc_late_lower.n && ls_uc_late_lower.v[late].first != cp) late++;
        if (cp >= 0x300 && late < ls_uc_late_lower.n) LS_TRY(ls_uc_append(out, ls_uc_late_lower.v[late].last, e));
        else if (cp == 0x130) LS_TRY(ls_str_append(out, "i\xCC\x87", 3, e)); /* the only unconditional one-to-two mapping */
        else LS_TRY(ls_uc_append(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp), e));
    }
    return LS_OK;
}
