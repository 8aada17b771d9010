/* Tokenizers of every family against the results of `tokenizers` and `sentencepiece`, as they are read and on the tables of a pack file. */
#include "text/test_tokenizer_cases.h"

#include <stdlib.h>

#include "base/sha256.h"
#include "text/tokenizer_build.h"

static void check_family(const char *name) {
    char file[128];
    ls_error e = {0};
    ls_tokenizer *t = NULL;
    snprintf(file, sizeof file, "%s.json", name);
    json_t *source = load_case(file);
    snprintf(file, sizeof file, "%s.golden.json", name);
    json_t *golden = load_case(file);
    if (json_object_get(source, "tokenizer.ggml.model")) assert_ok(ls_tokenizer_open_gguf(&t, source, &e));
    else assert_ok(ls_tokenizer_open_json(&t, source, NULL, &e));
    check_golden(name, t, golden);
    ls_str tables = {0};
    ls_tokenizer *packed = through_tables(t, &tables);
    ls_tokenizer_close(t);
    check_golden(name, packed, golden);
    ls_tokenizer_close(packed);
    ls_str_deinit(&tables);
    json_decref(source);
    json_decref(golden);
}

#define FAMILY(function, name)              \
    static void function(void **state) {    \
        (void)state;                        \
        check_family(name);                 \
    }

FAMILY(gpt2, "gpt2")
FAMILY(llama3, "llama3")
FAMILY(qwen2, "qwen2")
FAMILY(smollm, "smollm")
FAMILY(command_r, "command-r")
FAMILY(command_a, "command-a")
FAMILY(deepseek_v3, "deepseek-v3")
FAMILY(tekken, "tekken")
FAMILY(gpt4o, "gpt-4o")
FAMILY(phi4, "phi4")
FAMILY(seed, "seed")
FAMILY(exaone, "exaone")
FAMILY(olmo2, "olmo2")
FAMILY(llama2, "llama2")
FAMILY(mistral, "mistral")
FAMILY(gemma, "gemma")
FAMILY(unigram, "unigram")
FAMILY(unigram_bytes, "unigram-bytes")
FAMILY(affixes, "affixes")
FAMILY(gguf_llama, "gguf_llama")
FAMILY(gguf_gemma, "gguf_gemma")

/* ---- tokenizer.model against sentencepiece --------------------------------------------------------------------- */

static void check_sp_ids(const char *folder, const ls_tokenizer *t) {
    char path[1024];
    ls_error e = {0};
    ls_str text = {0}, got = {0};
    ls_token_ids ids = {0};
    snprintf(path, sizeof path, "%s/golden.json", folder);
    json_t *golden = load_case(path), *corpus = load_case("corpus.json");
    for (size_t i = 0; i < json_array_size(corpus); i++) {
        const char *want = json_string_value(json_array_get(json_object_get(golden, "ids"), i));
        corpus_text(corpus, i, &text);
        ids.n = 0;
        assert_ok(ls_tokenizer_encode(t, text.data, text.len, 0, &ids, &e));
        ids_text(&ids, &got);
        if (strcmp(got.data, want)) fail_msg("%s: text %zu \"%.200s\": ids\n  %s, want\n  %s", folder, i, text.data, got.data, want);
    }
    assert_int_equal(ls_tokenizer_bos(t), 1);
    assert_int_equal(ls_tokenizer_eos(t), 2);
    assert_true(ls_added_by_id(&t->added, 1)->special);
    assert_string_equal(ls_tokenizer_token(t, 1, NULL), "<s>");
    assert_non_null(strstr(ls_tokenizer_chat_template(t), "bos_token"));
    ids.n = 0;
    assert_ok(ls_tokenizer_encode(t, "a", 1, LS_ENCODE_ADD_SPECIAL, &ids, &e));
    assert_int_equal(ids.ids[0], 1);
    ls_str_deinit(&text);
    ls_str_deinit(&got);
    ls_free(ids.ids);
    json_decref(golden);
    json_decref(corpus);
}

static void check_sp(const char *folder) {
    char path[1024];
    ls_error e = {0};
    ls_tokenizer *t = NULL;
    ls_str tables = {0};
    snprintf(path, sizeof path, "%s/text/tokenizer/%s", LS_FIXTURES, folder);
    assert_ok(ls_tokenizer_open_folder(&t, path, &e));
    check_sp_ids(folder, t);
    ls_tokenizer *packed = through_tables(t, &tables);
    check_sp_ids(folder, packed);
    ls_tokenizer_close(packed);
    ls_tokenizer_close(t);
    ls_str_deinit(&tables);
}

static void sentencepiece_bpe(void **state) {
    (void)state;
    check_sp("sp_bpe");
}

static void sentencepiece_unigram(void **state) {
    (void)state;
    check_sp("sp_unigram");
}

/* ---- Components, on a model that shows where pieces end ----------------------------------------------------------- */

enum { ROWS_PER_DIGEST = 16 };

