/* verify: two executors, or an executor and recorded tensors, on the same tokens, compared node by node in graph order.
 *
 * Both sides run at once, each in a thread of its own: a side that has computed a node waits until the other has too, the two
 * values are compared where they lie, and both go on. So nothing is stored, however long the graph. With |same_input| the
 * right side then goes on with the left side's values: every node is judged alone. */
#ifndef LS_VERIFY_VERIFY_H
#define LS_VERIFY_VERIFY_H

#include "session/bundle.h"
#include "verify/compare.h"

enum { LS_SIDE_BYTES = 512, LS_VERIFY_MAX_TOKENS = 1 << 18, LS_VERIFY_DEFAULT_CHUNK = 64, LS_VERIFY_DEFAULT_PROBES = 8 };

/* ---- What to run ------------------------------------------------------------------------------------------------------ */

typedef enum ls_side_kind { LS_SIDE_NATIVE, LS_SIDE_REFERENCE, LS_SIDE_XLA, LS_SIDE_FILE } ls_side_kind;

/* How an XLA side runs while it is observed. */
typedef enum ls_side_modules {
    LS_MODULES_AUTO,  /* fused, unless values are written into the side (same input, a fault) */
    LS_MODULES_FUSED, /* whole passes, as in serving, with the observed values as further results */
    LS_MODULES_NODES  /* every node a module of its own */
} ls_side_modules;

/* One side, from text: NAME[,OPTION=VALUE...], where NAME is native, reference, reference:f64, xla:pjrt, xla:iree or the path
 * of a .safetensors file. Executors have contract; native has level and threads; xla has device, plugin (a path), target (iree on
 * a GPU), precision and quant (float contract: f32, f16, bf16; dense, packed) and modules (fused, nodes). */
typedef struct ls_side_spec {
    ls_side_kind kind;
    char name[LS_SIDE_BYTES]; /* "native", "xla:pjrt", or the path */
    bool f64, has_contract;
    ls_contract contract;
    char level[16];           /* "": the best */
    int threads;              /* 0: the command's */
    char device[32], plugin[LS_SIDE_BYTES], target[32], precision[8]; /* "": the default */
    bool packed;
    ls_side_modules modules;
} ls_side_spec;

/* INVALID_ARGUMENT naming the part that is wrong and what is allowed. */
ls_code ls_side_parse(ls_side_spec *s, const char *text, ls_error *e);

/* Where a run is: for progress lines. Called from one thread at a time, though not always the same. */
typedef struct ls_verify_stage {
    const char *name;   /* "opening left", "pass", ...; static */
    const char *detail; /* a side or a node; valid during the call */
    int done, total;    /* of the stage */
    bool begins;        /* first call of the stage */
} ls_verify_stage;

typedef struct ls_verify_options {
    ls_side_spec left, right;
    const char *level;         /* of both sides where they have none; NULL: best */
    int threads;               /* the same; 0: all cores */
    const int32_t *prompt;     /* [n_prompt]; may be NULL when a side is a file, which then gives them */
    size_t n_prompt;
    /* The vision tower is compared on these pictures, one a pass, in place of the text model on tokens; NULL: it is not. */
    const float *const *image; /* [n_images] f32 [channels, image_size, image_size], as the tower takes them */
    size_t n_images;
    /* Of the prompt's positions [n_prompt]: rows of images and the blocks they belong to (ls_batch); NULL: a prompt without images. */
    const float *const *embedding;
    const ls_span *block;
    int decode;                /* tokens after the prompt, one pass each; -1: all that a file holds, else 0 */
    int chunk;                 /* prompt rows of a pass; 0: LS_VERIFY_DEFAULT_CHUNK */
    bool same_input, bisect;
    int probes;                /* bisect: nodes compared at once; 0: LS_VERIFY_DEFAULT_PROBES */
    const char *negative;      /* a deliberate fault on the right side (negative.h); NULL: none */
    bool has_bound;            /* use |absolute| and |relative| for every node */
    double absolute, relative;
    const char *compiler;      /* that built lockstep, for the identity of native and reference; NULL: not stated */
    void (*stage)(void *user, const ls_verify_stage *s); /* NULL: none */
    void *stage_user;
} ls_verify_options;

/* ---- What was found ----------------------------------------------------------------------------------------------------- */

typedef struct ls_verify_node {
    int64_t passes;     /* in which it was compared; 0: not compared */
    bool absent;        /* the file has no tensor of this name */
    ls_difference d;
    int first_pass;     /* pass, first position and columns of the array where d.first counts; only when d.first >= 0 */
    int64_t first_position, cols;
    ls_bound bound;     /* of the last comparison */
} ls_verify_node;

/* A token and what each side would choose after it. */
typedef struct ls_verify_token {
    int32_t id;
    bool has[2];        /* the side gave logits for this position */
    int32_t top[2];
    float logit[2];
} ls_verify_token;

/* What a side is, for the record. */
typedef struct ls_verify_identity {
    char name[LS_SIDE_BYTES]; /* as given */
    const char *contract;     /* NULL for a file */
    char fingerprint[65];     /* of the graph it ran */
    char detail[1024];        /* version, compiler, level and threads; compiler, plugin and device; or the SHA-256 of a file's tensors */
} ls_verify_identity;

typedef struct ls_verify_report {
    ls_verify_identity side[2];
    const ls_graph *graph;     /* the left side's, or the executor's: names and operators of the nodes; borrowed from the model */
    ls_verify_node *node;      /* [graph->n_nodes] */
    ls_verify_token *token;    /* [n_tokens] */
    size_t n_tokens, n_prompt;
    size_t n_images;           /* the graph is the vision tower's; positions count its rows, image after image; 0: tokens were compared */
    ls_bound_kind bound_kind;
    bool has_bound;            /* one bound for every node, given by the caller */
    double absolute, relative;
    bool same_input;
    char negative[LS_SIDE_BYTES];
    int chunk, passes;
    int first;                 /* index of the first diverging node of the earliest pass with one, or -1 */
    int reference_side;        /* 0: the left side is |reference| of every ls_difference; 1: the right (a file) */
    bool bisected;
    int rounds, most_observed; /* bisect: runs, and most nodes observed in one */
    size_t n_unknown;          /* tensors of the file that are neither nodes nor ids */
    char model_sha256[65];     /* of the checkpoint's schema */
} ls_verify_report;

/* Runs the comparison. |m|: opened with its graph (LS_LOAD_GRAPH), whose contract is the sides' default. LS_OK: |r| says
 * whether they are equal (r->first < 0). Errors mean that the sides could not be compared: NOT_FOUND, INVALID_ARGUMENT (a
 * malformed file, shapes, options that exclude each other), UNIMPLEMENTED, and whatever an executor returns. */
ls_code ls_verify_run(ls_verify_report *r, ls_model *m, const ls_verify_options *o, ls_error *e);

/* The tensor pixel_values f32 [n, channels, image_size, image_size] of a safetensors file, for the options' image: pointers into *data,
 * both freed with ls_free. NOT_FOUND, INVALID_ARGUMENT naming shapes. */
ls_code ls_verify_read_pixels(const char *path, const ls_vision *v, float **data, const float ***image, size_t *n, ls_error *e);
void ls_verify_report_deinit(ls_verify_report *r); /* fine on a zeroed struct */

#endif
