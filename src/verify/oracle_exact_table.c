/* The table of exact probes: every operator of docs/contracts.md, every weight format, every variant that has code of its own. */
#include "verify/oracle_graph.h"

enum { LINEAR_OUT = 48, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 16, QKV = (HEADS + 2 * KV_HEADS) * HEAD_DIM, EXPERTS = 4, EXPERT_INNER = 32 };

/* ---- Builders: each adds its operator to the fixture --------------------------------------------------------------------- */

static ls_code add_nothing(ls_exact_build *b, int *value, ls_error *e) {
    (void)b, (void)value, (void)e;
    return LS_OK; /* the embedding itself, or the row selection */
}

static ls_code add_linear(ls_exact_build *b, int *value, ls_error *e) {
    const ls_param *w, *bias = NULL;
    LS_TRY(ls_exact_param(b, &w, "weight", b->probe->format, LINEAR_OUT, b->probe->cols, e));
    if (b->probe->arg) LS_TRY(ls_exact_param(b, &bias, "bias", LS_F32, 1, LINEAR_OUT, e));
    return ls_add_linear(b->g, value, b->x, w, bias, "linear", e);
}

/* arg: 0 whole row, 1 weight with 1 added, 2 groups of 32 with a weight per group, 3 no weight */
static ls_code add_rms_norm(ls_exact_build *b, int *value, ls_error *e) {
    const ls_param *w = NULL;
    int64_t group = b->probe->arg == 2 ? 32 : 0;
    if (b->probe->arg != 3) LS_TRY(ls_exact_param(b, &w, "weight", LS_F32, 1, group ? group : b->probe->cols, e));
    return ls_add_rms_norm(b->g, value, b->x, w, 1e-5f, b->probe->arg == 1 ? 1 : 0, group, "norm", e);
}

static ls_code add_layer_norm(ls_exact_build *b, int *value, ls_error *e) {
    const ls_param *w, *bias = NULL;
    LS_TRY(ls_exact_param(b, &w, "weight", LS_F32, 1, b->probe->cols, e));
    if (b->probe->arg) LS_TRY(ls_exact_param(b, &bias, "bias", LS_F32, 1, b->probe->cols, e));
    return ls_add_layer_norm(b->g, value, b->x, w, bias, 1e-5f, 0, "norm", e);
}

/* inv_freq of theta = 10000 over |rot_dim| columns, as f32 values: exact powers of ten do not matter, only that all sides read the same. */
static ls_code add_table(ls_exact_build *b, int rot_dim, bool interleaved, int *index, ls_error *e) {
    double inv_freq[HEAD_DIM / 2];
    float f = 1;
    for (int i = 0; i < rot_dim / 2; i++, f *= 0.31622776f) inv_freq[i] = (double)f;
    const ls_rope rope = {.rot_dim = rot_dim, .interleaved = interleaved, .amplitude = 1.0f, .inv_freq = inv_freq};
    return ls_graph_add_rope(b->g, index, &rope, e);
}

/* arg: 0 half-split, 1 interleaved, 2 half of the columns */
static ls_code add_rope(ls_exact_build *b, int *value, ls_error *e) {
    int index;
    LS_TRY(add_table(b, b->probe->arg == 2 ? HEAD_DIM / 2 : HEAD_DIM, b->probe->arg == 1, &index, e));
    return ls_add_rope(b->g, value, b->x, HEADS, HEAD_DIM, index, "rope", e);
}

/* arg: 0 plain, 1 window of 7, 2 soft cap, 3 every row sees all */
static ls_code add_attention(ls_exact_build *b, int *value, ls_error *e) {
    int q, k, v;
    const ls_attention_spec spec = {.heads = HEADS, .kv_heads = KV_HEADS, .head_dim = HEAD_DIM, .window = b->probe->arg == 1 ? 7 : 0, .scale = 0.25f,
                                    .softcap = b->probe->arg == 2 ? 20.0f : 0, .bidirectional = b->probe->arg == 3};
    LS_TRY(ls_add_slice(b->g, &q, b->x, 0, HEADS * HEAD_DIM, "q", e));
    LS_TRY(ls_add_slice(b->g, &k, b->x, HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM, "k", e));
    LS_TRY(ls_add_slice(b->g, &v, b->x, (HEADS + KV_HEADS) * HEAD_DIM, KV_HEADS * HEAD_DIM, "v", e));
    return ls_add_attention(b->g, value, q, k, v, &spec, "attention", e);
}

static ls_code add_activation(ls_exact_build *b, int *value, ls_error *e) { return ls_add_activation(b->g, value, b->x, (ls_act)b->probe->arg, "act", e); }

