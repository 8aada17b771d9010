/* The graph: a model as a list of model-level operators with checkpoint-like names.
 *
 * Families build graphs; executors run them; neither knows the other. Every value is a matrix f32 [rows, cols] whose
 * row count is symbolic: the T rows (tokens) of a forward pass, or after LS_OP_SELECT_ROWS the R rows whose logits are
 * wanted. Nodes are stored in execution order: a node only reads earlier values. The last node gives the logits.
 *
 * A graph that begins with LS_OP_INPUT takes rows of numbers in place of tokens. A vision tower is one: the rows of a pass are
 * whole images of image_rows patches, each a sequence of its own; LS_OP_AVG_POOL makes image_out rows of each, which are the
 * R selected rows; its "vocabulary" are the columns of an image row.
 *
 * Graphs own their strings and arrays (one arena) and borrow the checkpoint's tensors. */
#ifndef LS_GRAPH_GRAPH_H
#define LS_GRAPH_GRAPH_H

#include "base/alloc.h"
#include "base/str.h"
#include "contract/contract.h"
#include "weights/weights.h"

typedef enum ls_op {
    LS_OP_EMBED,       /* token ids -> rows of w[0] [V, C], times |scale|                                  out [T, C] */
    LS_OP_LINEAR,      /* x W^T (+ bias): w[0] [N, K], w[1] bias [N] or none                               out [T, N] */
    LS_OP_RMS_NORM,    /* per group of |group| columns: x / rms(x) * (w + weight_offset); w[0] [group] or [C] or none */
    LS_OP_LAYER_NORM,  /* per group: (x - mean) / std * w + b; w[0] [group] or [C] or none, w[1] bias or none */
    LS_OP_ROPE,        /* rotary embedding of |heads| heads of |head_dim| columns by graph->rope[rope]                */
    LS_OP_ATTENTION,   /* in q [T, heads * head_dim], k, v [T, kv_heads * head_dim]; appends k, v to cache |layer|    */
    LS_OP_ACTIVATION,  /* |act| elementwise                                                                           */
    LS_OP_GLU,         /* act(in[0]) * in[1]                                                                          */
    LS_OP_MUL,         /* in[0] * in[1] elementwise; in[1] may be [T, 1], then it scales rows                         */
    LS_OP_ADD,         /* in[0] + in[1]                                                                               */
    LS_OP_SCALE,       /* in[0] * scale                                                                               */
    LS_OP_CLAMP,       /* min(max(x, -limit), limit)                                                                  */
    LS_OP_SOFTCAP,     /* limit * tanh(x / limit)                                                                     */
    LS_OP_SLICE,       /* columns [begin, begin + cols) of in[0]                                                      */
    LS_OP_MOE,         /* in[0] hidden [T, H], in[1] router logits [T, E]; see ls_moe                      out [T, H] */
    LS_OP_SELECT_ROWS, /* the rows whose logits are wanted                                                 out [R, C] */
    LS_OP_INPUT,       /* rows that the pass brings in place of token ids: ls_batch.embedding               out [T, C] */
    LS_OP_ADD_POSITION,/* in[0] + row |position| of w[0] [P, C]                                             out [T, C] */
    LS_OP_AVG_POOL,    /* in[0]: images of grid x grid rows, row by row; means over squares of pool x pool  out [R, C] */
    LS_OP_COUNT
} ls_op;

typedef enum ls_act { LS_ACT_SILU, LS_ACT_GELU, LS_ACT_GELU_TANH, LS_ACT_GELU_QUICK, LS_ACT_RELU, LS_ACT_SIGMOID, LS_ACT_COUNT } ls_act;

/* How a tensor's numbers lie in the checkpoint, when not as the matrix that the graph computes with. */
typedef enum ls_layout {
    LS_LAYOUT_ROWS,         /* row-major [rows, cols]; leading axes run into the rows of a matrix as they lie */
    LS_LAYOUT_FLAT,         /* [rows, ...]: the axes after the first, as they lie, are the columns */
    LS_LAYOUT_TRANSPOSED,   /* [cols, rows] */
    LS_LAYOUT_CHANNELS_LAST /* a convolution [rows, h, w, channels]: the columns are in (channel, y, x) order */
} ls_layout;

/* A weight operand: rows [row_begin, row_begin + rows) of a tensor seen as [rows, cols]. Vectors have rows == 1. */
typedef struct ls_param {
    const char *name;        /* Hugging Face name */
    const ls_tensor *tensor; /* borrowed from the checkpoint, or the graph's own where |layout| is not ROWS: always row-major [rows, cols] */
    int64_t row_begin, rows, cols;
    ls_layout layout;        /* of the checkpoint's tensor */
} ls_param;

