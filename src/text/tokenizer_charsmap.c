/* Precompiled character maps. Trie unit (Darts-clone format): bit 8 has-leaf, bits 10.. offset (shifted by 8 more when
 * bit 9 is set), low byte and bit 31 label; a leaf unit holds the value in its low 31 bits. Every index is checked. */
#include "text/tokenizer_charsmap.h"

#include <string.h>
#include <utf8proc.h>

#include "text/tokenizer_unicode.h"

enum { MAX_BLOB = 1 << 24, SHORT_GRAPHEME = 6 };

struct ls_charsmap {
    uint32_t *units; /* [n_units] */
    size_t n_units;
    char *texts; /* [n_texts], the last byte is NUL */
    size_t n_texts;
};

static uint32_t read_u32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

ls_code ls_charsmap_create(ls_charsmap **out, const void *blob, size_t len, ls_error *e) {
    const unsigned char *p = blob;
    if (len < 4 || len > MAX_BLOB) LS_FAIL(e, LS_INVALID_ARGUMENT, "precompiled character map: %zu bytes; 4 to %d are allowed", len, MAX_BLOB);
    size_t trie = read_u32(p);
    if (trie > len - 4 || trie % 4 || !trie)
        LS_FAIL(e, LS_DATA_LOSS, "precompiled character map: trie of %zu bytes in %zu bytes", trie, len);
    ls_charsmap *m = NULL;
    ls_code rc = LS_OK;
    LS_TRY(ls_calloc(&m, 1, sizeof *m, "character map", e));
    m->n_units = trie / 4;
    m->n_texts = len - 4 - trie + 1;
    LS_GOTO(ls_calloc(&m->units, m->n_units, sizeof *m->units, "character map", e));
    LS_GOTO(ls_calloc(&m->texts, m->n_texts, 1, "character map", e));
    for (size_t i = 0; i < m->n_units; i++) m->units[i] = read_u32(p + 4 + 4 * i);
    memcpy(m->texts, p + 4 + trie, m->n_texts - 1);
out:
    if (rc) ls_charsmap_destroy(m);
    else *out = m;
    return rc;
}

static int base64_digit(int c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

ls_code ls_charsmap_from_base64(ls_charsmap **out, const char *text, size_t len, ls_error *e) {
    unsigned char *blob = NULL;
    size_t n = 0;
    uint32_t bits = 0;
    int have = 0;
    while (len && text[len - 1] == '=') len--;
    LS_TRY(ls_calloc(&blob, len, 1, "character map", e));
    ls_code rc = LS_OK;
    for (size_t i = 0; i < len; i++) {
        int d = base64_digit((unsigned char)text[i]);
        if (d < 0) LS_FAIL_GOTO(e, LS_INVALID_ARGUMENT, "precompiled_charsmap: byte %zu is not base64", i);
        bits = (bits << 6 | (uint32_t)d) & 0xFFFFFF;
        if ((have += 6) >= 8) blob[n++] = (unsigned char)(bits >> (have -= 8));
    }
    rc = ls_charsmap_create(out, blob, n, e);
out:
    ls_free(blob);
    return rc;
}

void ls_charsmap_destroy(ls_charsmap *m) {
    if (!m) return;
    ls_free(m->units);
    ls_free(m->texts);
    ls_free(m);
}

static uint32_t unit_offset(uint32_t u) { return (u >> 10) << ((u & (1u << 9)) >> 6); }

/* The replacement of the shortest or longest prefix of |s| that has one (NULL: none); *used: its bytes. */
static const char *lookup(const ls_charsmap *m, const char *s, size_t len, bool longest, size_t *used) {
    const char *found = NULL;
    uint32_t node = unit_offset(m->units[0]);
    for (size_t i = 0; i < len && s[i]; i++) {
        unsigned char c = (unsigned char)s[i];
        node ^= c;
        if (node >= m->n_units || (m->units[node] & (1u << 31 | 0xFF)) != c) break;
        bool leaf = m->units[node] >> 8 & 1;
        node ^= unit_offset(m->units[node]);
        if (!leaf) continue;
        if (node >= m->n_units) break;
        uint32_t value = m->units[node] & 0x7FFFFFFF;
        if (value >= m->n_texts) break;
        found = m->texts + value;
        *used = i + 1;
        if (!longest) break;
    }
    return found;
}

static ls_code map_chars(const ls_charsmap *m, const char *s, size_t len, ls_str *out, ls_error *e) {
    for (size_t i = 0, at = 0; i < len; at = i) {
        size_t used;
        ls_uc_next(s, len, &i);
        const char *with = lookup(m, s + at, i - at, false, &used);
        if (with) LS_TRY(ls_str_append(out, with, SIZE_MAX, e));
        else LS_TRY(ls_str_append(out, s + at, i - at, e));
    }
    return LS_OK;
}

ls_code ls_charsmap_by_grapheme(const ls_charsmap *m, const char *s, size_t len, ls_str *out, ls_error *e) {
    for (size_t at = 0; at < len;) {
        size_t end = at, next = at, used;
        utf8proc_int32_t state = 0;
        uint32_t prev = ls_uc_next(s, len, &end);
        for (next = end; end < len; end = next) {
            uint32_t cp = ls_uc_next(s, len, &next);
            if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)prev, (utf8proc_int32_t)cp, &state)) break;
            prev = cp;
        }
        const char *with = end - at < SHORT_GRAPHEME ? lookup(m, s + at, end - at, false, &used) : NULL;
        if (with) LS_TRY(ls_str_append(out, with, SIZE_MAX, e));
        else LS_TRY(map_chars(m, s + at, end - at, out, e));
        at = end;
    }
    return LS_OK;
}

ls_code ls_charsmap_by_longest(const ls_charsmap *m, const char *s, size_t len, ls_str *out, ls_error *e) {
    for (size_t at = 0; at < len;) {
        size_t used = 0, end = at;
        const char *with = lookup(m, s + at, len - at, true, &used);
        if (!with) ls_uc_next(s, len, &end);
        if (with) LS_TRY(ls_str_append(out, with, SIZE_MAX, e));
        else LS_TRY(ls_str_append(out, s + at, end - at, e));
        at = with ? at + used : end;
    }
    return LS_OK;
}
