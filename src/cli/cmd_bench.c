/* lockstep bench: prefill and decode speed of one model. Decoding ignores end-of-sequence tokens, prompts are fixed. */
#include <string.h>

#include "cli/bench_compare.h"
#include "cli/bench_steps.h"
#include "cli/bench_vision.h"

enum { OPT_BATCH = OPT_COMMAND, OPT_JSON, OPT_STEPS, OPT_VISION, OPT_COMPARE, OPT_SWEEP, MAX_REPEATS = 1000 };

static const char help[] =
    "Usage: lockstep bench MODEL [OPTIONS]\n\n"
    "Measures tokens per second of reading a prompt and of writing.\n" CLI_MODEL_HELP
    "\n"
    "  -p N                prompt tokens; default: 512\n"
    "  -n N                tokens written; default: 128\n"
    "  -r N                repeats; default: 3, the best and the mean are shown\n"
    "  --batch N           sequences that write at once; default: 1\n"
    "  --json              as one JSON object\n"
    "  --steps             measures what lines of standard input ask for, answers in JSON lines: \"prefill TOKENS\",\n"
    "                      \"open SEQUENCES TOKENS\" (reads a prompt in each), then \"decode STEPS\", \"close\"; for example\n"
    "                      printf 'open 8 16\\ndecode 32\\n' | lockstep bench ./model.gguf --steps\n"
    "  --vision            in place of tokens: one image through the tower and the projector of a model that sees\n"
    "  --compare LIST      beside llama.cpp, openvino, ort (ONNX Runtime GenAI) where their Pythons are named in LLAMA_PYTHON,\n"
    "                      OPENVINO_PYTHON, ORT_PYTHON: rounds (-r) that take turns, tokens equal to f32's; to .cache/compare here\n"
    "  --sweep LIST        with --compare: by context, batch, threads too\n"
    "  --help              this text\n"
    "\nLess work (docs/caching.md; changes no result of an exact contract):\n" CLI_GUESS_HELP "\n"
    "Example: lockstep bench ./model.gguf -p 512 -n 128 -r 5\n";

typedef struct bench {
    cli_options common;
    const char *model_name;
    int prompt, tokens, repeats, batch;
    bool json, steps, vision;
    const char *compare, *sweep;
    ls_statistics saved;
} bench;

/* Sum and largest of the repeats' speeds. */
typedef struct speed {
    double sum, best;
} speed;

static void add(speed *s, uint64_t tokens, uint64_t ns) {
    double v = ns ? (double)tokens * 1e9 / (double)ns : 0;
    s->sum += v;
    if (v > s->best) s->best = v;
}

/* Runs |batch| requests of |n_prompt| tokens to |max_new| tokens each. */
static ls_code run_requests(ls_session *s, int64_t vocab, int batch, size_t n_prompt, int max_new, ls_error *e) {
    int32_t *prompt;
    ls_code rc = LS_OK;
    ls_event event;
    uint64_t id;
    LS_TRY(ls_calloc(&prompt, n_prompt, sizeof *prompt, "prompt", e));
    for (int b = 0; b < batch; b++) {
        for (size_t i = 0; i < n_prompt; i++) prompt[i] = (int32_t)(((uint64_t)i * 7919 + (uint64_t)b * 104729 + 13) % (uint64_t)vocab);
        ls_request r = {.struct_size = sizeof r, .prompt = prompt, .n_prompt = n_prompt, .max_new = max_new, .ignore_eos = true};
        LS_GOTO(ls_session_submit(s, &r, &id, e));
    }
    while (!ls_session_is_idle(s)) {
        LS_GOTO(ls_session_step(s, e));
        while (ls_session_next_event(s, &event)) continue;
    }
out:
    ls_free(prompt);
    return rc;
}

static ls_code measure(bench *b, ls_model *m, speed *prefill, speed *decode, ls_error *e) {
    ls_session *s = NULL;
    ls_code rc = cli_session(&b->common, &s, m, e);
    if (!rc) rc = run_requests(s, ls_model_vocab(m), 1, 1, 2, e); /* warm-up */
    if (b->common.model.backend && !strcmp(b->common.model.backend, "xla")) {
        if (!rc) rc = run_requests(s, ls_model_vocab(m), 1, (size_t)b->prompt, 1, e); /* compiling what is measured */
        if (!rc) rc = run_requests(s, ls_model_vocab(m), b->batch, 1, b->tokens + 1, e);
    }
    for (int i = 0; !rc && i < b->repeats; i++) {
        ls_timings before = ls_session_timings(s);
        rc = run_requests(s, ls_model_vocab(m), 1, (size_t)b->prompt, 1, e);
        ls_timings middle = ls_session_timings(s);
        if (!rc) rc = run_requests(s, ls_model_vocab(m), b->batch, 1, b->tokens + 1, e);
        ls_timings after = ls_session_timings(s);
        add(prefill, middle.prefill_tokens - before.prefill_tokens, middle.prefill_ns - before.prefill_ns);
        add(decode, after.decode_tokens - middle.decode_tokens, after.decode_ns - middle.decode_ns);
    }
    if (s) b->saved = ls_session_statistics(s);
    cli_session_end(&b->common, s);
    return rc;
}

/* How the device compiler took it: |xla| of the description. */
static void print_compiling(const json_t *xla) {
    const json_t *c = json_object_get(xla, "compiling");
    printf("compile  %.2f s for %lld programs, %lld from the cache\n", json_real_value(json_object_get(c, "seconds")),
           (long long)json_integer_value(json_object_get(c, "programs")), (long long)json_integer_value(json_object_get(c, "cache_hits")));
    printf("engine   %s\n", json_string_value(json_object_get(json_object_get(xla, "engine"), "identity")));
    if (json_is_false(json_object_get(xla, "qualified"))) printf("unqualified: %s\n", json_string_value(json_object_get(xla, "qualification")));
}

