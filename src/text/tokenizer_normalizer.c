/* The normalizer steps. */
#include "text/tokenizer_normalizer.h"

#include <string.h>

#include "text/tokenizer_unicode.h"

typedef enum step_kind {
    NFC, NFD, NFKC, NFKD, LOWERCASE, STRIP_ACCENTS, STRIP, REPLACE, PREPEND, PRECOMPILED, BYTE_LEVEL, NMT, CHARSMAP_LONGEST, TRIM_SPACES
} step_kind;

struct ls_normalizer_step {
    step_kind kind;
    bool left, right;   /* STRIP */
    ls_regex *pattern;  /* REPLACE */
    char *text;         /* REPLACE, PREPEND */
    size_t len;
    ls_charsmap *map;   /* PRECOMPILED, CHARSMAP_LONGEST */
};

static const struct { const char *name; step_kind kind; } kinds[] = {
    {"NFC", NFC}, {"NFD", NFD}, {"NFKC", NFKC}, {"NFKD", NFKD}, {"Lowercase", LOWERCASE}, {"StripAccents", STRIP_ACCENTS},
    {"Strip", STRIP}, {"Replace", REPLACE}, {"Prepend", PREPEND}, {"Precompiled", PRECOMPILED}, {"ByteLevel", BYTE_LEVEL},
    {"Nmt", NMT}};

static ls_code keep_text(ls_normalizer_step *s, const json_t *node, const char *key, ls_error *e) {
    const char *text;
    LS_TRY(ls_component_text(node, key, &text, &s->len, e));
    LS_TRY(ls_calloc(&s->text, s->len + 1, 1, "normalizer", e));
    memcpy(s->text, text, s->len);
    return LS_OK;
}

static ls_code new_step(ls_normalizer *n, step_kind kind, ls_normalizer_step **out, ls_error *e) {
    LS_TRY(ls_grow(&n->steps, n->n, &n->cap, sizeof *n->steps, LS_MAX_COMPONENTS, "normalizer", e));
    *out = &n->steps[n->n++];
    **out = (ls_normalizer_step){.kind = kind, .left = true, .right = true};
    return LS_OK;
}

static ls_code add_step(void *user, const char *type, const json_t *node, ls_error *e) {
    ls_normalizer *n = user;
    size_t k = 0, len;
    const char *map;
    while (k < sizeof kinds / sizeof *kinds && strcmp(kinds[k].name, type)) k++;
    if (k == sizeof kinds / sizeof *kinds)
        return ls_component_unknown("normalizer", type, "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Replace, Prepend, "
                                    "Precompiled, ByteLevel, Nmt", e);
    ls_normalizer_step *s = NULL;
    LS_TRY(new_step(n, kinds[k].kind, &s, e));
    switch (s->kind) {
    case STRIP:
        LS_TRY(ls_json_get_bool(node, "strip_left", &s->left, e));
        return ls_json_get_bool(node, "strip_right", &s->right, e);
    case REPLACE:
        LS_TRY(ls_component_pattern(node, "pattern", &s->pattern, e));
        return keep_text(s, node, "content", e);
    case PREPEND: return keep_text(s, node, "prepend", e);
    case PRECOMPILED:
        LS_TRY(ls_component_text(node, "precompiled_charsmap", &map, &len, e));
        return ls_charsmap_from_base64(&s->map, map, len, e);
    default: return LS_OK;
    }
}

ls_code ls_normalizer_load(ls_normalizer *n, const json_t *node, ls_error *e) {
    return ls_component_each(node, "normalizer", "normalizers", add_step, n, e);
}

ls_code ls_normalizer_add_sentencepiece(ls_normalizer *n, const void *charsmap, size_t len, bool trim, ls_error *e) {
    ls_normalizer_step *s = NULL;
    if (len) {
        LS_TRY(new_step(n, CHARSMAP_LONGEST, &s, e));
        LS_TRY(ls_charsmap_create(&s->map, charsmap, len, e));
    }
    return trim ? new_step(n, TRIM_SPACES, &s, e) : LS_OK;
}

void ls_normalizer_deinit(ls_normalizer *n) {
    for (size_t i = 0; i < n->n; i++) {
        ls_regex_destroy(n->steps[i].pattern);
        ls_charsmap_destroy(n->steps[i].map);
        ls_free(n->steps[i].text);
    }
    ls_free(n->steps);
    *n = (ls_normalizer){0};
}

static ls_code strip(const ls_normalizer_step *s, const ls_str *in, ls_str *out, bool *kept_start, ls_error *e) {
    size_t begin = 0, end = in->len;
    for (size_t i = 0; s->left && i < in->len && ls_uc_space(ls_uc_next(in->data, in->len, &i));) begin = i;
    while (s->right && end > begin) {
        size_t at = end - 1;
        while (at > begin && ((unsigned char)in->data[at] & 0xC0) == 0x80) at--;
        size_t i = at;
        if (!ls_uc_space(ls_uc_next(in->data, in->len, &i))) break;
        end = at;
    }
    if (begin) *kept_start = false;
    return ls_str_append(out, in->data + begin, end - begin, e);
}

