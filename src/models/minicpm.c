/* MiniCPM: Llama with scaled embeddings, residuals scaled by depth, and a head that reads hidden states divided by
 * how much wider the model is than the base its hyperparameters were found on.
 *
 *     r = scale_depth / sqrt(layers);  x += r * attention(rms(x)); x += r * mlp(rms(x))
 *     logits = head(rms(x) * base / hidden) */
#include <math.h>

#include "models/builder.h"
#include "models/families.h"

ls_code ls_build_minicpm(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, NULL, e);
    ls_act act = ls_cfg_act(&b, "hidden_act", "silu");
    ls_bias bias = ls_cfg_bias(&b, "attention_bias");
    ls_cfg_refuse(&b, "sparse_config", "block-sparse attention is not supported");
    ls_cfg_only(&b, "num_experts", 0);
    float residual = b.rc ? 1 : (float)(ls_cfg_real(&b, "scale_depth", 1) / sqrt((double)b.layers));
    double base = ls_cfg_real(&b, "dim_model_base", 1);
    ls_attn attention = {.qkv_bias = bias, .out_bias = bias, .rope = ls_build_rope_default(&b)};
    int x = ls_build_embed(&b, (float)ls_cfg_real(&b, "scale_emb", 1));
    for (int i = 0; !b.rc && i < b.layers; i++) {
        ls_build_scope_layer(&b, i);
        x = ls_build_prenorm_attention(&b, x, &attention, residual);
        x = ls_build_prenorm_mlp(&b, x, act, LS_BIAS_NONE, residual);
    }
    x = ls_build_last_norm(&b, x, "norm");
    ls_build_logits(&b, ls_build_scale(&b, x, (float)(base / (double)b.hidden), "norm_scale"));
    return ls_build_finish(&b);
}
