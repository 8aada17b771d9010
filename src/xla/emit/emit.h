/* The StableHLO emitter: one text module per entry, from the same graph that the other executors run. Needs no toolchain
 * and knows no families. Equal graphs and options give equal bytes; every operation carries its node's name.
 *
 * Arguments of @main are the weights, in order of first use in the graph, then the entry's inputs. */
#ifndef LS_XLA_EMIT_EMIT_H
#define LS_XLA_EMIT_EMIT_H

#include "graph/graph.h"
#include "xla/engine.h"

/* S: rows of the entry; C: capacity of the caches, a multiple of 256; L: attention layers; B: sequences. Caches are f32
 * [L, C, kv_heads, head_dim] (a leading B where it says so), donated and given back as the last two results.
 *
 *   entry               inputs after the weights                                              results before the caches
 *   prefill             tokens i32[S], positions i32[S], real_len i32                         logits f32[V] (token i32)
 *   prefill_embeddings  embeddings f32[S,H], positions i32[S], real_len i32, bias f32[S,S]    the same
 *   decode              token i32, pos i32, cache_len i32, kcache, vcache                     the same
 *   decode_ragged       token i32[B], pos i32[B], cache_len i32[B], kcache, vcache [B, ...]   logits f32[B,V] (tokens i32[B])
 *   extend              tokens i32[S], slot i32, cache_len i32, rows i32[R], caches [B, ...]  logits f32[R,V]
 *   extend_embeddings   tokens i32[S], slot i32, cache_len i32, rows i32[R],                  the same
 *                       embeddings f32[S,H], given i32[S], begin i32[S], end i32[S], caches
 *   vision              patches f32[S,C]                                                      rows f32[R,V]; no caches
 *
 * prefill begins with empty caches and gives them as results. extend appends S rows at cache_len to the sequence |slot|.
 * bias holds 0 (visible) or -1e30, and adds to the causal order's place: rows see what it says, within the
 * layer's window. extend_embeddings takes the embedding of rows whose |given| is not 0, and each row also sees the places [begin, end)
 * of its block, in every layer; a row without a block has begin = its place, end = begin + 1. vision takes the S patches of one image; it is the only entry of
 * a graph that pools, and of no other. */
typedef enum ls_entry {
    LS_ENTRY_PREFILL,
    LS_ENTRY_PREFILL_EMBEDDINGS,
    LS_ENTRY_DECODE,
    LS_ENTRY_DECODE_RAGGED,
    LS_ENTRY_EXTEND,
    LS_ENTRY_EXTEND_EMBEDDINGS,
    LS_ENTRY_VISION,
    LS_ENTRY_COUNT
} ls_entry;
const char *ls_entry_name(ls_entry e);
ls_code ls_entry_parse(const char *name, ls_entry *out, ls_error *e);

/* How integer dot products of the exact contracts are carried. All give the same bits. */
typedef enum ls_carrier {
    LS_CARRIER_F32, /* whole numbers in f32, every partial sum below 2^24 */
    LS_CARRIER_F64, /* whole numbers in f64 where f32 would need more products; for compilers that keep f64 */
    LS_CARRIER_I8   /* int8 planes with int32 sums; for integer units */
} ls_carrier;

typedef enum ls_precision { LS_PRECISION_F32, LS_PRECISION_F16, LS_PRECISION_BF16 } ls_precision;
const char *ls_precision_name(ls_precision p); /* "f32" */
ls_code ls_precision_parse(const char *name, ls_precision *out, ls_error *e);

typedef struct ls_emit_options {
    ls_entry entry;
    int64_t rows;      /* S; B for decode_ragged */
    int64_t capacity;  /* C */
    int64_t sequences; /* B of both extends */
    int64_t out_rows;  /* R of both extends */
    bool argmax;       /* the token of the largest logit (lowest index among equals) in place of the logits; not for extends */
    ls_carrier carrier;
    ls_precision precision; /* float contract: operands of products are narrowed to this, sums stay f32 */
    bool packed;            /* float contract: linear weights stay packed and are unpacked in the graph (ls_emit_check_packed) */
    const bool *capture;    /* [n_nodes] nodes whose outputs f32 [rows, cols] are further results, after the caches; NULL: none */
} ls_emit_options;

