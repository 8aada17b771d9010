/* Growable strings and UTF-8 steps. */
#include "base/str.h"

#include <stdio.h>
#include <string.h>

static ls_code reserve(ls_str *s, size_t extra, ls_error *e) {
    size_t max = s->max ? s->max : LS_STR_DEFAULT_MAX, need;
    if (!ls_size_add(s->len, extra, &need) || need >= max)
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "text of %zu bytes is over the limit of %zu", s->len + extra, max);
    if (need < s->cap) return LS_OK;
    size_t cap = s->cap ? s->cap : 64;
    while (cap <= need) cap *= 2;
    LS_TRY(ls_realloc(&s->data, cap, 1, "text", e));
    s->cap = cap;
    return LS_OK;
}

ls_code ls_str_append(ls_str *s, const char *bytes, size_t len, ls_error *e) {
    if (len == SIZE_MAX) len = strlen(bytes);
    LS_TRY(reserve(s, len, e));
    if (len) memcpy(s->data + s->len, bytes, len);
    s->len += len;
    s->data[s->len] = 0;
    return LS_OK;
}

ls_code ls_str_printf(ls_str *s, ls_error *e, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) LS_FAIL(e, LS_INTERNAL, "format \"%s\" failed", fmt);
    LS_TRY(reserve(s, (size_t)n, e));
    va_start(ap, fmt);
    vsnprintf(s->data + s->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    s->len += (size_t)n;
    return LS_OK;
}

void ls_str_clear(ls_str *s) {
    s->len = 0;
    if (s->data) s->data[0] = 0;
}

void ls_str_deinit(ls_str *s) {
    ls_free(s->data);
    s->data = NULL;
    s->len = s->cap = 0;
}

int ls_utf8_decode(const char *str, size_t len, uint32_t *cp) {
    const unsigned char *s = (const unsigned char *)str;
    if (!len) return 0;
    int n = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF5 ? 4 : 0;
    if (!n || (size_t)n > len) return 0;
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7Fu >> n);
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0;
        c = c << 6 | (s[i] & 0x3Fu);
    }
    if ((n == 3 && c < 0x800) || (n == 4 && c < 0x10000) || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return 0;
    if (cp) *cp = c;
    return n;
}

int ls_utf8_encode(uint32_t cp, char out[4]) {
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000)) return 0;
    int n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, cp >>= 6) out[i] = (char)(0x80 | (cp & 0x3F));
    out[0] = (char)((0xF00u >> n & 0xF0) | cp);
    return n;
}
