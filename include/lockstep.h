/* lockstep: the public C API.
 *
 * Handles are opaque, there is no global state, and nothing here prints, exits or aborts. A fallible call returns
 * ls_code and fills the caller's ls_error (may be NULL). `_create`/`_open` objects belong to the caller and are freed by
 * the matching `_destroy`, which accepts NULL. */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LS_VERSION_STRING "0.1.0"

/* ---- Errors ------------------------------------------------------------------------------------------------- */

/* The numbering of absl, PJRT and IREE. */
typedef enum ls_code {
    LS_OK = 0,
    LS_CANCELLED = 1,           /* the caller asked to stop */
    LS_UNKNOWN = 2,             /* a foreign error without a better code */
    LS_INVALID_ARGUMENT = 3,    /* an argument or a file is malformed, whatever the state */
    LS_DEADLINE_EXCEEDED = 4,
    LS_NOT_FOUND = 5,           /* a named file, tensor, model or key is absent */
    LS_ALREADY_EXISTS = 6,
    LS_PERMISSION_DENIED = 7,
    LS_RESOURCE_EXHAUSTED = 8,  /* memory, a capacity or a stated limit */
    LS_FAILED_PRECONDITION = 9, /* right argument, wrong state or build */
    LS_ABORTED = 10,
    LS_OUT_OF_RANGE = 11,       /* a position or size past its end */
    LS_UNIMPLEMENTED = 12,      /* well formed, but not supported here: the text says what is */
    LS_INTERNAL = 13,           /* a broken invariant of lockstep: a bug */
    LS_UNAVAILABLE = 14,        /* a library, device or server that is not there now */
    LS_DATA_LOSS = 15,          /* a truncated or corrupt file */
    LS_UNAUTHENTICATED = 16
} ls_code;

/* Caller's storage for one error; zero-initialise it. |file| is a static string. */
typedef struct ls_error {
    ls_code code;
    int line;
    const char *file;
    char text[1000];
} ls_error;

/* "INVALID_ARGUMENT" and so on; a static string. */
const char *ls_code_name(ls_code code);

/* ---- Options ------------------------------------------------------------------------------------------------ */

/* Every option struct begins with its size, so that later versions can append fields: set it to sizeof of the struct.
 * Zero is the default of every other field. Strings and arrays are read during the call and not kept. */

enum {
    LS_DEFAULT_CONTEXT = 4096, /* positions per slot, when the model allows that many */
    LS_DEFAULT_CHUNK = 256,    /* prompt rows of one forward pass */
    LS_MAX_SLOTS = 256,
    LS_MAX_CHUNK = 16384,
    LS_MAX_CONTEXT = 1 << 24,
    LS_MAX_QUEUED = 65536,     /* requests waiting in one session */
    LS_DEFAULT_GUESSES = 8,    /* tokens that one pass may check */
    LS_MAX_GUESSES = 64,
    LS_MAX_STOPS = 64,         /* stop strings of one text stream */
    LS_MAX_STOP_BYTES = 4096,
    LS_MAX_BREAKERS = 64       /* DRY sequence breakers of one request */
};

/* ---- Build -------------------------------------------------------------------------------------------------------- */

/* Names of the backends in this build, for ls_model_options.backend; NULL past the end. */
const char *ls_backend_at(size_t i);

/* The best instruction-set level of this machine, which the native backend takes unless told otherwise: "amx", "avx512", "avx2", "neon-i8mm",
 * "neon-dotprod", "neon" or "c". */
const char *ls_machine_level(void);

/* ---- Model: weights, tokenizer, chat template and the executor that runs them --------------------------------- */

typedef struct ls_model ls_model;

typedef enum ls_load_parts {
    LS_LOAD_ALL = 0,   /* ready to run */
    LS_LOAD_GRAPH,     /* checkpoint, tokenizer and graph without an executor: for inspection */
    LS_LOAD_TOKENIZER  /* tokenizer and chat template; in a folder the weights need not be there */
} ls_load_parts;

