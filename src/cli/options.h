/* Options that several commands share: which model and how to run it, how to sample. */
#ifndef LS_CLI_OPTIONS_H
#define LS_CLI_OPTIONS_H

#include "cli/cli.h"

/* Values of long options without a letter. */
enum {
    OPT_FIRST = 256,
    OPT_CONTRACT, OPT_BACKEND, OPT_THREADS, OPT_PIN, OPT_SHADOW, OPT_CTX_SIZE, OPT_CHUNK, OPT_LEVEL,
    OPT_IMAGE, OPT_IMAGE_MAX_PIXELS, OPT_IMAGE_MAX_BYTES, OPT_IMAGE_NO_ROTATE, OPT_AUDIO,
    OPT_ENGINE, OPT_DEVICE, OPT_PLUGIN, OPT_GPU_TARGET, OPT_PRECISION, OPT_QUANT, OPT_BUCKETS, OPT_ALLOW_UNQUALIFIED,
    OPT_TEMP, OPT_TOP_K, OPT_TOP_P, OPT_MIN_P, OPT_SEED, OPT_REPEAT_PENALTY, OPT_FREQUENCY_PENALTY, OPT_PRESENCE_PENALTY, OPT_REPEAT_LAST_N,
    OPT_DRY_MULTIPLIER, OPT_DRY_BASE, OPT_DRY_ALLOWED_LENGTH, OPT_DRY_LAST_N,
    OPT_PREFIX_CACHE, OPT_PREFIX_CACHE_SIZE, OPT_LOOKUP, OPT_DRAFT, OPT_GUESSES,
    OPT_COMMAND /* first value a command may use for its own options */
};

#define CLI_MODEL_OPTIONS                                                                                                      \
    {"contract", required_argument, NULL, OPT_CONTRACT}, {"backend", required_argument, NULL, OPT_BACKEND},                    \
        {"threads", required_argument, NULL, OPT_THREADS}, {"ctx-size", required_argument, NULL, OPT_CTX_SIZE},                \
        {"pin", no_argument, NULL, OPT_PIN}, {"shadow", no_argument, NULL, OPT_SHADOW},                                        \
        {"chunk", required_argument, NULL, OPT_CHUNK}, {"level", required_argument, NULL, OPT_LEVEL},                          \
        {"image", required_argument, NULL, OPT_IMAGE}, {"audio", required_argument, NULL, OPT_AUDIO},                          \
        {"image-max-pixels", required_argument, NULL, OPT_IMAGE_MAX_PIXELS},                                                   \
        {"image-max-bytes", required_argument, NULL, OPT_IMAGE_MAX_BYTES}, {"image-no-rotate", no_argument, NULL, OPT_IMAGE_NO_ROTATE}, \
        {"engine", required_argument, NULL, OPT_ENGINE}, {"device", required_argument, NULL, OPT_DEVICE},                      \
        {"plugin", required_argument, NULL, OPT_PLUGIN}, {"gpu-target", required_argument, NULL, OPT_GPU_TARGET},              \
        {"rocm-target", required_argument, NULL, OPT_GPU_TARGET},                                                              \
        {"precision", required_argument, NULL, OPT_PRECISION}, {"quant", required_argument, NULL, OPT_QUANT},                  \
        {"buckets", required_argument, NULL, OPT_BUCKETS}, {"allow-unqualified", no_argument, NULL, OPT_ALLOW_UNQUALIFIED}

