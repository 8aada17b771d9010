/* Executors: what runs a graph. The reference and the native executor implement this interface; the session drives it.
 *
 * An executor holds |max_seqs| sequence slots, each with a KV cache of |context| positions. One forward pass takes rows
 * of any mix of sequences; the rows of one sequence come in ascending positions that continue the slot's length. Under
 * an exact contract the logits of a row depend only on that sequence's tokens, never on the other rows or the split. */
#ifndef LS_GRAPH_EXECUTOR_H
#define LS_GRAPH_EXECUTOR_H

#include "graph/graph.h"

/* Positions [begin, end) of one sequence. */
typedef struct ls_span {
    int32_t begin, end;
} ls_span;

/* One forward pass. All arrays are the caller's and are read only. */
typedef struct ls_batch {
    int n_rows;              /* T, 1 .. max_rows */
    const int32_t *token;    /* [T], each in [0, vocab); not read where the row has an embedding */
    const int32_t *slot;     /* [T] */
    int n_out;               /* R, 0 .. T */
    const int32_t *out_row;  /* [R] ascending row indices whose logits are wanted; not read by a graph that pools */
    /* [T], or NULL where no row has one. An entry: finite values f32 [hidden] that the embedding node gives for this row (made
     * canonical under an exact contract, not scaled); NULL: the token's own. A graph that begins with LS_OP_INPUT takes all its rows
     * f32 [input_cols] from here; when it pools, they come in images of image_rows, each in an empty slot of its own, and R is
     * image_out for each. */
    const float *const *embedding;
    /* [T], or NULL where no row has one. The image block of this row: positions that see each other whatever the order and the
     * window. Holds the row's own position and ends within the pass; begin == end: none. A row at position p then sees the keys of
     * [max(0, p - window + 1), p + 1) and of its block (ls_sees in graph/batch.h). */
    const ls_span *block;
} ls_batch;

/* Called after each node with its output f32 [rows, cols] (borrowed, valid during the call). What the observer writes into
 * |values| is what later nodes read (and, after the last node, the logits): this is how one executor is fed another's values. */
typedef void (*ls_observer)(void *user, const ls_node *node, float *values, int64_t rows, int64_t cols);

typedef struct ls_executor_options {
    int max_seqs, context, max_rows; /* max_rows: largest T of one forward pass */
    int threads;                     /* native only; 0: all cores */
    bool pin;                        /* native only: each thread but the caller's stays on one processor */
    const char *level;               /* native only: "c", "avx2", "avx512", "amx", "neon", "neon-dotprod", "neon-i8mm"; NULL: best of this machine */
    bool f64;                        /* reference only, float contract: evaluates and caches in double, logits rounded to f32 */
    /* Nodes [n_nodes] whose outputs the observer wants; NULL: all. */
    const bool *observe;
    ls_observer observer;            /* NULL: none; under f64 it sees values rounded to f32, and writes are lost */
    void *observer_user;
    /* Native only: the observer sees the nodes after the pass, in graph order, and writes nothing; the pass is that of an executor without one, with all
     * values kept. Nodes whose values are never whole in memory are left out. */
    bool observe_after;
    void (*progress)(void *user, double fraction); /* loading and packing; NULL: none */
    void *progress_user;
} ls_executor_options;

typedef struct ls_executor ls_executor;

/* Stored keys and values that several slots begin with and that outlive them (session/prefix_cache.h).
 *
 * A block holds |positions| consecutive positions of a sequence, for every layer, as bytes without meaning outside the executor.
 * Under an exact contract they depend on the graph, the weights and the sequence's tokens up to the block's end alone. A block lives
 * while a slot or a caller holds it; no slot writes to a block that is held elsewhere as well. */
typedef struct ls_block_sharing {
    const char *layout; /* names the meaning of the bytes, version included: "native-kv/2" */
    bool paged;         /* slots share blocks where they lie; false: a slot has a copy */
    int positions;
    size_t (*bytes)(const ls_executor *x);
    /* Block |index| of |slot|, whose length reaches the block's end, with one more holder. Where slots have copies: RESOURCE_EXHAUSTED, and the
     * engine's errors. */
    ls_code (*hold)(ls_executor *x, int slot, int index, void **block, ls_error *e);
    void (*release)(ls_executor *x, void *block); /* one holder less; NULL is fine */
    /* The empty |slot| begins with |length| positions in block[n], the last of which may be used in part. INVALID_ARGUMENT (a slot that
     * is not empty, a length that is not n blocks), OUT_OF_RANGE (more than the context); where slots have copies also the engine's errors, and the
     * slot stays empty. */
    ls_code (*attach)(ls_executor *x, int slot, void *const *block, int n, int length, ls_error *e);
    /* A new block, held once, for the caller to fill: all |bytes| of *contents. RESOURCE_EXHAUSTED. */
    ls_code (*create)(ls_executor *x, void **block, ls_error *e);
    uint8_t *(*contents)(void *block);
} ls_block_sharing;

struct ls_executor {
    const char *name; /* "reference", "native" */
    const char *level; /* native: the instruction-set level its kernels use, static; NULL elsewhere */
    int threads;       /* native: threads of a pass; 0 elsewhere */
    /* Runs one pass, appends K and V, writes logits f32 [R, vocab]. On failure the slots' lengths are unchanged. */
    ls_code (*forward)(ls_executor *x, const ls_batch *batch, float *logits, ls_error *e);
    /* Positions held by |slot|; truncate keeps the first |length| (0 frees the slot). */
    int (*length)(const ls_executor *x, int slot);
    void (*truncate)(ls_executor *x, int slot, int length);
    /* Announces that |slot| will hold up to |positions|, so that an executor with static shapes can choose its capacity once;
     * NULL where that does not matter. RESOURCE_EXHAUSTED before any device work when it cannot. */
    ls_code (*reserve)(ls_executor *x, int slot, int positions, ls_error *e);
    const ls_block_sharing *sharing; /* NULL: slots share nothing */
    /* Bytes of packed weights, KV cache and working buffers. */
    void (*memory)(const ls_executor *x, size_t *weights, size_t *kv, size_t *work);
    void (*destroy)(ls_executor *x);
};

/* |g| and its checkpoint must outlive the executor. */
ls_code ls_reference_create(ls_executor **out, const ls_graph *g, const ls_executor_options *o, ls_error *e);
ls_code ls_native_create(ls_executor **out, const ls_graph *g, ls_checkpoint *c, const ls_executor_options *o, ls_error *e);

/* The best instruction-set level of this machine among those in the build: what a NULL level means. Static. */
const char *ls_native_level(void);

#endif
