/* SmolLM3: Llama in which every few layers neither q nor k is rotated (NoPE); those may slide. */
#include "models/builder.h"
#include "models/families.h"

/* no_rope_layers has a 1 for each layer that rotates; without it, every interval-th layer does not. */
static bool rotates(ls_build *b, int layer, int64_t interval) {
    const json_t *list = json_object_get(b->config, "no_rope_layers");
    if (!json_is_array(list)) return (layer + 1) % interval != 0;
    const json_t *v = json_array_get(list, (size_t)layer);
    if (!json_is_integer(v))
        LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT, "config \"no_rope_layers\" has no number for layer %d of %d", layer,
                      b->layers);
    return json_integer_value(v) != 0;
}

ls_code ls_build_smollm3(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, NULL, e);
    ls_act act = ls_cfg_act(&b, "hidden_act", "silu");
    ls_bias bias = ls_cfg_bias(&b, "attention_bias");
    int rope = ls_build_rope_default(&b);
    int64_t interval = ls_cfg_int(&b, "no_rope_layer_interval", 1, 1024, 4);
    int window = ls_cfg_bool(&b, "use_sliding_window", false) ? (int)ls_cfg_int(&b, "sliding_window", 1, INT32_MAX, 0)
                                                              : 0;
    ls_attn attention = {.qkv_bias = bias, .out_bias = bias};
    ls_bias mlp_bias = ls_cfg_bias(&b, "mlp_bias");
    int x = ls_build_embed(&b, 1);
    for (int i = 0; !b.rc && i < b.layers; i++) {
        bool turns = rotates(&b, i, interval);
        ls_build_scope_layer(&b, i);
        attention.rope = turns ? rope : LS_NO_ROPE;
        attention.window = turns && !ls_cfg_has(&b, "layer_types") ? 0 : ls_cfg_window(&b, i, window, 0);
        x = ls_build_prenorm_attention(&b, x, &attention, 1);
        x = ls_build_prenorm_mlp(&b, x, act, mlp_bias, 1);
    }
    ls_build_head(&b, x);
    return ls_build_finish(&b);
}
