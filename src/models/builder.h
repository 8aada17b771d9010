/* The vocabulary in which families are written.
 *
 * A builder adds nodes to a graph, naming them after the checkpoint's modules and finding their weights by the same
 * names. It remembers its first error; after that every call does nothing and gives value 0. So a family reads like the
 * model's description and checks once, at the end, through ls_build_finish.
 *
 * Names are relative to |scope|: with scope "model.layers.3", "mlp.up_proj" is the node "model.layers.3.mlp.up_proj",
 * whose weight is "model.layers.3.mlp.up_proj.weight". */
#ifndef LS_MODELS_BUILDER_H
#define LS_MODELS_BUILDER_H

#include "models/model.h"

typedef enum ls_norm_kind {
    LS_NORM_RMS,          /* x / rms(x) * w */
    LS_NORM_RMS_PLUS_ONE, /* x / rms(x) * (1 + w) */
    LS_NORM_LAYER,        /* LayerNorm with weight and bias */
    LS_NORM_LAYER_NO_BIAS
} ls_norm_kind;

typedef struct ls_build {
    ls_graph *g;
    ls_checkpoint *c;
    const json_t *config; /* of the text model */
    int64_t context;      /* positions to be used; 0: max_positions */
    ls_error *e;
    ls_code rc;               /* first error */
    char outer[64];           /* module that holds lm_head; "" at the top */
    char root[64];            /* "model": the module that holds the following two and the last norm */
    const char *embed, *list; /* "embed_tokens", "layers" */
    char scope[128];
    int64_t hidden, vocab, inter, max_positions;
    int layers, heads, kv_heads, head_dim;
    float eps;
    ls_norm_kind norm;
} ls_build;

