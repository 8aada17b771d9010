/* Corpus, generator and comparison of the tokenizer tests. */
#include "text/test_tokenizer_cases.h"

#include "base/sha256.h"
#include "text/tokenizer_tables.h"

static const char *path_of(const char *name) {
    static char path[1024];
    snprintf(path, sizeof path, "%s/text/tokenizer/%s", LS_FIXTURES, name);
    return path;
}

bool case_exists(const char *name) { return ls_file_exists(path_of(name)); }

json_t *load_case(const char *name) {
    ls_error e = {0};
    json_t *j = NULL;
    assert_ok(ls_json_load(&j, path_of(name), 1 << 24, &e));
    return j;
}

static void append(ls_str *s, const char *text, size_t len) {
    ls_error e = {0};
    assert_ok(ls_str_append(s, text, len, &e));
}

void corpus_text(const json_t *corpus, size_t i, ls_str *out) {
    const json_t *v = json_array_get(corpus, i), *text = json_is_string(v) ? v : json_object_get(v, "repeat");
    json_int_t times = json_is_string(v) ? 1 : json_integer_value(json_object_get(v, "times"));
    ls_str_clear(out);
    append(out, "", 0);
    for (json_int_t k = 0; k < times; k++) append(out, json_string_value(text), json_string_length(text));
}

void ids_text(const ls_token_ids *ids, ls_str *out) {
    ls_error e = {0};
    ls_str_clear(out);
    append(out, "", 0);
    for (size_t i = 0, j; i < ids->n; i = j) {
        for (j = i; j < ids->n && ids->ids[j] == ids->ids[i];) j++;
        assert_ok(ls_str_printf(out, &e, j - i > 1 ? "%s%d*%zu" : "%s%d", i ? " " : "", (int)ids->ids[i], j - i));
    }
}

ls_tokenizer *through_tables(const ls_tokenizer *t, ls_str *tables) {
    ls_error e = {0};
    ls_tokenizer *other = NULL;
    const char *chat = ls_tokenizer_chat_template(t);
    ls_str_clear(tables);
    assert_ok(ls_tokenizer_write_tables(t, tables, &e));
    assert_ok(ls_tokenizer_open_tables(&other, (const uint8_t *)tables->data, tables->len, chat, chat ? strlen(chat) : 0, &e));
    assert_int_equal(ls_tokenizer_size(other), ls_tokenizer_size(t));
    assert_int_equal(ls_tokenizer_bos(other), ls_tokenizer_bos(t));
    assert_int_equal(ls_tokenizer_eos(other), ls_tokenizer_eos(t));
    return other;
}

void parse_ids(const char *text, ls_token_ids *out) {
    ls_error e = {0};
    int id, times, used;
    out->n = 0;
    for (; *text; text += used + (text[used] == ' ')) {
        if (sscanf(text, "%d*%d%n", &id, &times, &used) < 2) {
            times = 1;
            if (sscanf(text, "%d%n", &id, &used) != 1) fail_msg("bad ids \"%.40s\"", text);
        }
        for (; times > 0; times--) {
            assert_ok(ls_grow(&out->ids, out->n, &out->cap, sizeof *out->ids, 1 << 24, "ids", &e));
            out->ids[out->n++] = id;
        }
    }
}

/* ---- Generated texts ------------------------------------------------------------------------------------------- */

typedef struct generator {
    uint64_t state;
    const json_t *bits, *ranges, *unassigned;
} generator;

static uint32_t draw(generator *g, uint32_t n) {
    g->state = g->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((g->state >> 33) % n);
}

static uint32_t pair_at(const json_t *pairs, size_t i, size_t k) {
    return (uint32_t)json_integer_value(json_array_get(json_array_get(pairs, i), k));
}

static uint32_t replace_unassigned(const generator *g, uint32_t c) {
    for (size_t i = 0; i < json_array_size(g->unassigned); i++)
        if (c >= pair_at(g->unassigned, i, 0) && c <= pair_at(g->unassigned, i, 1)) return 'A';
    return c;
}

