/* ls_model: a checkpoint with its tokenizer, chat template, generation settings, graph and executor. */
#ifndef LS_SESSION_BUNDLE_H
#define LS_SESSION_BUNDLE_H

#include "graph/executor.h"
#include "models/model.h"
#include "session/backend_xla.h"
#include "session/eyes.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

enum { LS_MAX_EOS = 64 };

struct ls_model {
    ls_contract contract;
    const char *asked;          /* static name of the backend asked for */
    const char *backend;        /* the same; NULL without an executor */
    int context, slots, chunk;
    ls_checkpoint *checkpoint;  /* NULL when only a tokenizer was opened from a folder without weights */
    ls_tokenizer *tokenizer;    /* NULL when the checkpoint has none */
    ls_chat_template *chat;     /* NULL when there is none or it does not compile */
    ls_error chat_error;        /* why |chat| is NULL although the checkpoint has a template */
    ls_graph *graph;
    ls_vision vision;           /* its graph NULL: the model does not see */
    ls_code vision_code;        /* why it does not although its configuration declares vision; LS_OK otherwise */
    ls_error vision_error;
    ls_executor *executor;
    ls_backend_xla xla;         /* backend xla: what the executor runs on */
    ls_eyes eyes;
    char level[16];             /* asked of the native backend; "": the best */
    int threads;
    bool pin;
    bool allow_unqualified;
    char fingerprint[65], identity[65];
    int32_t eos[LS_MAX_EOS];
    size_t n_eos;
    bool session_in_use;
};

/* End-of-sequence ids: eos_token_id (an integer or a list) of |generation|, else of |config|, else the tokenizer's.
 * |t| may be NULL. INVALID_ARGUMENT: another type, or more than LS_MAX_EOS. */
ls_code ls_eos_ids(const json_t *generation, const json_t *config, const ls_tokenizer *t, int32_t *eos, size_t *n, ls_error *e);

/* LS_OK when m->vision is there; otherwise FAILED_PRECONDITION, or why the tower could not be built. */
ls_code ls_model_need_vision(const ls_model *m, ls_error *e);

/* LS_OK, or FAILED_PRECONDITION saying that the checkpoint has no tokenizer. */
ls_code ls_model_need_tokenizer(const ls_model *m, ls_error *e);

/* The same, and a chat template that compiles. */
ls_code ls_model_need_template(const ls_model *m, ls_error *e);

/* ls_model_prepare for a model without an executor (LS_LOAD_GRAPH): the tower runs on |backend|, "native" or "reference". */
ls_code ls_model_prepare_on(ls_prepared_prefill **out, ls_model *m, const char *backend, const ls_prepare_options *o, ls_error *e);

/* Processed pictures of |o|, whole pictures and crops in order: *values f32 [*n, channels, size, size] belongs to the caller (ls_free). */
ls_code ls_model_pixels(ls_model *m, const ls_prepare_options *o, float **values, size_t *n, ls_error *e);

/* Makes m->identity from the graphs and the eyes (identity.c). */
ls_code ls_model_identify(ls_model *m, ls_error *e);

#endif