/* Keeps the first error of |b|. */
#define LS_BUILD_FAIL(b, code, ...)                                                            \
    do {                                                                                       \
        if (!(b)->rc) (b)->rc = ls_error_set((b)->e, (code), __FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

/* What a family assumes where a configuration is silent. Sizes that are zero must be in the configuration. */
typedef struct ls_build_defaults {
    const char *eps_key; /* NULL: "rms_norm_eps" */
    double eps;          /* 0: 1e-6 */
    ls_norm_kind norm;
    int64_t hidden, vocab, inter, max_positions;
    int layers, heads, kv_heads, head_dim;
} ls_build_defaults;

/* Starts a family: sizes from hidden_size, vocab_size, intermediate_size, num_hidden_layers (or num_layers),
 * num_attention_heads, num_key_value_heads (as many), head_dim (hidden_size / heads), max_position_embeddings (2048).
 * The root is "model". |defaults| may be NULL. */
void ls_build_init(ls_build *b, ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o,
                   const ls_build_defaults *defaults, ls_error *e);
/* Gives the graph its sizes; returns the first error. INVALID_ARGUMENT: the checkpoint has tensors of more layers than the configuration. */
ls_code ls_build_finish(ls_build *b);
void ls_build_scope_layer(ls_build *b, int layer); /* "<root>.<list>.<layer>" */
void ls_build_scope(ls_build *b, const char *fmt, ...) LS_PRINTF(2, 3);

/* ---- Configuration: a missing or null key gives the default -------------------------------------------------- */

bool ls_cfg_has(const ls_build *b, const char *key); /* present and not null */
int64_t ls_cfg_int(ls_build *b, const char *key, int64_t lo, int64_t hi, int64_t fallback);
double ls_cfg_real(ls_build *b, const char *key, double fallback);
bool ls_cfg_bool(ls_build *b, const char *key, bool fallback);
const char *ls_cfg_str(ls_build *b, const char *key, const char *fallback);
ls_act ls_cfg_act(ls_build *b, const char *key, const char *fallback); /* refuses unknown activations by name */
/* Refuses the model when |key| is true (or not null, for anything but a boolean); |why| ends the message. */
void ls_cfg_refuse(ls_build *b, const char *key, const char *why);
/* Refuses the model when the number at |key| is present and not |value|. */
void ls_cfg_only(ls_build *b, const char *key, double value);
/* config[key][layer] == |text|, when the key is present; *known says whether it was. */
bool ls_cfg_layer_is(ls_build *b, const char *key, int layer, const char *text, bool *known);
/* Attention window of |layer|: |window| where layer_types says "sliding_attention" or, without layer_types, where
 * (layer + 1) is no multiple of |pattern| (0: every layer slides); else 0. */
int ls_cfg_window(ls_build *b, int layer, int window, int64_t pattern);

/* Biases: required, absent, or taken where the checkpoint has them (a config that does not say). */
typedef enum ls_bias { LS_BIAS_NONE, LS_BIAS_REQUIRED, LS_BIAS_IF_STORED } ls_bias;
ls_bias ls_cfg_bias(ls_build *b, const char *key);

/* ---- Rotary tables ------------------------------------------------------------------------------------------- */

/* Table of |dims| rotating columns with base |theta|, scaled as |scaling| (an object with "rope_type" or "type") says;
 * NULL or null: not scaled. Refuses unknown types and fields by name. */
int ls_build_rope(ls_build *b, int dims, double theta, const json_t *scaling, bool interleaved);
/* All of head_dim, base and scaling from rope_parameters (flat, or its object |kind|, such as "full_attention", when not NULL),
 * else |theta| and rope_scaling. Refuses objects in rope_parameters that it does not read. */
int ls_build_rope_whole(ls_build *b, const char *kind, double theta, bool interleaved);
/* The table of sliding layers that have their own: from rope_parameters["sliding_attention"], else |theta|, not scaled. */
int ls_build_rope_sliding(ls_build *b, double theta, bool interleaved);
/* The usual table: rope_theta (10000), rope_scaling, or both from rope_parameters; all of head_dim. */
int ls_build_rope_default(ls_build *b);
/* The same with partial_rotary_factor (|fallback| when absent) of each head, rounded down. */
int ls_build_rope_partial(ls_build *b, double fallback);

/* ---- Nodes --------------------------------------------------------------------------------------------------- */

int ls_build_embed(ls_build *b, float scale); /* <root>.<embed> */
int ls_build_linear(ls_build *b, int x, int64_t out, ls_bias bias, const char *name);
int ls_build_norm(ls_build *b, int x, const char *name); /* of b->norm's kind */
/* Each |group| columns normalised; a weight of |weights| values: one for every group, or one a column. */
int ls_build_norm_groups(ls_build *b, int x, int64_t group, int64_t weights, const char *name);
/* Rows of |cols| numbers from outside, a row of a table [rows, columns of x] added by position, and means over squares of rows. */
int ls_build_input(ls_build *b, int64_t cols, const char *name);
int ls_build_position(ls_build *b, int x, int64_t rows, const char *name);
int ls_build_avg_pool(ls_build *b, int x, int grid, int pool, const char *name);
/* A product with the tensor "<scope>.<weight>", which lies as |layout| says, and the bias "<scope>.<bias>" (NULL: none). */
int ls_build_linear_layout(ls_build *b, int x, int64_t out, ls_layout layout, int64_t channels, const char *weight, const char *bias, const char *name);
int ls_build_add(ls_build *b, int x, int y, const char *name);
int ls_build_mul(ls_build *b, int x, int y, const char *name);
int ls_build_scale(ls_build *b, int x, float factor, const char *name);
int ls_build_slice(ls_build *b, int x, int64_t begin, int64_t cols, const char *name);
int ls_build_act(ls_build *b, int x, ls_act act, const char *name);
int ls_build_glu(ls_build *b, int gate, int up, ls_act act, const char *name);
int ls_build_clamp(ls_build *b, int x, float limit, const char *name);
int ls_build_softcap(ls_build *b, int x, float cap, const char *name);
int ls_build_rotate(ls_build *b, int x, int heads, int rope, const char *name);
int ls_build_attend(ls_build *b, int q, int k, int v, const ls_attention_spec *spec, const char *name);

/* What may be between the projections and the rotation. */
typedef enum ls_qk_norm {
    LS_QK_NONE,
    LS_QK_HEAD,  /* one weight of head_dim for all heads */
    LS_QK_WHOLE, /* one norm over all heads */
    LS_QK_HEADS, /* each head normalised, with its own weights: [heads, head_dim] */
    LS_QK_LIST   /* the same, stored as one tensor a head: q_layernorm.norms.3.weight */
} ls_qk_norm;

typedef struct ls_attn {
    const char *path;     /* NULL: "self_attn" */
    const char *out_proj; /* NULL: "o_proj" */
    const char *fused;    /* one projection for q, k and v, in this order; NULL: three */
    ls_bias qkv_bias, out_bias;
    ls_qk_norm qk_norm; /* modules "q_norm" and "k_norm", of the builder's kind of norm */
    float clip;         /* clamp of q, k and v; 0: none */
    int rope;           /* table, or LS_NO_ROPE */
    int window;
    float scale; /* 0: head_dim^-1/2 */
    float softcap;
    bool bidirectional; /* see ls_attention_spec */
} ls_attn;
enum { LS_NO_ROPE = -1 };

int ls_build_attention(ls_build *b, int x, const ls_attn *a);
/* down_proj(act(gate_proj(x)) * up_proj(x)) under |path|. */
int ls_build_mlp(ls_build *b, int x, int64_t inter, ls_act act, ls_bias bias, const char *path);

typedef struct ls_experts {
    const char *path, *router;    /* "mlp", "gate": the router is "mlp.gate", expert 3 "mlp.experts.3" */
    const char *gate, *up, *down; /* "gate_proj", ... */
    int count, top_k;
    int64_t inter;
    bool normalize;
} ls_experts;
int ls_build_moe(ls_build *b, int x, const ls_experts *m, ls_act act);

/* Half a pre-norm layer each: x += r * attention(norm(x)); x += r * mlp(norm(x)). The scope must be the layer's. */
int ls_build_prenorm_attention(ls_build *b, int x, const ls_attn *a, float residual);
int ls_build_prenorm_mlp(ls_build *b, int x, ls_act act, ls_bias bias, float residual);

/* Selects the wanted rows and applies the last norm, "<root>.<norm>". */
int ls_build_last_norm(ls_build *b, int x, const char *norm);
/* The tower of SigLIP at the builder's root, as the vision configuration at b->config describes it: patch rows to rows [patches, hidden]
 * after the last norm. *patches: the patches of an image's side. */
int ls_build_siglip(ls_build *b, ls_image_shape *shape, int *patches);

/* Logits: "<outer>.lm_head", or the embedding table when tied. */
int ls_build_logits(ls_build *b, int x);
/* Both, under the usual names. */
int ls_build_head(ls_build *b, int x);

#endif
