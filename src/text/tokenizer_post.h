/* The post-processor: which special tokens frame a single sequence. */
#ifndef LS_TEXT_TOKENIZER_POST_H
#define LS_TEXT_TOKENIZER_POST_H

#include "text/tokenizer.h"
#include "text/tokenizer_component.h"

/* Ids put before and after the sequence. Zero-initialise. */
typedef struct ls_post {
    ls_token_ids before, after;
} ls_post;

/* Reads a post_processor tree: TemplateProcessing (its "single" form), BertProcessing, RobertaProcessing, ByteLevel, or a
 * Sequence of them. */
ls_code ls_post_load(ls_post *p, const json_t *node, ls_error *e);
void ls_post_deinit(ls_post *p);

#endif
