/* The pre-tokenizer steps. Each step reads one list of pieces and writes another: rewritten text first, then the cuts. */
#include "text/tokenizer_pretokenizer.h"

#include <string.h>

#include "text/tokenizer_unicode.h"

typedef enum step_kind { SPLIT, BYTE_LEVEL, DIGITS, PUNCTUATION, WHITESPACE, WHITESPACE_SPLIT, METASPACE, DELIMITER, BERT } step_kind;
typedef enum behavior { ISOLATED, REMOVED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS } behavior;
typedef enum prepend { ALWAYS, FIRST, NEVER } prepend;

struct ls_pretokenizer_step {
    step_kind kind;
    behavior behavior;
    bool invert;            /* SPLIT */
    bool cut;               /* BYTE_LEVEL: use_regex; METASPACE: split */
    bool add_prefix_space;  /* BYTE_LEVEL */
    prepend prepend;        /* METASPACE */
    uint32_t cp;            /* METASPACE: replacement; DELIMITER */
    ls_regex *pattern;      /* SPLIT, BYTE_LEVEL */
};

static const char GPT2_PATTERN[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
enum { MAX_PIECES = 1 << 29 };

ls_code ls_pieces_add(ls_pieces *p, ls_piece piece, ls_error *e) {
    LS_TRY(ls_grow(&p->v, p->n, &p->cap, sizeof *p->v, MAX_PIECES, "pieces of text", e));
    p->v[p->n++] = piece;
    return LS_OK;
}

void ls_pieces_deinit(ls_pieces *p) {
    ls_str_deinit(&p->text);
    ls_free(p->v);
    *p = (ls_pieces){0};
}

/* ---- Loading --------------------------------------------------------------------------------------------------- */

/* Reads an enumeration: the index of the value of |key| in names[n]; absent keeps |*value|. */
static ls_code read_choice(const json_t *node, const char *key, const char *const *names, int n, int *value, ls_error *e) {
    const char *text = NULL;
    LS_TRY(ls_json_get_str(node, key, &text, e));
    if (!text) return LS_OK;
    for (int i = 0; i < n; i++) {
        if (strcmp(text, names[i])) continue;
        *value = i;
        return LS_OK;
    }
    LS_FAIL(e, LS_UNIMPLEMENTED, "pre_tokenizer: \"%s\" is \"%.40s\"; supported: \"%s\" to \"%s\"", key, text, names[0], names[n - 1]);
}

static ls_code read_behavior(const json_t *node, behavior *b, ls_error *e) {
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    int i = (int)*b;
    LS_TRY(read_choice(node, "behavior", names, 5, &i, e));
    *b = (behavior)i;
    return LS_OK;
}

static ls_code load_metaspace(ls_pretokenizer_step *s, const json_t *node, ls_error *e) {
    static const char *const names[] = {"always", "first", "never"};
    bool add_prefix_space = true;
    s->cut = true;
    s->behavior = MERGED_WITH_NEXT;
    LS_TRY(ls_component_char(node, "replacement", &s->cp, e));
    LS_TRY(ls_json_get_bool(node, "add_prefix_space", &add_prefix_space, e)); /* the older spelling */
    int i = add_prefix_space ? ALWAYS : NEVER;
    LS_TRY(read_choice(node, "prepend_scheme", names, 3, &i, e));
    s->prepend = (prepend)i;
    return ls_json_get_bool(node, "split", &s->cut, e);
}

static ls_code load_byte_level(ls_pretokenizer_step *s, const json_t *node, ls_error *e) {
    s->cut = s->add_prefix_space = true;
    LS_TRY(ls_json_get_bool(node, "use_regex", &s->cut, e));
    LS_TRY(ls_json_get_bool(node, "add_prefix_space", &s->add_prefix_space, e));
    return ls_regex_create(&s->pattern, GPT2_PATTERN, sizeof GPT2_PATTERN - 1, false, e);
}

static ls_code load_digits(ls_pretokenizer_step *s, const json_t *node, ls_error *e) {
    bool individual = false;
    LS_TRY(ls_json_get_bool(node, "individual_digits", &individual, e));
    s->behavior = individual ? ISOLATED : CONTIGUOUS;
    return LS_OK;
}

static ls_code add_step(void *user, const char *type, const json_t *node, ls_error *e) {
    static const char *const names[] = {"Split", "ByteLevel", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit", "Metaspace",
                                        "CharDelimiterSplit", "BertPreTokenizer"};
    ls_pretokenizer *p = user;
    size_t k = 0;
    while (k < sizeof names / sizeof *names && strcmp(names[k], type)) k++;
    if (k == sizeof names / sizeof *names)
        return ls_component_unknown("pre_tokenizer", type, "Split, ByteLevel, Digits, Punctuation, Whitespace, WhitespaceSplit, "
                                    "Metaspace, CharDelimiterSplit, BertPreTokenizer", e);
    LS_TRY(ls_grow(&p->steps, p->n, &p->cap, sizeof *p->steps, LS_MAX_COMPONENTS, "pre_tokenizer", e));
    ls_pretokenizer_step *s = &p->steps[p->n++];
    *s = (ls_pretokenizer_step){.kind = (step_kind)k, .behavior = ISOLATED};
    switch (s->kind) {
    case SPLIT:
        LS_TRY(ls_json_get_bool(node, "invert", &s->invert, e));
        LS_TRY(read_behavior(node, &s->behavior, e));
        return ls_component_pattern(node, "pattern", &s->pattern, e);
    case BYTE_LEVEL: return load_byte_level(s, node, e);
    case DIGITS: return load_digits(s, node, e);
    case PUNCTUATION: return read_behavior(node, &s->behavior, e);
    case METASPACE: return load_metaspace(s, node, e);
    case DELIMITER:
        s->behavior = REMOVED;
        return ls_component_char(node, "delimiter", &s->cp, e);
    case WHITESPACE: case WHITESPACE_SPLIT: case BERT: s->behavior = REMOVED; return LS_OK;
    }
    return LS_OK;
}

ls_code ls_pretokenizer_load(ls_pretokenizer *p, const json_t *node, ls_error *e) {
    return ls_component_each(node, "pre_tokenizer", "pretokenizers", add_step, p, e);
}

void ls_pretokenizer_deinit(ls_pretokenizer *p) {
    for (size_t i = 0; i < p->n; i++) ls_regex_destroy(p->steps[i].pattern);
    ls_free(p->steps);
    *p = (ls_pretokenizer){0};
}

/* ---- Cutting --------------------------------------------------------------------------------------------------- */

/* The class of one character for the steps that look at single characters: 0 is "no match"; equal classes above 0 form
 * one match when |runs|. */
static int char_class(const ls_pretokenizer_step *s, uint32_t cp) {
    switch (s->kind) {
    case DIGITS: return ls_uc_numeric(cp);
    case PUNCTUATION: return ls_uc_punct(cp);
    case WHITESPACE_SPLIT: return ls_uc_space(cp);
    case WHITESPACE: return ls_uc_word(cp) ? 1 : !ls_uc_space(cp) ? 2 : 0;
    default: return cp == s->cp;
    }
}

/* Spans of single-character steps: every matching character is a match of its own; for Whitespace, whose expression is
 * \w+|[^\w\s]+ inverted, the runs are the text and what lies between is the match. */
static ls_code split_chars(const ls_pretokenizer_step *s, const char *text, size_t len, ls_spans *out, ls_error *e) {
    bool runs = s->kind == WHITESPACE;
    size_t begin = 0;
    int before = -1;
    out->n = 0;
    for (size_t i = 0, at = 0; i < len; at = i) {
        int c = char_class(s, ls_uc_next(text, len, &i));
        bool cut = c != before || (c && !runs);
        if (cut && at > begin) LS_TRY(ls_spans_add(out, begin, at, runs ? before == 0 : before > 0, e));
        if (cut) begin = at;
        before = c;
    }
    return ls_spans_add(out, begin, len, runs ? before == 0 : before > 0, e);
}

/* Joins and drops spans as the behavior says, in place. */
static void apply_behavior(behavior b, ls_spans *s) {
    size_t n = 0;
    bool before = false;
    for (size_t i = 0; i < s->n; i++) {
        ls_span x = s->v[i];
        bool join = false;
        if (b == REMOVED && x.match) continue;
        if (b == CONTIGUOUS) join = x.match == before;
        if (b == MERGED_WITH_PREVIOUS) join = x.match && !before;
        if (b == MERGED_WITH_NEXT) join = !x.match && i > 0 && before;
        before = x.match;
        if (join && n) s->v[n - 1].end = x.end;
        else s->v[n++] = x;
    }
    s->n = n;
}

static ls_code add_spans(const ls_piece *piece, const ls_spans *spans, size_t base, ls_pieces *out, ls_error *e) {
    for (size_t i = 0; i < spans->n; i++) {
        ls_span x = spans->v[i];
        if (x.begin == x.end) continue;
        LS_TRY(ls_pieces_add(out, (ls_piece){base + x.begin, base + x.end, -1, piece->at_start && x.begin == 0}, e));
    }
    return LS_OK;
}

/* Cuts the bytes [base, base + len) of out->text, which stem from |piece|, and adds the pieces to |out|. */
static ls_code cut(const ls_pretokenizer_step *s, ls_regex_work *w, const ls_piece *piece, size_t base, ls_spans *spans, ls_pieces *out,
                   ls_error *e) {
    const char *text = out->text.data + base;
    size_t len = out->text.len - base;
    if (s->pattern) LS_TRY(ls_regex_split(s->pattern, w, text, len, spans, e));
    else LS_TRY(split_chars(s, text, len, spans, e));
    for (size_t i = 0; s->invert && i < spans->n; i++) spans->v[i].match = !spans->v[i].match;
    apply_behavior(s->behavior, spans);
    return add_spans(piece, spans, base, out, e);
}

/* ---- Steps that rewrite ---------------------------------------------------------------------------------------- */

static ls_code metaspace(const ls_pretokenizer_step *s, const char *text, size_t len, const ls_piece *piece, ls_str *out, ls_error *e) {
    char mark[4];
    size_t n = (size_t)ls_utf8_encode(s->cp, mark);
    bool marked = len && (text[0] == ' ' || (len >= n && !memcmp(text, mark, n)));
    bool wanted = s->prepend == ALWAYS || (s->prepend == FIRST && piece->at_start);
    if (wanted && !marked) LS_TRY(ls_str_append(out, mark, n, e));
    for (size_t i = 0, from = 0; i <= len; i++) {
        if (i < len && text[i] != ' ') continue;
        LS_TRY(ls_str_append(out, text + from, i - from, e));
        if (i < len) LS_TRY(ls_str_append(out, mark, n, e));
        from = i + 1;
    }
    return LS_OK;
}

/* Bytes to the byte-level alphabet, piece by piece, after the cuts were made on the plain text. */
static ls_code byte_alphabet(const ls_pieces *in, ls_pieces *out, ls_error *e) {
    ls_str_clear(&out->text);
    out->n = 0;
    for (size_t i = 0; i < in->n; i++) {
        ls_piece p = in->v[i];
        size_t begin = out->text.len;
        for (size_t k = p.begin; k < p.end; k++) LS_TRY(ls_uc_append(&out->text, ls_byte_char((uint8_t)in->text.data[k]), e));
        LS_TRY(ls_pieces_add(out, (ls_piece){begin, out->text.len, p.id, p.at_start}, e));
    }
    return LS_OK;
}

/* BertPreTokenizer: whitespace removed, then every punctuation character on its own. */
static ls_code bert(ls_regex_work *w, const ls_piece *piece, size_t base, ls_spans *spans, ls_pieces *out, ls_error *e) {
    const ls_pretokenizer_step words = {.kind = WHITESPACE_SPLIT, .behavior = REMOVED}, marks = {.kind = PUNCTUATION, .behavior = ISOLATED};
    size_t first = out->n;
    LS_TRY(cut(&words, w, piece, base, spans, out, e));
    size_t n_words = out->n - first;
    ls_piece *list = NULL;
    LS_TRY(ls_calloc(&list, n_words, sizeof *list, "pieces of text", e));
    if (n_words) memcpy(list, out->v + first, n_words * sizeof *list);
    out->n = first;
    ls_code rc = LS_OK;
    for (size_t i = 0; i < n_words; i++) {
        LS_GOTO(split_chars(&marks, out->text.data + list[i].begin, list[i].end - list[i].begin, spans, e));
        LS_GOTO(add_spans(&list[i], spans, list[i].begin, out, e));
    }
out:
    ls_free(list);
    return rc;
}

static ls_code step_piece(const ls_pretokenizer_step *s, ls_regex_work *w, const ls_pieces *in, const ls_piece *p, ls_spans *spans,
                          ls_pieces *out, ls_error *e) {
    size_t base = out->text.len, len = p->end - p->begin;
    const char *text = in->text.data + p->begin;
    if (s->kind == METASPACE) {
        LS_TRY(metaspace(s, text, len, p, &out->text, e));
    } else {
        if (s->kind == BYTE_LEVEL && s->add_prefix_space && text[0] != ' ') LS_TRY(ls_str_append(&out->text, " ", 1, e));
        LS_TRY(ls_str_append(&out->text, text, len, e));
    }
    if (s->kind == BERT) return bert(w, p, base, spans, out, e);
    if (s->cut || (s->kind != METASPACE && s->kind != BYTE_LEVEL)) return cut(s, w, p, base, spans, out, e);
    return ls_pieces_add(out, (ls_piece){base, out->text.len, -1, p->at_start}, e);
}

static void swap_pieces(ls_pieces *a, ls_pieces *b) {
    ls_pieces t = *a;
    *a = *b;
    *b = t;
}

ls_code ls_pretokenizer_run(const ls_pretokenizer *p, ls_regex_work *w, ls_pieces *pieces, ls_pieces *spare, ls_error *e) {
    ls_spans spans = {0};
    ls_code rc = LS_OK;
    for (size_t i = 0; i < p->n; i++) {
        const ls_pretokenizer_step *s = &p->steps[i];
        ls_str_clear(&spare->text);
        spare->n = 0;
        for (size_t k = 0; k < pieces->n; k++) {
            ls_piece x = pieces->v[k];
            if (x.id >= 0) LS_GOTO(ls_pieces_add(spare, (ls_piece){0, 0, x.id, x.at_start}, e));
            else if (x.begin < x.end) LS_GOTO(step_piece(s, w, pieces, &x, &spans, spare, e));
        }
        swap_pieces(pieces, spare);
        if (s->kind != BYTE_LEVEL) continue;
        LS_GOTO(byte_alphabet(pieces, spare, e));
        swap_pieces(pieces, spare);
    }
out:
    ls_free(spans.v);
    return rc;
}