typedef struct ls_model_options {
    size_t struct_size;
    ls_load_parts parts;
    const char *contract; /* "exact16", "exact16-kv8", "exact24" or "float"; NULL: exact16, or that of a pack file */
    const char *backend;  /* "native" (NULL), "reference" or "xla" */
    const char *level;    /* instruction-set level of the native backend; NULL: the best of this machine */
    int threads;          /* native; 0: all cores, of the fastest kind where there are several, within the container's share (hwloc, which reports
                             contradictions of the system on stderr unless HWLOC_HIDE_ERRORS is 2) */
    int context;          /* positions of each slot; 0: LS_DEFAULT_CONTEXT, or the model's maximum when smaller */
    int slots;            /* sequences that run at once; 0: 1 */
    int chunk;            /* prompt rows of one forward pass; 0: LS_DEFAULT_CHUNK. Does not change results */
    void (*progress)(void *user, double fraction); /* loading and packing, 0 to 1; NULL: none */
    void *progress_user;
    /* Backend xla. Nothing falls back: what is asked for and not there is an error. */
    const char *engine;    /* "pjrt" (NULL) or "iree" */
    const char *device;    /* pjrt: "cpu" (NULL), "cuda", "rocm", "tpu", "oneapi", "metal"; iree: "local-task" (NULL), "local-sync", "cuda", "hip", "metal" */
    const char *plugin;    /* path of a PJRT plugin; NULL: LOCKSTEP_PJRT_PLUGIN, else found in the Python environment */
    const char *gpu_target; /* iree on cuda or hip: the one architecture, "sm_80", "gfx942" */
    const char *precision; /* float contract: "f32", "f16", "bf16" operands of products; NULL: f16 on a GPU, f32 on a CPU */
    const char *quant;     /* float contract: "dense" (NULL) or "packed": MLX weights stay packed on the device */
    const char *buckets;   /* cache capacities, "256,1024,4096"; the largest bounds the context. NULL: 256, 1024, 4096, ... up to the context */
    bool allow_unqualified; /* open a family, contract and device that `lockstep qualify` has not passed (docs/qualification.md) */
    bool shadow;            /* native: the reference computes every pass too, and a difference in any value ends it with INTERNAL; slow */
    bool pin;               /* native: each thread but the caller's stays on one processor; does not change results */
} ls_model_options;

/* Opens a pack file, a GGUF file, a safetensors file or a Hugging Face folder. |o| NULL: all defaults. A model serves one thread.
 * Errors: NOT_FOUND, INVALID_ARGUMENT, DATA_LOSS, UNIMPLEMENTED (architecture, format, backend), RESOURCE_EXHAUSTED,
 * FAILED_PRECONDITION (backend xla: not qualified). */
ls_code ls_model_open(ls_model **out, const char *path, const ls_model_options *o, ls_error *e);
void ls_model_destroy(ls_model *m); /* its sessions and text streams must be gone */

int ls_model_context(const ls_model *m);       /* positions of each slot; 0 without a graph */
int64_t ls_model_vocab(const ls_model *m);     /* columns of the logits; 0 without a graph */
const char *ls_model_contract(const ls_model *m);    /* "exact16"; static */
const char *ls_model_fingerprint(const ls_model *m); /* SHA-256 (hex) of the graph's canonical text; "" without a graph */

/* SHA-256 (hex) of everything that decides a model's answers beside weights and tokenizer: of a text model its fingerprint; of one that
 * takes pictures also the tower, the processor and how both meet (docs/vision.md), and whether it runs one sequence or several. */
const char *ls_model_identity(const ls_model *m);

/* Why results of this model are not qualified: what to say with every reply. NULL when they are, and for native and reference. */
const char *ls_model_unqualified(const ls_model *m);

/* A JSON object that describes the model: architecture, parameters, formats, memory, contracts, unused tensors.
 * *json belongs to the caller (ls_buffer_free). FAILED_PRECONDITION without a graph. */
ls_code ls_model_describe(const ls_model *m, char **json, ls_error *e);

/* ---- Pack files: one file that holds a model ready to run (docs/pack.md) ------------------------------------------- */

typedef struct ls_pack_options {
    size_t struct_size;
    const char *contract; /* "exact16" (NULL) or "exact24" */
    int threads;          /* 0: all cores; does not change the file */
    void (*progress)(void *user, double fraction); /* 0 to 1; NULL: none */
    void *progress_user;
    bool (*cancelled)(void *user); /* asked now and then; true ends with CANCELLED. NULL: never */
    void *cancelled_user;
} ls_pack_options;

