/* Mixtral: Mistral whose MLP is a mixture of experts; the kept router scores are made to sum to one. */
#include "models/builder.h"
#include "models/families.h"

ls_code ls_build_mixtral(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e) {
    ls_build b;
    ls_build_init(&b, g, c, config, o, NULL, e);
    ls_act act = ls_cfg_act(&b, "hidden_act", "silu");
    ls_attn attention = {.rope = ls_build_rope_default(&b),
                         .window = (int)ls_cfg_int(&b, "sliding_window", 1, INT32_MAX, 0)};
    ls_experts experts = {.path = "block_sparse_moe",
                          .router = "gate",
                          .gate = "w1",
                          .up = "w3",
                          .down = "w2",
                          .normalize = true,
                          .inter = b.inter,
                          .count = (int)ls_cfg_int(&b, "num_local_experts", 1, 1024, 8),
                          .top_k = (int)ls_cfg_int(&b, "num_experts_per_tok", 1, 1024, 2)};
    int x = ls_build_embed(&b, 1);
    for (int i = 0; !b.rc && i < b.layers; i++) {
        ls_build_scope_layer(&b, i);
        x = ls_build_prenorm_attention(&b, x, &attention, 1);
        int h = ls_build_norm(&b, x, "post_attention_layernorm");
        x = ls_build_add(&b, x, ls_build_moe(&b, h, &experts, act), "mlp_residual");
    }
    ls_build_head(&b, x);
    return ls_build_finish(&b);
}
