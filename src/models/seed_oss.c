/* Seed-OSS: Llama with biases on q, k and v, and flags for those of the other matrices. */
#include "models/builder.h"
#include "models/families.h"

ls_code ls_build_seed_oss(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, NULL, e);
    ls_act act = ls_cfg_act(&b, "hidden_act", "silu");
    ls_bias mlp_bias = ls_cfg_bias(&b, "mlp_bias");
    ls_attn attention = {.qkv_bias = ls_cfg_bias(&b, "attention_bias"),
                         .out_bias = ls_cfg_bias(&b, "attention_out_bias"),
                         .rope = ls_build_rope_default(&b)};
    int x = ls_build_embed(&b, 1);
    for (int i = 0; !b.rc && i < b.layers; i++) {
        ls_build_scope_layer(&b, i);
        x = ls_build_prenorm_attention(&b, x, &attention, 1);
        x = ls_build_prenorm_mlp(&b, x, act, mlp_bias, 1);
    }
    ls_build_head(&b, x);
    return ls_build_finish(&b);
}