/* Packs the model at |path| for the native backend into the file |output|, which is replaced only when all is written. ls_model_open takes the file like any
 * model. *json (may be NULL) describes it and belongs to the caller (ls_buffer_free). Errors: those of ls_model_open; INVALID_ARGUMENT for a pack file. */
ls_code ls_model_pack(const char *path, const char *output, const ls_pack_options *o, char **json, ls_error *e);

/* Checks every byte of a model opened from a pack file against its checksums, more than opening does. DATA_LOSS naming the section and the tensor,
 * FAILED_PRECONDITION when its weights are laid out for another lockstep, INVALID_ARGUMENT for another model. */
ls_code ls_model_check(const ls_model *m, void (*progress)(void *user, double fraction), void *progress_user, ls_error *e);

/* Token ids of a raw prompt. Text that spells a special token becomes that token. |add_special| runs the tokenizer's
 * post-processing (BOS), unless the text already begins with the BOS token. *ids belongs to the caller (ls_buffer_free). */
ls_code ls_model_encode(const ls_model *m, const char *text, size_t len, bool add_special, int32_t **ids, size_t *n, ls_error *e);

/* Token ids of a conversation: |messages| is the text of a JSON array of {"role", "content"} objects, rendered by the
 * model's chat template with add_generation_prompt. Control tokens come from the template only: content that spells one
 * stays plain text. |now| is the template's clock (seconds since the epoch). FAILED_PRECONDITION without a template. */
ls_code ls_model_encode_chat(const ls_model *m, const char *messages, size_t len, int64_t now, int32_t **ids, size_t *n, ls_error *e);

/* Text of token ids; NUL-terminated, *text belongs to the caller (ls_buffer_free). |len| may be NULL. */
ls_code ls_model_decode(const ls_model *m, const int32_t *ids, size_t n, bool skip_special, char **text, size_t *len, ls_error *e);

bool ls_model_has_chat_template(const ls_model *m);

void ls_buffer_free(void *p); /* for buffers handed out by this API; NULL is fine */

/* ---- Session: token ids in, token ids out ----------------------------------------------------------------------- */

/* How the next token is chosen. Everything is computed on integers (docs/sampling.md), so the same seed gives the same
 * text on every machine. Zero-initialised it is greedy: the first of the largest logits. */
typedef struct ls_sampling {
    size_t struct_size;
    uint64_t seed;
    double temperature;         /* 0: greedy; at most 64 */
    int top_k;                  /* 0: off */
    double top_p;               /* 0 and 1: off */
    double min_p;               /* 0: off; relative to the most likely token */
    double repetition_penalty;  /* 0 and 1: off; at most 64 */
    double frequency_penalty, presence_penalty; /* -64 to 64 */
    int penalty_window;         /* last tokens that the three penalties above look at; 0: all */
    double dry_multiplier;      /* 0: off; at most 64 */
    double dry_base;            /* 0: 1.75; below 1 switches DRY off */
    int dry_allowed_length;     /* 0: 2 */
    int dry_window;             /* last tokens DRY looks at; 0: all */
    const int32_t *dry_breakers;/* tokens that end a DRY match */
    size_t n_dry_breakers;
} ls_sampling;

/* ---- Prepared prefill: a prompt whose positions may bring embeddings of their own, such as those of an image ------------------- */

/* Owned token ids, embeddings, positions and mask of one prompt. Immutable; several requests may share one. */
typedef struct ls_prepared_prefill ls_prepared_prefill;

typedef enum ls_element { LS_ELEMENT_NONE = 0, LS_ELEMENT_F16, LS_ELEMENT_BF16, LS_ELEMENT_F32, LS_ELEMENT_I32 } ls_element;

/* Row-major numbers without gaps. LS_ELEMENT_NONE: not given. */
typedef struct ls_array {
    ls_element element;
    int rank;
    int64_t shape[4];
    const void *data;
    size_t bytes; /* must be what the shape says */
} ls_array;

/* Positions [begin, end) of a prompt that see each other whatever the order and the window: the tokens of one image. */
typedef struct ls_prepared_block {
    size_t begin, end;
} ls_prepared_block;

