/* A byte trie: which stored keys begin at a place of a text. Used for unigram pieces and for added tokens. */
#ifndef LS_TEXT_TOKENIZER_TRIE_H
#define LS_TEXT_TOKENIZER_TRIE_H

#include "text/tokenizer_vocab.h"

typedef struct ls_trie {
    ls_u64_map edges;      /* node << 8 | byte -> node */
    uint32_t root[256];    /* children of node 0; 0: none */
    int32_t *values;       /* [n_nodes], -1: no key ends here */
    size_t n_nodes, cap;
} ls_trie;

/* Stores |value| (>= 0) under |key|. When the key is already there, keeps the earlier value unless |replace|. Empty keys
 * are ignored. */
ls_code ls_trie_put(ls_trie *t, const char *key, size_t len, int32_t value, bool replace, ls_error *e);

/* The child of |node| (0 is the root) along |byte|, or 0 when there is none. */
uint32_t ls_trie_step(const ls_trie *t, uint32_t node, unsigned char byte);
void ls_trie_deinit(ls_trie *t);

#endif
