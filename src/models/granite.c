/* Granite 3: Llama with four multipliers: of embeddings, scores (instead of 1/sqrt(head_dim)), residuals and
 * 1/logits. */
#include "models/builder.h"
#include "models/families.h"

ls_code ls_build_granite(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, NULL, e);
    ls_act act = ls_cfg_act(&b, "hidden_act", "silu");
    ls_bias bias = ls_cfg_bias(&b, "attention_bias"), mlp_bias = ls_cfg_bias(&b, "mlp_bias");
    ls_bias out = ls_cfg_has(&b, "attention_out_bias") ? ls_cfg_bias(&b, "attention_out_bias") : bias;
    float residual = (float)ls_cfg_real(&b, "residual_multiplier", 1);
    ls_attn attention = {.qkv_bias = bias,
                         .out_bias = out,
                         .rope = ls_build_rope_default(&b),
                         .scale = (float)ls_cfg_real(&b, "attention_multiplier", 1)};
    double divisor = ls_cfg_real(&b, "logits_scaling", 1);
    if (!(divisor > 0))
        LS_BUILD_FAIL(&b, LS_INVALID_ARGUMENT, "config \"logits_scaling\" is %g; it must be positive", divisor);
    int x = ls_build_embed(&b, (float)ls_cfg_real(&b, "embedding_multiplier", 1));
    for (int i = 0; !b.rc && i < b.layers; i++) {
        ls_build_scope_layer(&b, i);
        x = ls_build_prenorm_attention(&b, x, &attention, residual);
        x = ls_build_prenorm_mlp(&b, x, act, mlp_bias, residual);
    }
    ls_build_scale(&b, ls_build_head(&b, x), (float)(1.0 / divisor), "logits_scale");
    return ls_build_finish(&b);
}
