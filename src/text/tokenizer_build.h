/* The tokenizer object, and how the loaders of the three sources put it together. Private to src/text/tokenizer*.c. */
#ifndef LS_TEXT_TOKENIZER_BUILD_H
#define LS_TEXT_TOKENIZER_BUILD_H

#include "text/tokenizer_added.h"
#include "text/tokenizer_decoder.h"
#include "text/tokenizer_model.h"
#include "text/tokenizer_post.h"

/* What normalizer, pre-tokenizer and decoder were made from: a few kilobytes, kept so that a tokenizer can be written to a pack file. */
typedef struct ls_sources {
    json_t *parts;        /* {"normalizer", "pre_tokenizer", "decoder"} as far as given */
    bool sentencepiece;   /* ls_normalizer_add_sentencepiece came first, with these */
    bool trim;
    ls_str charsmap;
} ls_sources;

struct ls_tokenizer {
    ls_normalizer normalizer;
    ls_pretokenizer pretokenizer;
    ls_token_model model;
    ls_added added;
    ls_post post;
    ls_decoder decoder;
    uint8_t *special; /* [model.vocab.n_ids] 1: a special token, which plain text never becomes */
    size_t n_ids;
    int32_t bos, eos; /* -1: none */
    char *chat_template;
    ls_sources sources;
};

/* An empty tokenizer; close it with ls_tokenizer_close. */
ls_code ls_tokenizer_new(ls_tokenizer **out, ls_error *e);

/* Adds normalizer, pre_tokenizer, post_processor, decoder and added_tokens from |parts|, in the form of tokenizer.json. The
 * model's vocabulary must be complete. */
ls_code ls_tokenizer_add_parts(ls_tokenizer *t, const json_t *parts, ls_error *e);

/* Adds one added token; its id is the model's where the model knows the text. |token->id| -1 otherwise: the next free. */
ls_code ls_tokenizer_add_token(ls_tokenizer *t, const ls_added_token *token, ls_error *e);

/* Applies tokenizer_config.json and the like: added_tokens_decoder, bos_token, eos_token, chat_template. */
ls_code ls_tokenizer_apply_config(ls_tokenizer *t, const json_t *config, ls_error *e);

/* Puts BOS and EOS around sequences, replacing the post-processor, as the classes of LLaMA's kind do. */
ls_code ls_tokenizer_frame(ls_tokenizer *t, bool add_bos, bool add_eos, ls_error *e);

ls_code ls_tokenizer_set_template(ls_tokenizer *t, const char *text, size_t len, ls_error *e);

/* The first steps of a SentencePiece model's normalizer: ls_normalizer_add_sentencepiece. */
ls_code ls_tokenizer_add_charsmap(ls_tokenizer *t, const void *charsmap, size_t len, bool trim, ls_error *e);

/* After the last change: builds the tries and tables. */
ls_code ls_tokenizer_finish(ls_tokenizer *t, ls_error *e);

/* The part of it that a tokenizer with borrowed tables needs too: added tokens and what is counted from them. */
ls_code ls_tokenizer_finish_added(ls_tokenizer *t, ls_error *e);

/* ---- SentencePiece models, from tokenizer.model and from GGUF ---------------------------------------------------- */

typedef enum ls_piece_type {
    LS_PIECE_NORMAL = 1, LS_PIECE_UNKNOWN, LS_PIECE_CONTROL, LS_PIECE_USER_DEFINED, LS_PIECE_UNUSED, LS_PIECE_BYTE
} ls_piece_type;

typedef struct ls_sp_piece {
    const char *text; /* borrowed */
    size_t len;
    float score;
    ls_piece_type type;
} ls_sp_piece;

typedef struct ls_sp_model {
    ls_sp_piece *pieces; /* [n] */
    size_t n;
    bool unigram;        /* else byte-pair encoding */
    bool byte_fallback;
    bool prefix_space;   /* a space is put before the text */
    bool prefix_every;   /* ... before every stretch of text between special tokens (the "legacy" rule), not only the first */
    bool trim_spaces;
    const void *charsmap; /* borrowed; NULL: none */
    size_t charsmap_len;
    int64_t unk, bos, eos; /* -1: none */
} ls_sp_model;

/* Builds vocabulary, model, normalizer, pre-tokenizer, decoder and added tokens of |t| from |m|. */
ls_code ls_tokenizer_from_sp(ls_tokenizer *t, const ls_sp_model *m, ls_error *e);

/* Reads a tokenizer.model (a serialised sentencepiece ModelProto): its bytes, |name| for messages, or a file. |config|: what
 * tokenizer_config.json holds, or NULL. */
ls_code ls_tokenizer_from_sp_bytes(ls_tokenizer *t, const uint8_t *data, size_t size, const char *name, const json_t *config, ls_error *e);
ls_code ls_tokenizer_from_sp_file(ls_tokenizer *t, const char *path, const json_t *config, ls_error *e);

/* ---- Byte-level families by GGUF pre-tokenizer name -------------------------------------------------------------- */

typedef struct ls_pre_family {
    bool ignore_merges, add_bos;
} ls_pre_family;

/* New JSON with normalizer, pre_tokenizer and decoder of the family |pre| ("qwen2"). UNIMPLEMENTED: an unknown name. */
ls_code ls_pre_family_parts(const char *pre, json_t **parts, ls_pre_family *family, ls_error *e);

#endif
