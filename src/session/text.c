/* Text in and out of a model: prompts and conversations to ids, ids to text, and the stream with stop strings. */
#include <string.h>

#include "session/bundle.h"
#include "session/chat.h"
#include "session/stop.h"

static void give_ids(ls_token_ids *from, int32_t **ids, size_t *n) {
    *ids = from->ids;
    *n = from->n;
}

ls_code ls_model_encode(const ls_model *m, const char *text, size_t len, bool add_special, int32_t **ids, size_t *n, ls_error *e) {
    LS_TRY(ls_model_need_tokenizer(m, e));
    ls_token_ids out = {0};
    int flags = LS_ENCODE_PARSE_SPECIAL | (add_special && !ls_starts_with_bos(m->tokenizer, text, len) ? LS_ENCODE_ADD_SPECIAL : 0);
    ls_code rc = ls_tokenizer_encode(m->tokenizer, text, len, flags, &out, e);
    if (rc) ls_free(out.ids);
    else give_ids(&out, ids, n);
    return rc;
}

ls_code ls_model_need_template(const ls_model *m, ls_error *e) {
    LS_TRY(ls_model_need_tokenizer(m, e));
    if (m->chat) return LS_OK;
    if (m->chat_error.code) LS_FAIL(e, m->chat_error.code, "the model's chat template cannot be used: %.900s", m->chat_error.text);
    LS_FAIL(e, LS_FAILED_PRECONDITION, "the model has no chat template; use a raw prompt (lockstep generate)");
}

ls_code ls_model_encode_chat(const ls_model *m, const char *messages, size_t len, int64_t now, int32_t **ids, size_t *n, ls_error *e) {
    LS_TRY(ls_model_need_template(m, e));
    json_t *list;
    LS_TRY(ls_json_parse(&list, messages, len, "messages", e));
    ls_render r = {0};
    ls_token_ids out = {0};
    ls_code rc = LS_OK;
    if (!json_is_array(list)) LS_FAIL_GOTO(e, LS_INVALID_ARGUMENT, "messages must be a JSON array");
    LS_GOTO(ls_chat_render(m->chat, m->tokenizer, list, now, &r, e));
    LS_GOTO(ls_chat_ids(m->tokenizer, &r, &out, e));
    give_ids(&out, ids, n);
out:
    if (rc) ls_free(out.ids);
    ls_render_deinit(&r);
    json_decref(list);
    return rc;
}

ls_code ls_model_decode(const ls_model *m, const int32_t *ids, size_t n, bool skip_special, char **text, size_t *len, ls_error *e) {
    LS_TRY(ls_model_need_tokenizer(m, e));
    ls_str out = {0};
    ls_code rc = ls_str_append(&out, "", 0, e);
    if (!rc) rc = ls_tokenizer_decode(m->tokenizer, ids, n, skip_special, &out, e);
    if (rc) {
        ls_str_deinit(&out);
        return rc;
    }
    *text = out.data;
    if (len) *len = out.len;
    return LS_OK;
}

/* ---- Streams --------------------------------------------------------------------------------------------------------- */

struct ls_text {
    ls_detokenizer detokenizer;
    ls_stop stop;
    ls_str raw, shown; /* of the last call */
};

ls_code ls_text_create(ls_text **out, const ls_model *m, const char *const *stops, size_t n_stops, ls_error *e) {
    LS_TRY(ls_model_need_tokenizer(m, e));
    ls_text *t;
    LS_TRY(ls_calloc(&t, 1, sizeof *t, "text stream", e));
    ls_code rc = ls_stop_init(&t->stop, stops, n_stops, e);
    if (rc) {
        ls_free(t);
        return rc;
    }
    ls_detokenizer_init(&t->detokenizer, m->tokenizer, true);
    *out = t;
    return LS_OK;
}

void ls_text_destroy(ls_text *t) {
    if (!t) return;
    ls_detokenizer_deinit(&t->detokenizer);
    ls_stop_deinit(&t->stop);
    ls_str_deinit(&t->raw);
    ls_str_deinit(&t->shown);
    ls_free(t);
}

/* Passes what the detokenizer put into t->raw through the stop strings and presents the rest. */
static ls_code show(ls_text *t, bool last, const char **piece, size_t *len, ls_error *e) {
    ls_str_clear(&t->shown);
    LS_TRY(ls_str_append(&t->shown, "", 0, e));
    LS_TRY(ls_stop_push(&t->stop, t->raw.data ? t->raw.data : "", t->raw.len, &t->shown, e));
    if (last) LS_TRY(ls_stop_flush(&t->stop, &t->shown, e));
    *piece = t->shown.data;
    *len = t->shown.len;
    return LS_OK;
}

ls_code ls_text_push(ls_text *t, int32_t token, const char **piece, size_t *len, bool *stopped, ls_error *e) {
    ls_str_clear(&t->raw);
    LS_TRY(ls_detokenizer_push(&t->detokenizer, token, &t->raw, e));
    LS_TRY(show(t, false, piece, len, e));
    *stopped = t->stop.found >= 0;
    return LS_OK;
}

ls_code ls_text_flush(ls_text *t, const char **piece, size_t *len, ls_error *e) {
    ls_str_clear(&t->raw);
    LS_TRY(ls_detokenizer_flush(&t->detokenizer, &t->raw, e));
    return show(t, true, piece, len, e);
}