/* Left and right half of the fixture. */
static ls_code add_halves(ls_exact_build *b, int *left, int *right, ls_error *e) {
    int64_t half = b->probe->cols / 2;
    LS_TRY(ls_add_slice(b->g, left, b->x, 0, half, "left", e));
    return ls_add_slice(b->g, right, b->x, half, half, "right", e);
}

static ls_code add_glu(ls_exact_build *b, int *value, ls_error *e) {
    int l, r;
    LS_TRY(add_halves(b, &l, &r, e));
    return ls_add_glu(b->g, value, l, r, (ls_act)b->probe->arg, "glu", e);
}

static ls_code add_add(ls_exact_build *b, int *value, ls_error *e) {
    int l, r;
    LS_TRY(add_halves(b, &l, &r, e));
    return ls_add_add(b->g, value, l, r, "add", e);
}

/* arg: 1 multiplies rows by one column */
static ls_code add_mul(ls_exact_build *b, int *value, ls_error *e) {
    int l, r;
    LS_TRY(add_halves(b, &l, &r, e));
    if (b->probe->arg) LS_TRY(ls_add_slice(b->g, &r, b->x, b->probe->cols - 1, 1, "column", e));
    return ls_add_mul(b->g, value, l, r, "mul", e);
}

static ls_code add_scale(ls_exact_build *b, int *value, ls_error *e) { return ls_add_scale(b->g, value, b->x, 0.3f, "scale", e); }
static ls_code add_clamp(ls_exact_build *b, int *value, ls_error *e) { return ls_add_clamp(b->g, value, b->x, 1.5f, "clamp", e); }
static ls_code add_softcap(ls_exact_build *b, int *value, ls_error *e) { return ls_add_softcap(b->g, value, b->x, 30.0f, "softcap", e); }
static ls_code add_slice(ls_exact_build *b, int *value, ls_error *e) { return ls_add_slice(b->g, value, b->x, 5, 40, "slice", e); }

static ls_code add_position(ls_exact_build *b, int *value, ls_error *e) {
    const ls_param *table;
    LS_TRY(ls_exact_table(b, &table, b->probe->format, b->probe->cols, e));
    return ls_add_position(b->g, value, b->x, table, "position", e);
}

/* One matrix per expert: rows [i * rows, (i + 1) * rows) of one tensor. */
static ls_code add_experts(ls_exact_build *b, const ls_param **out, const char *name, int64_t rows, int64_t cols, ls_error *e) {
    const ls_param *all;
    ls_param *each;
    LS_TRY(ls_exact_param(b, &all, name, b->probe->format, rows * EXPERTS, cols, e));
    LS_TRY(ls_arena_alloc(b->a, &each, EXPERTS, sizeof *each, e));
    for (int i = 0; i < EXPERTS; i++) each[i] = (ls_param){.name = name, .tensor = all->tensor, .row_begin = i * rows, .rows = rows, .cols = cols};
    *out = each;
    return LS_OK;
}

/* arg: 1 normalised scores. The router's logits are columns of the fixture: ties and extremes included. */
static ls_code add_moe(ls_exact_build *b, int *value, ls_error *e) {
    int router, hidden, cols = b->probe->cols / 2;
    ls_moe moe = {.experts = EXPERTS, .top_k = 2, .normalize = b->probe->arg == 1};
    LS_TRY(ls_add_slice(b->g, &hidden, b->x, 0, cols, "hidden", e));
    LS_TRY(ls_add_slice(b->g, &router, b->x, cols, EXPERTS, "router", e));
    LS_TRY(add_experts(b, &moe.gate, "gate", EXPERT_INNER, cols, e));
    LS_TRY(add_experts(b, &moe.up, "up", EXPERT_INNER, cols, e));
    LS_TRY(add_experts(b, &moe.down, "down", cols, EXPERT_INNER, e));
    return ls_add_moe(b->g, value, hidden, router, &moe, LS_ACT_SILU, "moe", e);
}

/* ---- The table ------------------------------------------------------------------------------------------------------ */

#define LINEAR(key_, format_, cols_, bias_) {.key = "linear." key_, .op = "linear", .cols = cols_, .format = format_, .add = add_linear, .arg = bias_}
#define ACT(key_, act_) {.key = "activation." key_, .op = "activation", .cols = 64, .add = add_activation, .arg = act_}
#define PLAIN(key_, op_, cols_, add_, arg_) {.key = key_, .op = op_, .cols = cols_, .add = add_, .arg = arg_}

