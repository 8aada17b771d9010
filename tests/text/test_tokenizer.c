/* Tokenizers: refusals, limits, configuration files, invalid UTF-8, long inputs. */
#include "text/test_tokenizer_cases.h"

#include <stdlib.h>
#include <time.h>

#include "text/tokenizer_build.h"

#define BPE "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]}"

static ls_code open_text(ls_tokenizer **t, const char *text, const char *config, ls_error *e) {
    json_t *j = NULL, *c = NULL;
    *e = (ls_error){0};
    *t = NULL;
    assert_int_equal(ls_json_parse(&j, text, strlen(text), "test", e), LS_OK);
    if (config) assert_int_equal(ls_json_parse(&c, config, strlen(config), "test", e), LS_OK);
    ls_code rc = ls_tokenizer_open_json(t, j, c, e);
    json_decref(j);
    json_decref(c);
    return rc;
}

static void refuse(const char *text, ls_code code, const char *part) {
    ls_error e = {0};
    ls_tokenizer *t = NULL;
    assert_error(open_text(&t, text, NULL, &e), code, part);
    assert_null(t);
}

static void unknown_parts_are_refused_by_name(void **state) {
    (void)state;
    refuse("[]", LS_INVALID_ARGUMENT, "tokenizer.json");
    refuse("{}", LS_INVALID_ARGUMENT, "\"model\"");
    refuse("{\"model\": {\"type\": \"WordPiece\"}}", LS_UNIMPLEMENTED, "WordPiece");
    refuse("{" BPE ", \"normalizer\": {\"type\": \"Odd1\"}}", LS_UNIMPLEMENTED, "normalizer type \"Odd1\"");
    refuse("{" BPE ", \"pre_tokenizer\": {\"type\": \"Odd2\"}}", LS_UNIMPLEMENTED, "pre_tokenizer type \"Odd2\"");
    refuse("{" BPE ", \"decoder\": {\"type\": \"CTC\"}}", LS_UNIMPLEMENTED, "decoder type \"CTC\"");
    refuse("{" BPE ", \"post_processor\": {\"type\": \"Odd4\"}}", LS_UNIMPLEMENTED, "post_processor type \"Odd4\"");
    refuse("{" BPE ", \"normalizer\": {\"type\": \"Sequence\"}}", LS_INVALID_ARGUMENT, "normalizers");
    refuse("{" BPE ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"Odd\"}}", LS_UNIMPLEMENTED,
           "Odd");
    refuse("{\"model\": {\"type\": \"BPE\", \"dropout\": 0.1, \"vocab\": {}, \"merges\": []}}", LS_UNIMPLEMENTED, "dropout");
}

static void broken_models_are_refused(void **state) {
    (void)state;
    refuse("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}}", LS_INVALID_ARGUMENT, "\"b\"");
    refuse("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": [\"a b\"]}}", LS_INVALID_ARGUMENT, "join");
    refuse("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a\"]}}", LS_INVALID_ARGUMENT, "merge 0");
    refuse("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}}", LS_INVALID_ARGUMENT, "share id 0");
    refuse("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": -1}, \"merges\": []}}", LS_INVALID_ARGUMENT, "negative");
    refuse("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 2000000000}, \"merges\": []}}", LS_RESOURCE_EXHAUSTED, "2000000000");
    refuse("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"unk_token\": \"u\"}}", LS_INVALID_ARGUMENT, "\"u\"");
    refuse("{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\"]]}}", LS_INVALID_ARGUMENT, "entry 0");
    refuse("{\"model\": {\"type\": \"Unigram\", \"unk_id\": 1, \"vocab\": [[\"a\", 0]]}}", LS_OUT_OF_RANGE, "unk_id");
    refuse("{" BPE ", \"added_tokens\": [{\"id\": 1, \"content\": \"x\"}]}", LS_INVALID_ARGUMENT, "\"x\" has id 1");
}

