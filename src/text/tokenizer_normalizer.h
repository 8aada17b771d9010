/* Normalizers of tokenizer.json: text to text, step by step. */
#ifndef LS_TEXT_TOKENIZER_NORMALIZER_H
#define LS_TEXT_TOKENIZER_NORMALIZER_H

#include "text/tokenizer_charsmap.h"
#include "text/tokenizer_component.h"

typedef struct ls_normalizer_step ls_normalizer_step;

/* Zero-initialise. */
typedef struct ls_normalizer {
    ls_normalizer_step *steps;
    size_t n, cap;
} ls_normalizer;

/* Adds the steps of |node| (may be NULL or null). */
ls_code ls_normalizer_load(ls_normalizer *n, const json_t *node, ls_error *e);

/* Adds what a SentencePiece model does first: its character map (none when |len| is 0), longest entries first, then with
 * |trim| the removal of outer spaces and of all but one of inner ones. */
ls_code ls_normalizer_add_sentencepiece(ls_normalizer *n, const void *charsmap, size_t len, bool trim, ls_error *e);
void ls_normalizer_deinit(ls_normalizer *n);

/* Replaces |text| (valid UTF-8) by its normal form, using |spare| as the other buffer. *kept_start (may be NULL) becomes
 * false when characters at the beginning were dropped. */
ls_code ls_normalizer_run(const ls_normalizer *n, ls_regex_work *w, ls_str *text, ls_str *spare, bool *kept_start, ls_error *e);

#endif
