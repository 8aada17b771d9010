/* StarCoder 2: LayerNorm, biases everywhere, a plain two-matrix MLP, an optional sliding window. */
#include "models/builder.h"
#include "models/families.h"

static int plain_mlp(ls_build *b, int x, ls_act act, ls_bias bias) {
    int h = ls_build_act(b, ls_build_linear(b, x, b->inter, bias, "mlp.c_fc"), act, "mlp.act");
    return ls_build_linear(b, h, b->hidden, bias, "mlp.c_proj");
}

ls_code ls_build_starcoder2(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o,
                            ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o,
                  &(ls_build_defaults){.eps_key = "norm_epsilon", .eps = 1e-5, .norm = LS_NORM_LAYER}, e);
    ls_act act = ls_cfg_act(&b, "hidden_act", "gelu_pytorch_tanh");
    ls_bias bias = ls_cfg_bool(&b, "use_bias", true) ? LS_BIAS_REQUIRED : LS_BIAS_NONE;
    ls_attn attention = {.qkv_bias = bias,
                         .out_bias = bias,
                         .rope = ls_build_rope_default(&b),
                         .window = (int)ls_cfg_int(&b, "sliding_window", 1, INT32_MAX, 0)};
    int x = ls_build_embed(&b, 1);
    for (int i = 0; !b.rc && i < b.layers; i++) {
        ls_build_scope_layer(&b, i);
        x = ls_build_prenorm_attention(&b, x, &attention, 1);
        x = ls_build_add(&b, x, plain_mlp(&b, ls_build_norm(&b, x, "post_attention_layernorm"), act, bias),
                         "mlp_residual");
    }
    ls_build_head(&b, x);
    return ls_build_finish(&b);
}
