/* What the two models share: choosing by type, byte tokens, lifetime. */
#include "text/tokenizer_model.h"

#include <stdio.h>
#include <string.h>

enum { MAX_IDS_OUT = 1 << 29 };

ls_code ls_token_ids_add(ls_token_ids *ids, int32_t id, ls_error *e) {
    LS_TRY(ls_grow(&ids->ids, ids->n, &ids->cap, sizeof *ids->ids, MAX_IDS_OUT, "token ids", e));
    ids->ids[ids->n++] = id;
    return LS_OK;
}

void ls_token_model_find_bytes(ls_token_model *m) {
    for (int b = 0; b < 256; b++) {
        char text[8];
        int n = snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        m->byte_ids[b] = ls_vocab_find(&m->vocab, text, (size_t)n);
    }
}

ls_code ls_token_model_load(ls_token_model *m, const json_t *node, ls_error *e) {
    if (!json_is_object(node)) LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer: \"model\" must be an object");
    const char *type = NULL;
    LS_TRY(ls_json_get_str(node, "type", &type, e));
    if (!type) type = json_is_array(json_object_get(node, "vocab")) ? "Unigram" : json_object_get(node, "merges") ? "BPE" : "(none)";
    m->unk = -1;
    if (!strcmp(type, "BPE")) LS_TRY(ls_bpe_load(m, node, e));
    else if (!strcmp(type, "Unigram")) LS_TRY(ls_unigram_load(m, node, e));
    else LS_FAIL(e, LS_UNIMPLEMENTED, "tokenizer model type \"%.80s\" is not supported; supported are BPE and Unigram", type);
    return LS_OK;
}

void ls_token_model_deinit(ls_token_model *m) {
    if (!m->borrowed) {
        ls_vocab_deinit(&m->vocab);
        ls_merges_deinit(&m->merges);
        ls_trie_deinit(&m->trie);
        ls_free(m->scores);
    }
    ls_free(m->prefix);
    ls_free(m->suffix);
}

void ls_model_work_deinit(ls_model_work *w) {
    ls_free(w->symbols);
    ls_free(w->heap);
    ls_free(w->paths);
    *w = (ls_model_work){0};
}

ls_code ls_token_model_encode(const ls_token_model *m, ls_model_work *w, const char *text, size_t len, const uint8_t *banned,
                              ls_token_ids *out, ls_error *e) {
    if (len > INT32_MAX / 2) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "text of %zu bytes in one piece; at most %d are allowed", len, INT32_MAX / 2);
    return m->kind == LS_MODEL_BPE ? ls_bpe_encode(m, w, text, len, banned, out, e) : ls_unigram_encode(m, w, text, len, banned, out, e);
}
