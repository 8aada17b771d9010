/* Keys and values of all sequences, in blocks of 64 positions.
 *
 * A block holds the quantised keys and values of 64 consecutive positions of one slot, for every layer and key head (see
 * ls_kv_layout). Each slot has a table of blocks. Blocks are allocated when a slot grows and go to a pool of free blocks
 * when it shrinks, so a slot's cost follows its length, and a warm executor allocates nothing.
 *
 * A block counts its holders, which are slots and whoever called ls_kv_hold: several slots may begin with the same blocks, and
 * a block may outlive its slot. A slot writes to no block that another holds; it copies it first. */
#ifndef LS_NATIVE_KV_H
#define LS_NATIVE_KV_H

#include "native/ops_table.h"

typedef struct ls_kv_layer {
    ls_attn attn;
    ls_kv_layout layout;
    int kv_heads;
    size_t offset; /* of the layer in a block */
} ls_kv_layer;

typedef struct ls_kv_slot {
    int length, blocks;
    uint8_t **block; /* [blocks_max] */
} ls_kv_slot;

typedef struct ls_kv {
    int n_slots, n_layers, context, blocks_max; /* blocks_max: of one slot */
    ls_kv_layer *layer;  /* [n_layers] */
    size_t block_bytes;
    ls_kv_slot *slot;    /* [n_slots] */
    uint8_t **table;     /* storage of all slots' tables */
    uint8_t **free;      /* [cap_free = n_slots * blocks_max] stack of free blocks; past that they are given back */
    size_t n_free, cap_free, n_blocks;
} ls_kv;

/* Names the meaning of a block's bytes, for files; a change of ls_kv_layout is a new number. */
#define LS_KV_LAYOUT_NAME "native-kv/2"

/* Tables for every attention node of |g|; no block yet. */
ls_code ls_kv_init(ls_kv *kv, const ls_graph *g, int n_slots, int context, ls_error *e);
void ls_kv_deinit(ls_kv *kv); /* fine on a zeroed struct */

/* Makes sure that |slot| has blocks for |length| <= context positions, and holds alone those that positions past its length
 * will be written to. RESOURCE_EXHAUSTED; its length does not change. */
ls_code ls_kv_reserve(ls_kv *kv, int slot, int length, ls_error *e);

/* Keeps the first |length| positions (at most those held) and gives the blocks past them to the pool. */
void ls_kv_truncate(ls_kv *kv, int slot, int length);

/* A block with one holder, contents undefined; RESOURCE_EXHAUSTED. One more holder; one less (the last gives it to the pool). */
ls_code ls_kv_take(ls_kv *kv, uint8_t **out, ls_error *e);
void ls_kv_hold(uint8_t *block);
void ls_kv_release(ls_kv *kv, uint8_t *block);

/* Lets the empty |slot| begin with |length| positions in block[n], n * LS_KV_BLOCK >= length > (n - 1) * LS_KV_BLOCK. */
void ls_kv_attach(ls_kv *kv, int slot, void *const *block, int n, int length);

size_t ls_kv_bytes(const ls_kv *kv); /* allocated, blocks of the pool included */

/* The part of key head |head| of layer |layer| in the block that holds |position|, which must be reserved. */
static inline uint8_t *ls_kv_head(const ls_kv *kv, int layer, int slot, int64_t position, int head) {
    const ls_kv_layer *l = &kv->layer[layer];
    return kv->slot[slot].block[position / LS_KV_BLOCK] + l->offset + (size_t)head * l->layout.bytes;
}

#endif
