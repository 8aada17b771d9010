/* Unigram: the segmentation with the best sum of scores, by dynamic programming over byte positions. */
#include <math.h>

#include "text/tokenizer_model.h"

static const double UNK_PENALTY = 10.0;

static ls_code load_piece(ls_token_model *m, const json_t *v, size_t i, double *score, ls_error *e) {
    const json_t *text = json_array_get(v, 0), *number = json_array_get(v, 1);
    if (!json_is_string(text) || !json_is_number(number) || !isfinite(json_number_value(number)))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer vocabulary: entry %zu of a Unigram model must be [text, score]", i);
    *score = json_number_value(number);
    return ls_vocab_add(&m->vocab, json_string_value(text), json_string_length(text), (int64_t)i, e);
}

ls_code ls_unigram_load(ls_token_model *m, const json_t *node, ls_error *e) {
    const json_t *vocab = json_object_get(node, "vocab"), *v;
    int64_t unk = -1;
    double *scores = NULL;
    size_t i;
    ls_code rc = LS_OK;
    m->kind = LS_MODEL_UNIGRAM;
    m->fuse_unk = true;
    if (!json_is_array(vocab)) LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer model: \"vocab\" of a Unigram model must be an array");
    LS_TRY(ls_json_get_bool(node, "byte_fallback", &m->byte_fallback, e));
    LS_TRY(ls_calloc(&scores, json_array_size(vocab), sizeof *scores, "scores", e));
    json_array_foreach(vocab, i, v) LS_GOTO(load_piece(m, v, i, &scores[i], e));
    LS_GOTO(ls_json_get_int(node, "unk_id", 0, (int64_t)m->vocab.n_ids - 1, &unk, e));
    m->unk = (int32_t)unk;
    rc = ls_unigram_finish(m, scores, NULL, e);
out:
    ls_free(scores);
    return rc;
}

ls_code ls_unigram_finish(ls_token_model *m, const double *scores, const uint8_t *hidden, ls_error *e) {
    double least = INFINITY;
    LS_TRY(ls_calloc(&m->scores, m->vocab.n_ids, sizeof *m->scores, "scores", e));
    for (size_t i = 0; i < m->vocab.n_ids; i++) {
        size_t len;
        const char *text = ls_vocab_text(&m->vocab, (int32_t)i, &len);
        m->scores[i] = scores[i];
        if (!text) continue;
        if (scores[i] < least) least = scores[i];
        if (!hidden || !hidden[i]) LS_TRY(ls_trie_put(&m->trie, text, len, (int32_t)i, true, e));
    }
    m->unk_score = (isfinite(least) ? least : 0) - UNK_PENALTY;
    ls_token_model_find_bytes(m);
    return LS_OK;
}

/* The best way to end at a byte position. */
typedef struct path {
    double score;
    int32_t id, from; /* from -1: not reached */
    int32_t to;       /* end of the chosen segment that begins here */
} path;

static void offer(path *p, double score, int32_t id, size_t from) {
    if (p->from >= 0 && !(score > p->score)) return;
    *p = (path){.score = score, .id = id, .from = (int32_t)from};
}

static double add_scores(const ls_token_model *m, double a, double b) { return m->single ? (double)(float)(a + b) : a + b; }

static ls_code find_paths(const ls_token_model *m, path *paths, const char *text, size_t len, const uint8_t *banned, ls_error *e) {
    for (size_t i = 0; i <= len; i++) paths[i] = (path){.from = -1};
    for (size_t at = 0, next; at < len; at = next) {
        double here = paths[at].score;
        bool single = false;
        next = at + (size_t)ls_utf8_decode(text + at, len - at, NULL);
        if (next == at) LS_FAIL(e, LS_INTERNAL, "unigram was given invalid UTF-8");
        uint32_t node = 0;
        for (size_t i = at; i < len && (node = ls_trie_step(&m->trie, node, (unsigned char)text[i])); i++) {
            int32_t id = m->trie.values[node];
            if (id < 0 || (banned && banned[id])) continue;
            offer(&paths[i + 1], add_scores(m, m->scores[id], here), id, at);
            single |= i + 1 == next;
        }
        if (single) continue;
        if (m->unk < 0 && !m->byte_fallback)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "the tokenizer has no unknown token, and no token for the character at byte %zu", at);
        offer(&paths[next], add_scores(m, m->unk_score, here), m->unk, at);
    }
    return LS_OK;
}

/* A segment that may be unknown: its own token, its bytes, or the unknown token. */
static ls_code add_segment(const ls_token_model *m, const char *s, size_t len, const uint8_t *banned, ls_token_ids *out, ls_error *e) {
    int32_t id = ls_vocab_find(&m->vocab, s, len);
    if (id >= 0 && !(banned && banned[id])) return ls_token_ids_add(out, id, e);
    bool bytes = m->byte_fallback;
    for (size_t i = 0; bytes && i < len; i++) bytes = m->byte_ids[(unsigned char)s[i]] >= 0;
    if (!bytes && m->unk < 0) LS_FAIL(e, LS_INVALID_ARGUMENT, "the tokenizer has no unknown token for text outside its vocabulary");
    if (!bytes) return ls_token_ids_add(out, m->unk, e);
    for (size_t i = 0; i < len; i++) LS_TRY(ls_token_ids_add(out, m->byte_ids[(unsigned char)s[i]], e));
    return LS_OK;
}

ls_code ls_unigram_encode(const ls_token_model *m, ls_model_work *w, const char *text, size_t len, const uint8_t *banned,
                          ls_token_ids *out, ls_error *e) {
    if (len + 1 > w->cap_paths) {
        LS_TRY(ls_realloc(&w->paths, len + 1, sizeof(path), "segmentation", e));
        w->cap_paths = len + 1;
    }
    path *paths = w->paths;
    LS_TRY(find_paths(m, paths, text, len, banned, e));
    for (size_t end = len, begin; end; end = begin) {
        bool unknown = m->fuse_unk && m->unk >= 0 && paths[end].id == m->unk;
        begin = (size_t)paths[end].from;
        while (unknown && begin && paths[begin].id == m->unk) begin = (size_t)paths[begin].from;
        paths[begin].to = (int32_t)end;
    }
    for (size_t at = 0; at < len; at = (size_t)paths[at].to)
        LS_TRY(add_segment(m, text + at, (size_t)paths[at].to - at, banned, out, e));
    return LS_OK;
}