/* Digest of rows[from ...], joined by line ends, as the first 12 hexadecimal digits. */
static void rows_digest(const ls_str *rows, size_t n, char hex[65]) {
    ls_sha256 h;
    uint8_t digest[32];
    ls_sha256_init(&h);
    for (size_t i = 0; i < n; i++) {
        if (i) ls_sha256_update(&h, "\n", 1);
        ls_sha256_update(&h, rows[i].data, rows[i].len);
    }
    ls_sha256_final(&h, digest);
    ls_sha256_hex(digest, hex);
    hex[12] = 0;
}

static void ids_row(const ls_token_ids *ids, ls_str *row) {
    ls_error e = {0};
    ls_str_clear(row);
    assert_ok(ls_str_append(row, "", 0, &e));
    for (size_t i = 0; i < ids->n; i++) assert_ok(ls_str_printf(row, &e, i ? " %d" : "%d", (int)ids->ids[i]));
}

static void text_row(const ls_tokenizer *t, const ls_token_ids *ids, ls_str *row) {
    ls_error e = {0};
    ls_str text = {0};
    ls_str_clear(row);
    assert_ok(ls_tokenizer_decode(t, ids->ids, ids->n, true, &text, &e));
    for (size_t i = 0; i < text.len; i++)
        assert_ok(ls_str_append(row, text.data[i] == '\n' ? "\\n" : text.data + i, text.data[i] == '\n' ? 2 : 1, &e));
    assert_ok(ls_str_append(row, "", 0, &e));
    ls_str_deinit(&text);
}

static void check_probe(size_t c, const json_t *node, const ls_tokenizer *t, const json_t *texts) {
    ls_str ids_rows[ROWS_PER_DIGEST] = {{0}}, text_rows[ROWS_PER_DIGEST] = {{0}};
    ls_token_ids ids = {0};
    ls_error e = {0};
    char hex[65];
    char *parts = json_dumps(json_object_get(node, "parts"), JSON_COMPACT);
    size_t n = json_array_size(texts);
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_array_get(texts, i);
        ids.n = 0;
        assert_ok(ls_tokenizer_encode(t, json_string_value(text), json_string_length(text), 3, &ids, &e));
        ids_row(&ids, &ids_rows[i % ROWS_PER_DIGEST]);
        text_row(t, &ids, &text_rows[i % ROWS_PER_DIGEST]);
        size_t rows = i % ROWS_PER_DIGEST + 1, block = i / ROWS_PER_DIGEST;
        if (rows < ROWS_PER_DIGEST && i + 1 < n) continue;
        rows_digest(ids_rows, rows, hex);
        if (strcmp(hex, json_string_value(json_array_get(json_object_get(node, "ids"), block))))
            fail_msg("case %zu %s: ids of texts from %zu differ", c, parts, block * ROWS_PER_DIGEST);
        rows_digest(text_rows, rows, hex);
        if (strcmp(hex, json_string_value(json_array_get(json_object_get(node, "text"), block))))
            fail_msg("case %zu %s: decoded texts from %zu differ", c, parts, block * ROWS_PER_DIGEST);
    }
    for (size_t i = 0; i < ROWS_PER_DIGEST; i++) {
        ls_str_deinit(&ids_rows[i]);
        ls_str_deinit(&text_rows[i]);
    }
    free(parts);
    ls_free(ids.ids);
}

static void components(void **state) {
    (void)state;
    ls_error e = {0};
    json_t *j = load_case("probe.json"), *node;
    size_t c;
    json_array_foreach(json_object_get(j, "cases"), c, node) {
        ls_tokenizer *t = NULL;
        json_t *source = json_deep_copy(json_object_get(node, "parts")), *model = json_deep_copy(json_object_get(j, "model"));
        json_object_set(model, "fuse_unk", json_object_get(node, "fuse_unk"));
        json_object_set_new(source, "model", model);
        assert_ok(ls_tokenizer_open_json(&t, source, NULL, &e));
        check_probe(c, node, t, json_object_get(j, "texts"));
        ls_str tables = {0};
        ls_tokenizer *packed = through_tables(t, &tables);
        check_probe(c, node, packed, json_object_get(j, "texts"));
        ls_tokenizer_close(packed);
        ls_str_deinit(&tables);
        ls_tokenizer_close(t);
        json_decref(source);
    }
    json_decref(j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(components), cmocka_unit_test(gpt2), cmocka_unit_test(llama3), cmocka_unit_test(qwen2),
        cmocka_unit_test(smollm), cmocka_unit_test(command_r), cmocka_unit_test(command_a), cmocka_unit_test(deepseek_v3),
        cmocka_unit_test(tekken), cmocka_unit_test(gpt4o), cmocka_unit_test(phi4), cmocka_unit_test(seed), cmocka_unit_test(exaone),
        cmocka_unit_test(olmo2), cmocka_unit_test(llama2), cmocka_unit_test(mistral), cmocka_unit_test(gemma),
        cmocka_unit_test(unigram), cmocka_unit_test(unigram_bytes), cmocka_unit_test(affixes), cmocka_unit_test(gguf_llama),
        cmocka_unit_test(gguf_gemma), cmocka_unit_test(sentencepiece_bpe), cmocka_unit_test(sentencepiece_unigram)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
