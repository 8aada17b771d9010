/* The lexer of chat templates: source text to tokens, with jinja2's rules for white space around tags
 * (trim_blocks and lstrip_blocks on, one trailing newline dropped). */
#ifndef LS_TEXT_CHAT_TEMPLATE_LEXER_H
#define LS_TEXT_CHAT_TEMPLATE_LEXER_H

#include "base/str.h"

typedef enum ls_jtok_type {
    LS_JT_EOF,
    LS_JT_DATA, /* text between tags */
    LS_JT_BLOCK_BEGIN,
    LS_JT_BLOCK_END,
    LS_JT_VAR_BEGIN,
    LS_JT_VAR_END,
    LS_JT_NAME,
    LS_JT_STRING, /* unescaped */
    LS_JT_INT,
    LS_JT_FLOAT,
    LS_JT_OP /* text is the operator's spelling */
} ls_jtok_type;

typedef struct ls_jtok {
    ls_jtok_type type;
    int line;
    const char *p; /* owned by the arena */
    size_t n;
    int64_t i;
    double f;
} ls_jtok;

typedef struct ls_jtokens {
    ls_jtok *v; /* free with ls_free; ends with LS_JT_EOF */
    size_t n, cap;
} ls_jtokens;

enum { LS_JT_MAX_SOURCE = 1 << 20, LS_JT_MAX_TOKENS = 1 << 19 };

/* Errors: INVALID_ARGUMENT naming the line; RESOURCE_EXHAUSTED for a source over LS_JT_MAX_SOURCE bytes. */
ls_code ls_jlex(ls_jtokens *out, ls_arena *arena, const char *source, size_t len, ls_error *e);

#endif
