/* The public face: encoding, decoding, lookups. */
#include "text/tokenizer.h"

#include <string.h>

#include "text/tokenizer_build.h"
#include "text/tokenizer_unicode.h"

enum { MIN_WORK = 1 << 24, WORK_PER_BYTE = 64 };

/* What one encoding works with. */
typedef struct encoding {
    const ls_tokenizer *t;
    ls_special_scope scope;
    ls_str input, stretch, spare_text; /* repaired input; one stretch between added tokens, and its other buffer */
    ls_pieces raw, pieces, spare;
    ls_regex_work regex;
    ls_model_work model;
} encoding;

static void encoding_deinit(encoding *x) {
    ls_str_deinit(&x->input);
    ls_str_deinit(&x->stretch);
    ls_str_deinit(&x->spare_text);
    ls_pieces_deinit(&x->raw);
    ls_pieces_deinit(&x->pieces);
    ls_pieces_deinit(&x->spare);
    ls_regex_work_deinit(&x->regex);
    ls_model_work_deinit(&x->model);
}

/* Text between added tokens of the first kind: normalised, then searched for added tokens of the second kind. */
static ls_code normalize_piece(encoding *x, const ls_piece *p, ls_error *e) {
    bool kept_start = true;
    if (p->id >= 0) return ls_pieces_add(&x->pieces, *p, e);
    ls_str_clear(&x->stretch);
    LS_TRY(ls_str_append(&x->stretch, x->raw.text.data + p->begin, p->end - p->begin, e));
    LS_TRY(ls_normalizer_run(&x->t->normalizer, &x->regex, &x->stretch, &x->spare_text, &kept_start, e));
    ls_special_scope scope = {.everywhere = x->scope.everywhere};
    return ls_added_split(&x->t->added, true, &scope, x->stretch.data, x->stretch.len, p->at_start && kept_start, &x->pieces, e);
}

static ls_code encode_text(encoding *x, const char *text, size_t len, ls_token_ids *out, ls_error *e) {
    LS_TRY(ls_utf8_repair(text, len, &x->input, e));
    if (x->scope.ranges && (x->input.len != len || (len && memcmp(x->input.data, text, len))))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "the text is no valid UTF-8, so ranges of it have no meaning");
    LS_TRY(ls_added_split(&x->t->added, false, &x->scope, x->input.data, x->input.len, true, &x->raw, e));
    for (size_t i = 0; i < x->raw.n; i++) LS_TRY(normalize_piece(x, &x->raw.v[i], e));
    LS_TRY(ls_pretokenizer_run(&x->t->pretokenizer, &x->regex, &x->pieces, &x->spare, e));
    const uint8_t *banned = x->scope.everywhere ? NULL : x->t->special;
    for (size_t i = 0; i < x->pieces.n; i++) {
        ls_piece p = x->pieces.v[i];
        if (p.id >= 0) LS_TRY(ls_token_ids_add(out, p.id, e));
        else LS_TRY(ls_token_model_encode(&x->t->model, &x->model, x->pieces.text.data + p.begin, p.end - p.begin, banned, out, e));
    }
    return LS_OK;
}

static ls_code add_all(ls_token_ids *out, const ls_token_ids *ids, ls_error *e) {
    for (size_t i = 0; i < ids->n; i++) LS_TRY(ls_token_ids_add(out, ids->ids[i], e));
    return LS_OK;
}

static ls_code encode(const ls_tokenizer *t, const char *text, size_t len, bool add_special, ls_special_scope scope, ls_token_ids *out, ls_error *e) {
    size_t ceiling = 0, before = out->n;
    if (!ls_size_mul(len, WORK_PER_BYTE, &ceiling) || ceiling < MIN_WORK) ceiling = len > MIN_WORK ? SIZE_MAX / 2 : MIN_WORK;
    encoding x = {.t = t, .scope = scope};
    x.input.max = x.stretch.max = x.spare_text.max = x.raw.text.max = x.pieces.text.max = x.spare.text.max = ceiling;
    ls_code rc = LS_OK;
    if (add_special) LS_GOTO(add_all(out, &t->post.before, e));
    LS_GOTO(encode_text(&x, text, len, out, e));
    if (add_special) LS_GOTO(add_all(out, &t->post.after, e));
out:
    if (rc) out->n = before;
    encoding_deinit(&x);
    return rc;
}

