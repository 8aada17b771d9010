/* The native executor from the inside: what its files share. Not for other folders.
 *
 * A pass is one run of the pool: every thread walks the steps of the plan, takes tasks of a step until none is left, and
 * meets the others at a barrier before the next. What a task computes does not depend on which thread takes it. */
#ifndef LS_NATIVE_EXECUTOR_INTERNAL_H
#define LS_NATIVE_EXECUTOR_INTERNAL_H

#include <stdatomic.h>

#include "graph/executor.h"
#include "native/executor_plan.h"
#include "native/kernels/kernel.h"
#include "native/kv.h"
#include "native/ops_table.h"
#include "native/share.h"

enum {
    LS_MOE_ROWS = 256,    /* rows whose experts run together */
    LS_MOE_PHASES = 6,
    LS_APPEND_ROWS = 32,  /* rows of one task that stores keys and values */
    LS_MAX_HEAD = 512
};

/* ---- Weights (executor_weights.c) ------------------------------------------------------------------------------- */

/* Which pieces of a mapped embedding table have become resident. */
typedef struct ls_native_table {
    int most;             /* pieces after which they are given back */
    atomic_int touched;
    size_t words;
    atomic_uint seen[];   /* [words] a bit for each piece */
} ls_native_table;

/* Operands of one node. Matrices are shared between nodes that use the same rows of the same tensor. */
typedef struct ls_node_weights {
    const ls_packed *matrix;  /* LINEAR; EMBED: what holds the same values as the table, or NULL */
    ls_native_table *table;   /* EMBED: of a table that is packed as well and yet read from the file, or NULL */
    float *a, *b;             /* canonical vectors: norm weight with its offset, or bias of a product in b */
    int64_t a_len, b_len;
    const ls_packed **expert; /* MOE: [3][experts] gate, up, down */
} ls_node_weights;

typedef struct ls_native_weights {
    ls_node_weights *node; /* [n_nodes] */
    size_t n_nodes;
    ls_packed *packed;     /* [n_packed] */
    const ls_param **source; /* [n_packed] what each was packed from */
    size_t n_packed, bytes;
    uint8_t *memory;       /* what the packed matrices lie in */
} ls_native_weights;

typedef struct ls_native ls_native;

ls_code ls_native_weights_init(ls_native_weights *w, const ls_graph *g, ls_checkpoint *c, ls_pool *pool, const ls_executor_options *o, ls_error *e);
void ls_native_weights_deinit(ls_native_weights *w); /* fine on a zeroed struct */

/* ---- The executor ----------------------------------------------------------------------------------------------- */

/* How a step of products is cut: weight tiles of one task, and tasks. */
typedef struct ls_linear_cut {
    int tiles, tasks;
} ls_linear_cut;

/* How a step is cut into tasks. */
typedef struct ls_step_run {
    int tasks;   /* of the current pass */
    ls_linear_cut cuts[2], cut; /* LINEAR: of passes of few and of many rows; of the current one */
    int class;   /* attention: index into ls_native.class */
    bool split;  /* attention, current pass: a task is one range of a tile, and COMBINE joins them */
    bool appends; /* attention, current pass: a key head has one task, which stores its keys and values first */
} ls_step_run;

/* Rows of one slot in the current pass: order[begin .. begin + n), in ascending position. */
typedef struct ls_run {
    int slot, begin, n;
} ls_run;

/* Queries [first, first + n) of a run; query i is row i / group of the run and head i % group of a key head's group. */
typedef struct ls_tile {
    int run, first, n;
} ls_tile;

/* Tiles for one number of query heads per key head. */
typedef struct ls_tile_class {
    int group, n;
    ls_tile *tile;
} ls_tile_class;

/* Working memory of the experts, for up to LS_MOE_ROWS rows. */
typedef struct ls_moe_space {
    int *kept;               /* [rows, top_k] */
    float *score;            /* [rows, top_k] */
    int *pair_row;           /* [pairs] row of each (row, expert) pair, sorted by expert */
    int *pair_of;            /* [rows, top_k] */
    int *begin;              /* [experts + 1] */
    int *active, n_active;   /* experts with rows */
    float *gate, *up, *down; /* [pairs, inner], [pairs, inner], [pairs, hidden] */
    ls_acts hidden, inner;
    void *memory[8];
} ls_moe_space;