/* Where embeddings come from, for the counts of a report. */
typedef struct ls_modality {
    const char *family; /* "gemma3"; at most 31 bytes */
    size_t items, tokens;
} ls_modality;

typedef struct ls_prepared_options {
    size_t struct_size;
    const int32_t *tokens;   /* [n_tokens] ids, placeholders of images expanded */
    size_t n_tokens, length; /* length: declared, must be n_tokens */
    ls_array embeddings;     /* f32 [rows, hidden] or [1, rows, hidden]; used as they are, not scaled */
    const size_t *rows_at;   /* [rows] ascending positions that take them; NULL: rows == n_tokens, every position */
    ls_array positions;      /* i32 [n] or [1, n]: must be 0 .. n - 1; not given: they are */
    /* The mask beside the causal order: image blocks, ascending and apart; or an additive bias f32 of 0 and at most -1e9 as [n] or
     * [1, 1, 1, n] over keys, or [n, n] or [1, 1, n, n], which must come down to blocks. |causal|: later keys are masked whatever the
     * bias says. Layers with a window keep it, except within a block. */
    const ls_prepared_block *blocks;
    size_t n_blocks;
    ls_array bias;
    bool causal;
    const ls_modality *modalities;
    size_t n_modalities;
} ls_prepared_options;

/* Why a prepared prefill is refused, in the order of the checks. */
typedef enum ls_prepared_fault {
    LS_PREPARED_FINE = 0,
    /* By ls_prepared_create. */
    LS_PREPARED_SHAPE_OVERFLOW,
    LS_PREPARED_BYTE_COUNT,
    LS_PREPARED_EMBEDDING_SHAPE, /* also by a session: rows that are not those of the positions */
    LS_PREPARED_EMBEDDING_TYPE,  /* not a float; by a session: not f32 */
    LS_PREPARED_POSITION_SHAPE,
    LS_PREPARED_POSITION_TYPE,
    LS_PREPARED_MASK_TYPE,
    LS_PREPARED_MASK_SHAPE,
    LS_PREPARED_MODALITY,
    /* By a session. */
    LS_PREPARED_EMPTY,
    LS_PREPARED_LENGTH,        /* declared length and ids */
    LS_PREPARED_CAPACITY,
    LS_PREPARED_HIDDEN_SIZE,
    LS_PREPARED_NOT_FINITE,
    LS_PREPARED_POSITION_MODE, /* M-RoPE positions for a model that rotates by one */
    LS_PREPARED_POSITIONS,     /* not 0 .. n - 1 */
    LS_PREPARED_MASK_VALUE,    /* NaN, above 0, or neither visible nor masked */
    LS_PREPARED_MASK_FORM,     /* not the causal order with blocks */
    LS_PREPARED_BLOCK_LENGTH,  /* a block is longer than a forward pass */
    LS_PREPARED_TOKEN          /* an id outside the vocabulary */
} ls_prepared_fault;

/* "embedding shape" and so on; static. */
const char *ls_prepared_fault_name(ls_prepared_fault f);

/* Copies everything. *why (may be NULL) receives the fault behind a failure. INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
ls_code ls_prepared_create(ls_prepared_prefill **out, const ls_prepared_options *o, ls_prepared_fault *why, ls_error *e);
void ls_prepared_destroy(ls_prepared_prefill *p); /* requests that were submitted with it keep it as long as they need it */

/* Ids [*n] and what they stand for; borrowed. */
const int32_t *ls_prepared_tokens(const ls_prepared_prefill *p, size_t *n);
const ls_modality *ls_prepared_modalities(const ls_prepared_prefill *p, size_t *n);

/* ---- Pictures: a prompt with image files to a prepared prefill ----------------------------------------------------------------- */

/* A PNG, JPEG or WebP file, by path, or its bytes [len] when |path| is NULL. */
typedef struct ls_picture {
    const char *path;
    const void *data;
    size_t len;
} ls_picture;

