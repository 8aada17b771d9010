/* The XLA executor from the inside: what its files share. Not for other folders. */
#ifndef LS_XLA_EXECUTOR_INTERNAL_H
#define LS_XLA_EXECUTOR_INTERNAL_H

#include "xla/executor.h"

/* A compiled program by its text: nodes alone of equal shape share one. */
typedef struct ls_xla_program {
    char text_sha[65];
    ls_program *program;
} ls_xla_program;

/* What a module is when it is no node alone: the whole entry, or a copy of a block of the caches (LS_ENTRY_EXTEND). */
enum { LS_XLA_WHOLE = -1, LS_XLA_READ_BLOCK = -2, LS_XLA_WRITE_BLOCK = -3 };

/* A module: what it was emitted for, its program and its weights. */
typedef struct ls_xla_module {
    ls_entry entry;
    int node; /* a node alone, or one of the above */
    int64_t rows, out_rows, capacity;
    ls_program *program; /* borrowed from the executor, as the weights */
    ls_buffer **weight;  /* [n_weights] */
    size_t n_weights, n_results;
    ls_tensor_type *result;
} ls_xla_module;

typedef struct ls_xla_weight {
    char *key;
    ls_buffer *buffer;
} ls_xla_weight;

/* Rows [begin, begin + n) of a batch, all of one slot, at places [place, place + n) of its cache; padded to |rows|. */
typedef struct ls_xla_piece {
    int slot, begin, n, place, rows;
    ls_entry entry; /* extend, or extend_embeddings when a row brings an embedding or has a block */
} ls_xla_piece;

enum { LS_XLA_ROW_ARRAYS = 4, LS_XLA_MAPS = 3 };

enum { LS_XLA_BLOCK = 64 }; /* positions of a block of keys and values; capacities are multiples of it */

typedef struct ls_xla {
    ls_executor base;
    const ls_graph *g;
    ls_checkpoint *c;
    ls_engine *engine;
    ls_executor_options o;
    ls_xla_options xo;
    ls_carrier carrier;
    int sequences;      /* B of the caches */
    int64_t kv_heads, head_dim;
    int capacity;       /* of the caches now; 0: none */
    ls_buffer *k, *v;   /* f32 [B, L, C, kv, d]; NULL when capacity is 0 */
    ls_buffer **node_k, **node_v; /* [n_caches] f32 [B, 1, C, kv, d], in place of k, v when nodes run alone */
    int *length;        /* [max_seqs] */
    size_t n_blocks;    /* of keys and values on the host */
    ls_xla_program *program;
    size_t n_programs, cap_programs;
    ls_xla_module **module;
    size_t n_modules, cap_modules;
    ls_xla_weight *weight;
    size_t n_weights, cap_weights, weight_bytes;
    ls_xla_stats stats;
    bool alone;         /* nodes run as modules of their own */
    ls_xla_piece *piece; /* [max_rows] of the current pass */
    int n_pieces;
    int32_t *order;     /* [max_rows] batch rows, slot by slot */
    int piece_rows;     /* most rows of a padded piece */
    int32_t *row_ints;  /* [LS_XLA_ROW_ARRAYS][piece_rows] inputs under construction */
    int *map;           /* [LS_XLA_MAPS][piece_rows] which rows of the pass a piece's are */
    float *scratch;     /* rows of logits of one module */
    size_t scratch_floats;
    bool *observed;     /* [n_nodes] with an observer: the nodes it wants */
    float **value;      /* [n_nodes] with an observer: outputs of the whole pass */
} ls_xla;

/* The module for an entry (|node| LS_XLA_WHOLE), a block or a node alone; compiled, and its weights uploaded, when it is the first time. */
ls_code ls_xla_get(ls_xla *x, ls_xla_module **out, ls_entry entry, int node, int64_t rows, int64_t out_rows, ls_error *e);

/* Runs |m| on its weights followed by inputs [n_inputs]; results [m->n_results] belong to the caller. */
ls_code ls_xla_run(ls_xla *x, const ls_xla_module *m, ls_buffer *const *inputs, size_t n_inputs, ls_buffer **results, ls_error *e);
void ls_xla_free_module(ls_xla_module *m);
ls_code ls_xla_upload_i32(ls_xla *x, ls_buffer **out, const int32_t *v, int64_t n, ls_error *e); /* n 0: a scalar */
void ls_xla_free_buffers(ls_xla *x, ls_buffer **b, size_t n);

/* Embeddings f32 [rows, hidden] of |p| and which rows have one i32 [rows]; blocks' begins and ends i32 [rows] each. */
ls_code ls_xla_upload_embeddings(ls_xla *x, const ls_batch *b, const ls_xla_piece *p, ls_buffer *out[2], ls_error *e);
ls_code ls_xla_upload_blocks(ls_xla *x, const ls_batch *b, const ls_xla_piece *p, ls_buffer *out[2], ls_error *e);

/* The |i|-th array of row_ints, zeroed, or of map. */
int32_t *ls_xla_row_ints(ls_xla *x, int i);
static inline int *ls_xla_map(ls_xla *x, int i) { return x->map + (size_t)i * (size_t)x->piece_rows; }

/* Caches that hold |positions| in every slot; RESOURCE_EXHAUSTED when no bucket does. */
ls_code ls_xla_grow(ls_xla *x, int positions, ls_error *e);

/* Blocks for the prefix cache (executor_blocks.c). Not for an executor whose nodes run alone, nor for one of images. */
extern const ls_block_sharing ls_xla_sharing;
size_t ls_xla_block_bytes(const ls_executor *x);

/* One pass with every node a module of its own (executor_nodes.c). */
ls_code ls_xla_forward_nodes(ls_xla *x, const ls_batch *b, float *logits, ls_error *e);

/* One pass over images, for a graph that pools (executor_images.c). */
ls_code ls_xla_forward_images(ls_xla *x, const ls_batch *b, float *out, ls_error *e);
bool ls_xla_splits_images(const ls_xla *x); /* node by node, since one module would need too much memory */

/* Rows of a module that holds |n|, or the most that some do, no more than |room|. */
int ls_xla_row_bucket(int n, int room);

#endif