ls_code ls_tokenizer_encode(const ls_tokenizer *t, const char *text, size_t len, int flags, ls_token_ids *out, ls_error *e) {
    ls_special_scope scope = {.everywhere = flags & LS_ENCODE_PARSE_SPECIAL};
    return encode(t, text, len, flags & LS_ENCODE_ADD_SPECIAL, scope, out, e);
}

ls_code ls_tokenizer_encode_ranges(const ls_tokenizer *t, const char *text, size_t len, const ls_byte_range *parse, size_t n_parse, ls_token_ids *out,
                                   ls_error *e) {
    return encode(t, text, len, false, (ls_special_scope){.ranges = parse, .n = n_parse}, out, e);
}

/* ---- Decoding -------------------------------------------------------------------------------------------------- */

/* Pushes the text of |id|; ids nobody has are skipped, as in `tokenizers`. */
static ls_code push_id(const ls_tokenizer *t, ls_decode *d, int32_t id, bool skip_special, ls_str *out, ls_error *e) {
    size_t len = 0;
    const ls_added_token *added = ls_added_by_id(&t->added, id);
    if (added && added->special && skip_special) return LS_OK;
    const char *text = ls_tokenizer_token(t, id, &len);
    return text ? ls_decode_push(d, text, len, out, e) : LS_OK;
}

ls_code ls_tokenizer_decode(const ls_tokenizer *t, const int32_t *ids, size_t n, bool skip_special, ls_str *out, ls_error *e) {
    ls_decode *d = NULL;
    LS_TRY(ls_decode_create(&d, &t->decoder, e));
    ls_code rc = LS_OK;
    for (size_t i = 0; i < n; i++) LS_GOTO(push_id(t, d, ids[i], skip_special, out, e));
    rc = ls_decode_flush(d, out, e);
out:
    ls_decode_destroy(d);
    return rc;
}

void ls_detokenizer_init(ls_detokenizer *d, const ls_tokenizer *t, bool skip_special) {
    *d = (ls_detokenizer){.tokenizer = t, .skip_special = skip_special};
}

ls_code ls_detokenizer_push(ls_detokenizer *d, int32_t id, ls_str *piece, ls_error *e) {
    if (!d->state) LS_TRY(ls_decode_create(&d->state, &d->tokenizer->decoder, e));
    return push_id(d->tokenizer, d->state, id, d->skip_special, piece, e);
}

ls_code ls_detokenizer_flush(ls_detokenizer *d, ls_str *piece, ls_error *e) {
    return d->state ? ls_decode_flush(d->state, piece, e) : LS_OK;
}

void ls_detokenizer_deinit(ls_detokenizer *d) {
    ls_decode_destroy(d->state);
    d->state = NULL;
}

/* ---- Lookups --------------------------------------------------------------------------------------------------- */

size_t ls_tokenizer_size(const ls_tokenizer *t) { return t->n_ids; }

const char *ls_tokenizer_token(const ls_tokenizer *t, int32_t id, size_t *len) {
    const ls_added_token *added = ls_added_by_id(&t->added, id);
    if (!added) return ls_vocab_text(&t->model.vocab, id, len);
    if (len) *len = added->len;
    return added->text;
}

bool ls_tokenizer_is_special(const ls_tokenizer *t, int32_t id) {
    const ls_added_token *added = ls_added_by_id(&t->added, id);
    return added && added->special;
}

int32_t ls_tokenizer_bos(const ls_tokenizer *t) { return t->bos; }

int32_t ls_tokenizer_eos(const ls_tokenizer *t) { return t->eos; }

const char *ls_tokenizer_chat_template(const ls_tokenizer *t) { return t->chat_template; }
