/* Byte-pair encoding: reading the model, and deriving merges from SentencePiece scores. */
#include <string.h>

#include "text/tokenizer_model.h"

static ls_code load_vocab(ls_token_model *m, const json_t *vocab, ls_error *e) {
    if (!json_is_object(vocab)) LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer model: \"vocab\" of a BPE model must be an object");
    const char *text;
    json_t *id;
    json_object_foreach((json_t *)(uintptr_t)vocab, text, id) {
        if (!json_is_integer(id)) LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer vocabulary: the id of \"%.64s\" must be an integer", text);
        LS_TRY(ls_vocab_add(&m->vocab, text, strlen(text), json_integer_value(id), e));
    }
    return LS_OK;
}

ls_code ls_bpe_add_merge(ls_token_model *m, const char *left, size_t n_left, const char *right, size_t n_right, uint32_t rank,
                         ls_error *e) {
    char joined[512], *text = joined;
    size_t skip = m->prefix ? strlen(m->prefix) : 0, n;
    int32_t a = ls_vocab_find(&m->vocab, left, n_left), b = ls_vocab_find(&m->vocab, right, n_right);
    if (a < 0 || b < 0 || skip > n_right)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "merge %u: \"%.64s\" is not in the vocabulary", (unsigned)rank, a < 0 ? left : right);
    n = n_left + n_right - skip;
    if (n > sizeof joined) LS_TRY(ls_calloc(&text, n, 1, "merge", e));
    memcpy(text, left, n_left);
    memcpy(text + n_left, right + skip, n_right - skip);
    int32_t merged = ls_vocab_find(&m->vocab, text, n);
    if (text != joined) ls_free(text);
    if (merged < 0)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "merge %u: \"%.64s\" and \"%.64s\" join to a text that is not in the vocabulary", (unsigned)rank,
                left, right);
    return ls_merges_add(&m->merges, &(ls_merge){.left = a, .right = b, .merged = merged, .rank = rank}, e);
}

ls_code ls_bpe_read_merge(ls_token_model *m, const json_t *v, uint32_t rank, ls_error *e) {
    if (json_is_array(v) && json_array_size(v) == 2) {
        const json_t *a = json_array_get(v, 0), *b = json_array_get(v, 1);
        if (json_is_string(a) && json_is_string(b))
            return ls_bpe_add_merge(m, json_string_value(a), json_string_length(a), json_string_value(b), json_string_length(b), rank, e);
    }
    const char *text = json_is_string(v) ? json_string_value(v) : NULL, *space = text ? strchr(text, ' ') : NULL;
    if (!space || strchr(space + 1, ' '))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "merge %u: must be \"left right\" or [\"left\", \"right\"]", (unsigned)rank);
    char left[1024];
    size_t n = (size_t)(space - text);
    if (n >= sizeof left) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "merge %u: left part of %zu bytes; at most %zu", (unsigned)rank, n, sizeof left - 1);
    memcpy(left, text, n);
    left[n] = 0;
    return ls_bpe_add_merge(m, left, n, space + 1, json_string_length(v) - n - 1, rank, e);
}

static ls_code load_merges(ls_token_model *m, const json_t *merges, ls_error *e) {
    if (!json_is_array(merges)) LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer model: \"merges\" must be an array");
    if (json_array_size(merges) > LS_MERGES_MAX)
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "tokenizer model: %zu merges; at most %d", json_array_size(merges), LS_MERGES_MAX);
    size_t i;
    json_t *v;
    json_array_foreach((json_t *)(uintptr_t)merges, i, v) LS_TRY(ls_bpe_read_merge(m, v, (uint32_t)i, e));
    return LS_OK;
}

static ls_code keep_affix(char **out, const json_t *node, const char *key, ls_error *e) {
    const char *text = NULL;
    LS_TRY(ls_json_get_str(node, key, &text, e));
    if (!text || !*text) return LS_OK;
    size_t n = strlen(text);
    if (n > 64) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "tokenizer model: \"%s\" has %zu bytes; at most 64", key, n);
    LS_TRY(ls_calloc(out, n + 1, 1, key, e));
    memcpy(*out, text, n);
    return LS_OK;
}