static ls_code strip_accents(const ls_str *in, ls_str *out, bool *kept_start, ls_error *e) {
    for (size_t i = 0, at = 0; i < in->len; at = i) {
        if (!ls_uc_mark(ls_uc_next(in->data, in->len, &i))) LS_TRY(ls_str_append(out, in->data + at, i - at, e));
        else if (!at) *kept_start = false;
    }
    return LS_OK;
}

static ls_code replace(const ls_normalizer_step *s, ls_regex_work *w, const ls_str *in, ls_str *out, ls_error *e) {
    ls_spans spans = {0};
    ls_code rc = LS_OK;
    LS_GOTO(ls_regex_split(s->pattern, w, in->data, in->len, &spans, e));
    for (size_t i = 0; i < spans.n; i++) {
        ls_span p = spans.v[i];
        if (p.match) LS_GOTO(ls_str_append(out, s->text, s->len, e));
        else LS_GOTO(ls_str_append(out, in->data + p.begin, p.end - p.begin, e));
    }
out:
    ls_free(spans.v);
    return rc;
}

static ls_code byte_level(const ls_str *in, ls_str *out, ls_error *e) {
    for (size_t i = 0; i < in->len; i++) LS_TRY(ls_uc_append(out, ls_byte_char((uint8_t)in->data[i]), e));
    return LS_OK;
}

/* Nmt: drops control characters and turns several kinds of space into a space. */
static ls_code nmt(const ls_str *in, ls_str *out, ls_error *e) {
    for (size_t i = 0; i < in->len;) {
        uint32_t c = ls_uc_next(in->data, in->len, &i);
        if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F) continue;
        bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 ||
                     c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
        LS_TRY(ls_uc_append(out, space ? ' ' : c, e));
    }
    return LS_OK;
}

static ls_code trim_spaces(const ls_str *in, ls_str *out, ls_error *e) {
    for (size_t i = 0; i < in->len; i++) {
        if (in->data[i] == ' ' && (!out->len || out->data[out->len - 1] == ' ')) continue;
        LS_TRY(ls_str_append(out, in->data + i, 1, e));
    }
    for (;;) { /* at the end SentencePiece drops spaces in both spellings */
        if (out->len && out->data[out->len - 1] == ' ') out->len--;
        else if (out->len >= 3 && !memcmp(out->data + out->len - 3, "\xE2\x96\x81", 3)) out->len -= 3;
        else break;
    }
    if (out->data) out->data[out->len] = 0;
    return LS_OK;
}

static ls_code run_step(const ls_normalizer_step *s, ls_regex_work *w, const ls_str *in, ls_str *out, bool *kept_start, ls_error *e) {
    switch (s->kind) {
    case NFC: return ls_uc_normalize(LS_NFC, in->data, in->len, out, e);
    case NFD: return ls_uc_normalize(LS_NFD, in->data, in->len, out, e);
    case NFKC: return ls_uc_normalize(LS_NFKC, in->data, in->len, out, e);
    case NFKD: return ls_uc_normalize(LS_NFKD, in->data, in->len, out, e);
    case LOWERCASE: return ls_uc_lowercase(in->data, in->len, out, e);
    case STRIP_ACCENTS: return strip_accents(in, out, kept_start, e);
    case STRIP: return strip(s, in, out, kept_start, e);
    case REPLACE: return replace(s, w, in, out, e);
    case PREPEND:
        LS_TRY(ls_str_append(out, s->text, s->len, e));
        return ls_str_append(out, in->data, in->len, e);
    case PRECOMPILED: return ls_charsmap_by_grapheme(s->map, in->data, in->len, out, e);
    case BYTE_LEVEL: return byte_level(in, out, e);
    case NMT: return nmt(in, out, e);
    case CHARSMAP_LONGEST: return ls_charsmap_by_longest(s->map, in->data, in->len, out, e);
    case TRIM_SPACES: return trim_spaces(in, out, e);
    }
    return LS_OK;
}

ls_code ls_normalizer_run(const ls_normalizer *n, ls_regex_work *w, ls_str *text, ls_str *spare, bool *kept_start, ls_error *e) {
    bool kept = true;
    for (size_t i = 0; i < n->n && text->len; i++) {
        ls_str_clear(spare);
        LS_TRY(run_step(&n->steps[i], w, text, spare, &kept, e));
        ls_str swap = *text;
        *text = *spare;
        *spare = swap;
    }
    if (kept_start) *kept_start = kept;
    return LS_OK;
}
