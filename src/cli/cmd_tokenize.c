/* lockstep tokenize: text to token ids, ids to text. */
#include <string.h>
#include <time.h>

#include "cli/options.h"

enum { OPT_IDS = OPT_COMMAND, OPT_DECODE, OPT_JSON, OPT_NO_SPECIAL, OPT_CHAT };

static const char help[] =
    "Usage: lockstep tokenize MODEL [TEXT] [OPTIONS]\n\n"
    "Shows the tokens of a text, one per line with its id. - or no TEXT reads standard input.\n"
    "MODEL is a .gguf file, a folder with tokenizer files, a pack file, or org/name from the cache.\n\n"
    "  --ids           only the ids, separated by commas\n"
    "  --decode        TEXT is a list of ids; print their text\n"
    "  --chat          TEXT is a user's message; apply the chat template\n"
    "  --no-special    do not add the tokenizer's BOS\n"
    "  --json          one JSON object: ids, tokens, text\n"
    "  --help          this text\n\n"
    "Example: lockstep tokenize ./model.gguf --ids \"Hello, world\"\n";

typedef struct tokenize {
    const char *model_name, *text;
    bool ids, decode, chat, no_special, json;
} tokenize;

static json_t *text_of(const ls_model *m, const int32_t *ids, size_t n) {
    char *text;
    size_t len;
    if (ls_model_decode(m, ids, n, false, &text, &len, NULL)) return json_null();
    json_t *v = json_stringn(text, len);
    ls_buffer_free(text);
    return v ? v : json_null();
}

static int print_json(const ls_model *m, const int32_t *ids, size_t n) {
    json_t *numbers = json_array(), *tokens = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(numbers, json_integer(ids[i]));
        json_array_append_new(tokens, text_of(m, ids + i, 1));
    }
    return cli_print_json(json_pack("{s:o, s:o, s:o}", "ids", numbers, "tokens", tokens, "text", text_of(m, ids, n)));
}

static int print_tokens(const tokenize *t, const ls_model *m, const int32_t *ids, size_t n) {
    if (t->json) return print_json(m, ids, n);
    for (size_t i = 0; t->ids && i < n; i++) printf("%d%s", (int)ids[i], i + 1 < n ? "," : "");
    if (t->ids) return putchar('\n') == EOF;
    for (size_t i = 0; i < n; i++) {
        json_t *token = text_of(m, ids + i, 1);
        printf("%7d  ", (int)ids[i]);
        json_dumpf(token, stdout, JSON_ENCODE_ANY);
        putchar('\n');
        json_decref(token);
    }
    return CLI_OK;
}

static int decode(const tokenize *t, const ls_model *m, const char *list) {
    int32_t *ids;
    size_t n, len;
    char *text;
    ls_error e = {0};
    if (!cli_ids("tokenize", list, &ids, &n)) return CLI_USAGE;
    int code = CLI_OK;
    if (t->json) {
        code = print_json(m, ids, n);
    } else if (ls_model_decode(m, ids, n, false, &text, &len, &e)) {
        code = cli_fail(&e);
    } else {
        fwrite(text, 1, len, stdout);
        putchar('\n');
        ls_buffer_free(text);
    }
    ls_free(ids);
    return code;
}

static int append(const char *bytes, size_t n, void *user) { return ls_str_append(user, bytes, n, NULL) ? -1 : 0; }

static ls_code encode_chat(const ls_model *m, const ls_str *text, int32_t **ids, size_t *n, ls_error *e) {
    json_t *messages = json_pack("[{s:s, s:s%}]", "role", "user", "content", text->data, text->len);
    ls_str dump = {0};
    if (!messages || json_dump_callback(messages, append, &dump, JSON_COMPACT)) {
        json_decref(messages);
        ls_str_deinit(&dump);
        LS_FAIL(e, LS_INVALID_ARGUMENT, "the message is no valid UTF-8");
    }
    ls_code rc = ls_model_encode_chat(m, dump.data, dump.len, (int64_t)time(NULL), ids, n, e);
    json_decref(messages);
    ls_str_deinit(&dump);
    return rc;
}

static int run(const tokenize *t, const ls_model *m) {
    ls_error e = {0};
    ls_str text = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    int code = CLI_FAILED;
    ls_code rc = cli_text(t->text ? t->text : "-", &text, &e);
    if (!rc && t->decode) {
        code = decode(t, m, text.data);
    } else {
        if (!rc) rc = t->chat ? encode_chat(m, &text, &ids, &n, &e) : ls_model_encode(m, text.data, text.len, !t->no_special, &ids, &n, &e);
        code = rc ? cli_fail(&e) : print_tokens(t, m, ids, n);
    }
    ls_buffer_free(ids);
    ls_str_deinit(&text);
    return code;
}

int cli_tokenize(int argc, char **argv) {
    static const struct option options[] = {{"ids", no_argument, NULL, OPT_IDS}, {"decode", no_argument, NULL, OPT_DECODE},
                                            {"chat", no_argument, NULL, OPT_CHAT},
                                            {"no-special", no_argument, NULL, OPT_NO_SPECIAL}, {"json", no_argument, NULL, OPT_JSON},
                                            {"help", no_argument, NULL, 'h'}, {0}};
    tokenize t = {0};
    cli_options common;
    cli_options_init(&common, "tokenize");
    common.model.parts = LS_LOAD_TOKENIZER;
    for (int opt; (opt = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (opt == 'h') return fputs(help, stdout) < 0;
        if (opt == OPT_IDS) t.ids = true;
        else if (opt == OPT_DECODE) t.decode = true;
        else if (opt == OPT_CHAT) t.chat = true;
        else if (opt == OPT_NO_SPECIAL) t.no_special = true;
        else if (opt == OPT_JSON) t.json = true;
        else return cli_usage("tokenize", "wrong option");
    }
    if (argc - optind < 1 || argc - optind > 2) return cli_usage("tokenize", "give a model and at most one text");
    t.model_name = argv[optind];
    t.text = argc - optind == 2 ? argv[optind + 1] : NULL;
    ls_model *m;
    if (!cli_open(&common, t.model_name, &m)) return CLI_FAILED;
    int code = run(&t, m);
    ls_model_destroy(m);
    return code;
}
