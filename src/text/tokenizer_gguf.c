/* Tokenizers from GGUF metadata: "gpt2" (byte-level BPE with merges, family by tokenizer.ggml.pre) and "llama"
 * (SentencePiece BPE with scores). */
#include <math.h>
#include <string.h>

#include "text/tokenizer_build.h"

#define KEY(name) "tokenizer.ggml." name

typedef struct source {
    const json_t *meta, *tokens, *types, *scores;
    size_t n;
    bool gemma;
} source;

static ls_code special_id(const source *s, const char *key, int64_t *id, ls_error *e) {
    return ls_json_get_int(s->meta, key, 0, (int64_t)s->n - 1, id, e);
}

static ls_code read_source(source *s, const json_t *meta, ls_error *e) {
    const char *arch = "";
    *s = (source){.meta = meta, .tokens = json_object_get(meta, KEY("tokens")), .types = json_object_get(meta, KEY("token_type")),
                  .scores = json_object_get(meta, KEY("scores"))};
    if (!json_is_array(s->tokens) || !json_array_size(s->tokens))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "GGUF: tokenizer.ggml.tokens must be a list of strings");
    s->n = json_array_size(s->tokens);
    if ((s->types && json_array_size(s->types) != s->n) || (s->scores && json_array_size(s->scores) != s->n))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "GGUF: tokenizer.ggml.tokens has %zu entries; token_type and scores must have as many", s->n);
    LS_TRY(ls_json_get_str(meta, "general.architecture", &arch, e));
    s->gemma = !strncmp(arch, "gemma", 5);
    return LS_OK;
}

static ls_piece_type type_of(const source *s, size_t i) {
    const json_t *v = s->types ? json_array_get(s->types, i) : NULL;
    json_int_t type = json_is_integer(v) ? json_integer_value(v) : LS_PIECE_NORMAL;
    return type >= LS_PIECE_NORMAL && type <= LS_PIECE_BYTE ? (ls_piece_type)type : LS_PIECE_NORMAL;
}

/* ---- SentencePiece --------------------------------------------------------------------------------------------- */

/* A run of spaces, as converters write user-defined pieces of U+2581: back to its own spelling. */
static ls_code respell_spaces(ls_arena *a, ls_sp_piece *p, ls_error *e) {
    char *text;
    if (!p->len || strspn(p->text, " ") != p->len) return LS_OK;
    LS_TRY(ls_arena_alloc(a, &text, 3 * p->len + 1, 1, e));
    for (size_t i = 0; i < p->len; i++) memcpy(text + 3 * i, "\xE2\x96\x81", 3);
    p->text = text;
    p->len *= 3;
    return LS_OK;
}

static ls_code read_pieces(const source *s, ls_arena *a, ls_sp_model *m, ls_error *e) {
    bool has_tab = false;
    for (size_t i = 0; i < s->n; i++) {
        const char *text = json_string_value(json_array_get(s->tokens, i));
        has_tab |= text && !strcmp(text, "\t");
    }
    for (size_t i = 0; i < s->n; i++) {
        const json_t *text = json_array_get(s->tokens, i), *score = json_array_get(s->scores, i);
        ls_sp_piece *p = &m->pieces[i];
        if (!json_is_string(text)) LS_FAIL(e, LS_INVALID_ARGUMENT, "GGUF: token %zu is not a string", i);
        if (!json_is_number(score) || !isfinite(json_number_value(score)))
            LS_FAIL(e, LS_INVALID_ARGUMENT, "GGUF: score %zu is not a finite number", i);
        *p = (ls_sp_piece){json_string_value(text), json_string_length(text), (float)json_number_value(score), type_of(s, i)};
        /* Converters give user-defined pieces a placeholder score; in SentencePiece they go before all others. */
        if (p->type == LS_PIECE_USER_DEFINED) {
            p->score = 0;
            LS_TRY(respell_spaces(a, p, e));
        }
        /* Gemma's published vocabulary has the tab itself in the place of its byte piece, unless it is a piece too. */
        if (s->gemma && !has_tab && p->len == 6 && !memcmp(p->text, "<0x09>", 6)) p->text = "\t", p->len = 1;
    }
    return LS_OK;
}

/* Phi-3's control tokens swallow the white space behind them; GGUF has no field for that. */
static ls_code phi3_strip(ls_tokenizer *t, const source *s, ls_error *e) {
    const char *arch = "";
    LS_TRY(ls_json_get_str(s->meta, "general.architecture", &arch, e));
    for (size_t i = 0; !strcmp(arch, "phi3") && i < t->added.n; i++) {
        ls_added_token *x = &t->added.tokens[i];
        bool plain = !strcmp(x->text, "<s>") || !strcmp(x->text, "<unk>") || !strcmp(x->text, "<|endoftext|>");
        x->rstrip = x->special && !plain;
    }
    return LS_OK;
}

