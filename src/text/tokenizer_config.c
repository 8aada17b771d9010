/* tokenizer_config.json and its neighbours: what a Hugging Face folder says about a tokenizer besides tokenizer.json. */
#include <string.h>

#include "text/tokenizer_build.h"

enum { MAX_CONFIG = 1 << 25, MAX_TOKENIZER = 1 << 28, MAX_TEMPLATE = 1 << 22 };

/* A token given as "text" or {"content": "text", ...}; NULL when absent. */
static const json_t *token_text(const json_t *config, const char *key) {
    const json_t *v = json_object_get(config, key);
    if (json_is_object(v)) v = json_object_get(v, "content");
    return json_is_string(v) && json_string_length(v) ? v : NULL;
}

static int32_t find_token(const ls_tokenizer *t, const char *text, size_t len) {
    const ls_added_token *x = ls_added_by_text(&t->added, text, len);
    return x ? x->id : ls_vocab_find(&t->model.vocab, text, len);
}

static bool flag(const json_t *node, const char *key, bool absent) {
    const json_t *v = json_object_get(node, key);
    return json_is_boolean(v) ? json_is_true(v) : absent;
}

/* A decimal id, or -1. */
static int32_t parse_id(const char *s) {
    int32_t id = 0;
    if (!*s) return -1;
    for (; *s; s++) {
        if (*s < '0' || *s > '9' || id >= LS_VOCAB_MAX_IDS) return -1;
        id = id * 10 + (*s - '0');
    }
    return id < LS_VOCAB_MAX_IDS ? id : -1;
}

/* {"0": {"content": ..., flags}, ...}: the flags count also for tokens that tokenizer.json has. */
static ls_code added_tokens_decoder(ls_tokenizer *t, const json_t *config, ls_error *e) {
    const json_t *table = json_object_get(config, "added_tokens_decoder");
    const char *key;
    json_t *node;
    json_object_foreach((json_t *)(uintptr_t)table, key, node) {
        const char *text;
        ls_added_token x = {.id = parse_id(key), .special = flag(node, "special", false), .lstrip = flag(node, "lstrip", false),
                            .rstrip = flag(node, "rstrip", false), .single_word = flag(node, "single_word", false)};
        x.normalized = flag(node, "normalized", !x.special);
        if (!json_is_object(node)) LS_FAIL(e, LS_INVALID_ARGUMENT, "added_tokens_decoder: entry \"%.20s\" must be an object", key);
        LS_TRY(ls_component_text(node, "content", &text, &x.len, e));
        x.text = (char *)(uintptr_t)text;
        LS_TRY(ls_tokenizer_add_token(t, &x, e));
    }
    return LS_OK;
}

/* A token named by a role (bos_token, ...) is a special token even where no list says so. */
static ls_code role(ls_tokenizer *t, const json_t *config, const char *key, int32_t *id, ls_error *e) {
    const json_t *v = token_text(config, key);
    if (!v) return LS_OK;
    ls_added_token x = {.id = -1, .len = json_string_length(v), .text = (char *)(uintptr_t)json_string_value(v), .special = true};
    if (!ls_added_by_text(&t->added, x.text, x.len)) LS_TRY(ls_tokenizer_add_token(t, &x, e));
    *id = find_token(t, x.text, x.len);
    return LS_OK;
}

ls_code ls_tokenizer_set_template(ls_tokenizer *t, const char *text, size_t len, ls_error *e) {
    if (len > MAX_TEMPLATE) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "chat template of %zu bytes; at most %d", len, MAX_TEMPLATE);
    ls_free(t->chat_template);
    t->chat_template = NULL;
    LS_TRY(ls_calloc(&t->chat_template, len + 1, 1, "chat template", e));
    memcpy(t->chat_template, text, len);
    return LS_OK;
}

/* "chat_template": text, or a list of {"name", "template"} of which "default" counts; NULL: neither. */
static const json_t *default_template(const json_t *config) {
    const json_t *v = json_object_get(config, "chat_template"), *item;
    size_t i;
    json_array_foreach(v, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (!name || strcmp(name, "default")) continue;
        v = json_object_get(item, "template");
        break;
    }
    return json_is_string(v) ? v : NULL;
}

static ls_code chat_template(ls_tokenizer *t, const json_t *config, ls_error *e) {
    const json_t *v = default_template(config);
    return v ? ls_tokenizer_set_template(t, json_string_value(v), json_string_length(v), e) : LS_OK;
}

