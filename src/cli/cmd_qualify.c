/* lockstep qualify: may backend xla serve this family under this contract on this device? Its exit codes are its own: 0 qualified,
 * 1 not qualified, 2 could not tell. */
#include <string.h>

#include "cli/hub.h"
#include "cli/options.h"
#include "cli/verify_progress.h"
#include "session/qualification.h"
#include "verify/qualify.h"

enum { QUALIFIED = 0, NOT_QUALIFIED = 1, NOT_DECIDED = 2 };
enum { OPT_REFERENCE = OPT_COMMAND, OPT_JSON, OPT_QUIET, OPT_HEARTBEAT };

static const char help[] =
    "Usage: lockstep qualify MODEL [OPTIONS]\n\n"
    "Checks that a device compiler gives this model's answers: every node on the native executor's inputs, then greedy output on\n"
    "pinned prompts, token for token that of the reference, alone and in a batch. The result is kept as a record in the cache;\n"
    "--backend xla asks for it, by family, contract, precision and device (docs/qualification.md). A model that sees is judged on\n"
    "prompts with pictures as well, with a record of their own.\n"
    "MODEL is a .gguf file, a Hugging Face folder, or org/name from the cache (lockstep pull).\n\n"
    "  --contract NAME     exact16 (default), exact16-kv8, exact24 or float\n"
    "  --engine NAME       pjrt (default) or iree\n"
    "  --device NAME       cpu (default), cuda, rocm, tpu, oneapi, metal; iree: local-task (default), local-sync, cuda, hip, metal\n"
    "  --plugin FILE       PJRT plugin; default: found in the Python environment\n"
    "  --gpu-target NAME   iree on cuda or hip: the one architecture (sm_80, gfx942); also --rocm-target\n"
    "  --precision NAME    contract float: f32, f16 or bf16; default: f16 on a GPU, f32 on a CPU\n"
    "  --quant NAME        contract float: dense (default) or packed\n"
    "  --reference FILE    .safetensors with prompt_ids and greedy_ids of Hugging Face transformers (tools/dump_reference.py);\n"
    "                      default: the native executor under exact24 (exact16-kv8: under itself), on four prompts\n"
    "  --json              the record as one JSON object; that of pictures within it, as \"vision\"\n"
    "  --quiet             no progress\n"
    "  --heartbeat N       seconds between signs of life of a long stage; default: 60\n"
    "  --help              this text\n"
    "\nExit codes: 0 qualified, 1 not qualified, 2 could not tell.\n"
    "\nExample: lockstep qualify ./model.gguf --contract exact16\n"
    "Example: lockstep qualify ./model --contract float --reference ./reference.safetensors --json\n";

typedef struct qualify {
    cli_options common;
    ls_qualify_options o;
    bool json, quiet;
    int heartbeat;
} qualify;

static int not_decided(const ls_error *e) {
    cli_fail(e);
    return NOT_DECIDED;
}

static const char *text_of(const json_t *record, const char *part, const char *key) {
    const char *s = json_string_value(json_object_get(json_object_get(record, part), key));
    return s ? s : "-";
}

static long long number_of(const json_t *record, const char *part, const char *key) {
    return (long long)json_integer_value(json_object_get(json_object_get(record, part), key));
}

static void print_stage(const json_t *record, const char *part, const char *label) {
    bool passed = json_is_true(json_object_get(json_object_get(record, part), "passed"));
    printf("%-11s %s", label, passed ? "pass" : "FAIL");
    if (!passed) printf(", first at %s", text_of(record, part, "first"));
}

static void print_text(const json_t *record, const char *path) {
    bool qualified = json_is_true(json_object_get(record, "qualified"));
    printf("combination %s, %s, precision %s, quant %s\nengine      %s\n", text_of(record, "combination", "architecture"),
           text_of(record, "combination", "contract"), text_of(record, "combination", "precision"), text_of(record, "combination", "quant"),
           text_of(record, "combination", "engine"));
    print_stage(record, "same_input", "same input");
    printf(": %lld nodes over %lld positions against %s, by %s\n", number_of(record, "same_input", "nodes"), number_of(record, "same_input", "positions"),
           text_of(record, "same_input", "left"), text_of(record, "same_input", "rule"));
    print_stage(record, "tokens", "tokens");
    const json_t *bits = json_object_get(json_object_get(record, "tokens"), "equal_bits");
    printf(": %lld tokens of %lld prompts against %s%s\n", number_of(record, "tokens", "compared"), number_of(record, "tokens", "prompts"),
           text_of(record, "tokens", "reference"), json_is_true(bits) ? "; logits equal native's bit for bit" : "");
    printf("record      %s\n%s\n", path, qualified ? "QUALIFIED" : "NOT QUALIFIED");
}

