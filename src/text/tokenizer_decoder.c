/* The decoder stages. */
#include "text/tokenizer_decoder.h"

#include <string.h>

#include "text/tokenizer_unicode.h"

typedef enum step_kind { BYTE_LEVEL, BYTE_FALLBACK, FUSE, STRIP, REPLACE, METASPACE, BPE_DECODER, JOIN } step_kind;

struct ls_decoder_step {
    step_kind kind;
    uint32_t cp;          /* STRIP: character; METASPACE: replacement */
    int64_t start, stop;  /* STRIP: at most so many characters */
    bool drop_first;      /* METASPACE: marks of the first token vanish */
    ls_regex *pattern;    /* REPLACE, BPE_DECODER (the suffix) */
    char *text;           /* REPLACE */
    size_t len;
};

/* What one stage remembers between chunks. */
typedef struct stage {
    ls_str token; /* the current token's chunks, where the stage needs the token whole */
    ls_str held;  /* bytes or text that later input could change */
    size_t count; /* JOIN, METASPACE, BPE_DECODER: tokens ended; STRIP: characters dropped from this token */
    bool past;    /* STRIP: the token's start is decided */
} stage;

struct ls_decode {
    const ls_decoder *decoder;
    ls_regex_work work;
    ls_spans spans;
    ls_str *out;
    stage stages[]; /* [decoder->n] */
};

enum { MAX_HELD = 1 << 28 };

/* ---- Loading --------------------------------------------------------------------------------------------------- */

static ls_code load_metaspace(ls_decoder_step *s, const json_t *node, ls_error *e) {
    bool add_prefix_space = true;
    const char *scheme = NULL;
    LS_TRY(ls_component_char(node, "replacement", &s->cp, e));
    LS_TRY(ls_json_get_bool(node, "add_prefix_space", &add_prefix_space, e));
    LS_TRY(ls_json_get_str(node, "prepend_scheme", &scheme, e));
    s->drop_first = scheme ? strcmp(scheme, "never") != 0 : add_prefix_space;
    return LS_OK;
}

static ls_code load_replace(ls_decoder_step *s, const json_t *node, ls_error *e) {
    const char *text;
    LS_TRY(ls_component_pattern(node, "pattern", &s->pattern, e));
    LS_TRY(ls_component_text(node, "content", &text, &s->len, e));
    LS_TRY(ls_calloc(&s->text, s->len + 1, 1, "decoder", e));
    memcpy(s->text, text, s->len);
    return LS_OK;
}

static ls_code add_step(void *user, const char *type, const json_t *node, ls_error *e) {
    static const char *const names[] = {"ByteLevel", "ByteFallback", "Fuse", "Strip", "Replace", "Metaspace", "BPEDecoder"};
    ls_decoder *d = user;
    size_t k = 0, len;
    const char *text;
    while (k < sizeof names / sizeof *names && strcmp(names[k], type)) k++;
    if (k == sizeof names / sizeof *names)
        return ls_component_unknown("decoder", type, "ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace, BPEDecoder", e);
    LS_TRY(ls_grow(&d->steps, d->n, &d->cap, sizeof *d->steps, LS_MAX_COMPONENTS, "decoder", e));
    ls_decoder_step *s = &d->steps[d->n++];
    *s = (ls_decoder_step){.kind = (step_kind)k};
    switch (s->kind) {
    case STRIP:
        LS_TRY(ls_component_char(node, "content", &s->cp, e));
        LS_TRY(ls_json_get_int(node, "start", 0, INT32_MAX, &s->start, e));
        return ls_json_get_int(node, "stop", 0, INT32_MAX, &s->stop, e);
    case REPLACE: return load_replace(s, node, e);
    case METASPACE: return load_metaspace(s, node, e);
    case BPE_DECODER:
        LS_TRY(ls_component_text(node, "suffix", &text, &len, e));
        return ls_regex_create(&s->pattern, text, len, true, e);
    default: return LS_OK;
    }
}

