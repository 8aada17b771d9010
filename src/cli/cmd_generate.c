/* lockstep generate: continues a raw prompt. Greedy unless sampling options are given; --json reports everything needed to
 * repeat and compare the run. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/answer.h"
#include "cli/options.h"
#include "contract/contract.h"

enum { DEFAULT_NEW = 128, OPT_JSON = OPT_COMMAND, OPT_IDS, OPT_STOP, OPT_IGNORE_EOS, OPT_NO_SPECIAL };

static const char help[] =
    "Usage: lockstep generate MODEL [-p PROMPT | --ids IDS] [OPTIONS]\n\n"
    "Continues a raw prompt, without a chat template. Greedy by default.\n" CLI_MODEL_HELP CLI_IMAGE_HELP
    "  Here the places are begin-of-image tokens in the prompt (such as <start_of_image>), or none: then pictures come first.\n"
    "\nPrompt and answer:\n"
    "  -p, --prompt TEXT   the prompt; - reads standard input (the default)\n"
    "  --ids IDS           token ids instead of text, e.g. 1,15,27\n"
    "  --no-special        do not add the tokenizer's BOS\n"
    "  -n, --max-tokens N  tokens to make; default: 128, -1: until the end of the answer or of the context\n"
    "  --stop TEXT         end before this text; repeatable\n"
    "  --ignore-eos        go on after end-of-sequence tokens\n"
    "  --json              print one JSON object: prompt_ids, output_ids, text, finish_reason, logits_sha256 (over the\n"
    "                      f32 little-endian logits of every step), timings, contract, fingerprint, identity, version, compiler,\n"
    "                      backend; on native also level and threads, on xla qualified and xla (engine, precision, compiling)\n"
    "  --help              this text\n" CLI_PREFIX_HELP CLI_GUESS_HELP CLI_SAMPLING_HELP
    "\nExample: lockstep generate ./model.gguf -p \"Once upon a time\" -n 64 --json\n";

typedef struct generate {
    cli_options common;
    const char *model_name, *prompt, *ids_text;
    const char *stops[CLI_MAX_STOPS];
    size_t n_stops;
    int max_new;
    bool json, ignore_eos, no_special;
    double load_ms;
} generate;

/* Token ids, or with pictures a prepared prefill and its ids. */
typedef struct prompt {
    int32_t *ids; /* owned; NULL with |prepared| */
    ls_prepared_prefill *prepared;
    const int32_t *all; /* [n] */
    size_t n;
} prompt;