static void random_text(generator *g, ls_str *out) {
    ls_str_clear(out);
    append(out, "", 0);
    for (uint32_t n = draw(g, 24); n; n--) {
        uint32_t kind = draw(g, 3);
        if (!kind) {
            const json_t *bit = json_array_get(g->bits, draw(g, (uint32_t)json_array_size(g->bits)));
            append(out, json_string_value(bit), json_string_length(bit));
            continue;
        }
        size_t range = draw(g, (uint32_t)json_array_size(g->ranges));
        uint32_t lo = pair_at(g->ranges, range, 0), hi = pair_at(g->ranges, range, 1);
        for (uint32_t k = 1 + draw(g, kind == 1 ? 3 : 8); k; k--) {
            char b[4];
            int len = ls_utf8_encode(replace_unassigned(g, lo + draw(g, hi - lo + 1)), b);
            append(out, b, (size_t)len);
        }
    }
}

static void add_to_digest(ls_sha256 *h, const ls_token_ids *ids) {
    char line[32];
    for (size_t i = 0; i < ids->n; i++) {
        int n = snprintf(line, sizeof line, i ? " %d" : "%d", (int)ids->ids[i]);
        ls_sha256_update(h, line, (size_t)n);
    }
    ls_sha256_update(h, "\n", 1);
}

void check_random(const char *name, const ls_tokenizer *t, const json_t *want) {
    json_t *j = load_case("generator.json");
    generator g = {.state = 1, .bits = json_object_get(j, "bits"), .ranges = json_object_get(j, "ranges"),
                   .unassigned = json_object_get(j, "unassigned")};
    size_t texts = (size_t)json_integer_value(json_object_get(j, "texts")), block = (size_t)json_integer_value(json_object_get(j, "block"));
    ls_error e = {0};
    ls_str text = {0};
    ls_token_ids ids = {0};
    ls_sha256 h;
    uint8_t digest[32];
    char hex[65];
    ls_sha256_init(&h);
    for (size_t i = 0; i < texts; i++) {
        random_text(&g, &text);
        ids.n = 0;
        assert_ok(ls_tokenizer_encode(t, text.data, text.len, LS_ENCODE_PARSE_SPECIAL, &ids, &e));
        add_to_digest(&h, &ids);
        if ((i + 1) % block) continue;
        ls_sha256_final(&h, digest);
        ls_sha256_hex(digest, hex);
        const char *expected = json_string_value(json_array_get(want, i / block));
        if (!expected || strncmp(hex, expected, 16)) fail_msg("%s: generated texts %zu to %zu differ", name, i + 1 - block, i);
        ls_sha256_init(&h);
    }
    ls_str_deinit(&text);
    ls_free(ids.ids);
    json_decref(j);
}

/* ---- Goldens --------------------------------------------------------------------------------------------------- */

/* Decodes id by id; every piece must be whole characters, and the pieces together the decoded text. */
static void check_incremental(const char *name, size_t i, const ls_tokenizer *t, const ls_token_ids *ids, bool skip, const ls_str *full) {
    ls_error e = {0};
    ls_detokenizer d;
    ls_str all = {0};
    ls_detokenizer_init(&d, t, skip);
    for (size_t k = 0; k <= ids->n; k++) {
        size_t before = all.len;
        if (k < ids->n) assert_ok(ls_detokenizer_push(&d, ids->ids[k], &all, &e));
        else assert_ok(ls_detokenizer_flush(&d, &all, &e));
        while (before < all.len) {
            int n = ls_utf8_decode(all.data + before, all.len - before, NULL);
            if (!n) fail_msg("%s: text %zu: piece %zu splits a character", name, i, k);
            before += (size_t)n;
        }
    }
    if (all.len != full->len || (all.len && memcmp(all.data, full->data, all.len)))
        fail_msg("%s: text %zu: pieces \"%s\", decoded \"%s\"", name, i, all.data ? all.data : "", full->data);
    ls_detokenizer_deinit(&d);
    ls_str_deinit(&all);
}

