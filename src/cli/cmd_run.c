/* lockstep run: a conversation, with the model's chat template. One answer with -p, otherwise a prompt loop. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/answer.h"
#include "cli/options.h"
#include "media/image.h"

enum { OPT_SYSTEM = OPT_COMMAND, OPT_STOP, OPT_STATS, MAX_MESSAGES = 10000, CONVERSATION_CACHE = 256 << 20 };

static const char help[] =
    "Usage: lockstep run MODEL [-p QUESTION] [OPTIONS]\n\n"
    "Chats with a model. Without -p it asks for questions; /clear forgets the conversation, /exit or ^D ends it.\n" CLI_MODEL_HELP CLI_IMAGE_HELP
    "  Pictures belong to the first question and stand before it; in a conversation /image FILE adds one to the next question.\n"
    "\nConversation:\n"
    "  -p, --prompt TEXT   one question, one answer; - reads standard input (the default when that is no terminal),\n"
    "                      without the last line's end\n"
    "  --system TEXT       instructions for the model\n"
    "  -n, --max-tokens N  longest answer; default: as far as the context reaches\n"
    "  --stop TEXT         end an answer before this text; repeatable\n"
    "  --stats             print tokens and speed on standard error\n"
    "  --help              this text\n" CLI_PREFIX_HELP CLI_GUESS_HELP
    "  In a conversation under an exact contract the default is 256M in memory: a question reads what is new, from a multiple\n"
    "  of 64 tokens on.\n" CLI_SAMPLING_HELP
    "  Defaults here: --temp 0.8 --top-k 40 --top-p 0.95 --min-p 0.05 --seed 0. Equal seeds give equal answers; --temp 0 is greedy.\n"
    "\nExample: lockstep run ./SmolLM2-135M-Instruct.Q4_1.gguf -p \"What is the capital of France?\"\n";

typedef struct chat {
    cli_options common;
    const char *model_name, *prompt, *system;
    const char *stops[CLI_MAX_STOPS];
    size_t n_stops;
    int max_new;
    bool stats;
    ls_model *model;
    ls_session *session;
    json_t *messages;
    size_t n_placed;         /* pictures that are part of the conversation; the others wait for the next question */
    char *typed[CLI_MAX_IMAGES]; /* [i]: owned path of picture i where /image gave it, otherwise NULL */
} chat;

static ls_code add_message(chat *c, const char *role, const char *text, size_t len, ls_error *e) {
    json_t *content = json_stringn(text, len);
    if (!content) LS_FAIL(e, LS_INVALID_ARGUMENT, "the %s text is no valid UTF-8", role);
    if (json_array_size(c->messages) >= MAX_MESSAGES || json_array_append_new(c->messages, json_pack("{s:s, s:o}", "role", role, "content", content)))
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "the conversation has more than %d messages; type /clear", MAX_MESSAGES);
    return LS_OK;
}

/* The user's question, behind the pictures that wait. */
static ls_code add_question(chat *c, const char *text, size_t len, ls_error *e) {
    size_t n = c->common.pictures.n_pictures;
    LS_TRY(add_message(c, "user", text, len, e));
    if (c->n_placed == n) return LS_OK;
    json_t *message = json_array_get(c->messages, json_array_size(c->messages) - 1), *parts = json_array();
    for (; c->n_placed < n; c->n_placed++) json_array_append_new(parts, json_pack("{s:s}", "type", "image"));
    json_array_append_new(parts, json_pack("{s:s, s:O}", "type", "text", "text", json_object_get(message, "content")));
    if (json_object_set_new(message, "content", parts)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "no memory for the question");
    return LS_OK;
}

/* A conversation begins without pictures, except those of the command line at the first time. */
static ls_code start_conversation(chat *c, ls_error *e) {
    json_decref(c->messages);
    c->messages = json_array();
    return c->system ? add_message(c, "system", c->system, strlen(c->system), e) : LS_OK;
}

static int append(const char *bytes, size_t n, void *user) { return ls_str_append(user, bytes, n, NULL) ? -1 : 0; }

/* The conversation as a prompt: ids, or with pictures a prepared prefill. *n: its tokens. */
static ls_code encode(chat *c, int32_t **ids, ls_prepared_prefill **prepared, size_t *n, ls_error *e) {
    ls_str text = {0};
    ls_prepare_options o = c->common.pictures;
    bool failed = json_dump_callback(c->messages, append, &text, JSON_COMPACT);
    ls_code rc = failed ? ls_error_set(e, LS_RESOURCE_EXHAUSTED, __FILE__, __LINE__, "the conversation is too long") : LS_OK;
    o.text = text.data;
    o.len = text.len;
    o.chat = true;
    o.now = (int64_t)time(NULL);
    o.pictures = c->common.picture;
    if (!rc) rc = o.n_pictures ? ls_model_prepare(prepared, c->model, &o, e) : ls_model_encode_chat(c->model, text.data, text.len, o.now, ids, n, e);
    if (!rc && *prepared) ls_prepared_tokens(*prepared, n);
    ls_str_deinit(&text);
    return rc;
}

