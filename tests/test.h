/* What every cmocka test file needs, in the order cmocka wants it. */
#ifndef LS_TESTS_TEST_H
#define LS_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lockstep.h"

/* Asserts that |expr| is LS_OK; prints the error text otherwise. Needs a local `ls_error e`. */
#define assert_ok(expr)                                                                    \
    do {                                                                                   \
        ls_code code_ = (expr);                                                            \
        if (code_) fail_msg("%s: %s (%s:%d): %s", #expr, ls_code_name(code_), e.file ? e.file : "?", e.line, e.text); \
    } while (0)

/* Asserts that |expr| fails with |want| and that the message contains |part|. Needs a local `ls_error e`. */
#define assert_error(expr, want, part)                                                                         \
    do {                                                                                                       \
        ls_code code_ = (expr);                                                                                \
        if (code_ != (want)) fail_msg("%s: got %s, want %s: %s", #expr, ls_code_name(code_), ls_code_name(want), e.text); \
        if (!strstr(e.text, (part))) fail_msg("%s: message \"%s\" does not contain \"%s\"", #expr, e.text, (part)); \
    } while (0)

#endif