struct ls_native {
    ls_executor base;
    const ls_graph *g;
    ls_checkpoint *checkpoint;
    ls_executor_options o;
    const ls_ops *ops[LS_LEVEL_COUNT];         /* [n_levels] one, or all of the machine for level "random" */
    const ls_kernels *kernels[LS_LEVEL_COUNT]; /* [n_levels] */
    int n_levels;
    atomic_uint *draws, draw_count;            /* calls so far, when there are several levels; draws points to draw_count */
    ls_pool *pool;
    int threads;
    ls_plan plan;
    ls_step_run *run;      /* [n_steps] */
    ls_share *share;       /* [threads] of the tasks of the current step */
    ls_share *moe_share;   /* [LS_MOE_PHASES, threads] the same for the phases of a step of experts */
    uint8_t *values;       /* [plan.bytes] */
    ls_acts *acts;         /* [n_nodes] bound where the plan quantises */
    ls_native_weights weights;
    ls_kv kv;
    ls_moe_space moe;
    int32_t **rope;        /* [n_rope] each [max_rows][2][rot_dim / 2]: cos, sin of the current rows */
    uint8_t *parts;        /* attention: [part_slots][ranges][LS_ATTN_TILE] parts */
    size_t part_slot_bytes, part_slots;
    size_t gated_floats;   /* of the scratch behind LS_LINEAR_SCRATCH: columns of a gated unit's second product */
    size_t work_bytes;
    /* The current pass. */
    const ls_batch *batch;
    float *logits;
    int *position, *order; /* [max_rows] */
    ls_run *slots;         /* [max_seqs] */
    int *slot_run;         /* [max_seqs] run of each slot, or -1 */
    int n_runs, longest;   /* longest: positions of the longest sequence after the pass */
    ls_tile_class *class;
    int n_classes;
};

static inline int ls_native_rows(const ls_native *x, bool selected) { return selected ? x->batch->n_out : x->batch->n_rows; }

/* The level of the next call: under "random" any, by a hash of a running number, since levels must not be seen in the results. */
static inline int ls_native_draw(const ls_native *x) {
    if (x->n_levels == 1) return 0;
    unsigned n = atomic_fetch_add_explicit(x->draws, 1, memory_order_relaxed) * 2654435761u;
    return (int)((n ^ n >> 15) % (unsigned)x->n_levels);
}

static inline const ls_ops *ls_native_ops(const ls_native *x) { return x->ops[ls_native_draw(x)]; }
static inline const ls_kernels *ls_native_kernels(const ls_native *x) { return x->kernels[ls_native_draw(x)]; }

/* f32 [rows, cols] of node |node|. */
static inline float *ls_native_value(const ls_native *x, int node) {
    int64_t at = x->plan.value[node];
    return at == LS_LOGITS_PLACE ? x->logits : (float *)(void *)(x->values + at);
}

/* Working memory of one thread during attention, in the pool's scratch. */
typedef struct ls_attend_scratch {
    ls_attn_space space;
    int32_t mantissa[LS_MAX_HEAD], tile[LS_ATTN_TILE * LS_MAX_HEAD];
    int64_t sum[LS_MAX_HEAD];
} ls_attend_scratch;

/* Task |task| of step |step|, and tasks [begin, end) on |thread|: rows, and products (executor_rows.c). */
void ls_native_rows_task(ls_native *x, int step, int task);
int ls_native_rows_tasks(const ls_native *x, int step);
void ls_native_linear_tasks(ls_native *x, int step, int begin, int end, int thread);
/* Weights of tasks [task, end) of the first one's matrix; of a gated unit those of its first product. */
const uint8_t *ls_native_linear_bytes(const ls_native *x, int step, int task, int end, size_t *bytes);
size_t ls_native_gated_floats(int max_rows);                        /* size of the scratch for the second product of a gated unit */
int ls_native_linear_unit(const ls_native *x, const ls_step *s, int item); /* items that run together from |item| on */

/* Rows of embedding tables (executor_embed.c): the value of node |node| for row |row|; what counts the pages of the mapped table |t|, freed by ls_free. */
void ls_native_embed_row(const ls_native *x, int node, float *y, int row);
ls_code ls_native_table_init(ls_native_table **out, const ls_tensor *t, ls_error *e);

/* Attention (executor_attention.c): classes at create, tiles and task counts at the start of a pass, tasks. */
ls_code ls_native_attention_init(ls_native *x, ls_error *e);
void ls_native_attention_deinit(ls_native *x);
void ls_native_attention_prepare(ls_native *x);
void ls_native_append_task(ls_native *x, int step, int task, int thread);
void ls_native_attend_task(ls_native *x, int step, int task, int thread);
void ls_native_combine_task(ls_native *x, int step, int task, int thread);

/* Experts (executor_moe.c): the whole step, run by every thread together. */
ls_code ls_native_moe_init(ls_native *x, ls_error *e);
void ls_native_moe_deinit(ls_native *x);
void ls_native_moe_step(ls_native *x, int step, int thread);

#endif
