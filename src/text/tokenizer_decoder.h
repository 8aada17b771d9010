/* Decoders of tokenizer.json, as a pipeline that text flows through.
 *
 * Every stage takes tokens that may arrive in several chunks and passes on what later input cannot change. Whole-sequence
 * decoding pushes all tokens and flushes; incremental decoding is the same calls spread over time, so the two agree by
 * construction. Chunks hold complete characters only. */
#ifndef LS_TEXT_TOKENIZER_DECODER_H
#define LS_TEXT_TOKENIZER_DECODER_H

#include "text/tokenizer_component.h"

typedef struct ls_decoder_step ls_decoder_step;

/* Zero-initialise. */
typedef struct ls_decoder {
    ls_decoder_step *steps;
    size_t n, cap;
} ls_decoder;

/* A missing decoder joins tokens with spaces. */
ls_code ls_decoder_load(ls_decoder *d, const json_t *node, ls_error *e);
void ls_decoder_deinit(ls_decoder *d);

typedef struct ls_decode ls_decode;

ls_code ls_decode_create(ls_decode **out, const ls_decoder *d, ls_error *e);
void ls_decode_destroy(ls_decode *s);

/* Pushes one token's vocabulary text; appends to |out| what became final. */
ls_code ls_decode_push(ls_decode *s, const char *token, size_t len, ls_str *out, ls_error *e);

/* Ends the sequence: appends the rest to |out|. The state is then as new. */
ls_code ls_decode_flush(ls_decode *s, ls_str *out, ls_error *e);

#endif
