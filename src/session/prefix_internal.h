/* The prefix cache from the inside: what prefix_cache.c and prefix_file.c share. Not for other files. */
#ifndef LS_SESSION_PREFIX_INTERNAL_H
#define LS_SESSION_PREFIX_INTERNAL_H

#include "session/prefix_cache.h"

/* One kept block. In the list by use every entry is older than its parent, so the oldest one has no child. */
typedef struct ls_prefix_entry {
    struct ls_prefix_entry *parent, *child, *sibling, *elder; /* elder: the sibling before this one */
    struct ls_prefix_entry *chain;                            /* in its bucket */
    struct ls_prefix_entry *newer, *older;                    /* by use */
    uint64_t walk;                                            /* the last walk that came by */
    uint8_t key[32], extra[32];
    bool has_extra;
    void *block;
    int32_t token[]; /* [positions] */
} ls_prefix_entry;

struct ls_prefix_cache {
    ls_executor *executor;
    const ls_block_sharing *ops;
    size_t positions, block_bytes, entry_bytes, capacity, n; /* entry_bytes: of one entry with its block */
    ls_prefix_entry *root;                                   /* no block; its key is the SHA-256 of the identity */
    ls_prefix_entry **bucket;                                /* [n_buckets], a power of two */
    size_t n_buckets;
    ls_prefix_entry *newest, *oldest;
    void **attached;                                         /* [context blocks] of one attachment */
    size_t cap_attached;
    uint64_t walk, evicted;
    bool changed;                                            /* since the last load or save */
};

/* Extras of one block as one digest; *has false when there is none. */
void ls_prefix_digest_extras(const ls_prefix_sequence *s, size_t begin, size_t end, bool *has, uint8_t digest[32]);

void ls_prefix_key(const ls_prefix_cache *c, uint8_t key[32], const ls_prefix_entry *parent, const int32_t *token, const uint8_t *extra);

/* The child of |parent| with exactly these tokens and extras (NULL: none), or NULL. */
ls_prefix_entry *ls_prefix_find(const ls_prefix_cache *c, const ls_prefix_entry *parent, const int32_t *token, const uint8_t *extra);

/* A new child of |parent|, most or least recently used, which takes over |block|. RESOURCE_EXHAUSTED. */
ls_code ls_prefix_add(ls_prefix_cache *c, ls_prefix_entry **out, ls_prefix_entry *parent, const int32_t *token, const uint8_t *extra, void *block, bool oldest,
                      ls_error *e);

/* Drops every entry. */
void ls_prefix_clear(ls_prefix_cache *c);

#endif
