/* The tree of kept blocks: keys, walks, and what is dropped when it is full. */
#include "session/prefix_internal.h"

#include <string.h>

#include "base/sha256.h"

/* ---- Keys ----------------------------------------------------------------------------------------------------------- */

static void put_u32(ls_sha256 *h, uint32_t v) {
    uint8_t b[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    ls_sha256_update(h, b, sizeof b);
}

void ls_prefix_digest_extras(const ls_prefix_sequence *s, size_t begin, size_t end, bool *has, uint8_t digest[32]) {
    ls_sha256 h;
    ls_sha256_init(&h);
    *has = false;
    for (size_t i = 0; i < s->n_extra; i++) {
        if (s->extra[i].position < begin || s->extra[i].position >= end) continue;
        put_u32(&h, (uint32_t)(s->extra[i].position - begin));
        ls_sha256_update(&h, s->extra[i].sha256, sizeof s->extra[i].sha256);
        *has = true;
    }
    ls_sha256_final(&h, digest);
}

void ls_prefix_key(const ls_prefix_cache *c, uint8_t key[32], const ls_prefix_entry *parent, const int32_t *token, const uint8_t *extra) {
    ls_sha256 h;
    ls_sha256_init(&h);
    ls_sha256_update(&h, parent->key, sizeof parent->key);
    for (size_t i = 0; i < c->positions; i++) put_u32(&h, (uint32_t)token[i]);
    if (extra) ls_sha256_update(&h, extra, 32);
    ls_sha256_final(&h, key);
}

/* The key's own bits are as good as any hash of it. */
static size_t bucket_of(const ls_prefix_cache *c, const uint8_t key[32]) {
    uint64_t v;
    memcpy(&v, key, sizeof v);
    return (size_t)v & (c->n_buckets - 1);
}

static bool same_block(const ls_prefix_cache *c, const ls_prefix_entry *n, const ls_prefix_entry *parent, const int32_t *token, const uint8_t *extra) {
    return n->parent == parent && !memcmp(n->token, token, c->positions * sizeof *token) && n->has_extra == (extra != NULL) &&
           (!extra || !memcmp(n->extra, extra, sizeof n->extra));
}

ls_prefix_entry *ls_prefix_find(const ls_prefix_cache *c, const ls_prefix_entry *parent, const int32_t *token, const uint8_t *extra) {
    uint8_t key[32];
    ls_prefix_key(c, key, parent, token, extra);
    ls_prefix_entry *n = c->bucket[bucket_of(c, key)];
    while (n && (memcmp(n->key, key, sizeof key) || !same_block(c, n, parent, token, extra))) n = n->chain;
    return n;
}

/* ---- The list by use, and the tree ------------------------------------------------------------------------------------ */

static void unlink_use(ls_prefix_cache *c, ls_prefix_entry *n) {
    if (n->newer) n->newer->older = n->older;
    else c->newest = n->older;
    if (n->older) n->older->newer = n->newer;
    else c->oldest = n->newer;
}

static void link_newest(ls_prefix_cache *c, ls_prefix_entry *n) {
    n->newer = NULL;
    n->older = c->newest;
    if (c->newest) c->newest->newer = n;
    else c->oldest = n;
    c->newest = n;
}

static void link_oldest(ls_prefix_cache *c, ls_prefix_entry *n) {
    n->older = NULL;
    n->newer = c->oldest;
    if (c->oldest) c->oldest->older = n;
    else c->newest = n;
    c->oldest = n;
}

static void use(ls_prefix_cache *c, ls_prefix_entry *n) {
    n->walk = c->walk;
    unlink_use(c, n);
    link_newest(c, n);
}

/* After a walk down to |last|: parents become newer than their children. */
static void end_walk(ls_prefix_cache *c, ls_prefix_entry *last) {
    for (ls_prefix_entry *n = last; n != c->root; n = n->parent) use(c, n);
}

static void unlink_tree(ls_prefix_entry *n) {
    if (n->elder) n->elder->sibling = n->sibling;
    else n->parent->child = n->sibling;
    if (n->sibling) n->sibling->elder = n->elder;
}

static void drop(ls_prefix_cache *c, ls_prefix_entry *n) {
    ls_prefix_entry **link = &c->bucket[bucket_of(c, n->key)];
    while (*link != n) link = &(*link)->chain;
    *link = n->chain;
    unlink_use(c, n);
    unlink_tree(n);
    c->ops->release(c->executor, n->block);
    ls_free(n);
    c->n--;
}

static ls_code new_entry(const ls_prefix_cache *c, ls_prefix_entry **out, ls_error *e) {
    return ls_calloc(out, 1, sizeof(ls_prefix_entry) + c->positions * sizeof(int32_t), "prefix cache", e);
}

ls_code ls_prefix_add(ls_prefix_cache *c, ls_prefix_entry **out, ls_prefix_entry *parent, const int32_t *token, const uint8_t *extra, void *block, bool oldest,
                      ls_error *e) {
    ls_prefix_entry *n;
    LS_TRY(new_entry(c, &n, e));
    memcpy(n->token, token, c->positions * sizeof *token);
    n->has_extra = extra != NULL;
    if (extra) memcpy(n->extra, extra, sizeof n->extra);
    ls_prefix_key(c, n->key, parent, token, extra);
    n->block = block;
    n->walk = c->walk;
    n->parent = parent;
    n->sibling = parent->child;
    if (n->sibling) n->sibling->elder = n;
    parent->child = n;
    size_t b = bucket_of(c, n->key);
    n->chain = c->bucket[b];
    c->bucket[b] = n;
    if (oldest) link_oldest(c, n);
    else link_newest(c, n);
    c->n++;
    *out = n;
    return LS_OK;
}

void ls_prefix_clear(ls_prefix_cache *c) {
    while (c->oldest) drop(c, c->oldest);
}

/* ---- Use -------------------------------------------------------------------------------------------------------------- */

/* Positions that |n| and the sequence from |begin| on have in common. */
static size_t common(const ls_prefix_cache *c, const ls_prefix_entry *n, const ls_prefix_sequence *s, size_t begin) {
    size_t i = 0, most = s->n - begin < c->positions ? s->n - begin : c->positions;
    while (i < most && n->token[i] == s->token[begin + i]) i++;
    return i;
}

/* The child whose beginning is the longest beginning of the rest, where the same entered beside the tokens. */
static ls_prefix_entry *longest_part(const ls_prefix_cache *c, const ls_prefix_entry *parent, const ls_prefix_sequence *s, size_t begin, size_t *length) {
    ls_prefix_entry *best = NULL;
    bool has;
    uint8_t digest[32];
    *length = 0;
    ls_prefix_digest_extras(s, begin, begin + c->positions, &has, digest);
    for (ls_prefix_entry *n = parent->child; n; n = n->sibling) {
        bool alike = n->has_extra == has && (!has || !memcmp(n->extra, digest, sizeof digest));
        size_t same = alike ? common(c, n, s, begin) : 0;
        if (same <= *length) continue;
        *length = same;
        best = n;
    }
    return best;
}

ls_code ls_prefix_attach(ls_prefix_cache *c, int slot, const ls_prefix_sequence *s, size_t most, size_t *reused, ls_error *e) {
    ls_prefix_entry *last = c->root, *n;
    size_t blocks = 0, length = 0, part = 0;
    *reused = 0;
    if (most > s->n) most = s->n;
    if (most > c->cap_attached * c->positions) most = c->cap_attached * c->positions;
    c->walk++;
    while (most - length >= c->positions) {
        bool has;
        uint8_t extra[32];
        ls_prefix_digest_extras(s, length, length + c->positions, &has, extra);
        n = ls_prefix_find(c, last, s->token + length, has ? extra : NULL);
        if (!n) break;
        c->attached[blocks++] = n->block;
        length += c->positions;
        last = n;
    }
    n = length < most ? longest_part(c, last, s, length, &part) : NULL;
    if (n) {
        c->attached[blocks++] = n->block;
        length += part < most - length ? part : most - length;
        last = n;
    }
    end_walk(c, last);
    if (!length) return LS_OK;
    LS_TRY(c->ops->attach(c->executor, slot, c->attached, (int)blocks, (int)length, e));
    *reused = length;
    return LS_OK;
}

/* Room for one more entry; false when every entry there is belongs to the walk under way. */
static bool make_room(ls_prefix_cache *c) {
    if (c->n < c->capacity) return true;
    if (c->oldest->walk == c->walk) return false;
    drop(c, c->oldest);
    c->evicted++;
    return true;
}

void ls_prefix_insert(ls_prefix_cache *c, int slot, const ls_prefix_sequence *s) {
    ls_prefix_entry *last = c->root, *n;
    c->walk++;
    for (size_t begin = 0; s->n - begin >= c->positions; begin += c->positions) {
        bool has;
        uint8_t extra[32];
        ls_prefix_digest_extras(s, begin, begin + c->positions, &has, extra);
        n = ls_prefix_find(c, last, s->token + begin, has ? extra : NULL);
        if (n) {
            use(c, n);
        } else {
            if (!make_room(c)) break;
            void *block;
            if (c->ops->hold(c->executor, slot, (int)(begin / c->positions), &block, NULL)) break;
            if (ls_prefix_add(c, &n, last, s->token + begin, has ? extra : NULL, block, false, NULL)) {
                c->ops->release(c->executor, block);
                break;
            }
            c->changed = true;
        }
        last = n;
    }
    end_walk(c, last);
}

ls_prefix_statistics ls_prefix_stats(const ls_prefix_cache *c) {
    return (ls_prefix_statistics){.blocks = c->n, .bytes = c->n * c->entry_bytes, .capacity = c->capacity, .evicted = c->evicted};
}

/* ---- Life --------------------------------------------------------------------------------------------------------------- */

static ls_code allocate(ls_prefix_cache *c, const char *identity, ls_error *e) {
    c->n_buckets = 16;
    while (c->n_buckets < c->capacity && c->n_buckets < (size_t)1 << 20) c->n_buckets *= 2;
    c->cap_attached = ((size_t)LS_MAX_CONTEXT + c->positions - 1) / c->positions;
    if (c->cap_attached > c->capacity) c->cap_attached = c->capacity;
    LS_TRY(new_entry(c, &c->root, e));
    LS_TRY(ls_calloc(&c->bucket, c->n_buckets, sizeof(ls_prefix_entry *), "prefix cache", e));
    LS_TRY(ls_calloc(&c->attached, c->cap_attached, sizeof(void *), "prefix cache", e));
    ls_sha256 h;
    ls_sha256_init(&h);
    ls_sha256_update(&h, identity, strlen(identity));
    ls_sha256_final(&h, c->root->key);
    return LS_OK;
}

ls_code ls_prefix_create(ls_prefix_cache **out, ls_executor *x, size_t max_bytes, const char *identity, ls_error *e) {
    if (!x->sharing)
        LS_FAIL(e, LS_UNIMPLEMENTED, "the prefix cache needs blocks of keys and values, which executor \"%s\" has not; use backend native or xla",
                x->name);
    ls_prefix_cache *c;
    LS_TRY(ls_calloc(&c, 1, sizeof *c, "prefix cache", e));
    c->executor = x;
    c->ops = x->sharing;
    c->positions = (size_t)x->sharing->positions;
    c->block_bytes = x->sharing->bytes(x);
    c->entry_bytes = c->block_bytes + sizeof(ls_prefix_entry) + c->positions * sizeof(int32_t);
    c->capacity = max_bytes / c->entry_bytes;
    ls_code rc = LS_OK;
    if (!c->capacity) {
        rc = ls_error_set(e, LS_INVALID_ARGUMENT, __FILE__, __LINE__,
                          "a prefix cache of %zu bytes holds nothing: a block of %zu positions of this model has %zu bytes", max_bytes, c->positions,
                          c->entry_bytes);
    } else rc = allocate(c, identity, e);
    if (rc) {
        ls_prefix_destroy(c);
        return rc;
    }
    *out = c;
    return LS_OK;
}

void ls_prefix_destroy(ls_prefix_cache *c) {
    if (!c) return;
    ls_prefix_clear(c);
    ls_free(c->root);
    ls_free(c->bucket);
    ls_free(c->attached);
    ls_free(c);
}