static int print_text(const bench *b, const ls_model *m, speed prefill, speed decode) {
    json_t *xla = cli_describe_xla(m);
    printf("model    %s, %s\n", b->model_name, ls_model_contract(m));
    printf("prefill  %d tokens: best %.1f tokens/s, mean %.1f\n", b->prompt, prefill.best, prefill.sum / b->repeats);
    printf("decode   %d tokens x %d: best %.1f tokens/s, mean %.1f\n", b->tokens, b->batch, decode.best, decode.sum / b->repeats);
    if (b->saved.drafted) printf("guesses  %llu of %llu right\n", (unsigned long long)b->saved.accepted, (unsigned long long)b->saved.drafted);
    if (xla) print_compiling(xla);
    json_decref(xla);
    return CLI_OK;
}

static int report(const bench *b, const ls_model *m, speed prefill, speed decode) {
    if (!b->json) return print_text(b, m, prefill, decode);
    json_t *o = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f}", "model", b->model_name, "contract", ls_model_contract(m), "prompt", b->prompt,
                          "tokens", b->tokens, "batch", b->batch, "repeats", b->repeats, "prefill_tokens_per_second_best", prefill.best,
                          "prefill_tokens_per_second_mean", prefill.sum / b->repeats, "decode_tokens_per_second_best", decode.best,
                          "decode_tokens_per_second_mean", decode.sum / b->repeats);
    cli_report_execution(o, m);
    if (b->saved.decode_passes) cli_report_statistics(o, &b->saved);
    return cli_print_json(o);
}

/* 0 to go on, otherwise the exit code + 1. */
static int parse(bench *b, int argc, char **argv) {
    static const struct option options[] = {CLI_MODEL_OPTIONS, CLI_GUESS_OPTIONS,
                                            {"batch", required_argument, NULL, OPT_BATCH}, {"json", no_argument, NULL, OPT_JSON},
                                            {"steps", no_argument, NULL, OPT_STEPS}, {"vision", no_argument, NULL, OPT_VISION},
                                            {"compare", required_argument, NULL, OPT_COMPARE}, {"sweep", required_argument, NULL, OPT_SWEEP},
                                            {"help", no_argument, NULL, 'h'}, {0}};
    for (int opt; (opt = getopt_long(argc, argv, "p:n:r:h", options, NULL)) != -1;) {
        int taken = cli_options_take(&b->common, opt, optarg);
        bool ok = true;
        if (taken < 0) return CLI_USAGE + 1;
        if (taken) continue;
        if (opt == 'h') b->common.help = true;
        else if (opt == OPT_JSON) b->json = true;
        else if (opt == OPT_STEPS) b->steps = true;
        else if (opt == OPT_VISION) b->vision = true;
        else if (opt == OPT_COMPARE) b->compare = optarg;
        else if (opt == OPT_SWEEP) b->sweep = optarg;
        else if (opt == 'p') ok = cli_int("bench", "-p", optarg, 1, LS_MAX_CONTEXT - 1, &b->prompt);
        else if (opt == 'n') ok = cli_int("bench", "-n", optarg, 1, LS_MAX_CONTEXT - 2, &b->tokens);
        else if (opt == 'r') ok = cli_int("bench", "-r", optarg, 1, MAX_REPEATS, &b->repeats);
        else if (opt == OPT_BATCH) ok = cli_int("bench", "--batch", optarg, 1, LS_MAX_SLOTS, &b->batch);
        else return cli_usage("bench", "wrong option") + 1;
        if (!ok) return CLI_USAGE + 1;
    }
    if (b->common.help) return cli_options_help(&b->common, help) + 1;
    if (argc - optind != 1) return cli_usage("bench", "give one model") + 1;
    if (b->steps && (b->common.session.lookup || b->common.draft))
        return cli_usage("bench", "--steps measures plain passes; leave out --lookup and --draft") + 1;
    if (b->sweep && !b->compare) return cli_usage("bench", "--sweep is for --compare") + 1;
    b->model_name = argv[optind];
    return cli_options_finish(&b->common) ? 0 : CLI_USAGE + 1;
}

int cli_bench(int argc, char **argv) {
    bench b = {.prompt = 512, .tokens = 128, .repeats = 3, .batch = 1};
    cli_options_init(&b.common, "bench");
    int done = parse(&b, argc, argv);
    if (done) return done - 1;
    if (b.compare) return cli_bench_compare(&b.common, b.model_name, b.compare, b.sweep, b.repeats);
    ls_model_options *o = &b.common.model;
    if (!o->context && !b.vision) o->context = b.prompt + 1 > b.tokens + 2 ? b.prompt + 1 : b.tokens + 2;
    o->slots = b.batch;
    if (b.vision) o->parts = LS_LOAD_GRAPH;
    ls_model *m;
    ls_error e = {0};
    speed prefill = {0}, decode = {0};
    if (!cli_open(&b.common, b.model_name, &m)) return CLI_FAILED;
    if (b.vision) {
        int failed = cli_bench_vision(&b.common, b.model_name, m, b.repeats, b.json);
        ls_model_destroy(m);
        return failed;
    }
    if (b.steps) {
        int failed = cli_bench_steps(m, b.batch, o->context, &e) ? cli_fail(&e) : CLI_OK;
        ls_model_destroy(m);
        return failed;
    }
    int code = measure(&b, m, &prefill, &decode, &e) ? cli_fail(&e) : report(&b, m, prefill, decode);
    ls_model_destroy(m);
    return code;
}
