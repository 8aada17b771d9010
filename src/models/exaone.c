/* EXAONE 3 and 3.5: Llama under GPT-2's names. EXAONE 4: post-norm like OLMo 2, RMSNorm on every head of q and k;
 * where it slides, only sliding layers are rotated.
 *
 *     EXAONE 4: x += rms(attention(x)); x += rms(mlp(x)) */
#include <stdio.h>
#include <string.h>

#include "models/builder.h"
#include "models/families.h"

static int gpt2_mlp(ls_build *b, int x, ls_act act) {
    int gate = ls_build_linear(b, x, b->inter, LS_BIAS_NONE, "mlp.c_fc_0"),
        up = ls_build_linear(b, x, b->inter, LS_BIAS_NONE, "mlp.c_fc_1");
    return ls_build_linear(b, ls_build_glu(b, gate, up, act, "mlp.act"), b->hidden, LS_BIAS_NONE, "mlp.c_proj");
}

ls_code ls_build_exaone(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, &(ls_build_defaults){.eps_key = "layer_norm_epsilon", .eps = 1e-5}, e);
    ls_act act = ls_cfg_act(&b, "activation_function", "silu");
    ls_attn attention = {.path = "attn.attention", .out_proj = "out_proj", .rope = ls_build_rope_default(&b)};
    snprintf(b.root, sizeof b.root, "transformer");
    b.embed = "wte";
    b.list = "h";
    int x = ls_build_embed(&b, 1);
    for (int i = 0; !b.rc && i < b.layers; i++) {
        ls_build_scope_layer(&b, i);
        x = ls_build_add(&b, x, ls_build_attention(&b, ls_build_norm(&b, x, "ln_1"), &attention), "attn_residual");
        x = ls_build_add(&b, x, gpt2_mlp(&b, ls_build_norm(&b, x, "ln_2"), act), "mlp_residual");
    }
    ls_build_logits(&b, ls_build_last_norm(&b, x, "ln_f"));
    return ls_build_finish(&b);
}

/* The pattern is a number (every n-th layer is global) or letters, "LLLG", repeated; then the last layer is global
 * whatever its letter. */
static int exaone4_window(ls_build *b, int layer, int window) {
    const char *letters = json_string_value(json_object_get(b->config, "sliding_window_pattern"));
    if (ls_cfg_has(b, "layer_types") || !letters)
        return ls_cfg_window(b, layer, window, letters ? 0 : ls_cfg_int(b, "sliding_window_pattern", 1, 1024, 4));
    if (!*letters) LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT, "config \"sliding_window_pattern\" is empty");
    return b->rc || layer == b->layers - 1 || letters[(size_t)layer % strlen(letters)] != 'L' ? 0 : window;
}

ls_code ls_build_exaone4(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, &(ls_build_defaults){.eps = 1e-5}, e);
    ls_act act = ls_cfg_act(&b, "hidden_act", "silu");
    bool hybrid = ls_cfg_has(&b, "sliding_window");
    int rope = ls_build_rope_default(&b), window = (int)ls_cfg_int(&b, "sliding_window", 1, INT32_MAX, 0);
    ls_attn attention = {.qk_norm = LS_QK_HEAD};
    int x = ls_build_embed(&b, 1);
    for (int i = 0; !b.rc && i < b.layers; i++) {
        ls_build_scope_layer(&b, i);
        attention.window = hybrid ? exaone4_window(&b, i, window) : 0;
        attention.rope = hybrid && !attention.window ? LS_NO_ROPE : rope;
        int h = ls_build_attention(&b, x, &attention);
        x = ls_build_add(&b, x, ls_build_norm(&b, h, "post_attention_layernorm"), "attn_residual");
        h = ls_build_mlp(&b, x, b.inter, act, LS_BIAS_NONE, "mlp");
        x = ls_build_add(&b, x, ls_build_norm(&b, h, "post_feedforward_layernorm"), "mlp_residual");
    }
    ls_build_head(&b, x);
    return ls_build_finish(&b);
}
