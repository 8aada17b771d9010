/* Blocks that most decoders share: attention with its projections, the gated MLP, routed experts, pre-norm layers. */
#include <math.h>
#include <stdio.h>

#include "models/builder.h"

enum { PATH_BYTES = 160, MAX_EXPERTS = 1024 };

/* "<path>.<name>": relative name of a module inside a block. */
typedef struct path {
    char text[PATH_BYTES];
} path;

static path in(ls_build *b, const char *block, const char *name) {
    path p;
    int n = snprintf(p.text, sizeof p.text, "%s.%s", block, name);
    if (n < 0 || (size_t)n >= sizeof p.text) LS_BUILD_FAIL(b, LS_INTERNAL, "module name of %d bytes", n);
    return p;
}

/* ---- Attention ------------------------------------------------------------------------------------------------- */

/* One tensor from one per head: [heads * head_dim] f32, owned by the graph. The graph has one weight for a node. */
static const ls_param *join_heads(ls_build *b, const char *module, int heads) {
    float *values = NULL;
    ls_tensor *t = NULL;
    ls_param *p = NULL;
    int64_t n = (int64_t)heads * b->head_dim;
    if (!b->rc) b->rc = ls_arena_alloc(b->g->arena, &values, (size_t)n, sizeof *values, b->e);
    if (!b->rc) b->rc = ls_arena_alloc(b->g->arena, &t, 1, sizeof *t, b->e);
    if (!b->rc) b->rc = ls_arena_alloc(b->g->arena, &p, 1, sizeof *p, b->e);
    for (int i = 0; !b->rc && i < heads; i++) {
        const ls_param *one = NULL;
        b->rc = ls_graph_param(b->g, &one, b->c, 1, b->head_dim, b->e, "%s.%s.norms.%d.weight", b->scope, module, i);
        if (!b->rc) ls_tensor_row_f32(one->tensor, 0, values + (size_t)i * (size_t)b->head_dim);
    }
    if (b->rc) return NULL;
    *t = (ls_tensor){.format = LS_F32, .rank = 1, .shape = {n}, .data = values, .bytes = (size_t)n * sizeof *values};
    b->rc = ls_arena_printf(b->g->arena, &t->name, b->e, "%s.%s.norms.weight", b->scope, module);
    *p = (ls_param){.name = t->name, .tensor = t, .rows = 1, .cols = n};
    return p;
}

static int norm_list(ls_build *b, int x, int heads, const char *module) {
    const ls_param *w = join_heads(b, module, heads);
    const char *name = NULL;
    int out = 0;
    if (!b->rc) b->rc = ls_arena_printf(b->g->arena, &name, b->e, "%s.%s", b->scope, module);
    if (!b->rc) b->rc = ls_add_layer_norm(b->g, &out, x, w, NULL, b->eps, b->head_dim, name, b->e);
    return out;
}

static int norm_heads(ls_build *b, int x, int heads, ls_qk_norm kind, const char *module, const char *list_module) {
    int64_t all = (int64_t)heads * b->head_dim;
    switch (kind) {
    case LS_QK_NONE:
        return x;
    case LS_QK_HEAD:
        return ls_build_norm_groups(b, x, b->head_dim, b->head_dim, module);
    case LS_QK_WHOLE:
        return ls_build_norm_groups(b, x, all, all, module);
    case LS_QK_HEADS:
        return ls_build_norm_groups(b, x, b->head_dim, all, module);
    case LS_QK_LIST:
        return norm_list(b, x, heads, list_module);
    }
    return x;
}

/* Projections of q, k and v, from three matrices or the rows of one. */
static void project(ls_build *b, int x, const ls_attn *a, const char *block, int qkv[3]) {
    int64_t q = (int64_t)b->heads * b->head_dim, kv = (int64_t)b->kv_heads * b->head_dim;
    if (a->fused) {
        int all = ls_build_linear(b, x, q + 2 * kv, a->qkv_bias, in(b, block, a->fused).text);
        qkv[0] = ls_build_slice(b, all, 0, q, in(b, block, "q").text);
        qkv[1] = ls_build_slice(b, all, q, kv, in(b, block, "k").text);
        qkv[2] = ls_build_slice(b, all, q + kv, kv, in(b, block, "v").text);
        return;
    }
    qkv[0] = ls_build_linear(b, x, q, a->qkv_bias, in(b, block, "q_proj").text);
    qkv[1] = ls_build_linear(b, x, kv, a->qkv_bias, in(b, block, "k_proj").text);
    qkv[2] = ls_build_linear(b, x, kv, a->qkv_bias, in(b, block, "v_proj").text);
}