ls_code ls_decoder_load(ls_decoder *d, const json_t *node, ls_error *e) {
    LS_TRY(ls_component_each(node, "decoder", "decoders", add_step, d, e));
    if (node && !json_is_null(node)) return LS_OK;
    LS_TRY(ls_grow(&d->steps, d->n, &d->cap, sizeof *d->steps, LS_MAX_COMPONENTS, "decoder", e));
    d->steps[d->n++] = (ls_decoder_step){.kind = JOIN};
    return LS_OK;
}

void ls_decoder_deinit(ls_decoder *d) {
    for (size_t i = 0; i < d->n; i++) {
        ls_regex_destroy(d->steps[i].pattern);
        ls_free(d->steps[i].text);
    }
    ls_free(d->steps);
    *d = (ls_decoder){0};
}

/* ---- Running --------------------------------------------------------------------------------------------------- */

ls_code ls_decode_create(ls_decode **out, const ls_decoder *d, ls_error *e) {
    ls_decode *s = NULL;
    LS_TRY(ls_calloc(&s, sizeof *s + d->n * sizeof(stage), 1, "decoding", e));
    s->decoder = d;
    for (size_t i = 0; i < d->n; i++) s->stages[i].token.max = s->stages[i].held.max = MAX_HELD;
    *out = s;
    return LS_OK;
}

void ls_decode_destroy(ls_decode *s) {
    if (!s) return;
    for (size_t i = 0; i < s->decoder->n; i++) {
        ls_str_deinit(&s->stages[i].token);
        ls_str_deinit(&s->stages[i].held);
    }
    ls_regex_work_deinit(&s->work);
    ls_free(s->spans.v);
    ls_free(s);
}

static ls_code push(ls_decode *s, size_t i, const char *text, size_t len, bool end, ls_error *e);

/* Passes |token| on with every match of the step's pattern replaced by with[n_with]. */
static ls_code pass_replaced(ls_decode *s, size_t i, const ls_str *token, const char *with, size_t n_with, ls_error *e) {
    const ls_decoder_step *step = &s->decoder->steps[i];
    if (!token->len) return push(s, i + 1, "", 0, true, e);
    ls_str text = {.max = MAX_HELD};
    ls_code rc = LS_OK;
    LS_GOTO(ls_regex_split(step->pattern, &s->work, token->data, token->len, &s->spans, e));
    for (size_t k = 0; k < s->spans.n; k++) {
        ls_span p = s->spans.v[k];
        if (p.match) LS_GOTO(ls_str_append(&text, with, n_with, e));
        else LS_GOTO(ls_str_append(&text, token->data + p.begin, p.end - p.begin, e));
    }
    rc = push(s, i + 1, text.data ? text.data : "", text.len, true, e);
out:
    ls_str_deinit(&text);
    return rc;
}

/* Byte-level alphabet to bytes; a token with a character outside the alphabet stands for its own UTF-8. */
static ls_code take_bytes(stage *g, ls_error *e) {
    size_t before = g->held.len;
    for (size_t k = 0; k < g->token.len;) {
        int b = ls_byte_of_char(ls_uc_next(g->token.data, g->token.len, &k));
        if (b < 0) {
            g->held.len = before;
            return ls_str_append(&g->held, g->token.data, g->token.len, e);
        }
        char c = (char)b;
        LS_TRY(ls_str_append(&g->held, &c, 1, e));
    }
    return LS_OK;
}

/* Length of the held bytes without a tail that could still become a character. */
static size_t settled(const ls_str *held) {
    for (size_t back = 1; back <= 3 && back <= held->len; back++) {
        const char *p = held->data + held->len - back;
        bool incomplete;
        if (((unsigned char)*p & 0xC0) == 0x80) continue;
        if ((unsigned char)*p < 0xC2 || ls_utf8_decode(p, back, NULL)) return held->len;
        return ls_utf8_bad_len(p, back, &incomplete) == back && incomplete ? held->len - back : held->len;
    }
    return held->len;
}