#define CLI_SAMPLING_OPTIONS                                                                                                   \
    {"temp", required_argument, NULL, OPT_TEMP}, {"top-k", required_argument, NULL, OPT_TOP_K},                                \
        {"top-p", required_argument, NULL, OPT_TOP_P}, {"min-p", required_argument, NULL, OPT_MIN_P},                          \
        {"seed", required_argument, NULL, OPT_SEED}, {"repeat-penalty", required_argument, NULL, OPT_REPEAT_PENALTY},          \
        {"frequency-penalty", required_argument, NULL, OPT_FREQUENCY_PENALTY},                                                 \
        {"presence-penalty", required_argument, NULL, OPT_PRESENCE_PENALTY},                                                   \
        {"repeat-last-n", required_argument, NULL, OPT_REPEAT_LAST_N},                                                         \
        {"dry-multiplier", required_argument, NULL, OPT_DRY_MULTIPLIER}, {"dry-base", required_argument, NULL, OPT_DRY_BASE},  \
        {"dry-allowed-length", required_argument, NULL, OPT_DRY_ALLOWED_LENGTH},                                               \
        {"dry-penalty-last-n", required_argument, NULL, OPT_DRY_LAST_N}

#define CLI_PREFIX_OPTIONS                                                                                                     \
    {"prefix-cache", required_argument, NULL, OPT_PREFIX_CACHE}, {"prefix-cache-size", required_argument, NULL, OPT_PREFIX_CACHE_SIZE}

#define CLI_GUESS_OPTIONS                                                                                                      \
    {"lookup", no_argument, NULL, OPT_LOOKUP}, {"draft", required_argument, NULL, OPT_DRAFT}, {"guesses", required_argument, NULL, OPT_GUESSES}

#define CLI_GUESS_HELP                                                                                                         \
    "  --lookup            guess next tokens from where the last ones stood before, and check them in one pass\n"              \
    "  --draft MODEL       let a smaller model with the same vocabulary guess (where --lookup finds nothing)\n"                \
    "  --guesses N         most guesses of one pass; default: 8\n"

#define CLI_PREFIX_HELP                                                                                                        \
    "\nLess work (docs/caching.md; changes no result of an exact contract):\n"                                                \
    "  --prefix-cache DIR  keep keys and values of prompts and answers in this folder, for later ones that begin alike\n"        \
    "  --prefix-cache-size SIZE  most bytes kept, such as 512M; 0: none; default: 256M with --prefix-cache\n"

#define CLI_IMAGE_HELP                                                                                                         \
    "\nImages (docs/vision.md), for a model that sees:\n"                                                                      \
    "  --image FILE        a PNG, JPEG or WebP picture; repeatable, in the order of the prompt's places for them\n"            \
    "  --image-max-pixels N, --image-max-bytes SIZE  refuse larger pictures; default: 89478485 pixels, 64M\n"                  \
    "  --image-no-rotate   take pictures as stored, not turned as EXIF says\n"

#define CLI_MODEL_HELP                                                                                                         \
    "MODEL is a .gguf file, a Hugging Face folder, a pack file (lockstep pack), or org/name from the cache (lockstep pull).\n"  \
    "\nRunning:\n"                                                                                                             \
    "  --contract NAME     exact16 (default, or what a pack file is for), exact16-kv8, exact24 or float\n"                                    \
    "  --backend NAME      native (default), reference or xla\n"                                                                    \
    "  --threads N         threads of the native backend; default: all cores. Does not change results\n"                       \
    "  --pin               keep each of them on one processor\n"                                                             \
    "  --shadow            compute everything a second time by the reference, and end with an error where a bit differs; slow\n" \
    "  --ctx-size N        positions (prompt and answer); default: 4096 or what the model allows\n"                            \
    "  --chunk N           prompt rows per pass; default: 256. Does not change results\n"                                      \
    "  --level NAME        instruction-set level (c, avx2, avx512, amx, neon, neon-dotprod, neon-i8mm); default: best; random: any at\n"  \
    "                      each call. Same results\n"                                                                              \
    "\nBackend xla (docs/xla.md; --backend xla --help shows what this machine can run):\n"                                   \
    "  --engine NAME       pjrt (default) or iree\n"                                                                          \
    "  --device NAME       cpu (default), cuda, rocm, tpu, oneapi, metal; iree: local-task (default), local-sync, cuda, hip, metal\n" \
    "  --plugin FILE       PJRT plugin; default: found in the Python environment\n"                                           \
    "  --gpu-target NAME   iree on cuda or hip: the one architecture (sm_80, gfx942); also --rocm-target\n"                   \
    "  --precision NAME    contract float: f32, f16 or bf16; default: f16 on a GPU, f32 on a CPU\n"                           \
    "  --quant NAME        contract float: dense (default) or packed\n"                                                       \
    "  --buckets LIST      cache capacities that modules are compiled for; the largest bounds the context; default: 256,1024,...\n" \
    "  --allow-unqualified run what lockstep qualify has not passed here; every reply then says so\n"                         \
    "These options are also environment variables, which an option given overrides: LOCKSTEP_CONTRACT, _BACKEND, _CTX_SIZE,\n" \
    "_LEVEL, _ENGINE, _DEVICE, _GPU_TARGET, _PRECISION, _QUANT, _BUCKETS, _ALLOW_UNQUALIFIED (0 or 1), and LOCKSTEP_PJRT_PLUGIN.\n"