int ls_build_attention(ls_build *b, int x, const ls_attn *a) {
    const char *block = a->path ? a->path : "self_attn";
    int qkv[3] = {0};
    project(b, x, a, block, qkv);
    qkv[0] = norm_heads(b, qkv[0], b->heads, a->qk_norm, in(b, block, "q_norm").text, in(b, block, "q_layernorm").text);
    qkv[1] = norm_heads(b, qkv[1], b->kv_heads, a->qk_norm, in(b, block, "k_norm").text,
                        in(b, block, "k_layernorm").text);
    if (a->clip != 0) {
        qkv[0] = ls_build_clamp(b, qkv[0], a->clip, in(b, block, "q_clip").text);
        qkv[1] = ls_build_clamp(b, qkv[1], a->clip, in(b, block, "k_clip").text);
        qkv[2] = ls_build_clamp(b, qkv[2], a->clip, in(b, block, "v_clip").text);
    }
    if (a->rope != LS_NO_ROPE) {
        qkv[0] = ls_build_rotate(b, qkv[0], b->heads, a->rope, in(b, block, "q_rope").text);
        qkv[1] = ls_build_rotate(b, qkv[1], b->kv_heads, a->rope, in(b, block, "k_rope").text);
    }
    ls_attention_spec spec = {.heads = b->heads,
                              .kv_heads = b->kv_heads,
                              .head_dim = b->head_dim,
                              .window = a->window,
                              .scale = a->scale != 0 ? a->scale : (float)(1.0 / sqrt(b->head_dim)),
                              .softcap = a->softcap,
                              .bidirectional = a->bidirectional};
    int mixed = ls_build_attend(b, qkv[0], qkv[1], qkv[2], &spec, in(b, block, "attention").text);
    return ls_build_linear(b, mixed, b->hidden, a->out_bias, in(b, block, a->out_proj ? a->out_proj : "o_proj").text);
}

/* ---- MLP and experts ------------------------------------------------------------------------------------------- */

int ls_build_mlp(ls_build *b, int x, int64_t inter, ls_act act, ls_bias bias, const char *block) {
    int gate = ls_build_linear(b, x, inter, bias, in(b, block, "gate_proj").text);
    int up = ls_build_linear(b, x, inter, bias, in(b, block, "up_proj").text);
    int h = ls_build_glu(b, gate, up, act, in(b, block, "act").text);
    return ls_build_linear(b, h, b->hidden, bias, in(b, block, "down_proj").text);
}

/* The matrices |name| of all experts, each [rows, cols]: slices of one stacked tensor, or a tensor each. */
static const ls_param *expert_params(ls_build *b, const ls_experts *m, const char *name, int64_t rows,
                                     int64_t columns) {
    const ls_param *stack = NULL, *one = NULL;
    ls_param *all = NULL;
    if (!b->rc) b->rc = ls_arena_alloc(b->g->arena, &all, (size_t)m->count, sizeof *all, b->e);
    if (!b->rc)
        b->rc = ls_graph_param_optional(b->g, &stack, b->c, m->count * rows, columns, b->e, "%s.%s.experts.%s.weight",
                                        b->scope, m->path, name);
    for (int i = 0; !b->rc && i < m->count; i++) {
        if (!stack)
            b->rc = ls_graph_param(b->g, &one, b->c, rows, columns, b->e, "%s.%s.experts.%d.%s.weight", b->scope,
                                   m->path, i, name);
        if (b->rc) break;
        all[i] = stack ? *stack : *one;
        all[i].rows = rows;
        all[i].row_begin = stack ? i * rows : 0;
    }
    return all;
}

int ls_build_moe(ls_build *b, int x, const ls_experts *m, ls_act act) {
    if (m->count < 1 || m->count > MAX_EXPERTS || m->inter < 1)
        LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT, "config gives %d experts of %lld columns; allowed are 1 to %d experts",
                      m->count, (long long)m->inter, MAX_EXPERTS);
    int router = ls_build_linear(b, x, m->count, LS_BIAS_NONE, in(b, m->path, m->router).text);
    if (b->rc) return 0;
    ls_moe moe = {.experts = m->count, .top_k = m->top_k, .normalize = m->normalize};
    moe.gate = expert_params(b, m, m->gate, m->inter, b->hidden);
    moe.up = expert_params(b, m, m->up, m->inter, b->hidden);
    moe.down = expert_params(b, m, m->down, b->hidden, m->inter);
    const char *name = NULL;
    int out = 0;
    if (!b->rc) b->rc = ls_arena_printf(b->g->arena, &name, b->e, "%s.%s.experts", b->scope, m->path);
    if (!b->rc) b->rc = ls_add_moe(b->g, &out, x, router, &moe, act, name, b->e);
    return out;
}

/* ---- Layers ---------------------------------------------------------------------------------------------------- */

int ls_build_prenorm_attention(ls_build *b, int x, const ls_attn *a, float residual) {
    int h = ls_build_attention(b, ls_build_norm(b, x, "input_layernorm"), a);
    return ls_build_add(b, x, ls_build_scale(b, h, residual, "attn_scale"), "attn_residual");
}

int ls_build_prenorm_mlp(ls_build *b, int x, ls_act act, ls_bias bias, float residual) {
    int h = ls_build_mlp(b, ls_build_norm(b, x, "post_attention_layernorm"), b->inter, act, bias, "mlp");
    return ls_build_add(b, x, ls_build_scale(b, h, residual, "mlp_scale"), "mlp_residual");
}
