/* Phi-3 to Phi-4-mini: Llama with one matrix for q, k and v, one for gate and up, and a rotation that may cover only
 * part of each head and be scaled by LongRoPE. */
#include "models/builder.h"
#include "models/families.h"

static int fused_mlp(ls_build *b, int x, ls_act act) {
    int both = ls_build_linear(b, x, 2 * b->inter, LS_BIAS_NONE, "mlp.gate_up_proj");
    int gate = ls_build_slice(b, both, 0, b->inter, "mlp.gate"),
        up = ls_build_slice(b, both, b->inter, b->inter, "mlp.up");
    return ls_build_linear(b, ls_build_glu(b, gate, up, act, "mlp.act"), b->hidden, LS_BIAS_NONE, "mlp.down_proj");
}

ls_code ls_build_phi3(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, &(ls_build_defaults){.eps = 1e-5}, e);
    ls_act act = ls_cfg_act(&b, "hidden_act", "silu");
    ls_cfg_refuse(&b, "attention_bias", "Phi-3 has no biases");
    ls_attn attention = {.fused = "qkv_proj",
                         .rope = ls_build_rope_partial(&b, 1),
                         .window = (int)ls_cfg_int(&b, "sliding_window", 1, INT32_MAX, 0)};
    int x = ls_build_embed(&b, 1);
    for (int i = 0; !b.rc && i < b.layers; i++) {
        ls_build_scope_layer(&b, i);
        x = ls_build_prenorm_attention(&b, x, &attention, 1);
        x = ls_build_add(&b, x, fused_mlp(&b, ls_build_norm(&b, x, "post_attention_layernorm"), act), "mlp_residual");
    }
    ls_build_head(&b, x);
    return ls_build_finish(&b);
}
