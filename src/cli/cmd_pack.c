/* lockstep pack: a model as one file that is mapped and run without unpacking. */
#include <string.h>
#include <time.h>

#include "cli/answer.h"
#include "cli/hub.h"
#include "cli/options.h"

enum { OPT_JSON = OPT_COMMAND };

static const char help[] =
    "Usage: lockstep pack MODEL -o FILE [OPTIONS]\n\n"
    "Writes one file with everything backend native needs: weights in the form that it computes with, tokenizer, chat template, image processor,\n"
    "configuration, identity and checksums (docs/pack.md). Every command that takes MODEL takes the file; it is mapped, not read, so a model starts\n"
    "at once and processes share its memory. Answers are the same, bit for bit. lockstep inspect FILE --check verifies all its checksums.\n"
    "MODEL is a .gguf file, a Hugging Face folder, or org/name from the cache (lockstep pull).\n\n"
    "  -o, --output FILE   the file to write; replaced only when all is written\n"
    "  --contract NAME     exact16 (default), exact16-kv8 or exact24; also LOCKSTEP_CONTRACT\n"
    "  --threads N         threads; default: all cores. Does not change the file\n"
    "  --json              describe the file as one JSON object\n"
    "  --help              this text\n\n"
    "Example: lockstep pack ./SmolLM2-135M-Instruct.Q4_1.gguf -o SmolLM2-135M.lspack\n";

static bool cancelled(void *user) {
    (void)user;
    return answer_interrupted();
}

static ls_code run(const cli_options *common, const char *model, const char *output, char **json, ls_error *e) {
    static char label[] = "packing";
    ls_arena *arena = NULL;
    const char *path = NULL;
    ls_pack_options o = {.struct_size = sizeof o, .contract = common->model.contract, .threads = common->model.threads, .progress = cli_progress,
                         .progress_user = label, .cancelled = cancelled};
    ls_code rc = ls_arena_create(&arena, e);
    if (!rc) rc = hub_resolve(arena, &path, model, e);
    if (!rc) rc = ls_model_pack(path, output, &o, json, e);
    cli_progress_done();
    ls_arena_destroy(arena);
    return rc;
}

static int print_result(const char *output, const char *text, bool json, double seconds) {
    json_t *o = NULL;
    if (ls_json_parse(&o, text, strlen(text), "description", NULL)) return CLI_FAILED;
    json_t *pack = json_object_get(o, "pack");
    json_object_set_new(pack, "output", json_string(output));
    json_object_set_new(pack, "seconds", json_real(seconds));
    const json_t *vision = json_object_get(o, "vision");
    if (json_is_false(json_object_get(vision, "available")))
        fprintf(stderr, "lockstep: note: the file serves text only, as the model does: %s\n", json_string_value(json_object_get(vision, "reason")));
    int code = CLI_OK;
    if (json) code = cli_print_json(json_incref(pack));
    else
        printf("%s: %.1f MB, %s version %lld, %lld matrices, layout %lld, in %.1f s\n", output,
               (double)json_integer_value(json_object_get(pack, "bytes")) / 1e6,
               json_string_value(json_object_get(pack, "contract")), (long long)json_integer_value(json_object_get(pack, "contract_version")),
               (long long)json_integer_value(json_object_get(pack, "matrices")), (long long)json_integer_value(json_object_get(pack, "layout")), seconds);
    json_decref(o);
    return code;
}

int cli_pack(int argc, char **argv) {
    static const struct option options[] = {{"output", required_argument, NULL, 'o'}, {"contract", required_argument, NULL, OPT_CONTRACT},
                                            {"threads", required_argument, NULL, OPT_THREADS}, {"json", no_argument, NULL, OPT_JSON},
                                            {"help", no_argument, NULL, 'h'}, {0}};
    cli_options common;
    const char *output = NULL;
    bool json = false;
    cli_options_init(&common, "pack");
    for (int opt; (opt = getopt_long(argc, argv, "o:h", options, NULL)) != -1;) {
        int taken = cli_options_take(&common, opt, optarg);
        if (taken < 0) return CLI_USAGE;
        if (taken) continue;
        if (opt == 'h') return fputs(help, stdout) < 0;
        if (opt == 'o') output = optarg;
        else if (opt == OPT_JSON) json = true;
        else return cli_usage("pack", "wrong option");
    }
    if (argc - optind != 1) return cli_usage("pack", "give one model");
    if (!output || !*output) return cli_usage("pack", "give -o and the file to write");
    if (!cli_options_finish(&common)) return CLI_USAGE;
    ls_error e = {0};
    char *text = NULL;
    struct timespec begin, end;
    answer_catch_interrupt();
    clock_gettime(CLOCK_MONOTONIC, &begin);
    ls_code rc = run(&common, argv[optind], output, &text, &e);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (rc) return cli_fail(&e), rc == LS_CANCELLED ? CLI_INTERRUPTED : CLI_FAILED;
    int code = print_result(output, text, json, (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
    ls_buffer_free(text);
    return code;
}