static void prompt_deinit(prompt *p) {
    ls_free(p->ids);
    ls_prepared_destroy(p->prepared);
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static json_t *id_array(const int32_t *ids, size_t n) {
    json_t *a = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(a, json_integer(ids[i]));
    return a;
}

static double per_second(uint64_t tokens, uint64_t ns) { return ns ? (double)tokens * 1e9 / (double)ns : 0; }

/* |has_text| false: the model has no tokenizer, and "text" is null. */
static int print_report(const generate *g, const ls_model *m, ls_session *s, const prompt *p, const answer *a, bool has_text) {
    ls_timings t = ls_session_timings(s);
    json_t *timings = json_pack("{s:f, s:f, s:f, s:f, s:f}", "load_ms", g->load_ms, "prefill_ms", (double)t.prefill_ns / 1e6, "decode_ms",
                                (double)t.decode_ns / 1e6, "prefill_tokens_per_second", per_second(t.prefill_tokens, t.prefill_ns),
                                "decode_tokens_per_second", per_second(t.decode_tokens, t.decode_ns));
    json_t *contract = json_pack("{s:s, s:i}", "name", ls_model_contract(m), "version", (int)LS_CONTRACT_VERSION);
    json_t *text = has_text ? json_stringn(a->text.data, a->text.len) : NULL;
    json_t *report = json_pack("{s:s, s:o, s:o, s:o, s:s, s:s, s:o, s:o, s:s}", "model", g->model_name, "prompt_ids", id_array(p->all, p->n), "output_ids",
                                    id_array(a->ids, a->n), "text", text ? text : json_null(), "finish_reason", a->finish ? a->finish : "error",
                                    "logits_sha256", a->logits_sha256, "timings", timings, "contract", contract, "fingerprint", ls_model_fingerprint(m));
    json_object_set_new(report, "identity", json_string(ls_model_identity(m)));
    cli_report_execution(report, m);
    ls_statistics saved = ls_session_statistics(s);
    cli_report_statistics(report, &saved);
    return cli_print_json(report);
}

static ls_code read_prompt(const generate *g, ls_model *m, prompt *p, ls_error *e) {
    ls_str text = {0};
    ls_prepare_options o = g->common.pictures;
    LS_TRY(cli_check_pictures(&g->common, m, e));
    ls_code rc = cli_text(g->prompt ? g->prompt : "-", &text, e);
    o.text = text.data;
    o.len = text.len;
    o.add_special = !g->no_special;
    o.pictures = g->common.picture;
    if (!rc) rc = o.n_pictures ? ls_model_prepare(&p->prepared, m, &o, e) : ls_model_encode(m, text.data, text.len, !g->no_special, &p->ids, &p->n, e);
    p->all = p->prepared ? ls_prepared_tokens(p->prepared, &p->n) : p->ids;
    ls_str_deinit(&text);
    return rc;
}

/* A model without tokenizer files continues ids; then there is no text. */
static ls_code open_text(const generate *g, const ls_model *m, ls_text **text, ls_error *e) {
    ls_code rc = ls_text_create(text, m, g->stops, g->n_stops, e);
    return rc == LS_FAILED_PRECONDITION && g->ids_text && !g->n_stops ? LS_OK : rc;
}

static int finish_output(const generate *g, const ls_model *m, ls_session *s, const prompt *p, const answer *a, bool has_text) {
    int code = CLI_OK;
    cli_say_unqualified(m);
    if (g->json) code = print_report(g, m, s, p, a, has_text);
    else if (has_text) putchar('\n');
    else for (size_t i = 0; i < a->n; i++) printf("%d%c", (int)a->ids[i], i + 1 < a->n ? ',' : '\n');
    return code ? code : a->interrupted ? CLI_INTERRUPTED : CLI_OK;
}

static int run(generate *g, ls_model *m, const prompt *p) {
    ls_error e = {0};
    ls_session *s = NULL;
    ls_text *text = NULL;
    answer a = {0};
    int code = CLI_FAILED, room = ls_model_context(m) - (int)p->n;
    ls_request r = {.struct_size = sizeof r, .prompt = p->ids, .n_prompt = p->ids ? p->n : 0, .prepared = p->prepared,
                    .max_new = g->max_new > 0 ? g->max_new : room > 0 ? room : 1,
                    .sampling = &g->common.sampling, .ignore_eos = g->ignore_eos, .hash_logits = g->json};
    ls_code rc = cli_session(&g->common, &s, m, &e);
    if (!rc) rc = open_text(g, m, &text, &e);
    if (!rc) rc = answer_run(s, &r, text, g->json ? NULL : stdout, &a, &e);
    if (rc) code = cli_fail(&e);
    else code = finish_output(g, m, s, p, &a, text != NULL);
    cli_session_save(s);
    answer_deinit(&a);
    ls_text_destroy(text);
    cli_session_end(&g->common, s);
    return code;
}

/* 0 to go on, otherwise the exit code + 1. */
static int parse(generate *g, int argc, char **argv) {
    static const struct option options[] = {CLI_MODEL_OPTIONS, CLI_PREFIX_OPTIONS, CLI_GUESS_OPTIONS,
                                            CLI_SAMPLING_OPTIONS, {"prompt", required_argument, NULL, 'p'},
                                            {"max-tokens", required_argument, NULL, 'n'},
                                            {"json", no_argument, NULL, OPT_JSON}, {"ids", required_argument, NULL, OPT_IDS},
                                            {"stop", required_argument, NULL, OPT_STOP},
                                            {"ignore-eos", no_argument, NULL, OPT_IGNORE_EOS}, {"no-special", no_argument, NULL, OPT_NO_SPECIAL},
                                            {"help", no_argument, NULL, 'h'}, {0}};
    for (int opt; (opt = getopt_long(argc, argv, "p:n:h", options, NULL)) != -1;) {
        int taken = cli_options_take(&g->common, opt, optarg);
        if (taken < 0) return CLI_USAGE + 1;
        if (taken) continue;
        if (opt == 'h') g->common.help = true;
        else if (opt == 'p') g->prompt = optarg;
        else if (opt == OPT_IDS) g->ids_text = optarg;
        else if (opt == OPT_JSON) g->json = true;
        else if (opt == OPT_IGNORE_EOS) g->ignore_eos = true;
        else if (opt == OPT_NO_SPECIAL) g->no_special = true;
        else if (opt == OPT_STOP && g->n_stops < CLI_MAX_STOPS) g->stops[g->n_stops++] = optarg;
        else if (opt == '?') return cli_usage("generate", "wrong option") + 1;
        else if (opt == OPT_STOP) return cli_usage("generate", "more than %d --stop", CLI_MAX_STOPS) + 1;
        else if (!cli_int("generate", "-n", optarg, -1, LS_MAX_CONTEXT, &g->max_new)) return CLI_USAGE + 1;
    }
    if (g->common.help) return cli_options_help(&g->common, help) + 1;
    if (argc - optind != 1) return cli_usage("generate", "give one model") + 1;
    if (!g->max_new) return cli_usage("generate", "-n is 0; ask for at least one token") + 1;
    if (g->ids_text && g->common.pictures.n_pictures) return cli_usage("generate", "--image needs a text prompt, which --ids is not") + 1;
    g->model_name = argv[optind];
    return cli_options_finish(&g->common) ? 0 : CLI_USAGE + 1;
}

int cli_generate(int argc, char **argv) {
    generate g = {.max_new = DEFAULT_NEW};
    cli_options_init(&g.common, "generate");
    g.common.sees = true;
    int done = parse(&g, argc, argv);
    if (done) return done - 1;
    ls_model *m = NULL;
    ls_error e = {0};
    prompt p = {0};
    if (g.ids_text && !cli_ids("generate", g.ids_text, &p.ids, &p.n)) return CLI_USAGE;
    p.all = p.ids;
    double begin = now_ms();
    if (!cli_open(&g.common, g.model_name, &m)) {
        prompt_deinit(&p);
        return CLI_FAILED;
    }
    g.load_ms = now_ms() - begin;
    answer_catch_interrupt();
    int code = !g.ids_text && read_prompt(&g, m, &p, &e) ? cli_fail(&e) : run(&g, m, &p);
    prompt_deinit(&p);
    ls_model_destroy(m);
    return code;
}
