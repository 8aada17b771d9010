/* Pre-tokenizers of tokenizer.json: they cut text into pieces, and some rewrite the pieces. */
#ifndef LS_TEXT_TOKENIZER_PRETOKENIZER_H
#define LS_TEXT_TOKENIZER_PRETOKENIZER_H

#include "text/tokenizer_component.h"

/* One piece of text[begin, end). A piece with an id is finished (an added token) and is left alone. */
typedef struct ls_piece {
    size_t begin, end;
    int32_t id;    /* -1: text */
    bool at_start; /* begins where the whole input begins */
} ls_piece;

/* Pieces in order over their own text. Zero-initialise. */
typedef struct ls_pieces {
    ls_str text;
    ls_piece *v;
    size_t n, cap;
} ls_pieces;

ls_code ls_pieces_add(ls_pieces *p, ls_piece piece, ls_error *e);
void ls_pieces_deinit(ls_pieces *p);

typedef struct ls_pretokenizer_step ls_pretokenizer_step;

/* Zero-initialise. */
typedef struct ls_pretokenizer {
    ls_pretokenizer_step *steps;
    size_t n, cap;
} ls_pretokenizer;

ls_code ls_pretokenizer_load(ls_pretokenizer *p, const json_t *node, ls_error *e);
void ls_pretokenizer_deinit(ls_pretokenizer *p);

/* Runs all steps on |pieces| (valid UTF-8); |spare| is the other buffer. Empty pieces vanish. */
ls_code ls_pretokenizer_run(const ls_pretokenizer *p, ls_regex_work *w, ls_pieces *pieces, ls_pieces *spare, ls_error *e);

#endif
