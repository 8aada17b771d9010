/* Added tokens: leftmost-longest matching with the rules of `tokenizers` for words and white space. */
#include "text/tokenizer_added.h"

#include <string.h>

#include "text/tokenizer_unicode.h"

enum { MAX_ADDED = 1 << 20, MAX_ADDED_BYTES = 4096 };

const ls_added_token *ls_added_by_id(const ls_added *a, int32_t id) {
    uint64_t i;
    return id >= 0 && ls_u64_map_get(&a->by_id, (uint64_t)id, &i) ? &a->tokens[i] : NULL;
}

const ls_added_token *ls_added_by_text(const ls_added *a, const char *text, size_t len) {
    for (size_t i = 0; i < a->n; i++)
        if (a->tokens[i].len == len && !memcmp(a->tokens[i].text, text, len)) return &a->tokens[i];
    return NULL;
}

ls_code ls_added_put(ls_added *a, const ls_added_token *token, ls_error *e) {
    uint64_t i;
    if (!token->len) return LS_OK;
    if (token->len > MAX_ADDED_BYTES)
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "added token %d has %zu bytes; at most %d", (int)token->id, token->len, MAX_ADDED_BYTES);
    if (ls_u64_map_get(&a->by_id, (uint64_t)token->id, &i)) {
        ls_added_token *old = &a->tokens[i];
        if (old->len != token->len || memcmp(old->text, token->text, old->len))
            LS_FAIL(e, LS_INVALID_ARGUMENT, "added tokens \"%.64s\" and \"%.64s\" share id %d", old->text, token->text, (int)token->id);
        char *text = old->text;
        *old = *token;
        old->text = text;
        return LS_OK;
    }
    LS_TRY(ls_grow(&a->tokens, a->n, &a->cap, sizeof *a->tokens, MAX_ADDED, "added tokens", e));
    ls_added_token copy = *token;
    LS_TRY(ls_calloc(&copy.text, token->len + 1, 1, "added token", e));
    memcpy(copy.text, token->text, token->len);
    a->tokens[a->n] = copy;
    return ls_u64_map_put(&a->by_id, (uint64_t)token->id, a->n++, e);
}

/* Special tokens come first, as equal texts keep the first. */
static ls_code add_to_tries(ls_added *a, const ls_normalizer *n, bool special, ls_str *text, ls_str *spare, ls_regex_work *w, ls_error *e) {
    for (size_t i = 0; i < a->n; i++) {
        const ls_added_token *t = &a->tokens[i];
        if (t->special != special) continue;
        if (!t->normalized) {
            LS_TRY(ls_trie_put(&a->raw, t->text, t->len, (int32_t)i, false, e));
            continue;
        }
        ls_str_clear(text);
        LS_TRY(ls_str_append(text, t->text, t->len, e));
        LS_TRY(ls_normalizer_run(n, w, text, spare, NULL, e));
        LS_TRY(ls_trie_put(&a->normalized, text->data, text->len, (int32_t)i, false, e));
    }
    return LS_OK;
}

ls_code ls_added_finish(ls_added *a, const ls_normalizer *n, ls_error *e) {
    ls_str text = {.max = 1 << 20}, spare = {.max = 1 << 20};
    ls_regex_work w = {0};
    ls_trie_deinit(&a->raw);
    ls_trie_deinit(&a->normalized);
    ls_code rc = add_to_tries(a, n, true, &text, &spare, &w, e);
    if (!rc) rc = add_to_tries(a, n, false, &text, &spare, &w, e);
    if (!rc) rc = ls_u64_map_fit(&a->raw.edges, e);
    if (!rc) rc = ls_u64_map_fit(&a->normalized.edges, e);
    if (!rc) rc = ls_u64_map_fit(&a->by_id, e);
    ls_regex_work_deinit(&w);
    ls_str_deinit(&text);
    ls_str_deinit(&spare);
    return rc;
}

void ls_added_deinit(ls_added *a) {
    for (size_t i = 0; i < a->n; i++) ls_free(a->tokens[i].text);
    ls_free(a->tokens);
    ls_u64_map_deinit(&a->by_id);
    ls_trie_deinit(&a->raw);
    ls_trie_deinit(&a->normalized);
    *a = (ls_added){0};
}