static void print_stats(const chat *c, ls_timings before, ls_statistics saved, size_t n_prompt, const answer *a) {
    ls_statistics now = ls_session_statistics(c->session);
    ls_timings t = ls_session_timings(c->session);
    double prefill = (double)(t.prefill_ns - before.prefill_ns) / 1e9, decode = (double)(t.decode_ns - before.decode_ns) / 1e9;
    fprintf(stderr, "[%zu prompt tokens (%llu kept from before) in %.2f s, %zu answer tokens, %.1f tokens/s, finish: %s]\n", n_prompt,
            (unsigned long long)(now.reused_tokens - saved.reused_tokens), prefill, a->n,
            decode > 0 ? (double)(t.decode_tokens - before.decode_tokens) / decode : 0, a->finish ? a->finish : "error");
    if (now.drafted > saved.drafted)
        fprintf(stderr, "[%llu of %llu guesses were right, %llu passes]\n", (unsigned long long)(now.accepted - saved.accepted),
                (unsigned long long)(now.drafted - saved.drafted), (unsigned long long)(now.decode_passes - saved.decode_passes));
}

/* Answers the conversation so far and adds the answer to it. */
static ls_code reply(chat *c, bool *interrupted, ls_error *e) {
    int32_t *ids = NULL;
    size_t n = 0;
    ls_prepared_prefill *prepared = NULL;
    ls_text *text = NULL;
    answer a = {0};
    ls_timings before = ls_session_timings(c->session);
    ls_statistics saved = ls_session_statistics(c->session);
    ls_code rc = LS_OK;
    LS_GOTO(encode(c, &ids, &prepared, &n, e));
    LS_GOTO(ls_text_create(&text, c->model, c->stops, c->n_stops, e));
    int room = ls_model_context(c->model) - (int)n;
    ls_request r = {.struct_size = sizeof r, .prompt = ids, .n_prompt = ids ? n : 0, .prepared = prepared,
                    .max_new = c->max_new > 0 && c->max_new < room ? c->max_new : room > 0 ? room : 1,
                    .sampling = &c->common.sampling};
    LS_GOTO(answer_run(c->session, &r, text, stdout, &a, e));
    putchar('\n');
    fflush(stdout);
    cli_say_unqualified(c->model);
    if (c->stats) print_stats(c, before, saved, n, &a);
    *interrupted = a.interrupted;
    LS_GOTO(add_message(c, "assistant", a.text.data, a.text.len, e));
out:
    answer_deinit(&a);
    ls_text_destroy(text);
    ls_prepared_destroy(prepared);
    ls_buffer_free(ids);
    return rc;
}

static int answer_once(chat *c) {
    ls_error e = {0};
    ls_str text = {0};
    bool interrupted = false;
    const char *source = c->prompt ? c->prompt : "-";
    ls_code rc = cli_text(source, &text, &e);
    /* The end of a line ends the question, as it does in the prompt loop: echo "A question" | lockstep run */
    if (!rc && !strcmp(source, "-") && text.len && text.data[text.len - 1] == '\n') text.len--;
    if (!rc) rc = add_question(c, text.data, text.len, &e);
    if (!rc) rc = reply(c, &interrupted, &e);
    ls_str_deinit(&text);
    return rc ? cli_fail(&e) : interrupted ? CLI_INTERRUPTED : CLI_OK;
}

/* Forgets the pictures from the |n|-th on. */
static void drop_pictures(chat *c, size_t n) {
    for (size_t i = n; i < c->common.pictures.n_pictures; i++) {
        ls_free(c->typed[i]);
        c->typed[i] = NULL;
    }
    c->common.pictures.n_pictures = n;
    if (c->n_placed > n) c->n_placed = n;
}

/* A picture for the next question, if its file begins as one that can be taken. */
static ls_code add_typed_picture(chat *c, const char *path, ls_error *e) {
    ls_prepare_options *o = &c->common.pictures;
    ls_str copy = {0};
    ls_image_info info;
    path += strspn(path, " \t");
    if (!*path) LS_FAIL(e, LS_INVALID_ARGUMENT, "/image needs a file: /image cat.jpg");
    if (ls_model_no_vision(c->model)) LS_FAIL(e, LS_UNIMPLEMENTED, "/image is refused: %s; ask with text only", ls_model_no_vision(c->model));
    if (o->n_pictures == CLI_MAX_IMAGES) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "more than %d pictures; type /clear", CLI_MAX_IMAGES);
    const ls_image_options limits = {.max_pixels = o->max_pixels, .max_bytes = o->max_bytes};
    LS_TRY(ls_image_probe_file(&info, path, &limits, e));
    LS_TRY(ls_str_append(&copy, path, SIZE_MAX, e));
    c->typed[o->n_pictures] = copy.data;
    c->common.picture[o->n_pictures++] = (ls_picture){.path = copy.data};
    return LS_OK;
}