static const ls_exact_probe probes[] = {
    PLAIN("embed", "embed", 64, add_nothing, 0),
    {.key = "embed.scaled", .op = "embed", .cols = 64, .table_scale = 8.4852814f, .add = add_nothing},
    {.key = "embed.q4_0", .op = "embed", .cols = 64, .format = LS_Q4_0, .add = add_nothing},
    {.key = "embed.mlx", .op = "embed", .cols = 64, .format = LS_MLX_AFFINE, .add = add_nothing},
    {.key = "select_rows", .op = "select_rows", .cols = 64, .every_other = true, .add = add_nothing},
    LINEAR("f32", LS_F32, 96, 0), LINEAR("f32.bias", LS_F32, 96, 1), LINEAR("f16", LS_F16, 96, 0), LINEAR("bf16", LS_BF16, 96, 0),
    LINEAR("q4_0", LS_Q4_0, 128, 0), LINEAR("q4_1", LS_Q4_1, 128, 0), LINEAR("q5_0", LS_Q5_0, 128, 0), LINEAR("q5_1", LS_Q5_1, 128, 0),
    LINEAR("q8_0", LS_Q8_0, 128, 0), LINEAR("iq4_nl", LS_IQ4_NL, 128, 0), LINEAR("q2_k", LS_Q2_K, 256, 0), LINEAR("q3_k", LS_Q3_K, 256, 0),
    LINEAR("q4_k", LS_Q4_K, 256, 0), LINEAR("q5_k", LS_Q5_K, 256, 0), LINEAR("q6_k", LS_Q6_K, 256, 0), LINEAR("mlx4", LS_MLX_AFFINE, 128, 0),
    PLAIN("rms_norm", "rms_norm", 96, add_rms_norm, 0), PLAIN("rms_norm.plus_one", "rms_norm", 96, add_rms_norm, 1),
    PLAIN("rms_norm.groups", "rms_norm", 96, add_rms_norm, 2), PLAIN("rms_norm.no_weight", "rms_norm", 96, add_rms_norm, 3),
    PLAIN("layer_norm", "layer_norm", 96, add_layer_norm, 0), PLAIN("layer_norm.bias", "layer_norm", 96, add_layer_norm, 1),
    PLAIN("rope", "rope", HEADS * HEAD_DIM, add_rope, 0), PLAIN("rope.interleaved", "rope", HEADS * HEAD_DIM, add_rope, 1),
    PLAIN("rope.partial", "rope", HEADS * HEAD_DIM, add_rope, 2),
    PLAIN("attention", "attention", QKV, add_attention, 0), PLAIN("attention.window", "attention", QKV, add_attention, 1),
    PLAIN("attention.softcap", "attention", QKV, add_attention, 2),
    {.key = "attention.two_ranges", .op = "attention", .cols = QKV, .rows = LS_EXACT_LONG_ROWS, .add = add_attention},
    ACT("silu", LS_ACT_SILU), ACT("gelu", LS_ACT_GELU), ACT("gelu_tanh", LS_ACT_GELU_TANH), ACT("gelu_quick", LS_ACT_GELU_QUICK),
    ACT("relu", LS_ACT_RELU), ACT("sigmoid", LS_ACT_SIGMOID),
    PLAIN("glu.silu", "glu", 96, add_glu, LS_ACT_SILU), PLAIN("glu.gelu", "glu", 96, add_glu, LS_ACT_GELU),
    PLAIN("glu.gelu_tanh", "glu", 96, add_glu, LS_ACT_GELU_TANH),
    PLAIN("mul", "mul", 96, add_mul, 0), PLAIN("mul.rows", "mul", 96, add_mul, 1), PLAIN("add", "add", 96, add_add, 0),
    PLAIN("scale", "scale", 64, add_scale, 0), PLAIN("clamp", "clamp", 64, add_clamp, 0), PLAIN("softcap", "softcap", 64, add_softcap, 0),
    PLAIN("slice", "slice", 64, add_slice, 0),
    {.key = "attention.bidirectional", .op = "attention", .cols = QKV, .grid = 34, .add = add_attention, .arg = 3},
    {.key = "input", .op = "input", .cols = 64, .grid = 6, .add = add_nothing},
    {.key = "add_position", .op = "add_position", .cols = 64, .grid = 6, .add = add_position},
    {.key = "add_position.bf16", .op = "add_position", .cols = 64, .grid = 6, .format = LS_BF16, .add = add_position},
    {.key = "avg_pool", .op = "avg_pool", .cols = 64, .grid = 16, .pool = 4, .add = add_nothing},
    {.key = "avg_pool.three", .op = "avg_pool", .cols = 64, .grid = 18, .pool = 3, .add = add_nothing},
    {.key = "moe", .op = "moe", .cols = 128, .format = LS_F32, .add = add_moe},
    {.key = "moe.normalized", .op = "moe", .cols = 128, .format = LS_Q8_0, .add = add_moe, .arg = 1},
};

const ls_exact_probe *ls_exact_probe_at(size_t i) { return i < sizeof probes / sizeof *probes ? &probes[i] : NULL; }
