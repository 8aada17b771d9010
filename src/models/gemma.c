/* Gemma 1 and 2. Embeddings are multiplied by sqrt(hidden_size), norms by 1 + weight, the MLP gate is a GELU.
 *
 *     Gemma 1: x += attention(rms(x)); x += mlp(rms(x))
 *     Gemma 2: x += rms(attention(rms(x))); x += rms(mlp(rms(x))); every other layer slides, with soft caps on scores
 *     and logits */
#include <math.h>

#include "models/builder.h"
#include "models/families.h"

/* The f32 square root, as a factor of f32 embeddings. */
static int scaled_embed(ls_build *b) {
    if (ls_cfg_bool(b, "norm_weight_has_one", false)) b->norm = LS_NORM_RMS;
    return ls_build_embed(b, (float)sqrt((double)b->hidden));
}

/* Gemma 1 names its activation twice; the newer name wins. */
static ls_act activation(ls_build *b) {
    return ls_cfg_act(b, ls_cfg_has(b, "hidden_activation") ? "hidden_activation" : "hidden_act", "gelu_pytorch_tanh");
}

/* A soft cap: |fallback| where the config is silent, none where it says null. */
static float cap(ls_build *b, const char *key, double fallback) {
    if (json_is_null(json_object_get(b->config, key))) return 0;
    return (float)ls_cfg_real(b, key, fallback);
}

ls_code ls_build_gemma(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, &(ls_build_defaults){.norm = LS_NORM_RMS_PLUS_ONE}, e);
    ls_act act = activation(&b);
    ls_bias bias = ls_cfg_bias(&b, "attention_bias");
    ls_cfg_refuse(&b, "use_bidirectional_attention", "only causal attention is supported");
    ls_attn attention = {.qkv_bias = bias, .out_bias = bias, .rope = ls_build_rope_default(&b)};
    int x = scaled_embed(&b);
    for (int i = 0; !b.rc && i < b.layers; i++) {
        ls_build_scope_layer(&b, i);
        x = ls_build_prenorm_attention(&b, x, &attention, 1);
        x = ls_build_prenorm_mlp(&b, x, act, LS_BIAS_NONE, 1);
    }
    ls_build_head(&b, x);
    return ls_build_finish(&b);
}

ls_code ls_build_gemma2(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, &(ls_build_defaults){.norm = LS_NORM_RMS_PLUS_ONE}, e);
    ls_act act = ls_cfg_act(&b, "hidden_activation", "gelu_pytorch_tanh");
    ls_bias bias = ls_cfg_bias(&b, "attention_bias");
    int window = (int)ls_cfg_int(&b, "sliding_window", 1, INT32_MAX, 4096);
    ls_cfg_refuse(&b, "use_bidirectional_attention", "only causal attention is supported");
    ls_attn attention = {.qkv_bias = bias,
                         .out_bias = bias,
                         .rope = ls_build_rope_default(&b),
                         .softcap = cap(&b, "attn_logit_softcapping", 50),
                         .scale = (float)(1.0 / sqrt(ls_cfg_real(&b, "query_pre_attn_scalar", 256)))};
    int x = scaled_embed(&b);
    for (int i = 0; !b.rc && i < b.layers; i++) {
        ls_build_scope_layer(&b, i);
        attention.window = ls_cfg_window(&b, i, window, 2);
        int h = ls_build_attention(&b, ls_build_norm(&b, x, "input_layernorm"), &attention);
        x = ls_build_add(&b, x, ls_build_norm(&b, h, "post_attention_layernorm"), "attn_residual");
        h = ls_build_mlp(&b, ls_build_norm(&b, x, "pre_feedforward_layernorm"), b.inter, act, LS_BIAS_NONE, "mlp");
        x = ls_build_add(&b, x, ls_build_norm(&b, h, "post_feedforward_layernorm"), "mlp_residual");
    }
    x = ls_build_head(&b, x);
    float last = cap(&b, "final_logit_softcapping", 30);
    if (last != 0) ls_build_softcap(&b, x, last, "logits_softcap");
    return ls_build_finish(&b);
}
