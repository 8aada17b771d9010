/* lockstep inspect: what a model is and what it needs, without running it. */
#include <string.h>

#include "cli/options.h"

enum { OPT_JSON = OPT_COMMAND, OPT_MEASURE, OPT_CHECK };

static const char help[] =
    "Usage: lockstep inspect MODEL [OPTIONS]\n\n"
    "Shows architecture, parameters, memory need, contracts and tensors that nothing uses.\n" CLI_MODEL_HELP
    "\n"
    "  --measure           load the model and report the memory it really takes\n"
    "  --check             verify every checksum of a pack file (lockstep pack)\n"
    "  --json              as one JSON object\n"
    "  --help              this text\n\n"
    "Example: lockstep inspect ./model.gguf --ctx-size 8192\n";

static long long integer(const json_t *o, const char *key) { return (long long)json_integer_value(json_object_get(o, key)); }
static const char *string(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "-";
}

static void print_counts(const char *label, json_t *counts) {
    const char *key;
    json_t *v;
    printf("%-14s", label);
    json_object_foreach(counts, key, v) printf(" %s x %lld", key, (long long)json_integer_value(v));
    putchar('\n');
}

static void print_pack(const json_t *pack, bool checked) {
    printf("pack file      %.1f MB, %lld matrices, layout %lld, for %s version %lld, checksums %s\n", (double)integer(pack, "bytes") / 1e6,
           integer(pack, "matrices"), integer(pack, "layout"), string(pack, "contract"), integer(pack, "contract_version"),
           checked ? "verified" : "of all but the weights verified");
}

static void print_text(json_t *o) {
    json_t *memory = json_object_get(o, "memory"), *names = json_object_get(o, "unused_tensor_names"), *v;
    size_t i;
    printf("architecture   %s, %lld layers, hidden size %lld, vocabulary %lld\n", string(o, "architecture"), integer(o, "layers"), integer(o, "hidden"),
           integer(o, "vocabulary"));
    printf("parameters     %.1f million in %lld tensors, %.1f MB\n", (double)integer(o, "parameters") / 1e6, integer(o, "tensors"),
           (double)integer(o, "weight_bytes") / 1e6);
    print_counts("formats", json_object_get(o, "formats"));
    print_counts("operators", json_object_get(o, "operators"));
    printf("context        %lld positions at most\n", integer(o, "max_context"));
    printf("memory         %.1f MB weights, %.1f MB KV cache for %lld positions x %lld when full", (double)integer(memory, "weights_bytes") / 1e6,
           (double)integer(memory, "kv_bytes") / 1e6, integer(memory, "context"), integer(memory, "slots"));
    if (json_is_true(json_object_get(memory, "measured"))) printf(", %.1f MB work (measured)\n", (double)integer(memory, "work_bytes") / 1e6);
    else printf(" (estimate)\n");
    const bool packed = json_object_get(o, "pack");
    printf("contract       %s version %lld; %s", string(o, "contract"), integer(o, "contract_version"), packed ? "the pack file is for" : "also:");
    json_array_foreach(json_object_get(o, "contracts"), i, v)
        if (packed || strcmp(json_string_value(v), string(o, "contract"))) printf(" %s", json_string_value(v));
    printf("\nfingerprint    %s\n", string(o, "fingerprint"));
    const json_t *xla = json_object_get(o, "xla");
    if (xla)
        printf("engine         %s\nqualified      %s: %s\n", string(json_object_get(xla, "engine"), "identity"),
               json_is_true(json_object_get(xla, "qualified")) ? "yes" : "no", string(xla, "qualification"));
    v = json_object_get(o, "chat_template");
    printf("chat template  %s\n", json_is_true(v) ? "yes" : json_is_string(v) ? json_string_value(v) : "none");
    if (json_object_get(o, "pack")) print_pack(json_object_get(o, "pack"), json_is_true(json_object_get(json_object_get(o, "pack"), "checked")));
    printf("unused tensors %lld", integer(o, "unused_tensors"));
    json_array_foreach(names, i, v) printf("%s%s", i ? ", " : ": ", json_string_value(v));
    putchar('\n');
}

static bool check_file(const ls_model *m) {
    static char label[] = "checking";
    ls_error e = {0};
    ls_code rc = ls_model_check(m, cli_progress, label, &e);
    cli_progress_done();
    if (rc) cli_fail(&e);
    return !rc;
}

static int print_description(const ls_model *m, bool json, bool checked) {
    ls_error e = {0};
    char *text;
    json_t *o = NULL;
    if (ls_model_describe(m, &text, &e)) return cli_fail(&e);
    ls_code rc = ls_json_parse(&o, text, strlen(text), "description", &e);
    ls_buffer_free(text);
    if (rc) return cli_fail(&e);
    if (checked) json_object_set_new(json_object_get(o, "pack"), "checked", json_true());
    if (json) return cli_print_json(o);
    print_text(o);
    json_decref(o);
    return CLI_OK;
}

int cli_inspect(int argc, char **argv) {
    static const struct option options[] = {CLI_MODEL_OPTIONS, {"json", no_argument, NULL, OPT_JSON}, {"measure", no_argument, NULL, OPT_MEASURE},
                                            {"check", no_argument, NULL, OPT_CHECK},
                                            {"help", no_argument, NULL, 'h'}, {0}};
    cli_options common;
    bool json = false, check = false;
    cli_options_init(&common, "inspect");
    common.model.parts = LS_LOAD_GRAPH;
    for (int opt; (opt = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        int taken = cli_options_take(&common, opt, optarg);
        if (taken < 0) return CLI_USAGE;
        if (taken) continue;
        if (opt == 'h') common.help = true;
        else if (opt == OPT_JSON) json = true;
        else if (opt == OPT_CHECK) check = true;
        else if (opt == OPT_MEASURE) common.model.parts = LS_LOAD_ALL;
        else return cli_usage("inspect", "wrong option");
    }
    if (common.help) return cli_options_help(&common, help);
    if (argc - optind != 1) return cli_usage("inspect", "give one model");
    if (!cli_options_finish(&common)) return CLI_USAGE;
    ls_model *m;
    if (!cli_open(&common, argv[optind], &m)) return CLI_FAILED;
    int code = check && !check_file(m) ? CLI_FAILED : print_description(m, json, check);
    ls_model_destroy(m);
    return code;
}