ls_code ls_tokenizer_frame(ls_tokenizer *t, bool add_bos, bool add_eos, ls_error *e) {
    ls_post_deinit(&t->post);
    if (add_bos && t->bos < 0) LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer: add_bos_token is set, but there is no bos_token");
    if (add_eos && t->eos < 0) LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer: add_eos_token is set, but there is no eos_token");
    if (add_bos) LS_TRY(ls_token_ids_add(&t->post.before, t->bos, e));
    return add_eos ? ls_token_ids_add(&t->post.after, t->eos, e) : LS_OK;
}

/* The classes that build their post-processor from add_bos_token and add_eos_token, and drop the one in tokenizer.json. */
static bool class_frames(const json_t *config) {
    static const char *const classes[] = {"LlamaTokenizer", "LlamaTokenizerFast", "GemmaTokenizer", "GemmaTokenizerFast",
                                          "CodeLlamaTokenizer", "CodeLlamaTokenizerFast", "CohereTokenizer", "CohereTokenizerFast"};
    const char *name = json_string_value(json_object_get(config, "tokenizer_class"));
    for (size_t i = 0; name && i < sizeof classes / sizeof *classes; i++)
        if (!strcmp(name, classes[i])) return true;
    return false;
}

ls_code ls_tokenizer_apply_config(ls_tokenizer *t, const json_t *config, ls_error *e) {
    int32_t ignored;
    if (!config) return LS_OK;
    if (!json_is_object(config)) LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer_config.json: must be an object");
    LS_TRY(added_tokens_decoder(t, config, e));
    LS_TRY(role(t, config, "bos_token", &t->bos, e));
    LS_TRY(role(t, config, "eos_token", &t->eos, e));
    LS_TRY(role(t, config, "unk_token", &ignored, e));
    LS_TRY(role(t, config, "pad_token", &ignored, e));
    LS_TRY(chat_template(t, config, e));
    if (!class_frames(config)) return LS_OK;
    return ls_tokenizer_frame(t, t->bos >= 0 && flag(config, "add_bos_token", true), flag(config, "add_eos_token", false), e);
}

/* ---- Folders --------------------------------------------------------------------------------------------------- */

static ls_code load_optional(ls_arena *a, json_t **out, const char *folder, const char *name, ls_error *e) {
    const char *path;
    LS_TRY(ls_path_join(a, &path, folder, name, e));
    return ls_file_exists(path) ? ls_json_load(out, path, MAX_CONFIG, e) : LS_OK;
}

/* Keys of |from| that |to| lacks. */
static ls_code fill_in(json_t *to, const json_t *from, ls_error *e) {
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)from, key, v) {
        if (json_object_get(to, key)) continue;
        if (json_object_set(to, key, v)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "tokenizer configuration: out of memory");
    }
    return LS_OK;
}

static ls_code load_config(ls_arena *a, json_t **out, const char *folder, ls_error *e) {
    json_t *map = NULL;
    LS_TRY(load_optional(a, out, folder, "tokenizer_config.json", e));
    if (!*out) *out = json_object();
    if (!json_is_object(*out)) LS_FAIL(e, LS_INVALID_ARGUMENT, "%s/tokenizer_config.json: must be an object", folder);
    ls_code rc = load_optional(a, &map, folder, "special_tokens_map.json", e);
    if (!rc && map) rc = fill_in(*out, map, e);
    json_decref(map);
    return rc;
}

/* added_tokens.json: {"text": id}, only beside a tokenizer.model. */
static ls_code older_added_tokens(ls_tokenizer *t, ls_arena *a, const char *folder, ls_error *e) {
    json_t *table = NULL, *id;
    const char *text;
    ls_code rc = LS_OK;
    LS_TRY(load_optional(a, &table, folder, "added_tokens.json", e));
    json_object_foreach(table, text, id) {
        ls_added_token x = {.id = json_is_integer(id) ? (int32_t)json_integer_value(id) : -1, .len = strlen(text),
                            .text = (char *)(uintptr_t)text};
        if (x.id < 0 || x.id >= LS_VOCAB_MAX_IDS) LS_FAIL_GOTO(e, LS_INVALID_ARGUMENT, "added_tokens.json: bad id of \"%.64s\"", text);
        LS_GOTO(ls_tokenizer_add_token(t, &x, e));
    }
out:
    json_decref(table);
    return rc;
}

