/* Which function builds which model_type, and the checks that hold for every family. */
#include <string.h>

#include "base/str.h"
#include "models/builder.h"
#include "models/families.h"

static const ls_family families[] = {
    {"cohere", "Command R, Aya 23", ls_build_cohere, NULL},
    {"cohere2", "Command R7B, Command A", ls_build_cohere2, NULL},
    {"exaone", "EXAONE 3 and 3.5", ls_build_exaone, NULL},
    {"exaone4", "EXAONE 4", ls_build_exaone4, NULL},
    {"gemma", "Gemma 1, CodeGemma", ls_build_gemma, NULL},
    {"gemma2", "Gemma 2", ls_build_gemma2, NULL},
    {"gemma3", "Gemma 3, vision and text", ls_build_gemma3, ls_build_gemma3_vision},
    {"gemma3_text", "Gemma 3, text only", ls_build_gemma3, NULL},
    {"granite", "Granite 3", ls_build_granite, NULL},
    {"internlm3", "InternLM 3", ls_build_internlm3, NULL},
    {"llama", "Llama 2, 3, 3.1, 3.2, 3.3, SmolLM2 and others of this shape", ls_build_llama, NULL},
    {"mimo", "MiMo", ls_build_mimo, NULL},
    {"minicpm", "MiniCPM 1, 2 and 4", ls_build_minicpm, NULL},
    {"mistral", "Mistral 7B, Nemo, Small", ls_build_mistral, NULL},
    {"mixtral", "Mixtral", ls_build_mixtral, NULL},
    {"olmo2", "OLMo 2", ls_build_olmo2, NULL},
    {"olmoe", "OLMoE", ls_build_olmoe, NULL},
    {"phi3", "Phi-3, Phi-3.5, Phi-4, Phi-4-mini", ls_build_phi3, NULL},
    {"qwen2", "Qwen 2, Qwen 2.5", ls_build_qwen2, NULL},
    {"qwen2_moe", "Qwen 1.5 MoE, Qwen 2 MoE", ls_build_qwen2_moe, NULL},
    {"qwen3", "Qwen 3", ls_build_qwen3, NULL},
    {"qwen3_moe", "Qwen 3 MoE", ls_build_qwen3_moe, NULL},
    {"seed_oss", "Seed-OSS", ls_build_seed_oss, NULL},
    {"smollm3", "SmolLM3", ls_build_smollm3, NULL},
    {"stablelm", "StableLM 2", ls_build_stablelm, NULL},
    {"starcoder2", "StarCoder 2", ls_build_starcoder2, NULL},
};
enum { FAMILIES = sizeof families / sizeof *families };

const ls_family *ls_family_at(size_t i) { return i < FAMILIES ? &families[i] : NULL; }

static ls_code unknown_architecture(const char *type, ls_error *e) {
    char list[700];
    size_t n = 0;
    for (size_t i = 0; i < FAMILIES; i++) {
        size_t len = strlen(families[i].model_type);
        if (n + len + 3 > sizeof list) break;
        if (i) {
            memcpy(list + n, ", ", 2);
            n += 2;
        }
        memcpy(list + n, families[i].model_type, len);
        n += len;
    }
    list[n] = 0;
    LS_FAIL(e, LS_UNIMPLEMENTED, "architecture \"%.80s\" is not supported; supported are %s", type, list);
}

/* MLX affine weights carry their own scales; every other quantisation method would be read wrongly. */
static ls_code check_quantization(const json_t *config, ls_error *e) {
    static const char *const keys[] = {"quantization", "quantization_config"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *q = json_object_get(config, keys[i]);
        const char *method = NULL, *mode = "affine";
        if (!json_is_object(q)) continue;
        LS_TRY(ls_json_get_str(q, "quant_method", &method, e));
        LS_TRY(ls_json_get_str(q, "mode", &mode, e));
        if (method)
            LS_FAIL(e, LS_UNIMPLEMENTED,
                    "config \"%s\" has quant_method \"%.80s\"; supported are MLX affine and GGUF weights, and f16, "
                    "bf16, f32",
                    keys[i], method);
        if (strcmp(mode, "affine"))
            LS_FAIL(e, LS_UNIMPLEMENTED, "config \"%s\" has mode \"%.80s\"; supported is affine", keys[i], mode);
    }
    return LS_OK;
}

static ls_code find_family(const json_t *config, const ls_family **family, ls_error *e) {
    const char *type = NULL;
    LS_TRY(ls_json_get_str(config, "model_type", &type, e));
    if (!type) LS_FAIL(e, LS_INVALID_ARGUMENT, "config has no \"model_type\"");
    *family = NULL;
    for (size_t i = 0; i < FAMILIES && !*family; i++)
        if (!strcmp(type, families[i].model_type)) *family = &families[i];
    return *family ? LS_OK : unknown_architecture(type, e);
}

ls_code ls_model_build(ls_graph **out, ls_checkpoint *c, const ls_build_options *options, ls_error *e) {
    const json_t *config = ls_checkpoint_config(c);
    const ls_family *family;
    LS_TRY(find_family(config, &family, e));
    LS_TRY(check_quantization(config, e));
    ls_graph *g;
    LS_TRY(ls_graph_create(&g, options->contract, e));
    g->architecture = family->model_type;
    ls_code rc = family->build(g, c, config, options, e);
    if (rc) {
        ls_error_wrap(e, rc, "%s", family->model_type);
        ls_graph_destroy(g);
        return rc;
    }
    *out = g;
    return LS_OK;
}

ls_code ls_vision_build(ls_vision *out, ls_checkpoint *c, const ls_build_options *options, ls_error *e) {
    const json_t *config = ls_checkpoint_config(c), *vision = json_object_get(config, "vision_config");
    const ls_family *family;
    *out = (ls_vision){0};
    if (!vision || json_is_null(vision)) return LS_OK;
    LS_TRY(find_family(config, &family, e));
    if (!family->build_vision)
        LS_FAIL(e, LS_UNIMPLEMENTED, "architecture \"%s\" declares \"vision_config\", but this version sees with gemma3 only; text alone can be served",
                family->model_type);
    LS_TRY(check_quantization(config, e));
    LS_TRY(ls_graph_create(&out->graph, options->contract, e));
    out->graph->architecture = family->model_type;
    ls_code rc = family->build_vision(out->graph, c, config, options, &out->image, e);
    if (rc) {
        ls_error_wrap(e, rc, "%s, vision", family->model_type);
        ls_vision_deinit(out);
    }
    return rc;
}
