/* How a model sees: its vision tower with processor and token ids, the tower's executor, and what it computed for earlier images.
 *
 * A model whose configuration declares vision that this version cannot serve stays a text model; |why| says what hinders it, and image
 * requests are refused with that. Nothing else takes their place. */
#ifndef LS_SESSION_EYES_H
#define LS_SESSION_EYES_H

#include "media/expand.h"
#include "media/processor.h"
#include "models/model.h"
#include "session/backend_xla.h"
#include "session/feature_cache.h"

typedef struct ls_eyes {
    const ls_vision *vision;   /* borrowed; NULL: the model does not see */
    ls_image_processor processor;
    ls_image_tokens tokens;
    int32_t pad;
    ls_executor *executor;     /* made for the first image; NULL before */
    ls_feature_cache cache;
    ls_error why;              /* code LS_OK: it sees, or its configuration declares no vision */
} ls_eyes;

/* What a tower runs on. */
typedef struct ls_eyes_backend {
    const char *name;          /* "native", "reference", "xla" */
    ls_checkpoint *checkpoint;
    ls_backend_xla *xla;
    const char *level;         /* native */
    int threads;
    bool pin;
} ls_eyes_backend;

/* Reads ids from the checkpoint's configuration and the processor from its folder or pack file. |v|: the tower, which outlives |x|, its graph NULL when
 * there is none, for the reason |why| (code LS_OK: no vision is declared). Only RESOURCE_EXHAUSTED fails; everything else makes a text
 * model with x->why. |text_hidden|: columns of the text model's embeddings. */
ls_code ls_eyes_open(ls_eyes *x, const ls_vision *v, const ls_error *why, ls_checkpoint *c, const ls_tokenizer *t, int64_t text_hidden, ls_error *e);
void ls_eyes_deinit(ls_eyes *x); /* fine on a zeroed struct */

/* LS_OK, or UNIMPLEMENTED saying why this model takes no images. */
ls_code ls_eyes_need(const ls_eyes *x, ls_error *e);

/* Rows f32 [n, tokens.count, hidden] of the picture and its n - 1 crops, from the cache or the tower; *rows belongs to the caller
 * (ls_free). The executor is made when there is none. */
ls_code ls_eyes_see(ls_eyes *x, const ls_eyes_backend *b, const ls_image *picture, float **rows, size_t *n, ls_error *e);

#endif
