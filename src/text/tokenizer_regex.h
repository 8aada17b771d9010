/* Regular expressions of tokenizers: Oniguruma patterns (Ruby syntax, UTF-8), matched with PCRE2.
 *
 * A pattern is translated so that PCRE2 gives the matches Oniguruma gives; a construct whose meaning differs and that
 * the translation does not cover is refused by name. Texts are valid UTF-8. */
#ifndef LS_TEXT_TOKENIZER_REGEX_H
#define LS_TEXT_TOKENIZER_REGEX_H

#include "base/str.h"

typedef struct ls_span {
    size_t begin, end;
    bool match;
} ls_span;

typedef struct ls_spans {
    ls_span *v;
    size_t n, cap;
} ls_spans;

ls_code ls_spans_add(ls_spans *s, size_t begin, size_t end, bool match, ls_error *e);

typedef struct ls_regex ls_regex;

/* |literal|: the pattern is plain text, not an expression. Errors: INVALID_ARGUMENT (malformed), UNIMPLEMENTED. */
ls_code ls_regex_create(ls_regex **out, const char *pattern, size_t len, bool literal, ls_error *e);
void ls_regex_destroy(ls_regex *r);

/* Working memory of one thread's matching. Zero-initialise. */
typedef struct ls_regex_work {
    void *match_data, *context, *stack;
} ls_regex_work;

void ls_regex_work_deinit(ls_regex_work *w);

/* Sets |out| to spans that cover text[len] in order: matches, and what lies between them. An empty text gives one
 * span without match. Empty matches count, but not directly after a match. Errors: RESOURCE_EXHAUSTED when a match
 * takes too many steps. */
ls_code ls_regex_split(const ls_regex *r, ls_regex_work *w, const char *text, size_t len, ls_spans *out, ls_error *e);

/* Private: Oniguruma syntax to PCRE2 syntax (tokenizer_regex_syntax.c). */
ls_code ls_regex_translate(const char *pattern, size_t len, ls_str *out, ls_error *e);

#endif