static ls_code open_sp(ls_tokenizer **out, ls_arena *a, const char *folder, const char *path, const json_t *config, ls_error *e) {
    ls_tokenizer *t = NULL;
    LS_TRY(ls_tokenizer_new(&t, e));
    ls_code rc = LS_OK;
    LS_GOTO(ls_tokenizer_from_sp_file(t, path, config, e));
    LS_GOTO(older_added_tokens(t, a, folder, e));
    LS_GOTO(ls_tokenizer_apply_config(t, config, e));
    LS_GOTO(ls_tokenizer_finish(t, e));
out:
    if (rc) ls_tokenizer_close(t);
    else *out = t;
    return rc;
}

static ls_code jinja_template(ls_tokenizer *t, ls_arena *a, const char *folder, bool *found, ls_error *e) {
    const char *path;
    ls_str text = {0};
    LS_TRY(ls_path_join(a, &path, folder, "chat_template.jinja", e));
    *found = ls_file_exists(path);
    if (!*found) return LS_OK;
    ls_code rc = ls_file_read(&text, path, MAX_TEMPLATE, e);
    if (!rc) rc = ls_tokenizer_set_template(t, text.data ? text.data : "", text.len, e);
    ls_str_deinit(&text);
    return rc;
}

/* "chat_template" of the file |name|; |must| have it: a file without it is an error. */
static ls_code json_template(ls_tokenizer *t, ls_arena *a, const char *folder, const char *name, bool must, bool *found, ls_error *e) {
    json_t *root = NULL;
    LS_TRY(load_optional(a, &root, folder, name, e));
    *found = root && default_template(root);
    ls_code rc = LS_OK;
    if (*found) rc = chat_template(t, root, e);
    else if (root && must) rc = ls_error_set(e, LS_INVALID_ARGUMENT, __FILE__, __LINE__, "%s/%s: \"chat_template\" must be a text", folder, name);
    json_decref(root);
    return rc;
}

static ls_code has_processor(ls_arena *a, const char *folder, bool *out, ls_error *e) {
    const char *path;
    LS_TRY(ls_path_join(a, &path, folder, "preprocessor_config.json", e));
    *out = ls_file_exists(path);
    return LS_OK;
}

/* Which template counts, as in transformers 4.57. A tokenizer's: chat_template.jinja, else the configuration's, which is set already. A processor's:
 * chat_template.json, else chat_template.jinja, else processor_config.json's; a processor that has none of them can chat there only through its
 * tokenizer, and takes the tokenizer's here. */
static ls_code template_files(ls_tokenizer *t, ls_arena *a, const char *folder, ls_error *e) {
    bool processor = false, found = false;
    LS_TRY(has_processor(a, folder, &processor, e));
    if (processor) LS_TRY(json_template(t, a, folder, "chat_template.json", true, &found, e));
    if (!found) LS_TRY(jinja_template(t, a, folder, &found, e));
    if (!found && processor) LS_TRY(json_template(t, a, folder, "processor_config.json", false, &found, e));
    return LS_OK;
}

static ls_code open_files(ls_tokenizer **out, ls_arena *a, const char *folder, const json_t *config, ls_error *e) {
    const char *json_path, *sp_path;
    json_t *root = NULL;
    LS_TRY(ls_path_join(a, &json_path, folder, "tokenizer.json", e));
    LS_TRY(ls_path_join(a, &sp_path, folder, "tokenizer.model", e));
    if (!ls_file_exists(json_path)) {
        if (!ls_file_exists(sp_path)) LS_FAIL(e, LS_NOT_FOUND, "%s: has neither tokenizer.json nor tokenizer.model", folder);
        return open_sp(out, a, folder, sp_path, config, e);
    }
    LS_TRY(ls_json_load(&root, json_path, MAX_TOKENIZER, e));
    ls_code rc = ls_tokenizer_open_json(out, root, config, e);
    json_decref(root);
    return rc ? ls_error_wrap(e, rc, "%s", json_path) : LS_OK;
}

ls_code ls_tokenizer_open_folder(ls_tokenizer **out, const char *folder, ls_error *e) {
    ls_arena *a = NULL;
    json_t *config = NULL;
    ls_tokenizer *t = NULL;
    ls_code rc = LS_OK;
    LS_TRY(ls_arena_create(&a, e));
    LS_GOTO(load_config(a, &config, folder, e));
    LS_GOTO(open_files(&t, a, folder, config, e));
    LS_GOTO(template_files(t, a, folder, e));
out:
    json_decref(config);
    ls_arena_destroy(a);
    if (rc) ls_tokenizer_close(t);
    else *out = t;
    return rc;
}
