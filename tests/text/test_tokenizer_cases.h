/* Shared by the tokenizer tests: the corpus, run-length ids, the generator of texts and their digests. */
#ifndef LS_TESTS_TEXT_TOKENIZER_CASES_H
#define LS_TESTS_TEXT_TOKENIZER_CASES_H

#include "test.h"

#include "base/json.h"
#include "text/tokenizer.h"

/* Loads fixtures/text/tokenizer/NAME; fails the test when that is not possible. */
json_t *load_case(const char *name);
bool case_exists(const char *name);

/* Text |i| of corpus.json, runs expanded. */
void corpus_text(const json_t *corpus, size_t i, ls_str *out);

/* Ids as the goldens spell them: "5 7*3". */
void ids_text(const ls_token_ids *ids, ls_str *out);

/* The inverse of ids_text. */
void parse_ids(const char *text, ls_token_ids *out);

/* Encodes all generated texts and compares the digests with |want| (an array of hexadecimal prefixes). */
void check_random(const char *name, const ls_tokenizer *t, const json_t *want);

/* A tokenizer on the tables that |t| writes for pack files; |tables| holds them, and is freed after it. */
ls_tokenizer *through_tables(const ls_tokenizer *t, ls_str *tables);

/* Compares |t| with all results of |golden| over the corpus: ids, frame, plain ids, both decodings, and incremental
 * decoding piece by piece. */
void check_golden(const char *name, const ls_tokenizer *t, const json_t *golden);

#endif
