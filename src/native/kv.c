/* Block storage of keys and values: see kv.h. */
#include "native/kv.h"

#include <string.h>

enum { HEADER = 64 }; /* bytes before a block's contents, which stay aligned; the count of holders is there */

static int *holders(uint8_t *block) { return (int *)(void *)(block - HEADER); }

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
    kv->cap_free = tables;
    for (int s = 0; s < n_slots; s++) kv->slot[s].block = kv->table + (size_t)s * (size_t)kv->blocks_max;
    layers_init(kv, g);
    return LS_OK;
out:
    ls_kv_deinit(kv);
    return rc;
}

void ls_kv_deinit(ls_kv *kv) {
    for (int s = 0; kv->slot && s < kv->n_slots; s++)
        for (int b = 0; b < kv->slot[s].blocks; b++) ls_kv_release(kv, kv->slot[s].block[b]);
    for (size_t i = 0; i < kv->n_free; i++) ls_free(kv->free[i] - HEADER);
    ls_free(kv->layer);
    ls_free(kv->slot);
    ls_free(kv->table);
    ls_free(kv->free);
    *kv = (ls_kv){0};
}

/* ---- Blocks and their holders ------------------------------------------------------------------------------------ */

/* A new block is zeroed: kernels read whole blocks and only then drop what no query sees. */
ls_code ls_kv_take(ls_kv *kv, uint8_t **out, ls_error *e) {
    if (kv->n_free) {
        *out = kv->free[--kv->n_free];
    } else {
        uint8_t *whole;
        LS_TRY(ls_alloc_aligned(&whole, HEADER + kv->block_bytes, 1, "key cache block", e));
        memset(whole, 0, HEADER + kv->block_bytes);
        *out = whole + HEADER;
        kv->n_blocks++;
    }
    *holders(*out) = 1;
    return LS_OK;
}

void ls_kv_hold(uint8_t *block) { ++*holders(block); }

void ls_kv_release(ls_kv *kv, uint8_t *block) {
    if (--*holders(block)) return;
    if (kv->n_free < kv->cap_free) {
        kv->free[kv->n_free++] = block;
        return;
    }
    ls_free(block - HEADER);
    kv->n_blocks--;
}

/* ---- Slots --------------------------------------------------------------------------------------------------------- */

/* Only the last block can be half full, so only that one can be written to and yet be another's as well. */
static ls_code own_last_block(ls_kv *kv, ls_kv_slot *s, ls_error *e) {
    int last = s->length / LS_KV_BLOCK;
    if (last >= s->blocks || *holders(s->block[last]) == 1) return LS_OK;
    uint8_t *own;
    LS_TRY(ls_kv_take(kv, &own, e));
    memcpy(own, s->block[last], kv->block_bytes);
    ls_kv_release(kv, s->block[last]);
    s->block[last] = own;
    return LS_OK;
}

ls_code ls_kv_reserve(ls_kv *kv, int slot, int length, ls_error *e) {
    ls_kv_slot *s = &kv->slot[slot];
    if (length > s->length) LS_TRY(own_last_block(kv, s, e));
    for (int want = (length + LS_KV_BLOCK - 1) / LS_KV_BLOCK; s->blocks < want; s->blocks++) LS_TRY(ls_kv_take(kv, &s->block[s->blocks], e));
    return LS_OK;
}

void ls_kv_truncate(ls_kv *kv, int slot, int length) {
    ls_kv_slot *s = &kv->slot[slot];
    if (length < s->length) s->length = length > 0 ? length : 0;
    for (int keep = (s->length + LS_KV_BLOCK - 1) / LS_KV_BLOCK; s->blocks > keep;) ls_kv_release(kv, s->block[--s->blocks]);
}

void ls_kv_attach(ls_kv *kv, int slot, void *const *block, int n, int length) {
    ls_kv_slot *s = &kv->slot[slot];
    for (int i = 0; i < n; i++) {
        s->block[i] = block[i];
        ls_kv_hold(s->block[i]);
    }
    s->blocks = n;
    s->length = length;
}

size_t ls_kv_bytes(const ls_kv *kv) { return kv->n_blocks * kv->block_bytes; }