static void foreign_regex_syntax_is_refused(void **state) {
    (void)state;
    static const char *const patterns[] = {"[a[b]]", "[[:alpha:]]", "[a&&b]", "(?<n>a)", "(?#c)", "(*UTF)a", "\\\\Qa", "\\\\h", "\\\\k<n>", "(?x) a",
                                           "a{3", "(", ")", "\\\\p{Odd}", "\\\\p{L", "\\\\", "[", "(?R)", "\\\\1", "(?C1)a", "*a", "[\\\\W]"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char text[512];
        ls_error e = {0};
        ls_tokenizer *t = NULL;
        snprintf(text, sizeof text, "{" BPE ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"%s\"}}}", patterns[i]);
        ls_code rc = open_text(&t, text, NULL, &e);
        bool literal_brace = !strcmp(patterns[i], "a{3"); /* Ruby takes it as text */
        if (literal_brace ? rc != LS_OK : rc != LS_UNIMPLEMENTED && rc != LS_INVALID_ARGUMENT) fail_msg("%s: %d %s", patterns[i], rc, e.text);
        ls_tokenizer_close(t);
    }
}

static void a_regex_cannot_hang(void **state) {
    (void)state;
    ls_error e = {0};
    ls_tokenizer *t = NULL;
    ls_token_ids ids = {0};
    assert_ok(open_text(&t, "{" BPE ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(a+)+$\"}}}", NULL, &e));
    char text[64];
    memset(text, 'a', sizeof text);
    text[63] = 'b';
    assert_error(ls_tokenizer_encode(t, text, sizeof text, 0, &ids, &e), LS_RESOURCE_EXHAUSTED, "gave up");
    assert_int_equal(ids.n, 0);
    ls_free(ids.ids);
    ls_tokenizer_close(t);
}

static void configuration_adds_roles_and_flags(void **state) {
    (void)state;
    ls_error e = {0};
    ls_tokenizer *t = NULL;
    assert_ok(open_text(&t, "{" BPE "}",
                        "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"ab\", \"pad_token\": null, \"tokenizer_class\": \"LlamaTokenizer\","
                        " \"added_tokens_decoder\": {\"7\": {\"content\": \"<x>\", \"special\": false, \"rstrip\": true}},"
                        " \"chat_template\": [{\"name\": \"rag\", \"template\": \"R\"}, {\"name\": \"default\", \"template\": \"D\"}]}", &e));
    assert_string_equal(ls_tokenizer_token(t, 7, NULL), "<x>");
    assert_int_equal(ls_tokenizer_bos(t), 8);
    assert_int_equal(ls_tokenizer_eos(t), 2);
    assert_true(t->special[2]);
    assert_false(ls_added_by_id(&t->added, 7)->special);
    assert_int_equal(ls_tokenizer_size(t), 9);
    assert_string_equal(ls_tokenizer_chat_template(t), "D");
    assert_null(ls_tokenizer_token(t, 5, NULL));
    assert_null(ls_tokenizer_token(t, -1, NULL));
    ls_token_ids ids = {0};
    assert_ok(ls_tokenizer_encode(t, "a<x> ab", 7, LS_ENCODE_ADD_SPECIAL, &ids, &e));
    ls_str text = {0};
    ids_text(&ids, &text);
    assert_string_equal(text.data, "8 0 7 0 1"); /* "ab" is special, so plain text does not become it */
    ls_str_deinit(&text);
    ls_free(ids.ids);
    ls_tokenizer_close(t);
}

