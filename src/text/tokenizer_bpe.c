/* Byte-pair encoding of one piece: its characters become symbols in a doubly linked list, and a heap of candidate merges
 * (lowest rank first, then leftmost) joins neighbours until none is left. A candidate is checked when it is taken out,
 * so nothing is ever removed from the middle of the heap: n symbols cost O(n log n). */
#include <string.h>

#include "text/tokenizer_model.h"

typedef struct symbol {
    int32_t id, prev, next; /* neighbours, -1: none; id -1: swallowed by the symbol on its left */
} symbol;

typedef struct candidate {
    uint32_t rank;
    int32_t pos, merged;
} candidate;

typedef struct word {
    const ls_token_model *m;
    const uint8_t *banned;
    symbol *symbols;
    candidate *heap;
    size_t n, n_heap;
    ls_model_work *w;
} word;

enum { MAX_SYMBOLS = INT32_MAX };

static bool before(candidate a, candidate b) { return a.rank != b.rank ? a.rank < b.rank : a.pos < b.pos; }

static ls_code heap_push(word *d, candidate c, ls_error *e) {
    LS_TRY(ls_grow(&d->w->heap, d->n_heap, &d->w->cap_heap, sizeof *d->heap, MAX_SYMBOLS, "merge candidates", e));
    d->heap = d->w->heap;
    size_t i = d->n_heap++;
    for (; i && before(c, d->heap[(i - 1) / 2]); i = (i - 1) / 2) d->heap[i] = d->heap[(i - 1) / 2];
    d->heap[i] = c;
    return LS_OK;
}

static candidate heap_pop(word *d) {
    candidate top = d->heap[0], last = d->heap[--d->n_heap];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < d->n_heap; i = k) {
        if (k + 1 < d->n_heap && before(d->heap[k + 1], d->heap[k])) k++;
        if (!before(d->heap[k], last)) break;
        d->heap[i] = d->heap[k];
    }
    d->heap[i] = last;
    return top;
}

static bool banned(const word *d, int32_t id) { return d->banned && d->banned[id]; }

/* The merge of the symbols at |left| and |right|, if there is one. */
static bool find_merge(const word *d, int32_t left, int32_t right, candidate *c) {
    *c = (candidate){.pos = left};
    if (!ls_merges_find(&d->m->merges, d->symbols[left].id, d->symbols[right].id, &c->rank, &c->merged)) return false;
    return !banned(d, c->merged);
}

static ls_code add_symbol(word *d, int32_t id, ls_error *e) {
    LS_TRY(ls_grow(&d->w->symbols, d->n, &d->w->cap_symbols, sizeof *d->symbols, MAX_SYMBOLS, "symbols", e));
    d->symbols = d->w->symbols;
    d->symbols[d->n] = (symbol){.id = id, .prev = (int32_t)d->n - 1, .next = (int32_t)d->n + 1};
    d->n++;
    return LS_OK;
}

/* The id of one character, with the affixes its place in the word asks for; -1 when absent. */
static int32_t char_id(const word *d, const char *s, size_t len, bool first, bool last) {
    const ls_token_model *m = d->m;
    const char *prefix = first || !m->prefix ? "" : m->prefix, *suffix = last && m->suffix ? m->suffix : "";
    char text[64 + 4 + 64];
    size_t a = strlen(prefix), b = strlen(suffix);
    memcpy(text, prefix, a);
    memcpy(text + a, s, len);
    memcpy(text + a + len, suffix, b);
    int32_t id = ls_vocab_find(&m->vocab, text, a + len + b);
    return id >= 0 && !banned(d, id) ? id : -1;
}

/* Byte tokens of one character with its affixes; false when one of them is absent. */
static ls_code add_bytes(word *d, const char *s, size_t len, bool first, bool last, bool *done, ls_error *e) {
    const ls_token_model *m = d->m;
    const char *parts[3] = {first || !m->prefix ? "" : m->prefix, s, last && m->suffix ? m->suffix : ""};
    size_t lens[3] = {strlen(parts[0]), len, strlen(parts[2])};
    *done = false;
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < lens[k]; i++)
            if (m->byte_ids[(unsigned char)parts[k][i]] < 0) return LS_OK;
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < lens[k]; i++) LS_TRY(add_symbol(d, m->byte_ids[(unsigned char)parts[k][i]], e));
    *done = true;
    return LS_OK;
}

/* Characters to symbols. Unknown characters wait in |unk| so that neighbours can fuse; as in `tokenizers`, byte tokens do
 * not end the wait. */
static ls_code split_chars(word *d, const char *text, size_t len, ls_error *e) {
    bool unk = false;
    for (size_t i = 0, next; i < len; i = next) {
        next = i + (size_t)ls_utf8_decode(text + i, len - i, NULL);
        if (next == i) LS_FAIL(e, LS_INTERNAL, "BPE was given invalid UTF-8");
        int32_t id = char_id(d, text + i, next - i, i == 0, next == len);
        bool done = false;
        if (id >= 0) {
            if (unk) LS_TRY(add_symbol(d, d->m->unk, e));
            unk = false;
            LS_TRY(add_symbol(d, id, e));
            continue;
        }
        if (d->m->byte_fallback) LS_TRY(add_bytes(d, text + i, next - i, i == 0, next == len, &done, e));
        if (done || d->m->unk < 0) continue;
        if (unk && !d->m->fuse_unk) LS_TRY(add_symbol(d, d->m->unk, e));
        unk = true;
    }
    return unk ? add_symbol(d, d->m->unk, e) : LS_OK;
}

static ls_code merge_at(word *d, candidate c, ls_error *e) {
    symbol *left = &d->symbols[c.pos];
    int32_t right = left->next;
    candidate next;
    left->id = c.merged;
    left->next = d->symbols[right].next;
    d->symbols[right].id = -1;
    if (left->next >= 0) d->symbols[left->next].prev = c.pos;
    if (left->prev >= 0 && find_merge(d, left->prev, c.pos, &next)) LS_TRY(heap_push(d, next, e));
    if (left->next >= 0 && find_merge(d, c.pos, left->next, &next)) LS_TRY(heap_push(d, next, e));
    return LS_OK;
}

static ls_code merge_all(word *d, ls_error *e) {
    candidate c, now;
    d->symbols[d->n - 1].next = -1;
    for (int32_t i = 0; i + 1 < (int32_t)d->n; i++)
        if (find_merge(d, i, i + 1, &c)) LS_TRY(heap_push(d, c, e));
    while (d->n_heap) {
        c = heap_pop(d);
        const symbol *s = &d->symbols[c.pos];
        bool stale = s->id < 0 || s->next < 0 || !find_merge(d, c.pos, s->next, &now) || now.merged != c.merged;
        if (!stale) LS_TRY(merge_at(d, c, e));
    }
    return LS_OK;
}

ls_code ls_bpe_encode(const ls_token_model *m, ls_model_work *w, const char *text, size_t len, const uint8_t *ban, ls_token_ids *out,
                      ls_error *e) {
    word d = {.m = m, .banned = ban, .w = w, .symbols = w->symbols, .heap = w->heap};
    if (m->ignore_merges) {
        int32_t whole = ls_vocab_find(&m->vocab, text, len);
        if (whole >= 0 && !banned(&d, whole)) return ls_token_ids_add(out, whole, e);
    }
    LS_TRY(split_chars(&d, text, len, e));
    if (!d.n) return LS_OK;
    LS_TRY(merge_all(&d, e));
    for (int32_t i = 0; i >= 0; i = d.symbols[i].next) LS_TRY(ls_token_ids_add(out, d.symbols[i].id, e));
    return LS_OK;
}
