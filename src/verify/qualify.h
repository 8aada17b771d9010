/* Qualification of a model on a device compiler: (1) every node on the same inputs as the native executor, (2) greedy output on
 * pinned prompts, token for token that of a reference, alone and in a batch of 4; under an exact contract also bit for bit the
 * native executor's logits. The result is a record (session/qualification.h), which opening backend xla asks for. A model that sees
 * has a second one, of the same two stages on prompts with pictures, which the first request with a picture asks for. */
#ifndef LS_VERIFY_QUALIFY_H
#define LS_VERIFY_QUALIFY_H

#include "verify/verify.h"

enum { LS_QUALIFY_PROMPTS = 4, LS_QUALIFY_TOKENS = 32, LS_QUALIFY_PROMPT_IDS = 24, LS_QUALIFY_MAX_IDS = 1024, LS_QUALIFY_PICTURES = 2 };

typedef struct ls_qualify_options {
    const char *name;      /* of the model, for the record */
    const char *reference; /* .safetensors with prompt_ids and greedy_ids (tools/dump_reference.py); NULL: native exact24, own prompts */
    /* contract, engine, device, plugin, gpu_target, precision and quant count; the rest is set here */
    ls_model_options model;
    void (*stage)(void *user, const ls_verify_stage *s); /* NULL: none */
    void *stage_user;
} ls_qualify_options;

/* Runs both stages, the second also when the first failed. LS_OK: *record says whether it is "qualified"; the caller's, not stored.
 * Errors mean that it could not be decided: those of opening the engine or the model, NOT_FOUND for ids that the reference lacks. */
ls_code ls_qualify(json_t **record, const char *path, const ls_qualify_options *o, ls_error *e);

/* The same for prompts with pictures: *record is about the family's vision, NULL for a model that does not see. The first stage compares
 * the tower and the text model on the rows that it prepared. o->reference does not count: tokens are compared with native exact24's. */
ls_code ls_qualify_vision(json_t **record, const char *path, const ls_qualify_options *o, ls_error *e);

/* ---- Token stage, private (qualify_tokens.c) ------------------------------------------------------------------------------ */

typedef struct ls_qualify_prompt {
    const ls_prepare_options *seen; /* text and pictures in place of ids; NULL: ids */
    int32_t ids[LS_QUALIFY_MAX_IDS], want[LS_QUALIFY_MAX_IDS]; /* want: the reference's output */
    size_t n, n_want;               /* with |seen|, n is what the prompt has at most */
} ls_qualify_prompt;

typedef struct ls_qualify_tokens {
    ls_qualify_prompt prompt[LS_QUALIFY_PROMPTS];
    int n;
    char reference[LS_SIDE_BYTES + 80]; /* what it is */
    bool recorded;                      /* |want| came from a file */
    /* results */
    size_t compared;
    bool bits_known, bits_equal;
    char first[256];                    /* "": none differs */
} ls_qualify_tokens;

/* Whose tokens count where no file gives them: those of the contract nearest to the model, but eight bits of keys and values may move a
 * token, so that contract counts by itself. */
ls_contract ls_qualify_reference_of(ls_contract c);

/* Prompts, and with a file their expected output; |m| has a graph. */
ls_code ls_qualify_prompts(ls_qualify_tokens *t, const ls_model *m, const char *reference, ls_error *e);

/* Prompts with one and two pictures, and one with text alone, for a model that sees. */
void ls_qualify_picture_prompts(ls_qualify_tokens *t, const ls_model *m);

/* Runs reference and judged executor. */
ls_code ls_qualify_run_tokens(ls_qualify_tokens *t, const char *path, const ls_qualify_options *o, ls_contract contract, int64_t max_context, ls_error *e);

#endif
