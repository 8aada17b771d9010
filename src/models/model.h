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

/* ---- Vision ----------------------------------------------------------------------------------------------------------- */

/* An image as a vision tower takes it: f32 [channels, image_size, image_size], cut into squares of patch_size. */
typedef struct ls_image_shape {
    int image_size, patch_size, channels;
} ls_image_shape;

/* A vision tower with its projector. The graph takes the patches of whole images, row by row, as rows f32 [channels * patch_size^2] in
 * (channel, y, x) order (graph->image_rows of an image), and gives the rows that stand for the image in the text model
 * (graph->image_out, of graph->vocab columns, the text model's hidden size). */
typedef struct ls_vision {
    ls_graph *graph; /* NULL: the model has no vision */
    ls_image_shape image;
} ls_vision;

/* The tower of |c|, or none when its configuration declares none. UNIMPLEMENTED naming the architecture or the field that this
 * version cannot see with, though the text model may still serve; NOT_FOUND naming a missing tensor. */
ls_code ls_vision_build(ls_vision *out, ls_checkpoint *c, const ls_build_options *options, ls_error *e);
void ls_vision_deinit(ls_vision *v); /* fine on a zeroed struct */

/* pixels f32 [channels, image_size, image_size] as rows f32 [graph->image_rows, graph->input_cols]. */
void ls_vision_patches(const ls_vision *v, const float *pixels, float *rows);

/* The registry, for `lockstep arch`. NULL past the end. */
typedef struct ls_family {
    const char *model_type;  /* as in config.json */
    const char *description; /* "Llama 2, 3, 3.1, 3.2" */
    ls_code (*build)(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *options, ls_error *e);
    /* The vision tower and projector; NULL: a text model. Called when the configuration has a "vision_config". */
    ls_code (*build_vision)(ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *options, ls_image_shape *shape, ls_error *e);
} ls_family;
const ls_family *ls_family_at(size_t i);

#endif