/* Python's bytes.decode("utf-8", "replace"): one U+FFFD for every maximal ill-formed part. */
static void invalid_utf8_is_replaced(void **state) {
    (void)state;
    static const struct { const char *bytes, *want; } v[] = {
        {"a\xFFz", "a\xEF\xBF\xBDz"}, {"\xE2\x82", "\xEF\xBF\xBD"}, {"\xE2\x82z", "\xEF\xBF\xBDz"}, {"\xC0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, {"\xF0\x9F\x98", "\xEF\xBF\xBD"}, {"\xF4\x90\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xF0\x9F\x98\xE2\x82\xAC", "\xEF\xBF\xBD\xE2\x82\xAC"}};
    ls_error e = {0};
    ls_tokenizer *t = NULL;
    json_t *j = load_case("llama3.json");
    assert_ok(ls_tokenizer_open_json(&t, j, NULL, &e));
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        ls_token_ids ids = {0};
        ls_str text = {0};
        assert_ok(ls_tokenizer_encode(t, v[i].bytes, strlen(v[i].bytes), 0, &ids, &e));
        assert_ok(ls_tokenizer_decode(t, ids.ids, ids.n, false, &text, &e));
        assert_string_equal(text.data, v[i].want);
        ls_str_deinit(&text);
        ls_free(ids.ids);
    }
    ls_tokenizer_close(t);
    json_decref(j);
}

/* A megabyte of one kind takes time in proportion: no piece, run of marks or run of spaces is quadratic. */
static void a_megabyte_is_quick(void **state) {
    (void)state;
    static const char *const names[] = {"llama3", "qwen2", "gemma", "llama2", "unigram-bytes", "deepseek-v3"};
    static const char *const units[] = {"a", " ", "ab", "\xCC\x81\xCC\xA3", "\n", "\xF0\x9F\x98\x80", "'", "1", "\xE2\x96\x81", "<"};
    enum { SIZE = 1 << 20 };
    ls_error e = {0};
    ls_token_ids ids = {0};
    char *text = malloc(SIZE);
    assert_non_null(text);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        char file[64];
        ls_tokenizer *t = NULL;
        snprintf(file, sizeof file, "%s.json", names[n]);
        json_t *j = load_case(file);
        assert_ok(ls_tokenizer_open_json(&t, j, NULL, &e));
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            size_t len = strlen(units[u]), size = SIZE / len * len;
            for (size_t i = 0; i < size; i++) text[i] = units[u][i % len];
            clock_t start = clock();
            ids.n = 0;
            assert_ok(ls_tokenizer_encode(t, text, size, 3, &ids, &e));
            double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
            if (seconds > 20) fail_msg("%s: a megabyte of \"%s\" took %.1f s", names[n], units[u], seconds);
            if (getenv("LS_TEST_VERBOSE")) printf("%-14s %-8s %7zu ids %.3f s\n", names[n], units[u], ids.n, seconds);
        }
        ls_tokenizer_close(t);
        json_decref(j);
    }
    free(text);
    ls_free(ids.ids);
}

static void gguf_refusals_name_the_key(void **state) {
    (void)state;
    static const struct { const char *meta; ls_code code; const char *part; } v[] = {
        {"{}", LS_INVALID_ARGUMENT, "tokens"},
        {"{\"tokenizer.ggml.model\": \"bert\", \"tokenizer.ggml.tokens\": [\"a\"]}", LS_UNIMPLEMENTED, "bert"},
        {"{\"tokenizer.ggml.model\": \"gpt2\", \"tokenizer.ggml.tokens\": [\"a\"]}", LS_UNIMPLEMENTED, "tokenizer.ggml.pre"},
        {"{\"tokenizer.ggml.model\": \"gpt2\", \"tokenizer.ggml.pre\": \"odd\", \"tokenizer.ggml.tokens\": [\"a\"]}", LS_UNIMPLEMENTED, "odd"},
        {"{\"tokenizer.ggml.model\": \"gpt2\", \"tokenizer.ggml.pre\": \"qwen2\", \"tokenizer.ggml.tokens\": [\"a\"]}", LS_INVALID_ARGUMENT, "merges"},
        {"{\"tokenizer.ggml.model\": \"llama\", \"tokenizer.ggml.tokens\": [\"a\"]}", LS_INVALID_ARGUMENT, "scores"},
        {"{\"tokenizer.ggml.model\": \"llama\", \"tokenizer.ggml.tokens\": [\"a\"], \"tokenizer.ggml.scores\": [0, 1]}", LS_INVALID_ARGUMENT, "as many"},
        {"{\"tokenizer.ggml.model\": \"llama\", \"tokenizer.ggml.tokens\": [\"a\"], \"tokenizer.ggml.scores\": [0], \"tokenizer.ggml.bos_token_id\": 3}",
         LS_OUT_OF_RANGE, "bos_token_id"}};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        ls_error e = {0};
        ls_tokenizer *t = NULL;
        json_t *j = NULL;
        assert_ok(ls_json_parse(&j, v[i].meta, strlen(v[i].meta), "test", &e));
        assert_error(ls_tokenizer_open_gguf(&t, j, &e), v[i].code, v[i].part);
        json_decref(j);
    }
}

static void folders_without_a_tokenizer_are_refused(void **state) {
    (void)state;
    ls_error e = {0};
    ls_tokenizer *t = NULL;
    assert_error(ls_tokenizer_open_folder(&t, LS_FIXTURES "/text", &e), LS_NOT_FOUND, "neither tokenizer.json nor tokenizer.model");
}

