/* ls_str: a growable byte string with a ceiling, always NUL-terminated. */
#ifndef LS_BASE_STR_H
#define LS_BASE_STR_H

#include "base/alloc.h"

/* Zero-initialise; |max| 0 means LS_STR_DEFAULT_MAX. |data| is NULL until the first append. */
typedef struct ls_str {
    char *data;
    size_t len, cap, max;
} ls_str;

enum { LS_STR_DEFAULT_MAX = 1 << 30 };

ls_code ls_str_append(ls_str *s, const char *bytes, size_t len, ls_error *e); /* len SIZE_MAX: strlen */
ls_code ls_str_printf(ls_str *s, ls_error *e, const char *fmt, ...) LS_PRINTF(3, 4);
void ls_str_clear(ls_str *s);  /* keeps the memory */
void ls_str_deinit(ls_str *s); /* frees the memory, zeroes the struct except |max| */

/* Number of bytes of the UTF-8 character that begins at |s| (1 to 4), or 0 when the |len| bytes do not begin with a
 * complete, valid character (RFC 3629). *cp (may be NULL) receives the code point. */
int ls_utf8_decode(const char *s, size_t len, uint32_t *cp);

/* Writes |cp| as UTF-8 into out[4]; returns its length, 0 for a surrogate or a value above 0x10FFFF. */
int ls_utf8_encode(uint32_t cp, char out[4]);

#endif