static ls_code load_sp(ls_tokenizer *t, const source *s, bool *add_bos, ls_error *e) {
    ls_sp_model m = {.n = s->n, .byte_fallback = true, .prefix_space = true, .prefix_every = true, .bos = -1, .eos = -1, .unk = -1};
    ls_arena *a = NULL;
    ls_code rc = LS_OK;
    *add_bos = true;
    if (!json_is_array(s->scores)) LS_FAIL(e, LS_INVALID_ARGUMENT, "GGUF: a \"llama\" tokenizer needs tokenizer.ggml.scores");
    LS_TRY(ls_json_get_bool(s->meta, KEY("add_space_prefix"), &m.prefix_space, e));
    LS_TRY(special_id(s, KEY("bos_token_id"), &m.bos, e));
    LS_TRY(special_id(s, KEY("eos_token_id"), &m.eos, e));
    LS_TRY(special_id(s, KEY("unknown_token_id"), &m.unk, e));
    LS_TRY(ls_arena_create(&a, e));
    LS_GOTO(ls_calloc(&m.pieces, m.n, sizeof *m.pieces, "pieces", e));
    LS_GOTO(read_pieces(s, a, &m, e));
    LS_GOTO(ls_tokenizer_from_sp(t, &m, e));
    rc = phi3_strip(t, s, e);
out:
    ls_free(m.pieces);
    ls_arena_destroy(a);
    return rc;
}

/* ---- Byte-level ------------------------------------------------------------------------------------------------ */

static ls_code add_byte_level_tokens(ls_tokenizer *t, const source *s, ls_error *e) {
    for (size_t i = 0; i < s->n; i++) {
        const json_t *text = json_array_get(s->tokens, i);
        if (!json_is_string(text)) LS_FAIL(e, LS_INVALID_ARGUMENT, "GGUF: token %zu is not a string", i);
        LS_TRY(ls_vocab_add(&t->model.vocab, json_string_value(text), json_string_length(text), (int64_t)i, e));
    }
    for (size_t i = 0; i < s->n; i++) {
        ls_piece_type type = type_of(s, i);
        if (type != LS_PIECE_CONTROL && type != LS_PIECE_USER_DEFINED) continue;
        const json_t *text = json_array_get(s->tokens, i);
        ls_added_token x = {.text = (char *)(uintptr_t)json_string_value(text), .len = json_string_length(text), .id = (int32_t)i,
                            .special = type == LS_PIECE_CONTROL};
        LS_TRY(ls_tokenizer_add_token(t, &x, e));
    }
    return LS_OK;
}

static ls_code add_byte_level_merges(ls_tokenizer *t, const source *s, ls_error *e) {
    const json_t *merges = json_object_get(s->meta, KEY("merges")), *v;
    size_t i;
    if (!json_is_array(merges)) LS_FAIL(e, LS_INVALID_ARGUMENT, "GGUF: a \"gpt2\" tokenizer needs tokenizer.ggml.merges");
    json_array_foreach(merges, i, v) LS_TRY(ls_bpe_read_merge(&t->model, v, (uint32_t)i, e));
    return LS_OK;
}

static ls_code load_byte_level(ls_tokenizer *t, const source *s, bool *add_bos, ls_error *e) {
    const char *pre = NULL;
    json_t *parts = NULL;
    ls_pre_family family;
    int64_t bos = -1, eos = -1;
    LS_TRY(ls_json_get_str(s->meta, KEY("pre"), &pre, e));
    if (!pre) LS_FAIL(e, LS_UNIMPLEMENTED, "GGUF: tokenizer.ggml.pre is missing, so the split rule is unknown; convert the model again");
    LS_TRY(ls_pre_family_parts(pre, &parts, &family, e));
    ls_code rc = LS_OK;
    t->model.kind = LS_MODEL_BPE;
    t->model.ignore_merges = family.ignore_merges;
    *add_bos = family.add_bos;
    LS_GOTO(add_byte_level_tokens(t, s, e));
    LS_GOTO(add_byte_level_merges(t, s, e));
    LS_GOTO(ls_tokenizer_add_parts(t, parts, e));
    LS_GOTO(special_id(s, KEY("bos_token_id"), &bos, e));
    LS_GOTO(special_id(s, KEY("eos_token_id"), &eos, e));
    t->bos = (int32_t)bos;
    t->eos = (int32_t)eos;
    ls_token_model_find_bytes(&t->model);
out:
    json_decref(parts);
    return rc;
}

static ls_code load(ls_tokenizer *t, const source *s, ls_error *e) {
    const char *model = "(none)", *template = NULL;
    bool add_bos = false, add_eos = false;
    LS_TRY(ls_json_get_str(s->meta, KEY("model"), &model, e));
    if (!strcmp(model, "gpt2")) LS_TRY(load_byte_level(t, s, &add_bos, e));
    else if (!strcmp(model, "llama")) LS_TRY(load_sp(t, s, &add_bos, e));
    else LS_FAIL(e, LS_UNIMPLEMENTED, "GGUF tokenizer model \"%.64s\" is not supported; supported are \"gpt2\" and \"llama\"", model);
    add_bos = add_bos && t->bos >= 0;
    LS_TRY(ls_json_get_bool(s->meta, KEY("add_bos_token"), &add_bos, e));
    LS_TRY(ls_json_get_bool(s->meta, KEY("add_eos_token"), &add_eos, e));
    LS_TRY(ls_tokenizer_frame(t, add_bos, add_eos, e));
    LS_TRY(ls_json_get_str(s->meta, "tokenizer.chat_template", &template, e));
    if (template) LS_TRY(ls_tokenizer_set_template(t, template, strlen(template), e));
    return ls_tokenizer_finish(t, e);
}

ls_code ls_tokenizer_open_gguf(ls_tokenizer **out, const json_t *metadata, ls_error *e) {
    source s;
    ls_tokenizer *t = NULL;
    LS_TRY(read_source(&s, metadata, e));
    LS_TRY(ls_tokenizer_new(&t, e));
    ls_code rc = load(t, &s, e);
    if (rc) ls_tokenizer_close(t);
    else *out = t;
    return rc;
}
