/* SentencePiece models as tokenizers, the way Hugging Face converts them: the pieces become the vocabulary (of byte-pair
 * encoding with merges derived from the scores, or of unigram), spaces become U+2581, control pieces become special
 * tokens and user-defined pieces added tokens. */
#include <string.h>

#include "text/tokenizer_build.h"

#define MARK "\xE2\x96\x81"

/* Where and when a space is put before the text. The "legacy" rule does it in the normalizer, so for every stretch of text
 * between special tokens; the newer one in the pre-tokenizer, and only where the input begins. */
static const char *parts_text(const ls_sp_model *m) {
    if (!m->prefix_space)
        return "{\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"" MARK "\"},"
               " \"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \"" MARK "\"},"
               " \"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}]}}";
#define DECODER                                                                                                              \
    " \"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \"" MARK "\"}," \
    " \"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"},"                                              \
    " {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}]}}"
    if (m->prefix_every)
        return "{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"" MARK "\"},"
               " {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"" MARK "\"}]}," DECODER;
    return "{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"" MARK "\", \"prepend_scheme\": \"first\","
           " \"split\": false}," DECODER;
#undef DECODER
}

static ls_code add_parts(ls_tokenizer *t, const ls_sp_model *m, ls_error *e) {
    const char *text = parts_text(m);
    json_t *parts = NULL;
    LS_TRY(ls_tokenizer_add_charsmap(t, m->charsmap, m->charsmap_len, m->trim_spaces, e));
    LS_TRY(ls_json_parse(&parts, text, strlen(text), "SentencePiece components", e));
    ls_code rc = ls_tokenizer_add_parts(t, parts, e);
    json_decref(parts);
    return rc;
}

static ls_code add_special(ls_tokenizer *t, const ls_sp_model *m, ls_error *e) {
    for (size_t i = 0; i < m->n; i++) {
        const ls_sp_piece *p = &m->pieces[i];
        bool control = p->type == LS_PIECE_CONTROL || p->type == LS_PIECE_UNKNOWN;
        if (!control && p->type != LS_PIECE_USER_DEFINED) continue;
        ls_added_token x = {.text = (char *)(uintptr_t)p->text, .len = p->len, .id = (int32_t)i, .special = control};
        LS_TRY(ls_tokenizer_add_token(t, &x, e));
    }
    return LS_OK;
}

static ls_code add_model(ls_tokenizer *t, const ls_sp_model *m, ls_error *e) {
    ls_token_model *k = &t->model;
    double *wide = NULL;
    float *scores = NULL;
    uint8_t *hidden = NULL; /* pieces that SentencePiece does not look for: byte, control and unknown ones */
    ls_code rc = LS_OK;
    k->kind = m->unigram ? LS_MODEL_UNIGRAM : LS_MODEL_BPE;
    k->byte_fallback = m->byte_fallback;
    k->fuse_unk = k->single = true;
    k->unk = (int32_t)m->unk;
    for (size_t i = 0; i < m->n; i++) LS_TRY(ls_vocab_add(&k->vocab, m->pieces[i].text, m->pieces[i].len, (int64_t)i, e));
    LS_TRY(ls_calloc(&wide, m->n, sizeof *wide, "scores", e));
    LS_GOTO(ls_calloc(&scores, m->n, sizeof *scores, "scores", e));
    LS_GOTO(ls_calloc(&hidden, m->n, 1, "scores", e));
    for (size_t i = 0; i < m->n; i++) {
        ls_piece_type type = m->pieces[i].type;
        wide[i] = scores[i] = m->pieces[i].score;
        hidden[i] = type != LS_PIECE_NORMAL && type != LS_PIECE_USER_DEFINED;
    }
    rc = m->unigram ? ls_unigram_finish(k, wide, hidden, e) : ls_bpe_merges_from_scores(k, scores, e);
    if (!rc) ls_token_model_find_bytes(k);
out:
    ls_free(wide);
    ls_free(scores);
    ls_free(hidden);
    return rc;
}

static ls_code check_id(const char *name, int64_t id, size_t n, ls_error *e) {
    if (id < -1 || id >= (int64_t)n)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer: %s token id %lld; the vocabulary has %zu tokens", name, (long long)id, n);
    return LS_OK;
}

ls_code ls_tokenizer_from_sp(ls_tokenizer *t, const ls_sp_model *m, ls_error *e) {
    LS_TRY(check_id("unknown", m->unk, m->n, e));
    LS_TRY(check_id("BOS", m->bos, m->n, e));
    LS_TRY(check_id("EOS", m->eos, m->n, e));
    t->bos = (int32_t)m->bos;
    t->eos = (int32_t)m->eos;
    LS_TRY(add_model(t, m, e));
    LS_TRY(add_parts(t, m, e));
    return add_special(t, m, e);
}
