/* Llama 2 to 3.3 and the many models of the same shape; Mistral, which adds a sliding window to every layer.
 *
 *     x = embed(ids);  per layer: x += attention(rms(x)); x += mlp(rms(x));  logits = head(rms(x)) */
#include "models/builder.h"
#include "models/families.h"

static ls_code build(ls_build *b, const ls_attn *attention, ls_bias mlp_bias) {
    ls_act act = ls_cfg_act(b, "hidden_act", "silu");
    int x = ls_build_embed(b, 1);
    for (int i = 0; !b->rc && i < b->layers; i++) {
        ls_build_scope_layer(b, i);
        x = ls_build_prenorm_attention(b, x, attention, 1);
        x = ls_build_prenorm_mlp(b, x, act, mlp_bias, 1);
    }
    ls_build_head(b, x);
    return ls_build_finish(b);
}

ls_code ls_build_llama(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, NULL, e);
    ls_bias bias = ls_cfg_bias(&b, "attention_bias");
    ls_bias out = ls_cfg_has(&b, "attention_out_bias") ? ls_cfg_bias(&b, "attention_out_bias") : bias;
    ls_attn attention = {.qkv_bias = bias, .out_bias = out, .rope = ls_build_rope_default(&b)};
    return build(&b, &attention, ls_cfg_bias(&b, "mlp_bias"));
}

ls_code ls_build_mistral(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, NULL, e);
    ls_attn attention = {.rope = ls_build_rope_default(&b),
                         .window = (int)ls_cfg_int(&b, "sliding_window", 1, INT32_MAX, 0)};
    return build(&b, &attention, LS_BIAS_NONE);
}
