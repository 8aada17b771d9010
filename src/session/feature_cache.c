/* A list by use, newest first: few entries, each worth far more than a walk. */
#include "session/feature_cache.h"

#include <string.h>

struct ls_feature_entry {
    ls_feature_entry *older;
    char key[65];
    float *rows; /* [n] */
    size_t n;
};

static void drop(ls_feature_cache *c, ls_feature_entry **link) {
    ls_feature_entry *x = *link;
    *link = x->older;
    c->bytes -= x->n * sizeof *x->rows;
    c->entries--;
    ls_free(x->rows);
    ls_free(x);
}

/* The link to the entry of |key|, or to the end of the list. */
static ls_feature_entry **find(ls_feature_cache *c, const char *key) {
    ls_feature_entry **link = &c->newest;
    while (*link && strcmp((*link)->key, key)) link = &(*link)->older;
    return link;
}

const float *ls_features_find(ls_feature_cache *c, const char key[65], size_t *n) {
    ls_feature_entry **link = find(c, key), *x = *link;
    c->hits += x != NULL;
    c->misses += x == NULL;
    if (!x) return NULL;
    *link = x->older;
    x->older = c->newest;
    c->newest = x;
    *n = x->n;
    return x->rows;
}

static void make_room(ls_feature_cache *c, size_t bytes) {
    while (c->newest && c->bytes > c->max_bytes - bytes) {
        ls_feature_entry **link = &c->newest;
        while ((*link)->older) link = &(*link)->older;
        drop(c, link);
    }
}

void ls_features_put(ls_feature_cache *c, const char key[65], const float *rows, size_t n) {
    size_t bytes;
    ls_feature_entry *x, **same = find(c, key);
    if (*same) drop(c, same);
    if (!ls_size_mul(n, sizeof *rows, &bytes) || bytes > c->max_bytes || ls_calloc(&x, 1, sizeof *x, "image rows", NULL)) return;
    if (ls_calloc(&x->rows, n, sizeof *x->rows, "image rows", NULL)) {
        ls_free(x);
        return;
    }
    make_room(c, bytes);
    memcpy(x->rows, rows, bytes);
    memcpy(x->key, key, sizeof x->key);
    x->n = n;
    x->older = c->newest;
    c->newest = x;
    c->bytes += bytes;
    c->entries++;
}

void ls_features_clear(ls_feature_cache *c) {
    while (c->newest) drop(c, &c->newest);
}
