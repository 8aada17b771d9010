/* OLMo 2 and OLMoE. OLMo 2 normalises what attention and MLP give rather than what they read; both normalise q and k
 * over all heads at once. OLMoE is pre-norm, clips q, k and v, and its MLP is a mixture of experts.
 *
 *     OLMo 2: x += rms(attention(x)); x += rms(mlp(x)) */
#include "models/builder.h"
#include "models/families.h"

static const ls_build_defaults olmo_defaults = {.eps = 1e-5};

ls_code ls_build_olmo2(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, &olmo_defaults, e);
    ls_act act = ls_cfg_act(&b, "hidden_act", "silu");
    ls_bias bias = ls_cfg_bias(&b, "attention_bias");
    ls_attn attention = {.qkv_bias = bias, .out_bias = bias, .qk_norm = LS_QK_WHOLE, .rope = ls_build_rope_default(&b)};
    int x = ls_build_embed(&b, 1);
    for (int i = 0; !b.rc && i < b.layers; i++) {
        ls_build_scope_layer(&b, i);
        int h = ls_build_attention(&b, x, &attention);
        x = ls_build_add(&b, x, ls_build_norm(&b, h, "post_attention_layernorm"), "attn_residual");
        h = ls_build_mlp(&b, x, b.inter, act, LS_BIAS_NONE, "mlp");
        x = ls_build_add(&b, x, ls_build_norm(&b, h, "post_feedforward_layernorm"), "mlp_residual");
    }
    ls_build_head(&b, x);
    return ls_build_finish(&b);
}

ls_code ls_build_olmoe(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, &olmo_defaults, e);
    ls_act act = ls_cfg_act(&b, "hidden_act", "silu");
    ls_bias bias = ls_cfg_bias(&b, "attention_bias");
    ls_attn attention = {.qkv_bias = bias,
                         .out_bias = bias,
                         .qk_norm = LS_QK_WHOLE,
                         .rope = ls_build_rope_default(&b),
                         .clip = (float)ls_cfg_real(&b, "clip_qkv", 0)};
    ls_experts experts = {.path = "mlp",
                          .router = "gate",
                          .gate = "gate_proj",
                          .up = "up_proj",
                          .down = "down_proj",
                          .inter = b.inter,
                          .count = (int)ls_cfg_int(&b, "num_experts", 1, 1024, 64),
                          .top_k = (int)ls_cfg_int(&b, "num_experts_per_tok", 1, 1024, 8),
                          .normalize = ls_cfg_bool(&b, "norm_topk_prob", false)};
    int x = ls_build_embed(&b, 1);
    for (int i = 0; !b.rc && i < b.layers; i++) {
        ls_build_scope_layer(&b, i);
        x = ls_build_prenorm_attention(&b, x, &attention, 1);
        int h = ls_build_norm(&b, x, "post_attention_layernorm");
        x = ls_build_add(&b, x, ls_build_moe(&b, h, &experts, act), "mlp_residual");
    }
    ls_build_head(&b, x);
    return ls_build_finish(&b);
}