typedef struct ls_prepare_options {
    size_t struct_size;
    const char *text;      /* [len] a raw prompt, or with |chat| the text of a JSON array of messages as ls_model_encode_chat takes it */
    size_t len;
    bool chat;
    int64_t now;           /* chat: the template's clock */
    bool add_special;      /* raw prompt: as ls_model_encode */
    /* In the order of their placeholders: of "image" parts of the messages, or of begin-of-image tokens that a raw prompt spells. A raw
     * prompt without a placeholder gets all pictures at its beginning. What a user's text spells in a conversation is text. */
    const ls_picture *pictures;
    size_t n_pictures;
    int64_t max_pixels, max_bytes, max_frames; /* of one picture; 0: 89478485, 64 MiB, 4096 (docs/media.md) */
    bool ignore_orientation; /* false: turned as EXIF says, as transformers does for files */
} ls_prepare_options;

/* Decodes and sees the pictures and expands the prompt. What the tower made of a picture is kept by a hash of its decoded pixels and
 * the processor's settings (at most 64 MiB), so that one that comes again is not seen again. *out: for ls_request.prepared. The prompt
 * must fit the context before any picture is decoded; decoded pictures take memory one at a time. Errors: UNIMPLEMENTED
 * (ls_model_no_vision says why), INVALID_ARGUMENT and DATA_LOSS (a picture, naming it; as many placeholders as pictures; a conversation
 * without places for them; a soft token that the text spells), RESOURCE_EXHAUSTED (limits, context), FAILED_PRECONDITION (no template,
 * opened without an executor, images not qualified on backend xla). */
ls_code ls_model_prepare(ls_prepared_prefill **out, ls_model *m, const ls_prepare_options *o, ls_error *e);

/* Why the model takes no pictures; NULL when it does. */
const char *ls_model_no_vision(const ls_model *m);

typedef struct ls_request {
    size_t struct_size;
    const int32_t *prompt;       /* [n_prompt]; NULL with |prepared| */
    size_t n_prompt;
    ls_prepared_prefill *prepared; /* in place of |prompt|; NULL: none. UNIMPLEMENTED where ls_capabilities say so */
    int max_new;                 /* largest number of tokens to generate; prompt + max_new must fit the context */
    const ls_sampling *sampling; /* NULL: greedy */
    bool ignore_eos;             /* treat end-of-sequence tokens like any other */
    bool hash_logits;            /* compute logits_sha256 of the finish event */
} ls_request;

typedef enum ls_finish {
    LS_FINISH_NONE = 0,
    LS_FINISH_STOP,      /* the model chose an end-of-sequence token (never part of the output) */
    LS_FINISH_LENGTH,    /* max_new tokens were made */
    LS_FINISH_CANCELLED,
    LS_FINISH_ERROR      /* the executor failed; ls_session_step returned why */
} ls_finish;

typedef struct ls_event {
    uint64_t id;            /* of the request */
    ls_finish finish;       /* LS_FINISH_NONE: this event is a token; otherwise it is the request's last event */
    int32_t token;          /* -1 in a finish event */
    size_t n_output;        /* tokens made so far */
    char logits_sha256[65]; /* finish event of a hash_logits request: f32 little-endian logits of every step; else "" */
} ls_event;

typedef struct ls_capabilities {
    bool batched_serving, paged_kv, speculative_decode, multimodal;
} ls_capabilities;

/* Time spent in forward passes and sampling since the session began; prefill_tokens are those that were computed. */
typedef struct ls_timings {
    uint64_t prefill_tokens, prefill_ns, decode_tokens, decode_ns;
} ls_timings;

/* What a session saved (docs/caching.md). |prefix_*|: blocks and bytes of the prefix cache now, and blocks it dropped for want of room. */
typedef struct ls_statistics {
    uint64_t reused_tokens; /* prompt tokens that were not computed again */
    uint64_t prefix_blocks, prefix_bytes, prefix_evicted;
    uint64_t decode_passes;     /* forward passes that made tokens after the first */
    uint64_t drafted, accepted; /* guesses that passes checked, and those that were right */
} ls_statistics;

typedef struct ls_session ls_session;