/* The longest key of |t| that begins at text[at]: its value and end, or -1. */
static int32_t longest(const ls_trie *t, const char *text, size_t len, size_t at, size_t *end) {
    int32_t best = -1;
    uint32_t node = 0;
    for (size_t i = at; i < len && (node = ls_trie_step(t, node, (unsigned char)text[i])); i++) {
        if (t->values[node] < 0) continue;
        best = t->values[node];
        *end = i + 1;
    }
    return best;
}

static uint32_t char_before(const char *text, size_t at) {
    size_t i = at - 1;
    while (i && ((unsigned char)text[i] & 0xC0) == 0x80) i--;
    return ls_uc_next(text, at, &i);
}

static bool stands_alone(const char *text, size_t len, size_t begin, size_t end) {
    if (begin && ls_uc_word(char_before(text, begin))) return false;
    return end == len || !ls_uc_word(ls_uc_next(text, len, &end));
}

static size_t space_left(const char *text, size_t floor, size_t begin) {
    while (begin > floor && ls_uc_space(char_before(text, begin))) {
        begin--;
        while (begin > floor && ((unsigned char)text[begin] & 0xC0) == 0x80) begin--;
    }
    return begin;
}

static size_t space_right(const char *text, size_t len, size_t end) {
    for (size_t i = end; i < len && ls_uc_space(ls_uc_next(text, len, &i));) end = i;
    return end;
}

static ls_code add_text(const char *text, size_t begin, size_t end, bool at_start, ls_pieces *out, ls_error *e) {
    size_t base = out->text.len;
    if (begin >= end) return LS_OK;
    LS_TRY(ls_str_append(&out->text, text + begin, end - begin, e));
    return ls_pieces_add(out, (ls_piece){base, out->text.len, -1, at_start && begin == 0}, e);
}

/* Whether [begin, end) lies in |scope|. *cursor is the first range that may reach |begin|; places are asked in order. */
static bool in_scope(const ls_special_scope *scope, size_t *cursor, size_t begin, size_t end) {
    while (*cursor < scope->n && scope->ranges[*cursor].end <= begin) ++*cursor;
    return scope->everywhere || (*cursor < scope->n && scope->ranges[*cursor].begin <= begin && end <= scope->ranges[*cursor].end);
}

/* Like longest, over the special tokens of the normalised kind, spelled as given. */
static int32_t longest_normalized_special(const ls_added *a, const char *text, size_t len, size_t at, int32_t best, size_t *end) {
    for (size_t i = 0; i < a->n; i++) {
        const ls_added_token *t = &a->tokens[i];
        if (!t->special || !t->normalized || !t->len || t->len > len - at || (best >= 0 && t->len <= *end - at)) continue;
        if (memcmp(text + at, t->text, t->len)) continue;
        best = (int32_t)i;
        *end = at + t->len;
    }
    return best;
}

static bool has_normalized_special(const ls_added *a) {
    for (size_t i = 0; i < a->n; i++)
        if (a->tokens[i].special && a->tokens[i].normalized) return true;
    return false;
}

ls_code ls_added_split(const ls_added *a, bool in_normalized, const ls_special_scope *scope, const char *text, size_t len, bool at_start,
                       ls_pieces *out, ls_error *e) {
    const ls_trie *trie = in_normalized ? &a->normalized : &a->raw;
    bool both = !in_normalized && scope->n && has_normalized_special(a);
    size_t done = 0, cursor = 0; /* text before |done| is in |out| */
    for (size_t at = 0, end = 0; (trie->n_nodes || both) && at < len;) {
        int32_t i = trie->n_nodes && trie->root[(unsigned char)text[at]] ? longest(trie, text, len, at, &end) : -1;
        if (both) i = longest_normalized_special(a, text, len, at, i, &end);
        if (i < 0) {
            at++;
            continue;
        }
        const ls_added_token *t = &a->tokens[i];
        size_t begin = at, stop = end;
        at = end;
        if ((t->special && !in_scope(scope, &cursor, begin, end)) || (t->single_word && !stands_alone(text, len, begin, end))) continue;
        if (t->lstrip) begin = space_left(text, done < begin ? done : begin, begin);
        if (t->rstrip) stop = space_right(text, len, end);
        LS_TRY(add_text(text, done, begin, at_start, out, e));
        LS_TRY(ls_pieces_add(out, (ls_piece){0, 0, t->id, at_start && begin == 0}, e));
        done = stop;
    }
    return add_text(text, done, len, at_start, out, e);
}
