/* StableLM 2: Llama with LayerNorm, part of each head rotated, optional biases of q, k and v. The 12B model computes
 * attention and MLP from the same input and normalises each head of q and k with weights of its own. */
#include "models/builder.h"
#include "models/families.h"

ls_code ls_build_stablelm(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o,
                  &(ls_build_defaults){.eps_key = "layer_norm_eps", .eps = 1e-5, .norm = LS_NORM_LAYER}, e);
    ls_act act = ls_cfg_act(&b, "hidden_act", "silu");
    bool parallel = ls_cfg_bool(&b, "use_parallel_residual", false);
    ls_attn attention = {.qkv_bias = ls_cfg_bias(&b, "use_qkv_bias"),
                         .rope = ls_build_rope_partial(&b, 0.25),
                         .qk_norm = ls_cfg_bool(&b, "qk_layernorm", false) ? LS_QK_LIST : LS_QK_NONE};
    int x = ls_build_embed(&b, 1);
    for (int i = 0; !b.rc && i < b.layers; i++) {
        ls_build_scope_layer(&b, i);
        int h = ls_build_norm(&b, x, "input_layernorm");
        x = ls_build_add(&b, x, ls_build_attention(&b, h, &attention), "attn_residual");
        if (!parallel) h = ls_build_norm(&b, x, "post_attention_layernorm");
        x = ls_build_add(&b, x, ls_build_mlp(&b, h, b.inter, act, LS_BIAS_NONE, "mlp"), "mlp_residual");
    }
    ls_build_head(&b, x);
    return ls_build_finish(&b);
}
