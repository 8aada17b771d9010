/* Qwen 2 and 2.5: Llama with biases on q, k and v and an optional sliding window in the upper layers. MiMo is the
 * same model with further layers that predict more tokens ahead; they take no part in the logits. */
#include <string.h>

#include "models/builder.h"
#include "models/families.h"

static ls_code build(ls_build *b) {
    ls_act act = ls_cfg_act(b, "hidden_act", "silu");
    bool slides = ls_cfg_bool(b, "use_sliding_window", false);
    int window = slides ? (int)ls_cfg_int(b, "sliding_window", 1, INT32_MAX, 4096) : 0;
    int64_t first = ls_cfg_int(b, "max_window_layers", 0, INT32_MAX, 28);
    ls_attn attention = {.qkv_bias = LS_BIAS_REQUIRED, .rope = ls_build_rope_default(b)};
    int x = ls_build_embed(b, 1);
    for (int i = 0; !b->rc && i < b->layers; i++) {
        bool upper = i >= first || ls_cfg_has(b, "layer_types");
        ls_build_scope_layer(b, i);
        attention.window = upper ? ls_cfg_window(b, i, window, 0) : 0;
        x = ls_build_prenorm_attention(b, x, &attention, 1);
        x = ls_build_prenorm_mlp(b, x, act, LS_BIAS_NONE, 1);
    }
    ls_build_head(b, x);
    return ls_build_finish(b);
}

ls_code ls_build_qwen2(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, NULL, e);
    return build(&b);
}

ls_code ls_build_mimo(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, NULL, e);
    for (size_t i = 0; i < ls_checkpoint_count(c); i++) {
        const char *name = ls_checkpoint_at(c, i)->name;
        if (!strncmp(name, "model.mtp_layers.", strlen("model.mtp_layers.")))
            ls_checkpoint_find(c, name); /* known, not used */
    }
    return build(&b);
}