#define CLI_SAMPLING_HELP                                                                                                      \
    "\nSampling (docs/sampling.md):\n"                                                                                         \
    "  --temp X --top-k N --top-p X --min-p X --seed N --repeat-penalty X --frequency-penalty X --presence-penalty X\n"        \
    "  --repeat-last-n N   last tokens the penalties see; -1: all (default), 0: penalties off\n"                               \
    "  --dry-multiplier X --dry-base X --dry-allowed-length N --dry-penalty-last-n N\n"

enum { CLI_MAX_IMAGES = 64 };

/* The shared part of a command's arguments. */
typedef struct cli_options {
    const char *command;
    bool sees;                   /* the command takes pictures */
    ls_picture picture[CLI_MAX_IMAGES];
    ls_prepare_options pictures; /* all but the text */
    ls_model_options model;
    ls_sampling sampling;
    ls_session_options session;
    bool prefix_size_given;
    const char *draft;           /* name of the draft model; cli_session opens it into draft_model */
    ls_model *draft_model;
    bool penalties_off, dry_off; /* a window of 0 was given */
    bool help;                   /* --help was given */
} cli_options;

void cli_options_init(cli_options *o, const char *command);

/* Takes one option from getopt. 1: taken; 0: not a shared option; -1: bad value, the message is printed. */
int cli_options_take(cli_options *o, int opt, const char *value);

/* After all options: applies windows of 0, and takes what no option gave from the environment. False after a message that names the
 * variable. */
bool cli_options_finish(cli_options *o);

/* Prints a command's help, and with backend xla what this machine can run on it. Returns the exit code. */
int cli_options_help(const cli_options *o, const char *help);

/* For a model that is not qualified, says so on standard error; for every reply. */
void cli_say_unqualified(const ls_model *m);

/* The "xla" object of a model's description: engine, precision, qualification, compiling. NULL on another backend. */
json_t *cli_describe_xla(const ls_model *m);

/* Adds to a report what ran the model: version and compiler of lockstep, backend, and of native its level and threads, of xla whether
 * it is qualified and the "xla" object. */
void cli_report_execution(json_t *report, const ls_model *m);

/* Adds "statistics" to a report: what the session saved. */
void cli_report_statistics(json_t *report, const ls_statistics *t);

/* backends.c: what can run backend xla here, and what is missing for the rest. */
void cli_list_backends(FILE *out);

/* A session on |m| with the session options, draft model included; says on standard error what it had to ignore. */
ls_code cli_session(cli_options *o, ls_session **out, ls_model *m, ls_error *e);

/* Destroys what cli_session made: the session and the draft model. */
void cli_session_end(cli_options *o, ls_session *s);

/* Saves the session's prefix cache; a failure is said on standard error. */
void cli_session_save(ls_session *s);

/* LS_OK, or UNIMPLEMENTED when pictures were given for a model that takes none. */
ls_code cli_check_pictures(const cli_options *o, const ls_model *m, ls_error *e);

/* Opens |name| (a path, or org/name from the cache) with a progress bar. Prints the failure and returns false. */
bool cli_open(cli_options *o, const char *name, ls_model **out);

#endif
