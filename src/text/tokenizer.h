/* Tokenizers: text to token ids and back, equal to Hugging Face `tokenizers`.
 *
 * Immutable after creation, so one object serves many threads. */
#ifndef LS_TEXT_TOKENIZER_H
#define LS_TEXT_TOKENIZER_H

#include "base/json.h"

typedef struct ls_tokenizer ls_tokenizer;

/* From a Hugging Face folder: tokenizer.json (preferred) or tokenizer.model, plus tokenizer_config.json,
 * special_tokens_map.json, added_tokens.json and chat_template.jinja where present; beside a preprocessor_config.json also
 * chat_template.json and processor_config.json, whose template counts before and after chat_template.jinja. "truncation" and
 * "padding" of tokenizer.json do not apply. Errors: NOT_FOUND, UNIMPLEMENTED (a component type, named), INVALID_ARGUMENT. */
ls_code ls_tokenizer_open_folder(ls_tokenizer **out, const char *folder, ls_error *e);

/* From GGUF metadata (tokenizer.ggml.*), see ls_checkpoint_gguf_metadata. */
ls_code ls_tokenizer_open_gguf(ls_tokenizer **out, const json_t *metadata, ls_error *e);

/* From texts in memory (fuzzing, tests). |config| may be NULL. */
ls_code ls_tokenizer_open_json(ls_tokenizer **out, const json_t *tokenizer_json, const json_t *config, ls_error *e);

void ls_tokenizer_close(ls_tokenizer *t);

typedef struct ls_token_ids {
    int32_t *ids; /* owned: free with ls_free */
    size_t n, cap;
} ls_token_ids;

enum {
    LS_ENCODE_ADD_SPECIAL = 1,  /* run the post-processor: BOS/EOS as the tokenizer defines them */
    LS_ENCODE_PARSE_SPECIAL = 2 /* text that spells a special token becomes that token; without it, it is plain text, and no
                                   special id ever stands for text. Other added tokens are always found. */
};

/* Appends the ids of |text| (any bytes; invalid UTF-8 as `tokenizers` treats it after Python's "replace" decoding). */
ls_code ls_tokenizer_encode(const ls_tokenizer *t, const char *text, size_t len, int flags, ls_token_ids *out, ls_error *e);

/* Bytes [begin, end) of a text. */
typedef struct ls_byte_range {
    size_t begin, end;
} ls_byte_range;

/* Like ls_tokenizer_encode with LS_ENCODE_PARSE_SPECIAL, but a spelling becomes its special token only when all its bytes
 * lie in one of parse[n_parse] (ascending, disjoint): how a chat keeps control tokens that a user typed as plain text. Text
 * between added tokens is encoded whole, across the ends of ranges. INVALID_ARGUMENT: not UTF-8. */
ls_code ls_tokenizer_encode_ranges(const ls_tokenizer *t, const char *text, size_t len, const ls_byte_range *parse, size_t n_parse, ls_token_ids *out,
                                   ls_error *e);

/* Appends the decoded text of ids[n]; with |skip_special| special tokens vanish. Equal to Tokenizer.decode. */
ls_code ls_tokenizer_decode(const ls_tokenizer *t, const int32_t *ids, size_t n, bool skip_special, ls_str *out, ls_error *e);

/* Incremental decoding: after each id, appends only complete characters that later ids cannot change. The concatenation
 * of all pieces and of the final flush equals ls_tokenizer_decode of all ids. Zero-initialise. */
typedef struct ls_detokenizer {
    const ls_tokenizer *tokenizer;
    bool skip_special;
    struct ls_decode *state; /* private */
} ls_detokenizer;

void ls_detokenizer_init(ls_detokenizer *d, const ls_tokenizer *t, bool skip_special);
ls_code ls_detokenizer_push(ls_detokenizer *d, int32_t id, ls_str *piece, ls_error *e);
ls_code ls_detokenizer_flush(ls_detokenizer *d, ls_str *piece, ls_error *e);
void ls_detokenizer_deinit(ls_detokenizer *d);

size_t ls_tokenizer_size(const ls_tokenizer *t);                                  /* 1 + largest id, added tokens included */
const char *ls_tokenizer_token(const ls_tokenizer *t, int32_t id, size_t *len);   /* vocabulary spelling; NULL out of range */
bool ls_tokenizer_is_special(const ls_tokenizer *t, int32_t id);
int32_t ls_tokenizer_bos(const ls_tokenizer *t);                                  /* -1 when none */
int32_t ls_tokenizer_eos(const ls_tokenizer *t);
/* The chat template text that came with the tokenizer or the processor of its folder, or from GGUF; NULL: none. */
const char *ls_tokenizer_chat_template(const ls_tokenizer *t);

#endif
