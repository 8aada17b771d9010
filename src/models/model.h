/* Model families: a function per family turns a checkpoint's configuration into a graph. */
#ifndef LS_MODELS_MODEL_H
#define LS_MODELS_MODEL_H

#include "graph/graph.h"

typedef struct ls_build_options {
    ls_contract contract;
    int64_t context; /* positions the session will use; chooses between LongRoPE's two tables. 0: the model's maximum */
} ls_build_options;

/* Builds the graph of |c|'s model_type. UNIMPLEMENTED naming the architecture, or the config field that would change
 * the result and is not supported. Tensors nothing consumed can then be listed with ls_checkpoint_unused. */
ls_code ls_model_build(ls_graph **out, ls_checkpoint *c, const ls_build_options *options, ls_error *e);

/* The registry, for `lockstep arch`. NULL past the end. */
typedef struct ls_family {
    const char *model_type;  /* as in config.json */
    const char *description; /* "Llama 2, 3, 3.1, 3.2" */
    ls_code (*build)(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *options, ls_error *e);
} ls_family;
const ls_family *ls_family_at(size_t i);

#endif