ls_code ls_bpe_load(ls_token_model *m, const json_t *node, ls_error *e) {
    double dropout = 0;
    const char *unk = NULL;
    m->kind = LS_MODEL_BPE;
    LS_TRY(ls_json_get_real(node, "dropout", &dropout, e));
    if (dropout != 0) LS_FAIL(e, LS_UNIMPLEMENTED, "tokenizer model: dropout %g is not supported: encoding must not be random", dropout);
    LS_TRY(ls_json_get_bool(node, "byte_fallback", &m->byte_fallback, e));
    LS_TRY(ls_json_get_bool(node, "fuse_unk", &m->fuse_unk, e));
    LS_TRY(ls_json_get_bool(node, "ignore_merges", &m->ignore_merges, e));
    LS_TRY(keep_affix(&m->prefix, node, "continuing_subword_prefix", e));
    LS_TRY(keep_affix(&m->suffix, node, "end_of_word_suffix", e));
    LS_TRY(load_vocab(m, json_object_get(node, "vocab"), e));
    LS_TRY(load_merges(m, json_object_get(node, "merges"), e));
    LS_TRY(ls_json_get_str(node, "unk_token", &unk, e));
    if (unk) m->unk = ls_vocab_find(&m->vocab, unk, strlen(unk));
    if (unk && m->unk < 0) LS_FAIL(e, LS_INVALID_ARGUMENT, "tokenizer model: unk_token \"%.64s\" is not in the vocabulary", unk);
    ls_token_model_find_bytes(m);
    return LS_OK;
}

/* ---- Merges from scores ---------------------------------------------------------------------------------------- */

typedef struct split {
    float score;
    uint32_t n_left, n_right; /* characters */
    int32_t left, right, merged;
} split;

typedef struct splits {
    split *v;
    size_t n, cap;
} splits;

static int compare(const split *a, const split *b) {
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    if (a->n_left != b->n_left) return a->n_left > b->n_left ? -1 : 1;
    if (a->n_right != b->n_right) return a->n_right > b->n_right ? -1 : 1;
    if (a->merged != b->merged) return a->merged < b->merged ? -1 : 1;
    if (a->left != b->left) return a->left < b->left ? -1 : 1;
    return (a->right > b->right) - (a->right < b->right);
}

/* Merge sort: its time does not depend on the input, unlike qsort's in some C libraries. |spare| has room for n. */
static void sort_splits(split *v, split *spare, size_t n) {
    if (n < 2) return;
    size_t half = n / 2, i = 0, j = half, k = 0;
    sort_splits(v, spare, half);
    sort_splits(v + half, spare, n - half);
    while (i < half && j < n) spare[k++] = compare(&v[j], &v[i]) < 0 ? v[j++] : v[i++];
    while (i < half) spare[k++] = v[i++];
    memcpy(v, spare, k * sizeof *v);
}

static uint32_t count_chars(const char *s, size_t len) {
    uint32_t n = 0;
    for (size_t i = 0; i < len; i++) n += ((unsigned char)s[i] & 0xC0) != 0x80;
    return n;
}

static ls_code find_splits(const ls_token_model *m, int32_t id, float score, splits *out, ls_error *e) {
    size_t len;
    const char *text = ls_vocab_text(&m->vocab, id, &len);
    uint32_t chars = text ? count_chars(text, len) : 0, left_chars = 0;
    if (!text || ls_vocab_find(&m->vocab, text, len) != id) return LS_OK;
    for (size_t i = 1; i < len; i++) {
        if (((unsigned char)text[i] & 0xC0) == 0x80) continue;
        left_chars++;
        int32_t a = ls_vocab_find(&m->vocab, text, i), b = a < 0 ? -1 : ls_vocab_find(&m->vocab, text + i, len - i);
        if (b < 0) continue;
        LS_TRY(ls_grow(&out->v, out->n, &out->cap, sizeof *out->v, LS_MERGES_MAX, "merges", e));
        out->v[out->n++] = (split){score, left_chars, chars - left_chars, a, b, id};
    }
    return LS_OK;
}

ls_code ls_bpe_merges_from_scores(ls_token_model *m, const float *scores, ls_error *e) {
    splits all = {0};
    split *spare = NULL;
    ls_code rc = LS_OK;
    for (size_t id = 0; id < m->vocab.n_ids; id++) LS_GOTO(find_splits(m, (int32_t)id, scores[id], &all, e));
    LS_GOTO(ls_calloc(&spare, all.n, sizeof *spare, "merges", e));
    sort_splits(all.v, spare, all.n);
    for (size_t i = 0; i < all.n; i++) {
        const split *s = &all.v[i];
        LS_GOTO(ls_merges_add(&m->merges, &(ls_merge){.left = s->left, .right = s->right, .merged = s->merged, .rank = (uint32_t)i}, e));
    }
out:
    ls_free(all.v);
    ls_free(spare);
    return rc;
}
