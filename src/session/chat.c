/* Conversations to token ids. */
#include "session/chat.h"

#include <string.h>

bool ls_starts_with_bos(const ls_tokenizer *tok, const char *text, size_t len) {
    size_t n = 0;
    const char *bos = ls_tokenizer_bos(tok) >= 0 ? ls_tokenizer_token(tok, ls_tokenizer_bos(tok), &n) : NULL;
    return bos && n && n <= len && !memcmp(text, bos, n);
}

static ls_code set_new(json_t *object, const char *key, json_t *value, ls_error *e) {
    if (!value || json_object_set_new(object, key, value)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "chat context: no memory for \"%s\"", key);
    return LS_OK;
}

static ls_code set_token(json_t *context, const char *key, const ls_tokenizer *tok, int32_t id, ls_error *e) {
    size_t len = 0;
    const char *text = id >= 0 ? ls_tokenizer_token(tok, id, &len) : NULL;
    return text ? set_new(context, key, json_stringn_nocheck(text, len), e) : LS_OK;
}

ls_code ls_chat_render(const ls_chat_template *t, const ls_tokenizer *tok, json_t *messages, int64_t now, ls_render *out, ls_error *e) {
    json_t *context = json_object();
    ls_code rc = LS_OK;
    if (!context) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "chat context: no memory");
    LS_GOTO(set_new(context, "messages", json_incref(messages), e));
    LS_GOTO(set_new(context, "tools", json_null(), e));
    LS_GOTO(set_new(context, "documents", json_null(), e));
    LS_GOTO(set_new(context, "add_generation_prompt", json_true(), e));
    LS_GOTO(set_token(context, "bos_token", tok, ls_tokenizer_bos(tok), e));
    LS_GOTO(set_token(context, "eos_token", tok, ls_tokenizer_eos(tok), e));
    LS_GOTO(ls_chat_template_render(t, context, now, out, e));
out:
    json_decref(context);
    return rc;
}

ls_code ls_chat_ranges(const ls_render *r, ls_byte_range **out, size_t *n, ls_error *e) {
    ls_byte_range *parse;
    *n = 0;
    LS_TRY(ls_calloc(out, r->n_spans, sizeof **out, "template ranges", e));
    parse = *out;
    for (size_t i = 0; i < r->n_spans; i++) {
        const ls_render_span *s = &r->spans[i];
        if (s->from_input || s->begin == s->end) continue;
        if (*n && parse[*n - 1].end == s->begin) parse[*n - 1].end = s->end;
        else parse[(*n)++] = (ls_byte_range){s->begin, s->end};
    }
    return LS_OK;
}

ls_code ls_chat_ids(const ls_tokenizer *tok, const ls_render *r, ls_token_ids *out, ls_error *e) {
    ls_byte_range *parse;
    size_t n;
    LS_TRY(ls_chat_ranges(r, &parse, &n, e));
    ls_code rc = ls_tokenizer_encode_ranges(tok, r->text.data ? r->text.data : "", r->text.len, parse, n, out, e);
    ls_free(parse);
    return rc;
}