/* What a weight argument holds. The data is made by ls_emit_weight_data. */
typedef enum ls_weight_role {
    LS_W_ROWS,     /* f32 [rows, cols] as the format's values: embedding table; canonical under an exact contract */
    LS_W_MATRIX,   /* [E, K, N] f32, f16 or bf16, the format's values: float products; E 1, or the experts */
    LS_W_VECTOR,   /* f32 [n], canonical and with |offset| added under an exact contract */
    LS_W_INTEGERS, /* digit |digit| of u - z: [E, G * group / sub, sub, N], f32, f64 or i8; E 1, or the experts */
    LS_W_SCALES,   /* i32 [E, G, N]: S */
    LS_W_MINS,     /* i32 [E, G, N]: M */
    LS_W_POWERS,   /* f32 [E, N]: 2^(R + c + h) */
    LS_W_COS, LS_W_SIN, /* rotary table [C, rot_dim / 2]: i32 Q30 under an exact contract, else f32 */
    LS_W_PACKED, LS_W_PACKED_SCALES, LS_W_PACKED_BIASES /* MLX affine: ui32 [out, in * bits / 32], f32 [out, in / group] twice */
} ls_weight_role;

/* One weight argument. Equal |key| means equal data, across modules of one graph too. */
typedef struct ls_emit_weight {
    const char *key, *name; /* name: the parameter's; "rope.0" for tables */
    ls_weight_role role;
    ls_tensor_type type;
    ls_contract contract;
    const ls_param *param;  /* [n_params]: stacked along E, or along N when E is 1 */
    int n_params;
    float offset;
    int rope;
    int digit, digits, digit_bits; /* u - z = sum of digit[i] * 2^(i * digit_bits), balanced */
    int64_t group, sub;     /* columns of a group; columns of one product (group / sub of them) */
} ls_emit_weight;

typedef struct ls_emit_module {
    ls_str text;
    ls_arena *arena;
    ls_emit_weight *weight;
    size_t n_weights, cap_weights;
    ls_tensor_type *input, *result; /* inputs after the weights; all results */
    size_t n_inputs, n_results;
} ls_emit_module;

/* Can |packed| be had for |g|? Linear weights of MLX affine format with 2, 4 or 8 bits stay packed; float ones beside them stay
 * as they are. Embedding tables are f32 always: their rows are looked up, not multiplied. INVALID_ARGUMENT when no linear weight
 * is quantised; UNIMPLEMENTED naming the first quantised weight of a linear layer or expert that would be made dense. */
ls_code ls_emit_check_packed(const ls_graph *g, ls_error *e);

/* Errors: UNIMPLEMENTED naming the node that has no lowering, INVALID_ARGUMENT for options that do not fit the graph; with |packed|
 * those of ls_emit_check_packed. */
ls_code ls_emit_entry(ls_emit_module *out, const ls_graph *g, const ls_emit_options *o, ls_error *e);

/* One node alone, for the rows of one sequence (|o->entry| is one of the extends). Inputs: the node's distinct inputs f32 [rows, cols];
 * then for an embedding tokens i32[S] (embeddings and given), for a rotation positions i32[S], for a selection rows i32[R], for
 * attention slot i32, cache_len i32 (begin, end) and the layer's caches f32 [B, 1, C, kv_heads, head_dim], donated; what is in
 * brackets with extend_embeddings only. Results: its output, then the caches.
 * Of a graph that pools (|o->entry| is LS_ENTRY_VISION) rows are S patches of one image, or R rows after the pool, and the inputs are the
 * node's, each by itself: of attention S queries and all image_rows keys and values, of the pool all rows; then for a position add
 * (and attention that a fault made causal) positions i32[S]; of the input node its rows f32[S,C]. */
ls_code ls_emit_node_module(ls_emit_module *out, const ls_graph *g, int node, const ls_emit_options *o, ls_error *e);

/* Copies S places from |place| on between the caches of sequence |slot| and a block f32 [2, L, S, kv_heads, head_dim], keys first. Of |o| rows,
 * capacity and sequences count. Not |write|: inputs slot i32, place i32, caches [B, ...], not donated; the result is the block. |write|: inputs slot i32,
 * place i32, block, caches [B, ...], donated; results the caches. place + S must be within the capacity. */
ls_code ls_emit_block_module(ls_emit_module *out, const ls_graph *g, bool write, const ls_emit_options *o, ls_error *e);
void ls_emit_module_deinit(ls_emit_module *m);

/* Data of one weight argument, dense as |w->type| says; free with ls_free. */
ls_code ls_emit_weight_data(const ls_emit_weight *w, const ls_graph *g, void **data, ls_error *e);

#endif