/* Ways to do less work; zero is none of them. Under an exact contract no result depends on them; under float the last bits of logits may. */
typedef struct ls_session_options {
    size_t struct_size;
    size_t prefix_cache_bytes; /* most bytes of keys and values kept for later prompts that begin alike; backends native and xla */
    const char *prefix_cache;  /* folder: what is kept is read from there now and written by ls_session_save; NULL: memory only */
    bool lookup;     /* guess next tokens from where the last ones stood earlier in the prompt and the output */
    ls_model *draft; /* a smaller model of the same vocabulary that guesses where lookup does not; NULL: none. It must have been opened with
                        at least as many slots, and outlive the session, which uses it alone */
    int guesses;     /* most guesses of one pass; 0: LS_DEFAULT_GUESSES */
} ls_session_options;

/* One session per model at a time (it owns the executor's slots). FAILED_PRECONDITION when there is one already, or when
 * the model was opened without an executor; UNIMPLEMENTED when its backend cannot do what |o| (NULL: no options) asks for. A session
 * serves one thread. */
ls_code ls_session_create(ls_session **out, ls_model *m, ls_error *e);
ls_code ls_session_create_with(ls_session **out, ls_model *m, const ls_session_options *o, ls_error *e);
void ls_session_destroy(ls_session *s);

/* What was ignored when the session was created: a damaged prefix cache. NULL when nothing was. */
const char *ls_session_note(const ls_session *s);

/* Writes the prefix cache to its folder, by rename; does nothing without a folder or news. */
ls_code ls_session_save(ls_session *s, ls_error *e);

ls_capabilities ls_session_capabilities(const ls_session *s);

/* Queues a request after checking all of it; nothing changes on failure. *id grows with every request. INVALID_ARGUMENT
 * (empty prompt, max_new < 1, token id, sampling value, prepared), RESOURCE_EXHAUSTED (prompt + max_new > context, full queue),
 * UNIMPLEMENTED (a prepared prefill for a model that takes none, or a mask it cannot express). */
ls_code ls_session_submit(ls_session *s, const ls_request *r, uint64_t *id, ls_error *e);

/* What ls_session_submit would say of |p| with |max_new| new tokens; *why (may be NULL) receives the fault. */
ls_code ls_session_check_prepared(const ls_session *s, ls_prepared_prefill *p, int max_new, ls_prepared_fault *why, ls_error *e);

/* One step: waiting requests enter free slots in order (whole prompt, first token), then every active slot decodes one
 * token in one pass. Events are then waiting in ls_session_next_event: take them all before the next step
 * (FAILED_PRECONDITION otherwise). When the executor fails, the requests it was running end with LS_FINISH_ERROR, the
 * others stay, and the failure is returned. */
ls_code ls_session_step(ls_session *s, ls_error *e);

/* Takes the oldest event; false when there is none. */
bool ls_session_next_event(ls_session *s, ls_event *event);

/* Ends a waiting or active request with a LS_FINISH_CANCELLED event; false when there is no such request. */
bool ls_session_cancel(ls_session *s, uint64_t id);

bool ls_session_is_idle(const ls_session *s);     /* nothing waiting, nothing active */
size_t ls_session_pending(const ls_session *s);   /* requests waiting for a slot */
size_t ls_session_active(const ls_session *s);    /* requests in slots */
ls_timings ls_session_timings(const ls_session *s);
ls_statistics ls_session_statistics(const ls_session *s);

/* "stop", "length", "cancelled", "error"; static. */
const char *ls_finish_name(ls_finish f);

/* ---- Text stream: token ids to printable text, with stop strings -------------------------------------------------- */

typedef struct ls_text ls_text;

/* |stops| [n_stops]: NUL-terminated strings that end the text, not part of it. Text that might be the beginning of one is
 * held back until the next token decides. */
ls_code ls_text_create(ls_text **out, const ls_model *m, const char *const *stops, size_t n_stops, ls_error *e);
void ls_text_destroy(ls_text *t);

/* Adds a token. *piece [*len] is what can be shown now (whole characters; valid until the next call; may be empty).
 * *stopped: a stop string was found; the caller should cancel the request. */
ls_code ls_text_push(ls_text *t, int32_t token, const char **piece, size_t *len, bool *stopped, ls_error *e);

/* The rest, after the last token. */
ls_code ls_text_flush(ls_text *t, const char **piece, size_t *len, ls_error *e);

#ifdef __cplusplus
}
#endif

#endif
