/* Sequence slots of the reference executor and their keys and values: one growing array of rows per layer and slot. */
#ifndef LS_REFERENCE_REFERENCE_CACHE_H
#define LS_REFERENCE_REFERENCE_CACHE_H

#include "graph/graph.h"

typedef struct ls_reference_cache {
    int layers, slots, context; /* |context|: most positions of a slot */
    size_t elem;                /* bytes of one element */
    size_t *cols;               /* [layers] of a key row and of a value row */
    void **k, **v;              /* [layers * slots], layer by layer: rows [capacity, cols] */
    int *length, *capacity;     /* [slots] positions held and positions there is memory for */
} ls_reference_cache;

/* Zero |c| first. Takes the layers' sizes from the attention nodes of |g|. Deinit also after a failure. */
ls_code ls_reference_cache_init(ls_reference_cache *c, const ls_graph *g, int slots, int context, size_t elem,
                                ls_error *e);
void ls_reference_cache_deinit(ls_reference_cache *c);

/* Makes memory for |positions| <= context positions of |slot| in every layer. RESOURCE_EXHAUSTED: nothing is lost. */
ls_code ls_reference_cache_reserve(ls_reference_cache *c, int slot, int positions, ls_error *e);

/* Puts one key row and one value row [cols] at |position| < capacity. Does not change the length. */
void ls_reference_cache_store(ls_reference_cache *c, int layer, int slot, int position, const void *k, const void *v);

/* Keeps the first |length| positions of |slot|; 0 also gives its memory back. */
void ls_reference_cache_truncate(ls_reference_cache *c, int slot, int length);

size_t ls_reference_cache_bytes(const ls_reference_cache *c);

#endif
