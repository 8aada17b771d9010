/* Slots and their key and value rows: see the header. */
#include "reference/reference_cache.h"

#include <string.h>

enum { FIRST_CAPACITY = 64 }; /* positions of a slot's first allocation; doubled from there */

static size_t cell(const ls_reference_cache *c, int layer, int slot) {
    return (size_t)layer * (size_t)c->slots + (size_t)slot;
}

ls_code ls_reference_cache_init(ls_reference_cache *c, const ls_graph *g, int slots, int context, size_t elem,
                                ls_error *e) {
    *c = (ls_reference_cache){.layers = g->n_caches, .slots = slots, .context = context, .elem = elem};
    size_t cells = (size_t)c->layers * (size_t)slots;
    LS_TRY(ls_calloc(&c->cols, (size_t)c->layers, sizeof *c->cols, "cache layers", e));
    LS_TRY(ls_calloc(&c->k, cells, sizeof *c->k, "key caches", e));
    LS_TRY(ls_calloc(&c->v, cells, sizeof *c->v, "value caches", e));
    LS_TRY(ls_calloc(&c->length, (size_t)slots, sizeof *c->length, "slots", e));
    LS_TRY(ls_calloc(&c->capacity, (size_t)slots, sizeof *c->capacity, "slots", e));
    for (size_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == LS_OP_ATTENTION)
            c->cols[g->nodes[i].layer] = (size_t)g->nodes[i].kv_heads * (size_t)g->nodes[i].head_dim;
    return LS_OK;
}

static void release(ls_reference_cache *c, int slot) {
    for (int l = 0; c->k && c->v && l < c->layers; l++) {
        void **k = &c->k[cell(c, l, slot)], **v = &c->v[cell(c, l, slot)];
        ls_free(*k);
        ls_free(*v);
        *k = *v = NULL;
    }
}

void ls_reference_cache_deinit(ls_reference_cache *c) {
    for (int s = 0; s < c->slots; s++) release(c, s);
    ls_free(c->cols);
    ls_free(c->k);
    ls_free(c->v);
    ls_free(c->length);
    ls_free(c->capacity);
    *c = (ls_reference_cache){0};
}

static ls_code grow(const ls_reference_cache *c, void **rows, int capacity, size_t cols, ls_error *e) {
    size_t bytes;
    if (!ls_size_mul(cols, c->elem, &bytes))
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "cache rows of %zu columns are too large", cols);
    return ls_realloc(rows, (size_t)capacity, bytes, "key and value cache", e);
}

ls_code ls_reference_cache_reserve(ls_reference_cache *c, int slot, int positions, ls_error *e) {
    if (positions <= c->capacity[slot]) return LS_OK;
    int want = c->capacity[slot] > c->context / 2 ? c->context : 2 * c->capacity[slot];
    if (want < FIRST_CAPACITY) want = FIRST_CAPACITY;
    if (want > c->context) want = c->context;
    if (want < positions) want = positions;
    for (int l = 0; l < c->layers; l++) {
        LS_TRY(grow(c, &c->k[cell(c, l, slot)], want, c->cols[l], e));
        LS_TRY(grow(c, &c->v[cell(c, l, slot)], want, c->cols[l], e));
    }
    c->capacity[slot] = want;
    return LS_OK;
}

void ls_reference_cache_store(ls_reference_cache *c, int layer, int slot, int position, const void *k, const void *v) {
    size_t bytes = c->cols[layer] * c->elem, at = (size_t)position * bytes;
    memcpy((char *)c->k[cell(c, layer, slot)] + at, k, bytes);
    memcpy((char *)c->v[cell(c, layer, slot)] + at, v, bytes);
}

void ls_reference_cache_truncate(ls_reference_cache *c, int slot, int length) {
    if (length < c->length[slot]) c->length[slot] = length < 0 ? 0 : length;
    if (c->length[slot]) return;
    release(c, slot);
    c->capacity[slot] = 0;
}

size_t ls_reference_cache_bytes(const ls_reference_cache *c) {
    size_t columns = 0, positions = 0;
    for (int l = 0; l < c->layers; l++) columns += c->cols[l];
    for (int s = 0; s < c->slots; s++) positions += (size_t)c->capacity[s];
    return 2 * positions * columns * c->elem;
}