/* One line of the prompt loop; false ends it. A failed question is taken back, so the conversation can go on. */
static bool take_line(chat *c, char *line) {
    ls_error e = {0};
    bool interrupted = false;
    line[strcspn(line, "\n")] = 0;
    if (!strcmp(line, "/exit")) return false;
    if (!strcmp(line, "/clear")) {
        drop_pictures(c, 0);
        if (start_conversation(c, &e)) cli_fail(&e);
        return true;
    }
    if (!strncmp(line, "/image", 6) && strchr(" \t", line[6])) { /* or the line's end */
        if (add_typed_picture(c, line + 6, &e)) cli_fail(&e);
        return true;
    }
    if (!*line) return true;
    size_t before = json_array_size(c->messages), placed = c->n_placed;
    ls_code rc = add_question(c, line, strlen(line), &e);
    if (!rc) rc = reply(c, &interrupted, &e);
    if (!rc) return true;
    drop_pictures(c, placed); /* a picture that could not be answered is dropped with its question */
    while (json_array_size(c->messages) > before) json_array_remove(c->messages, json_array_size(c->messages) - 1);
    cli_fail(&e);
    return true;
}

static int prompt_loop(chat *c) {
    char *line = NULL;
    size_t cap = 0;
    fprintf(stderr, "%s, %s. /clear forgets the conversation, /exit or ^D ends.\n", c->model_name, ls_model_contract(c->model));
    for (;;) {
        fputs("> ", stderr);
        if (getline(&line, &cap, stdin) < 0 || !take_line(c, line)) break;
        clearerr(stdin);
    }
    fputc('\n', stderr);
    ls_free(line);
    return CLI_OK;
}

/* 0 to go on, otherwise the exit code + 1. */
static int parse(chat *c, int argc, char **argv) {
    static const struct option options[] = {CLI_MODEL_OPTIONS, CLI_PREFIX_OPTIONS, CLI_GUESS_OPTIONS,
                                            CLI_SAMPLING_OPTIONS, {"prompt", required_argument, NULL, 'p'},
                                            {"max-tokens", required_argument, NULL, 'n'},
                                            {"system", required_argument, NULL, OPT_SYSTEM}, {"stop", required_argument, NULL, OPT_STOP},
                                            {"stats", no_argument, NULL, OPT_STATS},
                                            {"help", no_argument, NULL, 'h'}, {0}};
    for (int opt; (opt = getopt_long(argc, argv, "p:n:h", options, NULL)) != -1;) {
        int taken = cli_options_take(&c->common, opt, optarg);
        if (taken < 0) return CLI_USAGE + 1;
        if (taken) continue;
        if (opt == 'h') c->common.help = true;
        else if (opt == 'p') c->prompt = optarg;
        else if (opt == OPT_SYSTEM) c->system = optarg;
        else if (opt == OPT_STATS) c->stats = true;
        else if (opt == OPT_STOP && c->n_stops < CLI_MAX_STOPS) c->stops[c->n_stops++] = optarg;
        else if (opt == '?') return cli_usage("run", "wrong option") + 1;
        else if (opt == OPT_STOP) return cli_usage("run", "more than %d --stop", CLI_MAX_STOPS) + 1;
        else if (!cli_int("run", "-n", optarg, -1, LS_MAX_CONTEXT, &c->max_new)) return CLI_USAGE + 1;
    }
    if (c->common.help) return cli_options_help(&c->common, help) + 1;
    if (argc - optind != 1) return cli_usage("run", "give one model") + 1;
    c->model_name = argv[optind];
    return cli_options_finish(&c->common) ? 0 : CLI_USAGE + 1;
}

/* A conversation keeps what it has read without being asked where that changes no bit and the backend can. */
static bool keeps_by_itself(const chat *c) {
    const char *backend = c->common.model.backend;
    bool can = !c->common.model.shadow && (!backend || strcmp(backend, "reference"));
    return can && strcmp(ls_model_contract(c->model), "float");
}

int cli_run(int argc, char **argv) {
    chat c = {.max_new = -1};
    cli_options_init(&c.common, "run");
    c.common.sees = true;
    c.common.sampling = (ls_sampling){.struct_size = sizeof(ls_sampling), .temperature = 0.8, .top_k = 40, .top_p = 0.95, .min_p = 0.05};
    int done = parse(&c, argc, argv);
    if (done) return done - 1;
    if (!cli_open(&c.common, c.model_name, &c.model)) return CLI_FAILED;
    ls_error e = {0};
    bool loop = !c.prompt && isatty(STDIN_FILENO);
    if (loop && !c.common.prefix_size_given && keeps_by_itself(&c)) c.common.session.prefix_cache_bytes = CONVERSATION_CACHE;
    ls_code rc = cli_check_pictures(&c.common, c.model, &e);
    if (!rc) rc = cli_session(&c.common, &c.session, c.model, &e);
    if (!rc) rc = start_conversation(&c, &e);
    answer_catch_interrupt();
    int code = rc ? cli_fail(&e) : loop ? prompt_loop(&c) : answer_once(&c);
    cli_session_save(c.session);
    drop_pictures(&c, 0);
    json_decref(c.messages);
    cli_session_end(&c.common, c.session);
    ls_model_destroy(c.model);
    return code;
}
