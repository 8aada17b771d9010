/* Command R (Cohere) and Cohere 2: attention and MLP read the same normalised input; LayerNorm without bias; rotation
 * of neighbouring columns; scaled logits. Command R+ normalises the heads of q and k. Cohere 2 rotates only in its
 * sliding layers.
 *
 *     h = norm(x);  x += attention(h) + mlp(h);  logits = logit_scale * head(norm(x)) */
#include "models/builder.h"
#include "models/families.h"

static const ls_build_defaults cohere_defaults = {
    .eps_key = "layer_norm_eps", .eps = 1e-5, .norm = LS_NORM_LAYER_NO_BIAS};

static int rotary(ls_build *b) {
    ls_cfg_only(b, "rotary_pct", 1);
    return ls_build_rope_whole(b, NULL, ls_cfg_real(b, "rope_theta", 10000), true);
}

static int parallel_layer(ls_build *b, int x, const ls_attn *attention, ls_act act) {
    int h = ls_build_norm(b, x, "input_layernorm");
    x = ls_build_add(b, x, ls_build_attention(b, h, attention), "attn_residual");
    return ls_build_add(b, x, ls_build_mlp(b, h, b->inter, act, LS_BIAS_NONE, "mlp"), "mlp_residual");
}

static ls_code finish(ls_build *b, int x) {
    ls_build_scale(b, ls_build_head(b, x), (float)ls_cfg_real(b, "logit_scale", 0.0625), "logits_scale");
    return ls_build_finish(b);
}

ls_code ls_build_cohere(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, &cohere_defaults, e);
    ls_act act = ls_cfg_act(&b, "hidden_act", "silu");
    ls_bias bias = ls_cfg_bias(&b, "attention_bias");
    ls_attn attention = {.qkv_bias = bias,
                         .out_bias = bias,
                         .rope = rotary(&b),
                         .qk_norm = ls_cfg_bool(&b, "use_qk_norm", false) ? LS_QK_HEADS : LS_QK_NONE};
    int x = ls_build_embed(&b, 1);
    for (int i = 0; !b.rc && i < b.layers; i++) {
        ls_build_scope_layer(&b, i);
        x = parallel_layer(&b, x, &attention, act);
    }
    return finish(&b, x);
}

ls_code ls_build_cohere2(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, &cohere_defaults, e);
    ls_act act = ls_cfg_act(&b, "hidden_act", "silu");
    ls_bias bias = ls_cfg_bias(&b, "attention_bias");
    int rope = rotary(&b), window = (int)ls_cfg_int(&b, "sliding_window", 1, INT32_MAX, 4096);
    int64_t pattern = ls_cfg_int(&b, "sliding_window_pattern", 1, 1024,
                                 ls_cfg_int(&b, "_sliding_window_pattern", 1, 1024, 4));
    ls_attn attention = {.qkv_bias = bias, .out_bias = bias};
    int x = ls_build_embed(&b, 1);
    for (int i = 0; !b.rc && i < b.layers; i++) {
        ls_build_scope_layer(&b, i);
        attention.window = ls_cfg_window(&b, i, window, pattern);
        attention.rope = attention.window ? rope : LS_NO_ROPE;
        x = parallel_layer(&b, x, &attention, act);
    }
    return finish(&b, x);
}
