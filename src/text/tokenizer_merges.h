/* The merges of byte-pair encoding: two neighbouring tokens to their rank and what they become. 8 bytes a merge and 4 a token. */
#ifndef LS_TEXT_TOKENIZER_MERGES_H
#define LS_TEXT_TOKENIZER_MERGES_H

#include "text/tokenizer_vocab.h"

/* A merge in 64 bits, in ascending order of the right token: right << 43 | rank << 21 | merged. */
enum { LS_MERGE_RANK_BITS = 22, LS_MERGES_MAX = 1 << LS_MERGE_RANK_BITS };

typedef struct ls_merge {
    int32_t left, right, merged;
    uint32_t rank; /* below LS_MERGES_MAX; lower first */
} ls_merge;

/* Zero-initialise, add, finish, then find. */
typedef struct ls_merges {
    uint64_t *packed;       /* [n] by left token, then by right token */
    uint32_t *begin;        /* [n_ids + 1] where the merges of each left token begin; NULL before ls_merges_finish */
    size_t n, n_ids;
    ls_merge *added;        /* [n_added] until ls_merges_finish */
    size_t n_added, cap_added;
} ls_merges;

/* Of merges of the same two tokens the last one added counts. RESOURCE_EXHAUSTED: LS_MERGES_MAX of them, or a rank that high. */
ls_code ls_merges_add(ls_merges *m, const ls_merge *merge, ls_error *e);

/* Sorts what was added; ids are below |n_ids| <= LS_VOCAB_MAX_IDS. */
ls_code ls_merges_finish(ls_merges *m, size_t n_ids, ls_error *e);

/* The merge of two tokens, into *rank and *merged; false when there is none. Ids within n_ids. */
bool ls_merges_find(const ls_merges *m, int32_t left, int32_t right, uint32_t *rank, int32_t *merged);

/* Whether arrays from a file are what ls_merges_find expects: places ascending to n, right tokens ascending below n_ids, merged ids below n_ids. */
bool ls_merges_are_sound(const ls_merges *m);

void ls_merges_deinit(ls_merges *m);

#endif
