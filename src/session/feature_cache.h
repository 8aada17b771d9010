/* What an image encoder gave, kept for images that come again. Entries are found by a key that names pixels and settings, and dropped by
 * last use when their bytes exceed the bound. */
#ifndef LS_SESSION_FEATURE_CACHE_H
#define LS_SESSION_FEATURE_CACHE_H

#include "base/alloc.h"

typedef struct ls_feature_entry ls_feature_entry;

typedef struct ls_feature_cache {
    ls_feature_entry *newest; /* a list by use */
    size_t max_bytes, bytes, entries;
    uint64_t hits, misses;
} ls_feature_cache;

/* Rows f32 kept under |key|, or NULL; *n their count of numbers. Valid until the next put or clear. */
const float *ls_features_find(ls_feature_cache *c, const char key[65], size_t *n);

/* Keeps a copy of rows [n]; more than |max_bytes| is not kept, and neither is what finds no memory. */
void ls_features_put(ls_feature_cache *c, const char key[65], const float *rows, size_t n);

void ls_features_clear(ls_feature_cache *c); /* fine on a zeroed struct */

#endif
