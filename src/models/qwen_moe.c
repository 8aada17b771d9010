/* Qwen 2 MoE and Qwen 3 MoE: in most layers the MLP is a mixture of experts.
 *
 *     experts(x) = sum over the top k of softmax(gate(x)): score * mlp_e(x)
 *     Qwen 2 adds sigmoid(shared_expert_gate(x)) * shared_expert(x) */
#include "models/builder.h"
#include "models/families.h"

typedef struct moe_model {
    ls_attn attention;
    ls_experts experts;
    ls_act act;
    int64_t shared; /* columns of the shared expert; 0: none */
    int64_t step;   /* every step-th layer is sparse */
} moe_model;

static bool is_sparse(ls_build *b, const moe_model *m, int layer) {
    const json_t *dense = json_object_get(b->config, "mlp_only_layers"), *v;
    size_t i;
    json_array_foreach(dense, i, v) {
        if (json_is_integer(v) && json_integer_value(v) == layer) return false;
    }
    return m->experts.count > 0 && (layer + 1) % m->step == 0;
}

static int sparse_mlp(ls_build *b, const moe_model *m, int x) {
    int out = ls_build_moe(b, x, &m->experts, m->act);
    if (!m->shared) return out;
    int gate = ls_build_act(b, ls_build_linear(b, x, 1, LS_BIAS_NONE, "mlp.shared_expert_gate"), LS_ACT_SIGMOID,
                            "mlp.shared_expert_score");
    int shared = ls_build_mlp(b, x, m->shared, m->act, LS_BIAS_NONE, "mlp.shared_expert");
    return ls_build_add(b, out, ls_build_mul(b, shared, gate, "mlp.shared_expert_scaled"), "mlp.sum");
}

static ls_code build(ls_build *b, moe_model *m) {
    m->act = ls_cfg_act(b, "hidden_act", "silu");
    m->step = ls_cfg_int(b, "decoder_sparse_step", 1, 1 << 20, 1);
    m->experts.path = "mlp";
    m->experts.router = "gate";
    m->experts.gate = "gate_proj";
    m->experts.up = "up_proj";
    m->experts.down = "down_proj";
    m->experts.inter = ls_cfg_int(b, "moe_intermediate_size", 1, 1 << 24, 0);
    m->experts.count = (int)ls_cfg_int(b, "num_experts", 0, 1024, 0);
    m->experts.top_k = (int)ls_cfg_int(b, "num_experts_per_tok", 1, 1024, 1);
    m->experts.normalize = ls_cfg_bool(b, "norm_topk_prob", false);
    if (ls_cfg_bool(b, "use_sliding_window", false))
        m->attention.window = (int)ls_cfg_int(b, "sliding_window", 1, INT32_MAX, 4096);
    int x = ls_build_embed(b, 1);
    for (int i = 0; !b->rc && i < b->layers; i++) {
        ls_build_scope_layer(b, i);
        x = ls_build_prenorm_attention(b, x, &m->attention, 1);
        if (is_sparse(b, m, i)) {
            int h = ls_build_norm(b, x, "post_attention_layernorm");
            x = ls_build_add(b, x, sparse_mlp(b, m, h), "mlp_residual");
        } else x = ls_build_prenorm_mlp(b, x, m->act, LS_BIAS_NONE, 1);
    }
    ls_build_head(b, x);
    return ls_build_finish(b);
}

ls_code ls_build_qwen2_moe(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o,
                           ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, NULL, e);
    ls_bias bias = ls_cfg_bool(&b, "qkv_bias", true) ? LS_BIAS_REQUIRED : LS_BIAS_NONE;
    moe_model m = {.attention = {.qkv_bias = bias, .rope = ls_build_rope_default(&b)},
                   .shared = ls_cfg_int(&b, "shared_expert_intermediate_size", 1, 1 << 24, 5632)};
    return build(&b, &m);
}

ls_code ls_build_qwen3_moe(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o,
                           ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, NULL, e);
    ls_bias bias = ls_cfg_bias(&b, "attention_bias");
    moe_model m = {
        .attention = {.qkv_bias = bias, .out_bias = bias, .qk_norm = LS_QK_HEAD, .rope = ls_build_rope_default(&b)}};
    return build(&b, &m);
}
