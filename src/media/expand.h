/* Prompts with pictures: placeholders to blocks of soft tokens, then to ids, as transformers' Gemma3Processor does it.
 *
 * A placeholder is the begin-of-image token (BOI) in a part of the text that may spell control tokens; the same text typed by a user is text. Each one
 * becomes newline newline BOI, N soft tokens, EOI, newline newline; where a picture has crops, the sentence of Gemma3Processor that announces them, with a
 * block for the whole picture and one for each crop. The text is expanded before it is tokenised, because newlines merge with their neighbours. */
#ifndef LS_MEDIA_EXPAND_H
#define LS_MEDIA_EXPAND_H

#include "text/tokenizer.h"

/* Ids as config.json names them: boi_token_index, image_token_index, eoi_token_index. */
typedef struct ls_image_tokens {
    int32_t boi, image, eoi;
    int32_t count; /* soft tokens per block: image_seq_length, which is mm_tokens_per_image */
} ls_image_tokens;

/* Checks that the three ids are different special tokens of |t|; others would let typed text become an image. FAILED_PRECONDITION. */
ls_code ls_image_tokens_check(const ls_image_tokens *k, const ls_tokenizer *t, ls_error *e);

/* The soft tokens ids[begin, end) of one picture, or of one of its crops. */
typedef struct ls_image_block {
    size_t begin, end;
    int32_t image, crop; /* which picture, in order; 0: the whole, i: its i-th crop */
} ls_image_block;

/* A prompt and its blocks in order of position. Row t belongs to an image block, or is text; transformers' token_type_ids are 1 inside blocks. */
typedef struct ls_image_prompt {
    ls_token_ids ids;
    ls_image_block *blocks; /* owned */
    size_t n_blocks;
} ls_image_prompt;

/* Text and where it may spell control tokens: as ls_tokenizer_encode_ranges. */
typedef struct ls_prompt_text {
    const char *text;
    size_t len;
    const ls_byte_range *parse; /* ascending, disjoint */
    size_t n_parse;
    bool add_special; /* begin as the tokenizer's post-processor does (BOS), unless the text already spells BOS there */
    bool places_needed; /* a text without placeholders is refused when there are pictures: a conversation whose template left them out */
} ls_prompt_text;

enum { LS_IMAGE_PROMPT_MAX = 1 << 24 }; /* ids of one prompt, whatever the capacity */

/* Expands |in| for |n_images| pictures, of which picture i has crops[i] crops (NULL: none), into |out|, which is set up here and empty on failure.
 * The text must hold |n_images| placeholders, or none: then the pictures come first, as in a conversation where they precede the text, behind a spelled
 * BOS (|places_needed|: refused). It may spell no soft token. At most |capacity| ids are made; the count is checked before the text is expanded and again
 * after. Errors: INVALID_ARGUMENT (another number of placeholders; both are named; a soft token), RESOURCE_EXHAUSTED (more than |capacity| ids), those of
 * ls_image_tokens_check and ls_tokenizer_encode_ranges. */
ls_code ls_image_prompt_expand(ls_image_prompt *out, const ls_tokenizer *t, const ls_image_tokens *k, const ls_prompt_text *in, const int32_t *crops,
                               size_t n_images, size_t capacity, ls_error *e);
void ls_image_prompt_deinit(ls_image_prompt *p); /* fine on a zeroed struct */

#endif
