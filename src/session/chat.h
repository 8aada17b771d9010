/* From a conversation to token ids: render the template, then tokenise so that only template text makes control tokens. */
#ifndef LS_SESSION_CHAT_H
#define LS_SESSION_CHAT_H

#include "text/chat_template.h"
#include "text/tokenizer.h"

/* Renders |messages| (a JSON array) with the variables Hugging Face passes: messages, tools and documents (none),
 * add_generation_prompt (true) and the special tokens that |tok| has. */
ls_code ls_chat_render(const ls_chat_template *t, const ls_tokenizer *tok, json_t *messages, int64_t now, ls_render *out, ls_error *e);

/* Appends the ids of a rendered conversation. Added tokens are found in template text only; what lies between two of them
 * is encoded in one piece, so ordinary text gets the ids Hugging Face gives. Nothing is added: the template writes its
 * own BOS. */
ls_code ls_chat_ids(const ls_tokenizer *tok, const ls_render *r, ls_token_ids *out, ls_error *e);

/* The ranges of |r| that may spell control tokens, ascending; free with ls_free. */
ls_code ls_chat_ranges(const ls_render *r, ls_byte_range **out, size_t *n, ls_error *e);

/* Whether |text| begins with the spelling of the BOS token, so that another one must not be added. */
bool ls_starts_with_bos(const ls_tokenizer *tok, const char *text, size_t len);

#endif
