/* The SigLIP vision tower: patches, a learned position for each, blocks that see all patches, and a last norm.
 *
 *     x = patch W + b + position; x += attention(norm(x)); x += fc2(gelu(fc1(norm(x)))); y = norm(x)
 *
 * Every norm is a LayerNorm with bias, every projection has a bias. The pooling head of image-text towers is not part of it: those
 * who read the rows do not need it. */
#include <stdio.h>

#include "models/builder.h"

enum { MAX_IMAGE = 1 << 14 };

/* The patch convolution has its stride as its size: a product with the patch's numbers. MLX keeps the channels last. */
static int embed_patches(ls_build *b, int x, int channels) {
    char name[192];
    snprintf(name, sizeof name, "%s.embeddings.patch_embedding.weight", b->root);
    const ls_tensor *t = ls_checkpoint_find(b->c, name);
    bool last = t && t->rank == 4 && t->shape[1] != channels && t->shape[3] == channels;
    ls_build_scope(b, "%s.embeddings", b->root);
    return ls_build_linear_layout(b, x, b->hidden, last ? LS_LAYOUT_CHANNELS_LAST : LS_LAYOUT_FLAT, channels, "patch_embedding.weight", "patch_embedding.bias",
                                  "patch_embedding");
}

static int block(ls_build *b, int x, ls_act act) {
    const ls_attn attention = {.qkv_bias = LS_BIAS_REQUIRED, .out_bias = LS_BIAS_REQUIRED, .out_proj = "out_proj", .rope = LS_NO_ROPE, .bidirectional = true};
    int h = ls_build_attention(b, ls_build_norm(b, x, "layer_norm1"), &attention);
    x = ls_build_add(b, x, h, "attn_residual");
    h = ls_build_linear(b, ls_build_norm(b, x, "layer_norm2"), b->inter, LS_BIAS_REQUIRED, "mlp.fc1");
    h = ls_build_linear(b, ls_build_act(b, h, act, "mlp.act"), b->hidden, LS_BIAS_REQUIRED, "mlp.fc2");
    return ls_build_add(b, x, h, "mlp_residual");
}

int ls_build_siglip(ls_build *b, ls_image_shape *shape, int *patches) {
    shape->image_size = (int)ls_cfg_int(b, "image_size", 1, MAX_IMAGE, 224);
    shape->patch_size = (int)ls_cfg_int(b, "patch_size", 1, MAX_IMAGE, 16);
    shape->channels = 3;
    ls_cfg_only(b, "num_channels", 3);
    ls_act act = ls_cfg_act(b, "hidden_act", "gelu_pytorch_tanh");
    if (b->rc) return 0;
    *patches = shape->image_size / shape->patch_size;
    if (shape->image_size % shape->patch_size || *patches > LS_MAX_IMAGE_SIDE) {
        LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT, "config \"image_size\" %d is not 1 to %d patches of \"patch_size\" %d", shape->image_size, LS_MAX_IMAGE_SIDE,
                      shape->patch_size);
        return 0;
    }
    ls_build_scope(b, "%s.embeddings", b->root);
    int x = ls_build_input(b, (int64_t)shape->channels * shape->patch_size * shape->patch_size, "patches");
    x = ls_build_position(b, embed_patches(b, x, shape->channels), (int64_t)*patches * *patches, "position_embedding");
    for (int i = 0; !b->rc && i < b->layers; i++) {
        ls_build_scope_layer(b, i);
        x = block(b, x, act);
    }
    ls_build_scope(b, "%s", b->root);
    return ls_build_norm(b, x, "post_layernorm");
}
