/* Byte trie over one hash map of edges; the root's children are an array, since most walks end there. */
#include "text/tokenizer_trie.h"

enum { TRIE_MAX_NODES = 1 << 27 };

static ls_code add_node(ls_trie *t, ls_error *e) {
    LS_TRY(ls_grow(&t->values, t->n_nodes, &t->cap, sizeof *t->values, TRIE_MAX_NODES, "token trie", e));
    t->values[t->n_nodes++] = -1;
    return LS_OK;
}

ls_code ls_trie_put(ls_trie *t, const char *key, size_t len, int32_t value, bool replace, ls_error *e) {
    if (!len) return LS_OK;
    if (!t->n_nodes) LS_TRY(add_node(t, e));
    uint32_t node = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)key[i];
        uint32_t next = ls_trie_step(t, node, byte);
        if (!next) {
            next = (uint32_t)t->n_nodes;
            LS_TRY(add_node(t, e));
            if (node) LS_TRY(ls_u64_map_put(&t->edges, (uint64_t)node << 8 | byte, next, e));
            else t->root[byte] = next;
        }
        node = next;
    }
    if (t->values[node] < 0 || replace) t->values[node] = value;
    return LS_OK;
}

uint32_t ls_trie_step(const ls_trie *t, uint32_t node, unsigned char byte) {
    if (!node) return t->root[byte];
    uint64_t next = 0;
    return ls_u64_map_get(&t->edges, (uint64_t)node << 8 | byte, &next) ? (uint32_t)next : 0;
}

void ls_trie_deinit(ls_trie *t) {
    ls_u64_map_deinit(&t->edges);
    ls_free(t->values);
    *t = (ls_trie){0};
}
