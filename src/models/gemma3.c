/* Gemma 3, text. Like Gemma 2 with RMSNorm on every head of q and k instead of the score cap, and two rotary tables:
 * local (sliding) layers turn with rope_local_base_freq, global ones with rope_theta and its scaling.
 *
 *     x += rms(attention(rms(x))); x += rms(mlp(rms(x))) */
#include <math.h>
#include <stdio.h>

#include "models/builder.h"
#include "models/families.h"

/* Published configs leave out what equals these. */
static const ls_build_defaults gemma3_defaults = {.norm = LS_NORM_RMS_PLUS_ONE,
                                                  .vocab = 262208,
                                                  .hidden = 2304,
                                                  .inter = 9216,
                                                  .layers = 26,
                                                  .heads = 8,
                                                  .kv_heads = 4,
                                                  .head_dim = 256,
                                                  .max_positions = 131072};

/* The text model's modules lie at the top, or inside a vision-language model in one of two orders. */
static void find_root(ls_build *b) {
    static const struct {
        const char *outer, *root;
    } places[] = {{"language_model", "language_model.model"}, {"", "model.language_model"}, {"", "model"}};
    char name[128];
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(name, sizeof name, "%s.embed_tokens.weight", places[i].root);
        snprintf(b->outer, sizeof b->outer, "%s", places[i].outer);
        snprintf(b->root, sizeof b->root, "%s", places[i].root);
        if (ls_checkpoint_find(b->c, name)) return;
    }
}

ls_code ls_build_gemma3(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    const json_t *text = json_object_get(config, "text_config");
    ls_build_init(&b, g, c, json_is_object(text) ? text : config, o, &gemma3_defaults, e);
    ls_act act = ls_cfg_act(&b, "hidden_activation", "gelu_pytorch_tanh");
    ls_bias bias = ls_cfg_bias(&b, "attention_bias");
    int window = (int)ls_cfg_int(&b, "sliding_window", 1, INT32_MAX, 4096);
    int64_t pattern = ls_cfg_int(&b, "sliding_window_pattern", 1, 1024,
                                 ls_cfg_int(&b, "_sliding_window_pattern", 1, 1024, 6));
    ls_cfg_refuse(&b, "use_bidirectional_attention", "only causal attention is supported");
    ls_cfg_refuse(&b, "attn_logit_softcapping", "Gemma 3 has no cap of attention scores");
    if (ls_cfg_bool(&b, "norm_weight_has_one", false)) b.norm = LS_NORM_RMS;
    find_root(&b);
    bool interleaved = ls_cfg_bool(&b, "rope_interleaved", false);
    int local = ls_build_rope_sliding(&b, ls_cfg_real(&b, "rope_local_base_freq", 10000), interleaved);
    int global = ls_build_rope_whole(&b, "full_attention", ls_cfg_real(&b, "rope_theta", 1000000), interleaved);
    ls_attn attention = {.qkv_bias = bias,
                         .out_bias = bias,
                         .qk_norm = LS_QK_HEAD,
                         .scale = (float)(1.0 / sqrt(ls_cfg_real(&b, "query_pre_attn_scalar", 256)))};
    int x = ls_build_embed(&b, (float)sqrt((double)b.hidden));
    for (int i = 0; !b.rc && i < b.layers; i++) {
        ls_build_scope_layer(&b, i);
        attention.window = ls_cfg_window(&b, i, window, pattern);
        attention.rope = attention.window ? local : global;
        int h = ls_build_attention(&b, ls_build_norm(&b, x, "input_layernorm"), &attention);
        x = ls_build_add(&b, x, ls_build_norm(&b, h, "post_attention_layernorm"), "attn_residual");
        h = ls_build_mlp(&b, ls_build_norm(&b, x, "pre_feedforward_layernorm"), b.inter, act, LS_BIAS_NONE, "mlp");
        x = ls_build_add(&b, x, ls_build_norm(&b, h, "post_feedforward_layernorm"), "mlp_residual");
    }
    x = ls_build_head(&b, x);
    double cap = ls_cfg_real(&b, "final_logit_softcapping", 0);
    if (cap != 0) ls_build_softcap(&b, x, (float)cap, "logits_softcap");
    return ls_build_finish(&b);
}
