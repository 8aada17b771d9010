/* Gemma 3's eyes: the SigLIP tower, means over squares of patches, and the projection into the text model's rows.
 *
 *     rows = rms(avg_pool(siglip(image))) W
 *
 * mm_tokens_per_image rows stand for an image, a square number of them; W is stored as [vision, text]. */
#include <stdio.h>
#include <string.h>

#include "models/builder.h"
#include "models/families.h"

/* What a published vision_config leaves out equals these. The tower's vocabulary are the text model's columns; see below. */
static const ls_build_defaults defaults = {.eps_key = "layer_norm_eps", .norm = LS_NORM_LAYER, .hidden = 768, .inter = 3072, .layers = 12, .heads = 12,
                                           .vocab = 1};
enum { TEXT_HIDDEN = 2304 };

/* "multi_modal_projector" with "vision_tower" beside it, at the top or under "model". */
static const char *find_prefix(const ls_build *b) {
    return ls_checkpoint_find(b->c, "model.multi_modal_projector.mm_input_projection_weight") ? "model." : "";
}

static int root_of(int64_t square) {
    int side = 0;
    while ((int64_t)side * side < square) side++;
    return side;
}

/* Patches of a square's side, so that the grid gives |tokens| squares. */
static int pool_of(ls_build *b, int patches, int64_t tokens) {
    int side = root_of(tokens);
    if ((int64_t)side * side != tokens || patches % side) {
        LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT, "config \"mm_tokens_per_image\" is %lld; it must be a square whose root divides the %d patches of a side",
                      (long long)tokens, patches);
        return 1;
    }
    return patches / side;
}

static void project(ls_build *b, int x, const char *prefix, int patches, int64_t tokens) {
    ls_build_scope(b, "%smulti_modal_projector", prefix);
    b->norm = LS_NORM_RMS_PLUS_ONE;
    x = ls_build_avg_pool(b, x, patches, pool_of(b, patches, tokens), "avg_pool");
    x = ls_build_norm(b, x, "mm_soft_emb_norm");
    ls_build_linear_layout(b, x, b->vocab, LS_LAYOUT_TRANSPOSED, 0, "mm_input_projection_weight", NULL, "mm_input_projection");
}

ls_code ls_build_gemma3_vision(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_image_shape *shape, ls_error *e) {
    ls_build b;
    int64_t tokens = 256, hidden = TEXT_HIDDEN;
    int patches = 0;
    const json_t *vision = json_object_get(config, "vision_config"), *text = json_object_get(config, "text_config");
    if (!json_is_object(vision)) LS_FAIL(e, LS_INVALID_ARGUMENT, "config \"vision_config\" must be an object");
    LS_TRY(ls_json_get_int(config, "mm_tokens_per_image", 1, (int64_t)LS_MAX_IMAGE_SIDE * LS_MAX_IMAGE_SIDE, &tokens, e));
    LS_TRY(ls_json_get_int(json_is_object(text) ? text : config, "hidden_size", 1, 1 << 24, &hidden, e));
    ls_build_init(&b, g, c, vision, o, &defaults, e);
    const char *type = ls_cfg_str(&b, "model_type", "siglip_vision_model"), *prefix = find_prefix(&b);
    if (!b.rc && strcmp(type, "siglip_vision_model"))
        LS_BUILD_FAIL(&b, LS_UNIMPLEMENTED, "config \"vision_config\" has model_type \"%.80s\"; supported is siglip_vision_model", type);
    snprintf(b.root, sizeof b.root, "%svision_tower.vision_model", prefix);
    b.list = "encoder.layers";
    b.vocab = hidden;
    int x = ls_build_siglip(&b, shape, &patches);
    if (!b.rc) project(&b, x, prefix, patches, tokens);
    b.max_positions = (int64_t)patches * patches;
    return ls_build_finish(&b);
}
