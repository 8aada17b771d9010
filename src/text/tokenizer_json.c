/* tokenizer.json: the model, the four component trees and the added tokens. */
#include <string.h>

#include "text/tokenizer_build.h"

ls_code ls_tokenizer_new(ls_tokenizer **out, ls_error *e) {
    LS_TRY(ls_calloc(out, 1, sizeof **out, "tokenizer", e));
    (*out)->bos = (*out)->eos = (*out)->model.unk = -1;
    return LS_OK;
}

void ls_tokenizer_close(ls_tokenizer *t) {
    if (!t) return;
    ls_normalizer_deinit(&t->normalizer);
    ls_pretokenizer_deinit(&t->pretokenizer);
    ls_token_model_deinit(&t->model);
    ls_added_deinit(&t->added);
    ls_post_deinit(&t->post);
    ls_decoder_deinit(&t->decoder);
    ls_free(t->special);
    ls_free(t->chat_template);
    json_decref(t->sources.parts);
    ls_str_deinit(&t->sources.charsmap);
    ls_free(t);
}

static int32_t next_free_id(const ls_tokenizer *t) {
    size_t id = t->model.vocab.n_ids;
    for (size_t i = 0; i < t->added.n; i++)
        if ((size_t)t->added.tokens[i].id >= id) id = (size_t)t->added.tokens[i].id + 1;
    return (int32_t)id;
}

ls_code ls_tokenizer_add_token(ls_tokenizer *t, const ls_added_token *token, ls_error *e) {
    ls_added_token x = *token;
    int32_t known = ls_vocab_find(&t->model.vocab, x.text, x.len);
    size_t len = 0;
    if (known >= 0) x.id = known;
    if (x.id < 0) {
        const ls_added_token *old = ls_added_by_text(&t->added, x.text, x.len);
        x.id = old ? old->id : next_free_id(t);
    }
    const char *other = known < 0 ? ls_vocab_text(&t->model.vocab, x.id, &len) : NULL;
    if (other)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "added token \"%.64s\" has id %d, which is token \"%.64s\" of the model", x.text, (int)x.id, other);
    return ls_added_put(&t->added, &x, e);
}

/* {"id": 1, "content": "<s>", "special": true, "lstrip": ..., "rstrip": ..., "single_word": ..., "normalized": ...} */
static ls_code read_added(ls_tokenizer *t, const json_t *node, int64_t id, ls_error *e) {
    const char *text;
    ls_added_token x = {.id = -1};
    if (!json_is_object(node)) LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer: an added token must be an object");
    LS_TRY(ls_component_text(node, "content", &text, &x.len, e));
    LS_TRY(ls_json_get_int(node, "id", 0, LS_VOCAB_MAX_IDS - 1, &id, e));
    if (id < 0 || id >= LS_VOCAB_MAX_IDS) LS_FAIL(e, LS_INVALID_ARGUMENT, "added token \"%.64s\": has no id", text);
    LS_TRY(ls_json_get_bool(node, "special", &x.special, e));
    x.normalized = !x.special;
    LS_TRY(ls_json_get_bool(node, "normalized", &x.normalized, e));
    LS_TRY(ls_json_get_bool(node, "lstrip", &x.lstrip, e));
    LS_TRY(ls_json_get_bool(node, "rstrip", &x.rstrip, e));
    LS_TRY(ls_json_get_bool(node, "single_word", &x.single_word, e));
    x.id = (int32_t)id;
    x.text = (char *)(uintptr_t)text;
    return ls_tokenizer_add_token(t, &x, e);
}

/* Remembers the three trees of |parts|. */
static ls_code keep_parts(ls_tokenizer *t, const json_t *parts, ls_error *e) {
    static const char *const keys[] = {"normalizer", "pre_tokenizer", "decoder"};
    if (!t->sources.parts) t->sources.parts = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *v = json_object_get(parts, keys[i]);
        if (v && json_object_set(t->sources.parts, keys[i], v)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "tokenizer: out of memory");
    }
    return LS_OK;
}

ls_code ls_tokenizer_add_charsmap(ls_tokenizer *t, const void *charsmap, size_t len, bool trim, ls_error *e) {
    t->sources.sentencepiece = true;
    t->sources.trim = trim;
    LS_TRY(ls_str_append(&t->sources.charsmap, charsmap ? charsmap : "", len, e));
    return ls_normalizer_add_sentencepiece(&t->normalizer, charsmap, len, trim, e);
}

ls_code ls_tokenizer_add_parts(ls_tokenizer *t, const json_t *parts, ls_error *e) {
    const json_t *list = json_object_get(parts, "added_tokens"), *node;
    size_t i;
    LS_TRY(keep_parts(t, parts, e));
    LS_TRY(ls_normalizer_load(&t->normalizer, json_object_get(parts, "normalizer"), e));
    LS_TRY(ls_pretokenizer_load(&t->pretokenizer, json_object_get(parts, "pre_tokenizer"), e));
    LS_TRY(ls_post_load(&t->post, json_object_get(parts, "post_processor"), e));
    LS_TRY(ls_decoder_load(&t->decoder, json_object_get(parts, "decoder"), e));
    if (list && !json_is_null(list) && !json_is_array(list)) LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer: \"added_tokens\" must be an array");
    json_array_foreach(list, i, node) LS_TRY(read_added(t, node, -1, e));
    return LS_OK;
}

ls_code ls_tokenizer_finish(ls_tokenizer *t, ls_error *e) {
    LS_TRY(ls_vocab_fit(&t->model.vocab, e));
    if (t->model.kind == LS_MODEL_BPE) LS_TRY(ls_merges_finish(&t->model.merges, t->model.vocab.n_ids, e));
    LS_TRY(ls_u64_map_fit(&t->model.trie.edges, e));
    return ls_tokenizer_finish_added(t, e);
}

ls_code ls_tokenizer_finish_added(ls_tokenizer *t, ls_error *e) {
    LS_TRY(ls_added_finish(&t->added, &t->normalizer, e));
    LS_TRY(ls_calloc(&t->special, t->model.vocab.n_ids, 1, "tokenizer", e));
    t->n_ids = (size_t)next_free_id(t);
    for (size_t i = 0; i < t->added.n; i++) {
        const ls_added_token *x = &t->added.tokens[i];
        if (x->special && (size_t)x->id < t->model.vocab.n_ids) t->special[x->id] = 1;
    }
    return LS_OK;
}

ls_code ls_tokenizer_open_json(ls_tokenizer **out, const json_t *tokenizer_json, const json_t *config, ls_error *e) {
    ls_tokenizer *t = NULL;
    if (!json_is_object(tokenizer_json)) LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer.json: must be an object");
    LS_TRY(ls_tokenizer_new(&t, e));
    ls_code rc = LS_OK;
    LS_GOTO(ls_token_model_load(&t->model, json_object_get(tokenizer_json, "model"), e));
    LS_GOTO(ls_tokenizer_add_parts(t, tokenizer_json, e));
    LS_GOTO(ls_tokenizer_apply_config(t, config, e));
    LS_GOTO(ls_tokenizer_finish(t, e));
out:
    if (rc) ls_tokenizer_close(t);
    else *out = t;
    return rc;
}