/* Stores |record|, and says so: text at once, or its path put into |record| for JSON. An exit code. */
static int keep(const qualify *q, json_t *record) {
    ls_error e = {0};
    ls_str path = {0};
    if (ls_qualification_store(record, NULL, &path, &e)) {
        ls_str_deinit(&path);
        return not_decided(&e);
    }
    if (q->json) json_object_set_new(record, "record", json_string(path.data));
    else print_text(record, path.data);
    ls_str_deinit(&path);
    return json_is_true(json_object_get(record, "qualified")) ? QUALIFIED : NOT_QUALIFIED;
}

/* One of the two parts, with progress that is gone when it is reported. */
static ls_code qualified(qualify *q, const char *path, bool vision, json_t **record, ls_error *e) {
    verify_progress *progress = NULL;
    LS_TRY(verify_progress_create(&progress, q->quiet, q->heartbeat, e));
    q->o.stage_user = progress;
    ls_code rc = vision ? ls_qualify_vision(record, path, &q->o, e) : ls_qualify(record, path, &q->o, e);
    verify_progress_destroy(progress);
    return rc;
}

/* Prompts with pictures, when the model sees: after the text model, whose record then is there already. */
static int judge_pictures(qualify *q, const char *path, json_t *record) {
    ls_error e = {0};
    json_t *vision = NULL;
    if (qualified(q, path, true, &vision, &e)) return not_decided(&e);
    if (!vision) return QUALIFIED;
    int code = keep(q, vision);
    json_object_set_new(record, "vision", vision);
    return code;
}

static int judge(qualify *q, const char *path) {
    ls_error e = {0};
    json_t *record = NULL;
    if (qualified(q, path, false, &record, &e)) return not_decided(&e);
    int code = keep(q, record);
    int seen = code == NOT_DECIDED ? code : judge_pictures(q, path, record);
    if (seen > code) code = seen;
    if (q->json && code != NOT_DECIDED && cli_print_json(json_incref(record))) code = NOT_DECIDED;
    json_decref(record);
    return code;
}

static int run(qualify *q) {
    ls_error e = {0};
    ls_arena *arena = NULL;
    const char *path = NULL;
    ls_code rc = ls_arena_create(&arena, &e);
    if (!rc) rc = hub_resolve(arena, &path, q->o.name, &e);
    q->o.model = q->common.model;
    q->o.stage = verify_progress_stage;
    int code = rc ? not_decided(&e) : judge(q, path);
    ls_arena_destroy(arena);
    return code;
}

/* 0 to go on, otherwise the exit code + 1. */
static int parse(qualify *q, int argc, char **argv) {
    static const struct option options[] = {{"contract", required_argument, NULL, OPT_CONTRACT},
                                            {"engine", required_argument, NULL, OPT_ENGINE},
                                            {"device", required_argument, NULL, OPT_DEVICE},
                                            {"plugin", required_argument, NULL, OPT_PLUGIN},
                                            {"gpu-target", required_argument, NULL, OPT_GPU_TARGET},
                                            {"rocm-target", required_argument, NULL, OPT_GPU_TARGET},
                                            {"precision", required_argument, NULL, OPT_PRECISION},
                                            {"quant", required_argument, NULL, OPT_QUANT},
                                            {"reference", required_argument, NULL, OPT_REFERENCE},
                                            {"json", no_argument, NULL, OPT_JSON},
                                            {"quiet", no_argument, NULL, OPT_QUIET},
                                            {"heartbeat", required_argument, NULL, OPT_HEARTBEAT},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    for (int opt; (opt = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (cli_options_take(&q->common, opt, optarg) > 0) continue;
        if (opt == 'h') q->common.help = true;
        else if (opt == OPT_REFERENCE) q->o.reference = optarg;
        else if (opt == OPT_JSON) q->json = true;
        else if (opt == OPT_QUIET) q->quiet = true;
        else if (opt != OPT_HEARTBEAT) return cli_usage("qualify", "wrong option") + 1;
        else if (!cli_int("qualify", "--heartbeat", optarg, 1, 86400, &q->heartbeat)) return NOT_DECIDED + 1;
    }
    if (q->common.help) return cli_options_help(&q->common, help) + 1;
    if (argc - optind != 1) return cli_usage("qualify", "give one model") + 1;
    q->o.name = argv[optind];
    return cli_options_finish(&q->common) ? 0 : NOT_DECIDED + 1;
}

int cli_qualify(int argc, char **argv) {
    qualify q = {.heartbeat = CLI_HEARTBEAT_SECONDS};
    cli_options_init(&q.common, "qualify");
    q.common.model.backend = "xla"; /* so that the environment's engine and device count */
    int done = parse(&q, argc, argv);
    return done ? done - 1 : run(&q);
}