/* One rotary table: angle of pair i at position p is p * inv_freq[i]; cos and sin are multiplied by |amplitude|.
 * inv_freq [rot_dim / 2] holds f32 values (as the reference implementations store them) widened to f64. */
typedef struct ls_rope {
    int rot_dim;      /* columns of each head that rotate; the rest pass through */
    bool interleaved; /* pairs (2i, 2i+1); otherwise half-split pairs (i, i + rot_dim/2) */
    float amplitude;
    const double *inv_freq;
} ls_rope;

/* Mixture of experts. Scores are softmax over all E logits (Qwen-MoE, OLMoE) and the |top_k| largest are kept, the lower
 * index winning ties; with |normalize| the kept scores are divided by their sum. Output: sum over kept experts, in
 * ascending expert index, of score * down(act(gate(x)) * up(x)). */
typedef struct ls_moe {
    int experts, top_k;
    bool normalize;
    const ls_param *gate, *up, *down; /* [experts] each: gate, up [I, H]; down [H, I] */
} ls_moe;

enum { LS_MAX_INPUTS = 3, LS_MAX_IMAGE_SIDE = 1024 }; /* rows of an image's side */

typedef struct ls_node {
    ls_op op;
    ls_contract contract;
    const char *name;             /* "model.layers.3.self_attn.q_proj" */
    int n_in, in[LS_MAX_INPUTS];  /* indices of the producing nodes */
    const ls_param *w[2];         /* operands as listed at ls_op; NULL: none */
    int64_t cols;                 /* of the output */
    bool selected;                /* rows are the R selected ones rather than the T tokens */
    /* Attributes; those an operator does not use are zero. */
    float scale;                  /* EMBED, SCALE: factor. ATTENTION: factor of q.k before the soft cap */
    float eps;                    /* norms */
    float weight_offset;          /* RMS_NORM: 0 or 1 */
    float limit;                  /* CLAMP, SOFTCAP; ATTENTION: soft cap of the scores, 0 none */
    int64_t group;                /* norms: columns per normalised group */
    int64_t begin;                /* SLICE */
    int heads, kv_heads, head_dim;/* ROPE (heads, head_dim), ATTENTION */
    int rope;                     /* ROPE: index into graph->rope */
    int window;                   /* ATTENTION: visible keys j satisfy pos - j < window; 0: no window */
    bool bidirectional;           /* ATTENTION: every row sees all rows of its sequence, those of the pass included */
    int grid, pool;               /* AVG_POOL: rows of an image's side, and of a square's */
    int layer;                    /* ATTENTION: cache index, 0 .. n_caches - 1 */
    ls_act act;                   /* ACTIVATION, GLU, MOE */
    const ls_moe *moe;            /* MOE */
} ls_node;

typedef struct ls_graph {
    ls_arena *arena;
    ls_contract contract;         /* given to each node added from now on */
    ls_node *nodes;
    size_t n_nodes, cap_nodes;
    ls_rope *rope;
    size_t n_rope, cap_rope;
    int n_caches;                 /* attention layers */
    int64_t hidden, vocab;
    int64_t max_context;          /* positions the rotary tables are meant for (config); 0: unknown */
    int64_t input_cols;           /* INPUT: columns of a row; 0: the graph takes tokens */
    int64_t image_rows, image_out;/* AVG_POOL: rows of an image before and after; 0: rows are no images */
    const char *architecture;     /* registry name, "llama" */
} ls_graph;

ls_code ls_graph_create(ls_graph **out, ls_contract contract, ls_error *e);
void ls_graph_destroy(ls_graph *g);

/* Adding nodes. Each checks shapes and gives the index of the new node in *out (a value handle for later nodes). Node
 * names are printf-style; every name must be new. Errors: INVALID_ARGUMENT naming the node and both shapes. */