static void check_decoded(const char *name, size_t i, const ls_tokenizer *t, const ls_token_ids *ids, bool skip, const char *want, size_t len) {
    ls_error e = {0};
    ls_str got = {0};
    append(&got, "", 0);
    assert_ok(ls_tokenizer_decode(t, ids->ids, ids->n, skip, &got, &e));
    if (got.len != len || memcmp(got.data, want, len))
        fail_msg("%s: text %zu, skip_special %d: decoded \"%s\", want \"%s\"", name, i, skip, got.data, want);
    check_incremental(name, i, t, ids, skip, &got);
    ls_str_deinit(&got);
}

static void check_ids(const char *name, size_t i, const ls_tokenizer *t, const ls_str *text, int flags, const char *want, ls_token_ids *ids) {
    ls_error e = {0};
    ls_str got = {0};
    ids->n = 0;
    assert_ok(ls_tokenizer_encode(t, text->data, text->len, flags, ids, &e));
    ids_text(ids, &got);
    if (strcmp(got.data, want)) fail_msg("%s: text %zu \"%.200s\", flags %d: ids\n  %s, want\n  %s", name, i, text->data, flags, got.data, want);
    ls_str_deinit(&got);
}

/* With special tokens: the same ids in their frame. */
static void check_frame(const char *name, size_t i, const ls_tokenizer *t, const ls_str *text, const json_t *golden, const ls_token_ids *ids) {
    const json_t *before = json_object_get(golden, "before"), *after = json_object_get(golden, "after");
    size_t a = json_array_size(before), b = json_array_size(after);
    ls_error e = {0};
    ls_token_ids got = {0};
    assert_ok(ls_tokenizer_encode(t, text->data, text->len, LS_ENCODE_PARSE_SPECIAL | LS_ENCODE_ADD_SPECIAL, &got, &e));
    if (got.n != a + ids->n + b) fail_msg("%s: text %zu: %zu ids with special tokens, want %zu", name, i, got.n, a + ids->n + b);
    for (size_t k = 0; k < a; k++) assert_int_equal(got.ids[k], json_integer_value(json_array_get(before, k)));
    for (size_t k = 0; k < b; k++) assert_int_equal(got.ids[a + ids->n + k], json_integer_value(json_array_get(after, k)));
    if (ids->n) assert_memory_equal(got.ids + a, ids->ids, ids->n * sizeof *ids->ids);
    ls_free(got.ids);
}

static void check_text(const char *name, size_t i, const ls_tokenizer *t, const json_t *golden, const ls_str *text) {
    char key[24];
    ls_token_ids ids = {0}, plain_ids = {0};
    snprintf(key, sizeof key, "%zu", i);
    const char *want = json_string_value(json_array_get(json_object_get(golden, "ids"), i));
    const json_t *plain = json_object_get(json_object_get(golden, "plain"), key);
    const json_t *decoded = json_object_get(json_object_get(golden, "text"), key);
    const json_t *skipped = json_object_get(json_object_get(golden, "skipped"), key);
    assert_non_null(want);
    check_ids(name, i, t, text, LS_ENCODE_PARSE_SPECIAL, want, &ids);
    check_ids(name, i, t, text, 0, plain ? json_string_value(plain) : want, &plain_ids);
    check_frame(name, i, t, text, golden, &ids);
    const char *full = decoded ? json_string_value(decoded) : text->data;
    size_t len = decoded ? json_string_length(decoded) : text->len;
    check_decoded(name, i, t, &ids, false, full, len);
    if (skipped) full = json_string_value(skipped), len = json_string_length(skipped);
    check_decoded(name, i, t, &ids, true, full, len);
    ls_free(ids.ids);
    ls_free(plain_ids.ids);
}

void check_golden(const char *name, const ls_tokenizer *t, const json_t *golden) {
    json_t *corpus = load_case("corpus.json");
    ls_str text = {0};
    assert_int_equal(json_array_size(json_object_get(golden, "ids")), json_array_size(corpus));
    for (size_t i = 0; i < json_array_size(corpus); i++) {
        corpus_text(corpus, i, &text);
        check_text(name, i, t, golden, &text);
    }
    check_random(name, t, json_object_get(golden, "random"));
    ls_str_deinit(&text);
    json_decref(corpus);
}
