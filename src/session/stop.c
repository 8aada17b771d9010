/* Stop strings, byte by byte: after each byte either a string is complete, or the longest tail that begins one is held. */
#include "session/stop.h"

#include <string.h>

ls_code ls_stop_init(ls_stop *s, const char *const *strings, size_t n, ls_error *e) {
    *s = (ls_stop){.found = -1};
    ls_code rc = LS_OK;
    if (n > LS_MAX_STOPS) LS_FAIL(e, LS_INVALID_ARGUMENT, "%zu stop strings; at most %d are allowed", n, LS_MAX_STOPS);
    LS_GOTO(ls_calloc(&s->strings, n, sizeof *s->strings, "stop strings", e));
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(strings[i]);
        if (!len || len > LS_MAX_STOP_BYTES)
            LS_FAIL_GOTO(e, LS_INVALID_ARGUMENT, "stop string %zu has %zu bytes; allowed are 1 to %d", i, len, LS_MAX_STOP_BYTES);
        LS_GOTO(ls_calloc(&s->strings[i], len + 1, 1, "stop string", e));
        memcpy(s->strings[i], strings[i], len);
        s->n++;
    }
out:
    if (rc) ls_stop_deinit(s);
    return rc;
}

void ls_stop_deinit(ls_stop *s) {
    for (size_t i = 0; i < s->n; i++) ls_free(s->strings[i]);
    ls_free(s->strings);
    ls_str_deinit(&s->held);
    *s = (ls_stop){.found = -1};
}

/* Length of the longest string that |text| ends with; 0: none. */
static size_t complete(const ls_stop *s, const char *text, size_t len, int *index) {
    size_t best = 0;
    for (size_t i = 0; i < s->n; i++) {
        size_t n = strlen(s->strings[i]);
        if (n > best && n <= len && !memcmp(text + len - n, s->strings[i], n)) {
            best = n;
            *index = (int)i;
        }
    }
    return best;
}

/* Whether |text| is a proper prefix of some string. */
static bool begins_one(const ls_stop *s, const char *text, size_t len) {
    for (size_t i = 0; i < s->n; i++)
        if (strlen(s->strings[i]) > len && !memcmp(s->strings[i], text, len)) return true;
    return false;
}

static void drop_front(ls_str *s, size_t n) {
    memmove(s->data, s->data + n, s->len - n);
    s->len -= n;
    s->data[s->len] = 0;
}

ls_code ls_stop_push(ls_stop *s, const char *text, size_t len, ls_str *out, ls_error *e) {
    if (!s->n) return ls_str_append(out, text, len, e);
    for (size_t i = 0; i < len && s->found < 0; i++) {
        LS_TRY(ls_str_append(&s->held, text + i, 1, e));
        size_t match = complete(s, s->held.data, s->held.len, &s->found), show = 0;
        if (match) {
            LS_TRY(ls_str_append(out, s->held.data, s->held.len - match, e));
            ls_str_clear(&s->held);
            return LS_OK;
        }
        while (show < s->held.len && !begins_one(s, s->held.data + show, s->held.len - show)) show++;
        LS_TRY(ls_str_append(out, s->held.data, show, e));
        drop_front(&s->held, show);
    }
    return LS_OK;
}

ls_code ls_stop_flush(ls_stop *s, ls_str *out, ls_error *e) {
    if (s->found >= 0 || !s->held.len) return LS_OK;
    LS_TRY(ls_str_append(out, s->held.data, s->held.len, e));
    ls_str_clear(&s->held);
    return LS_OK;
}
