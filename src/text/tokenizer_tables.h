/* Tokenizers as tables in a pack file: vocabulary, merges, trie and scores are used where they lie, so that opening takes no longer than checking
 * them. docs/pack.md, section "tokenizer". */
#ifndef LS_TEXT_TOKENIZER_TABLES_H
#define LS_TEXT_TOKENIZER_TABLES_H

#include "text/tokenizer.h"

/* Version of the tables: of their layout here, and of the arrays of tokenizer_vocab.c, its hash functions and tokenizer_merges.c. */
enum { LS_TOKENIZER_TABLES = 2 };

/* Appends the tables of |t|, all but its chat template. */
ls_code ls_tokenizer_write_tables(const ls_tokenizer *t, ls_str *out, ls_error *e);

/* A tokenizer on the tables in data[size], which must be 16-byte aligned and outlive it. Every index in them is checked. |chat_template| [len] is
 * copied; NULL: none. DATA_LOSS naming the table, FAILED_PRECONDITION for another version. */
ls_code ls_tokenizer_open_tables(ls_tokenizer **out, const uint8_t *data, size_t size, const char *chat_template, size_t len, ls_error *e);

#endif