ls_code ls_add_embed(ls_graph *g, int *out, const ls_param *table, float scale, const char *name, ls_error *e);
ls_code ls_add_linear(ls_graph *g, int *out, int x, const ls_param *weight, const ls_param *bias, const char *name, ls_error *e);
/* |group| 0 means the whole row. |weight| may be NULL. */
ls_code ls_add_rms_norm(ls_graph *g, int *out, int x, const ls_param *weight, float eps, float weight_offset, int64_t group, const char *name, ls_error *e);
ls_code ls_add_layer_norm(ls_graph *g, int *out, int x, const ls_param *weight, const ls_param *bias, float eps, int64_t group, const char *name, ls_error *e);
ls_code ls_add_rope(ls_graph *g, int *out, int x, int heads, int head_dim, int rope, const char *name, ls_error *e);
typedef struct ls_attention_spec {
    int heads, kv_heads, head_dim, window;
    float scale, softcap; /* 0: no cap */
    /* Every row sees its whole sequence, which must come in one pass, so all bidirectional nodes of a graph share one cache. */
    bool bidirectional;
} ls_attention_spec;
ls_code ls_add_attention(ls_graph *g, int *out, int q, int k, int v, const ls_attention_spec *spec, const char *name, ls_error *e);
ls_code ls_add_activation(ls_graph *g, int *out, int x, ls_act act, const char *name, ls_error *e);
ls_code ls_add_glu(ls_graph *g, int *out, int gate, int up, ls_act act, const char *name, ls_error *e);
ls_code ls_add_mul(ls_graph *g, int *out, int a, int b, const char *name, ls_error *e);
ls_code ls_add_add(ls_graph *g, int *out, int a, int b, const char *name, ls_error *e);
ls_code ls_add_scale(ls_graph *g, int *out, int x, float scale, const char *name, ls_error *e); /* scale 1: no node, *out = x */
ls_code ls_add_clamp(ls_graph *g, int *out, int x, float limit, const char *name, ls_error *e);
ls_code ls_add_softcap(ls_graph *g, int *out, int x, float cap, const char *name, ls_error *e);
ls_code ls_add_slice(ls_graph *g, int *out, int x, int64_t begin, int64_t cols, const char *name, ls_error *e);
ls_code ls_add_moe(ls_graph *g, int *out, int hidden, int router_logits, const ls_moe *moe, ls_act act, const char *name, ls_error *e);
ls_code ls_add_select_rows(ls_graph *g, int *out, int x, const char *name, ls_error *e);
ls_code ls_add_input(ls_graph *g, int *out, int64_t cols, const char *name, ls_error *e); /* the first node, if at all */
ls_code ls_add_position(ls_graph *g, int *out, int x, const ls_param *table, const char *name, ls_error *e);
/* |grid| (1 to LS_MAX_IMAGE_SIDE) must be a multiple of |pool|; one such node a graph. */
ls_code ls_add_avg_pool(ls_graph *g, int *out, int x, int grid, int pool, const char *name, ls_error *e);

/* Row of the input where the square of output row |r| of an AVG_POOL begins. */
int64_t ls_pool_row(const ls_node *n, int64_t r);

/* Registers a rotary table (inv_freq copied); *index is for ls_add_rope. */
ls_code ls_graph_add_rope(ls_graph *g, int *index, const ls_rope *rope, ls_error *e);

/* A parameter that lives as long as the graph: finds |name| in |c|, checks that it is [rows, cols] (rows 1: a vector of
 * cols). NOT_FOUND / INVALID_ARGUMENT naming the tensor and both shapes. */
ls_code ls_graph_param(ls_graph *g, const ls_param **out, ls_checkpoint *c, int64_t rows, int64_t cols, ls_error *e, const char *fmt, ...) LS_PRINTF(7, 8);
/* The same, but an absent tensor gives *out = NULL and LS_OK. */
ls_code ls_graph_param_optional(ls_graph *g, const ls_param **out, ls_checkpoint *c, int64_t rows, int64_t cols, ls_error *e, const char *fmt, ...)
    LS_PRINTF(7, 8);

/* A parameter [rows, cols] whose tensor lies as |layout| says; a float format. The tensor's shape must be [rows, ...] of cols elements
 * a row (FLAT), [cols, rows] (TRANSPOSED) or [rows, h, w, |channels|] (CHANNELS_LAST). All but FLAT copy it. */
ls_code ls_graph_param_layout(ls_graph *g, const ls_param **out, ls_checkpoint *c, int64_t rows, int64_t cols, ls_layout layout, int64_t channels, ls_error *e,
                              const char *fmt, ...) LS_PRINTF(9, 10);

/* That the tensors of |g| can be read as the checkpoint has them: FAILED_PRECONDITION naming one that a pack file has only in the native executor's
 * form. |who| is what would read them ("backend reference"). */
ls_code ls_graph_need_tensors(const ls_graph *g, const char *who, ls_error *e);

/* Canonical text: one line per rope table and node, floats as bit patterns, weights by name, format and shape. Equal
 * graphs give equal bytes; every attribute changes them. */
ls_code ls_graph_serialize(const ls_graph *g, ls_str *out, ls_error *e);
/* SHA-256 of the canonical text, lowercase hex. */
ls_code ls_graph_fingerprint(const ls_graph *g, char hex[65], ls_error *e);

const char *ls_op_name(ls_op op);   /* "linear" */
const char *ls_act_name(ls_act a);  /* "gelu_tanh" */
const char *ls_layout_name(ls_layout l); /* "transposed" */

#endif
