/* Block storage of keys and values: see kv.h. */
#include "native/kv.h"

#include <string.h>

static void layers_init(ls_kv *kv, const ls_graph *g) {
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ls_node *n = &g->nodes[i];
        ls_kv_layer *l = &kv->layer[n->layer];
        if (n->op != LS_OP_ATTENTION || l->kv_heads) continue; /* nodes may share a cache */
        *l = (ls_kv_layer){.attn = ls_attn_of(n), .kv_heads = n->kv_heads, .offset = kv->block_bytes};
        l->layout = ls_kv_layout_of(&l->attn);
        kv->block_bytes += (size_t)l->kv_heads * l->layout.bytes;
    }
}

ls_code ls_kv_init(ls_kv *kv, const ls_graph *g, int n_slots, int context, ls_error *e) {
    *kv = (ls_kv){.n_slots = n_slots, .n_layers = g->n_caches, .context = context, .blocks_max = (context + LS_KV_BLOCK - 1) / LS_KV_BLOCK};
    size_t tables = 0;
    if (!ls_size_mul((size_t)n_slots, (size_t)kv->blocks_max, &tables))
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "key cache: %d slots of %d positions", n_slots, context);
    ls_code rc;
    LS_GOTO(ls_calloc(&kv->layer, (size_t)kv->n_layers, sizeof *kv->layer, "key cache", e));
    LS_GOTO(ls_calloc(&kv->slot, (size_t)n_slots, sizeof *kv->slot, "key cache", e));
    LS_GOTO(ls_calloc(&kv->table, tables, sizeof *kv->table, "key cache", e));
    LS_GOTO(ls_calloc(&kv->free, tables, sizeof *kv->free, "key cache", e));
    for (int s = 0; s < n_slots; s++) kv->slot[s].block = kv->table + (size_t)s * (size_t)kv->blocks_max;
    layers_init(kv, g);
    return LS_OK;
out:
    ls_kv_deinit(kv);
    return rc;
}

void ls_kv_deinit(ls_kv *kv) {
    for (int s = 0; kv->slot && s < kv->n_slots; s++)
        for (int b = 0; b < kv->slot[s].blocks; b++) ls_free(kv->slot[s].block[b]);
    for (size_t i = 0; i < kv->n_free; i++) ls_free(kv->free[i]);
    ls_free(kv->layer);
    ls_free(kv->slot);
    ls_free(kv->table);
    ls_free(kv->free);
    *kv = (ls_kv){0};
}

/* A new block is zeroed: kernels read whole blocks and only then drop what no query sees. */
static ls_code take_block(ls_kv *kv, uint8_t **out, ls_error *e) {
    if (kv->n_free) {
        *out = kv->free[--kv->n_free];
        return LS_OK;
    }
    LS_TRY(ls_alloc_aligned(out, kv->block_bytes, 1, "key cache block", e));
    memset(*out, 0, kv->block_bytes);
    kv->n_blocks++;
    return LS_OK;
}

ls_code ls_kv_reserve(ls_kv *kv, int slot, int length, ls_error *e) {
    ls_kv_slot *s = &kv->slot[slot];
    for (int want = (length + LS_KV_BLOCK - 1) / LS_KV_BLOCK; s->blocks < want; s->blocks++)
        LS_TRY(take_block(kv, &s->block[s->blocks], e));
    return LS_OK;
}

void ls_kv_truncate(ls_kv *kv, int slot, int length) {
    ls_kv_slot *s = &kv->slot[slot];
    if (length < s->length) s->length = length > 0 ? length : 0;
    for (int keep = (s->length + LS_KV_BLOCK - 1) / LS_KV_BLOCK; s->blocks > keep;) kv->free[kv->n_free++] = s->block[--s->blocks];
}

size_t ls_kv_bytes(const ls_kv *kv) { return kv->n_blocks * kv->block_bytes; }