/* A tokenizer.model cut anywhere, or with a damaged byte, is refused or read, never followed out of bounds. */
static void damaged_models_are_harmless(void **state) {
    (void)state;
    ls_error e = {0};
    ls_str file = {0};
    char folder[] = "/tmp/ls_tokenizer_XXXXXX", path[64];
    assert_ok(ls_file_read(&file, LS_FIXTURES "/text/tokenizer/sp_unigram/tokenizer.model", 1 << 20, &e));
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tokenizer.model", folder);
    for (size_t i = 0; i < 400; i++) {
        size_t at = i * 7919 % file.len, len = i % 2 ? file.len : at;
        char old = file.data[at];
        ls_tokenizer *t = NULL;
        ls_token_ids ids = {0};
        if (i % 2) file.data[at] = (char)(old ^ (1 << i % 8));
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(file.data, 1, len, f), len);
        fclose(f);
        file.data[at] = old;
        if (ls_tokenizer_open_folder(&t, folder, &e)) continue;
        if (ls_tokenizer_encode(t, "a b\xC3\xA9 c", 7, 3, &ids, &e)) assert_true(e.text[0]);
        ls_free(ids.ids);
        ls_tokenizer_close(t);
    }
    remove(path);
    remove(folder);
    ls_str_deinit(&file);
}

/* ---- Which chat template counts ------------------------------------------------------------------------------------------------------- */

enum { CONFIG, JINJA, JSON, PROCESSOR, PREPROCESSOR, TEMPLATE_FILES };

static const struct {
    const char *name, *text;
} template_file[TEMPLATE_FILES] = {{"tokenizer_config.json", "{\"chat_template\": \"config\"}"},
                                   {"chat_template.jinja", "jinja"},
                                   {"chat_template.json", "{\"chat_template\": \"json\"}"},
                                   {"processor_config.json", "{\"image_seq_length\": 16, \"chat_template\": \"processor\"}"},
                                   {"preprocessor_config.json", "{}"}};

static void write_text(const char *folder, const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!text) {
        remove(path);
        return;
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

/* What AutoTokenizer of transformers 4.57.6 takes of the files |has|, and beside a preprocessor_config.json what AutoProcessor takes; where that has
 * none, the tokenizer's. */
static const char *theirs(unsigned has) {
    const bool processor = has >> PREPROCESSOR & 1;
    if (processor && has >> JSON & 1) return "json";
    if (has >> JINJA & 1) return "jinja";
    if (processor && has >> PROCESSOR & 1) return "processor";
    return has >> CONFIG & 1 ? "config" : NULL;
}

static void the_template_is_the_one_of_transformers(void **state) {
    (void)state;
    ls_error e = {0};
    ls_tokenizer *t = NULL;
    char folder[] = "/tmp/ls_tokenizer_XXXXXX";
    assert_non_null(mkdtemp(folder));
    write_text(folder, "tokenizer.json", "{" BPE "}");
    for (unsigned has = 0; has < 1 << TEMPLATE_FILES; has++) {
        for (int i = 0; i < TEMPLATE_FILES; i++) write_text(folder, template_file[i].name, has >> i & 1 ? template_file[i].text : NULL);
        assert_ok(ls_tokenizer_open_folder(&t, folder, &e));
        const char *found = ls_tokenizer_chat_template(t), *want = theirs(has);
        if (!found != !want || (want && strcmp(found, want))) fail_msg("files %x: template \"%s\", not \"%s\"", has, found ? found : "", want ? want : "");
        ls_tokenizer_close(t);
    }
    write_text(folder, "chat_template.json", "{\"chat_template\": 7}");
    assert_error(ls_tokenizer_open_folder(&t, folder, &e), LS_INVALID_ARGUMENT, "chat_template.json: \"chat_template\" must be a text");
    for (int i = 0; i < TEMPLATE_FILES; i++) write_text(folder, template_file[i].name, NULL);
    write_text(folder, "tokenizer.json", NULL);
    remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_parts_are_refused_by_name), cmocka_unit_test(broken_models_are_refused),
        cmocka_unit_test(foreign_regex_syntax_is_refused), cmocka_unit_test(a_regex_cannot_hang),
        cmocka_unit_test(configuration_adds_roles_and_flags), cmocka_unit_test(invalid_utf8_is_replaced),
        cmocka_unit_test(a_megabyte_is_quick), cmocka_unit_test(gguf_refusals_name_the_key),
        cmocka_unit_test(damaged_models_are_harmless), cmocka_unit_test(folders_without_a_tokenizer_are_refused),
        cmocka_unit_test(the_template_is_the_one_of_transformers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
