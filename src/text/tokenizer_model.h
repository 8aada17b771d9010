/* The models: one pre-tokenised piece of text to token ids. Byte-pair encoding and unigram. */
#ifndef LS_TEXT_TOKENIZER_MODEL_H
#define LS_TEXT_TOKENIZER_MODEL_H

#include "base/json.h"
#include "text/tokenizer.h"
#include "text/tokenizer_merges.h"
#include "text/tokenizer_trie.h"

typedef enum ls_model_kind { LS_MODEL_BPE, LS_MODEL_UNIGRAM } ls_model_kind;

/* Zero-initialise, add the vocabulary, then finish as the kind asks. */
typedef struct ls_token_model {
    bool borrowed;          /* vocabulary, merges, trie and scores lie in a mapped file (tokenizer_tables.c) */
    ls_model_kind kind;
    ls_vocab vocab;
    int32_t unk;            /* -1: none */
    bool byte_fallback;     /* characters outside the vocabulary become their <0xHH> tokens */
    bool fuse_unk;          /* neighbouring unknown characters become one unknown token */
    int32_t byte_ids[256];  /* of "<0xHH>", -1 when absent */
    /* BPE */
    ls_merges merges;
    bool ignore_merges;     /* a piece that is a token stays whole */
    char *prefix, *suffix;  /* of tokens inside a word, of tokens ending a word; NULL: none */
    /* Unigram */
    ls_trie trie;
    double *scores;         /* [vocab.n_ids] */
    double unk_score;
    bool single;            /* scores are summed in f32, as SentencePiece does, not in f64 as `tokenizers` does */
} ls_token_model;

/* Reads {"type": "BPE" | "Unigram", ...}. Errors: UNIMPLEMENTED (another type, dropout), INVALID_ARGUMENT. */
ls_code ls_token_model_load(ls_token_model *m, const json_t *node, ls_error *e);
void ls_token_model_deinit(ls_token_model *m);

/* Fills byte_ids once the vocabulary is complete. */
void ls_token_model_find_bytes(ls_token_model *m);

/* Adds the merge of two tokens with the given rank (lower first). INVALID_ARGUMENT when a part or the result is absent. */
ls_code ls_bpe_add_merge(ls_token_model *m, const char *left, size_t n_left, const char *right, size_t n_right, uint32_t rank,
                         ls_error *e);

/* The same from JSON, in either spelling: "left right" or ["left", "right"]. */
ls_code ls_bpe_read_merge(ls_token_model *m, const json_t *v, uint32_t rank, ls_error *e);

/* Derives the merges of a SentencePiece vocabulary: every split of a token into two tokens, better scores first, then
 * longer left parts, then longer right parts, then order of ids. scores [vocab.n_ids]. */
ls_code ls_bpe_merges_from_scores(ls_token_model *m, const float *scores, ls_error *e);

/* Builds the trie and the unknown score from scores [vocab.n_ids] (copied). Tokens i with hidden[i] are never found in text
 * (NULL: none hidden). */
ls_code ls_unigram_finish(ls_token_model *m, const double *scores, const uint8_t *hidden, ls_error *e);

/* Working memory of one thread's encoding. Zero-initialise. */
typedef struct ls_model_work {
    void *symbols, *heap, *paths;
    size_t cap_symbols, cap_heap, cap_paths;
} ls_model_work;

void ls_model_work_deinit(ls_model_work *w);

/* Appends the ids of |text| (valid UTF-8, not empty). Ids i with banned[i] never stand for text (NULL: none banned). */
ls_code ls_token_model_encode(const ls_token_model *m, ls_model_work *w, const char *text, size_t len, const uint8_t *banned,
                              ls_token_ids *out, ls_error *e);

/* Private to the two model files. */
ls_code ls_token_ids_add(ls_token_ids *ids, int32_t id, ls_error *e);
ls_code ls_bpe_load(ls_token_model *m, const json_t *node, ls_error *e);
ls_code ls_unigram_load(ls_token_model *m, const json_t *node, ls_error *e);
ls_code ls_bpe_encode(const ls_token_model *m, ls_model_work *w, const char *text, size_t len, const uint8_t *banned, ls_token_ids *out,
                      ls_error *e);
ls_code ls_unigram_encode(const ls_token_model *m, ls_model_work *w, const char *text, size_t len, const uint8_t *banned,
                          ls_token_ids *out, ls_error *e);

#endif
