/* Added tokens: texts that are found before the model sees the input, and that have ids of their own. */
#ifndef LS_TEXT_TOKENIZER_ADDED_H
#define LS_TEXT_TOKENIZER_ADDED_H

#include "text/tokenizer.h"
#include "text/tokenizer_normalizer.h"
#include "text/tokenizer_pretokenizer.h"
#include "text/tokenizer_trie.h"

typedef struct ls_added_token {
    char *text;
    size_t len;
    int32_t id;
    bool special;     /* dropped by decoding with skip_special; plain text unless special tokens are parsed */
    bool single_word; /* only where no word character touches it */
    bool lstrip, rstrip; /* swallows white space on that side */
    bool normalized;  /* looked for in the normalised text */
} ls_added_token;

/* Zero-initialise, add, then finish. */
typedef struct ls_added {
    ls_added_token *tokens;
    size_t n, cap;
    ls_u64_map by_id;        /* id -> index */
    ls_trie raw, normalized; /* text -> index */
} ls_added;

/* Adds a token, or changes the flags of one with the same text. |token|'s text is copied. */
ls_code ls_added_put(ls_added *a, const ls_added_token *token, ls_error *e);

/* Builds the tries (again, after further puts). Tokens found in normalised text are themselves normalised. */
ls_code ls_added_finish(ls_added *a, const ls_normalizer *n, ls_error *e);
void ls_added_deinit(ls_added *a);

const ls_added_token *ls_added_by_id(const ls_added *a, int32_t id); /* NULL when absent */
const ls_added_token *ls_added_by_text(const ls_added *a, const char *text, size_t len);

/* Where special tokens are found: everywhere, or inside ranges (ascending, disjoint; all zero: nowhere). */
typedef struct ls_special_scope {
    bool everywhere;
    const ls_byte_range *ranges; /* [n] */
    size_t n;
} ls_special_scope;

/* Appends the pieces of text[len] to |out|: added tokens with their id, and the text between them (copied to out->text).
 * |in_normalized| chooses the trie. Special tokens are found in |scope| only; with ranges, those of the normalised kind
 * too are looked for here in the raw text, because ranges mean nothing after normalising. |at_start|: the text begins
 * the whole input. */
ls_code ls_added_split(const ls_added *a, bool in_normalized, const ls_special_scope *scope, const char *text, size_t len, bool at_start,
                       ls_pieces *out, ls_error *e);

#endif
