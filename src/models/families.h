/* The families' functions, for the registry. Each is described in its own file. */
#ifndef LS_MODELS_FAMILIES_H
#define LS_MODELS_FAMILIES_H

#include "models/model.h"

ls_code ls_build_cohere(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_cohere2(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_exaone(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_exaone4(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_gemma(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_gemma2(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_gemma3(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_gemma3_vision(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_image_shape *shape,
                               ls_error *e);
ls_code ls_build_granite(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_internlm3(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_llama(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_mimo(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_minicpm(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_mistral(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_mixtral(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_olmo2(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_olmoe(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_phi3(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_qwen2(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_qwen2_moe(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_qwen3(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_qwen3_moe(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_seed_oss(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_smollm3(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_stablelm(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o, ls_error *e);
ls_code ls_build_starcoder2(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o,
                            ls_error *e);

#endif
