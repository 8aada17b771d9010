/* strftime_now: the current local time through C's strftime, directive by directive. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "text/chat_template_builtin.h"

/* Length of the directive at p[0] == '%': flags, width, E or O, letter; 0 when it is cut off. */
static size_t directive_length(const char *p, size_t n) {
    size_t i = 1;
    while (i < n && p[i] && strchr("-_0^#", p[i])) i++;
    while (i < n && p[i] >= '0' && p[i] <= '9') i++;
    if (i < n && (p[i] == 'E' || p[i] == 'O')) i++;
    return i < n ? i + 1 : 0;
}

ls_code ls_jstrftime(ls_jvm *vm, const ls_jstr *format, int64_t now, ls_jv *out) {
    time_t t = (time_t)now;
    struct tm tm;
    if (!localtime_r(&t, &tm)) LS_FAIL(vm->e, LS_OUT_OF_RANGE, "strftime_now: time %lld is not a date", (long long)now);
    ls_jbuf b = {0};
    for (size_t i = 0, len; i < format->n; i += len) {
        len = format->p[i] == '%' ? directive_length(format->p + i, format->n - i) : 0;
        char letter = len ? format->p[i + len - 1] : 0, one[32], text[256];
        if (!len || len >= sizeof one || (unsigned char)letter >= 128) { /* plain text */
            len = 1;
            LS_TRY(ls_jbuf_part(vm, &b, format, i, i + 1));
            continue;
        }
        if (letter == 'z' || letter == 'Z') continue; /* a time without a zone in Python */
        memcpy(one, format->p + i, len);
        memcpy(one + len, "|", 2); /* so that an empty result differs from a full buffer */
        if (letter == 'f') snprintf(text, sizeof text, "000000|");
        else if (!strftime(text, sizeof text, one, &tm))
            LS_FAIL(vm->e, LS_INVALID_ARGUMENT, "strftime_now: directive %.*s is not valid", (int)len, format->p + i);
        LS_TRY(ls_jbuf_add(vm, &b, text, strlen(text) - 1, false));
    }
    return ls_jbuf_finish(vm, &b, out);
}