static ls_code pass_bytes(ls_decode *s, size_t i, bool all, ls_error *e) {
    stage *g = &s->stages[i];
    size_t n = all ? g->held.len : settled(&g->held);
    ls_str text = {.max = MAX_HELD};
    ls_code rc = n ? ls_utf8_repair(g->held.data, n, &text, e) : LS_OK;
    if (!rc && (n || all)) rc = push(s, i + 1, text.data ? text.data : "", text.len, all, e);
    ls_str_deinit(&text);
    if (n) memmove(g->held.data, g->held.data + n, g->held.len - n);
    g->held.len -= n;
    return rc;
}

static int hex(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

/* "<0xHH>" as a byte, -1 otherwise. Like Rust's parser, the digits may be "+H". */
static int byte_token(const ls_str *t) {
    if (t->len != 6 || memcmp(t->data, "<0x", 3) || t->data[5] != '>') return -1;
    int hi = t->data[3] == '+' ? 0 : hex(t->data[3]), lo = hex(t->data[4]);
    return hi < 0 || lo < 0 ? -1 : hi * 16 + lo;
}

/* A run of byte tokens is text if all of it is valid UTF-8, and one U+FFFD per byte otherwise. */
static ls_code pass_byte_run(ls_decode *s, size_t i, ls_error *e) {
    stage *g = &s->stages[i];
    bool valid = true;
    for (size_t k = 0; valid && k < g->held.len;) {
        int n = ls_utf8_decode(g->held.data + k, g->held.len - k, NULL);
        valid = n > 0;
        k += (size_t)n;
    }
    size_t n = g->held.len;
    g->held.len = 0;
    if (n && valid) return push(s, i + 1, g->held.data, n, true, e);
    for (size_t k = 0; k < n; k++) LS_TRY(push(s, i + 1, "\xEF\xBF\xBD", 3, true, e));
    return LS_OK;
}

static ls_code byte_fallback(ls_decode *s, size_t i, ls_error *e) {
    stage *g = &s->stages[i];
    int b = byte_token(&g->token);
    char c = (char)b;
    if (b >= 0) return ls_str_append(&g->held, &c, 1, e);
    LS_TRY(pass_byte_run(s, i, e));
    return push(s, i + 1, g->token.data ? g->token.data : "", g->token.len, true, e);
}

/* Drops up to |start| leading characters as chunks arrive. */
static ls_code strip_start(ls_decode *s, size_t i, const char *text, size_t len, bool end, ls_error *e) {
    const ls_decoder_step *step = &s->decoder->steps[i];
    stage *g = &s->stages[i];
    size_t from = 0;
    while (!g->past && from < len) {
        size_t next = from;
        g->past = (int64_t)g->count >= step->start || ls_uc_next(text, len, &next) != step->cp;
        if (g->past) break;
        from = next;
        g->count++;
    }
    if (end) g->count = 0, g->past = false;
    return push(s, i + 1, text + from, len - from, end, e);
}

static ls_code strip_both(ls_decode *s, size_t i, ls_error *e) {
    const ls_decoder_step *step = &s->decoder->steps[i];
    const ls_str *t = &s->stages[i].token;
    char mark[4];
    size_t n = (size_t)ls_utf8_encode(step->cp, mark), begin = 0, end = t->len;
    for (int64_t k = 0; k < step->start && end - begin >= n && !memcmp(t->data + begin, mark, n); k++) begin += n;
    for (int64_t k = 0; k < step->stop && end - begin >= n && !memcmp(t->data + end - n, mark, n); k++) end -= n;
    return push(s, i + 1, t->data ? t->data + begin : "", end - begin, true, e);
}

static ls_code metaspace(ls_decode *s, size_t i, const char *text, size_t len, bool end, ls_error *e) {
    const ls_decoder_step *step = &s->decoder->steps[i];
    stage *g = &s->stages[i];
    for (size_t at = 0, next = 0; at < len; at = next) {
        bool mark = ls_uc_next(text, len, &next) == step->cp;
        if (mark && step->drop_first && !g->count) continue;
        LS_TRY(push(s, i + 1, mark ? " " : text + at, mark ? 1 : next - at, false, e));
    }
    if (end) g->count++;
    return end ? push(s, i + 1, "", 0, true, e) : LS_OK;
}

/* The suffix becomes a space, except in the last token: so one token is held back. */
static ls_code bpe_suffix(ls_decode *s, size_t i, ls_error *e) {
    stage *g = &s->stages[i];
    if (g->count++) LS_TRY(pass_replaced(s, i, &g->held, " ", 1, e));
    ls_str_clear(&g->held);
    return g->token.len ? ls_str_append(&g->held, g->token.data, g->token.len, e) : LS_OK;
}

static ls_code whole_token(ls_decode *s, size_t i, ls_error *e) {
    const ls_decoder_step *step = &s->decoder->steps[i];
    switch (step->kind) {
    case BYTE_LEVEL:
        LS_TRY(take_bytes(&s->stages[i], e));
        return pass_bytes(s, i, false, e);
    case BYTE_FALLBACK: return byte_fallback(s, i, e);
    case STRIP: return strip_both(s, i, e);
    case BPE_DECODER: return bpe_suffix(s, i, e);
    default: return pass_replaced(s, i, &s->stages[i].token, step->text, step->len, e);
    }
}

/* Gives stage |i| the next chunk of a token; |end|: it is the token's last. Stage n is the output. */
static ls_code push(ls_decode *s, size_t i, const char *text, size_t len, bool end, ls_error *e) {
    if (i == s->decoder->n) return ls_str_append(s->out, text, len, e);
    const ls_decoder_step *step = &s->decoder->steps[i];
    stage *g = &s->stages[i];
    if (step->kind == FUSE) return len ? push(s, i + 1, text, len, false, e) : LS_OK;
    if (step->kind == METASPACE) return metaspace(s, i, text, len, end, e);
    if (step->kind == STRIP && !step->stop) return strip_start(s, i, text, len, end, e);
    if (step->kind == JOIN) {
        if (g->count) LS_TRY(push(s, i + 1, " ", 1, false, e));
        g->count++;
        return push(s, i + 1, text, len, false, e);
    }
    LS_TRY(ls_str_append(&g->token, text, len, e));
    if (!end) return LS_OK;
    ls_code rc = whole_token(s, i, e);
    ls_str_clear(&g->token);
    return rc;
}

ls_code ls_decode_push(ls_decode *s, const char *token, size_t len, ls_str *out, ls_error *e) {
    s->out = out;
    return push(s, 0, token, len, true, e);
}

static ls_code flush_stage(ls_decode *s, size_t i, ls_error *e) {
    stage *g = &s->stages[i];
    ls_code rc = LS_OK;
    switch (s->decoder->steps[i].kind) {
    case BYTE_LEVEL: rc = pass_bytes(s, i, true, e); break;
    case BYTE_FALLBACK: rc = pass_byte_run(s, i, e); break;
    case FUSE: rc = push(s, i + 1, "", 0, true, e); break;
    case BPE_DECODER: rc = g->count ? pass_replaced(s, i, &g->held, "", 0, e) : LS_OK; break;
    default: break;
    }
    ls_str_clear(&g->token);
    ls_str_clear(&g->held);
    g->count = 0;
    g->past = false;
    return rc;
}

ls_code ls_decode_flush(ls_decode *s, ls_str *out, ls_error *e) {
    ls_code rc = LS_OK;
    s->out = out;
    for (size_t i = 0; i < s->decoder->n; i++) {
        ls_code now = flush_stage(s, i, rc ? NULL : e);
        if (!rc) rc = now;
    }
    return rc;
}
