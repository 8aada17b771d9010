/* A search among the merges of the left token, which are few for most tokens. */
#include "text/tokenizer_merges.h"

#include <string.h>

enum { ID_BITS = 21, RIGHT_SHIFT = ID_BITS + LS_MERGE_RANK_BITS };

_Static_assert(LS_VOCAB_MAX_IDS <= 1 << ID_BITS && RIGHT_SHIFT + ID_BITS == 64, "two ids and a rank fill 64 bits");

static int32_t right_of(uint64_t packed) { return (int32_t)(packed >> RIGHT_SHIFT); }
static int32_t merged_of(uint64_t packed) { return (int32_t)(packed & ((1u << ID_BITS) - 1)); }

ls_code ls_merges_add(ls_merges *m, const ls_merge *merge, ls_error *e) {
    if (merge->rank >= LS_MERGES_MAX) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "tokenizer: merge %u; at most %d are allowed", merge->rank, LS_MERGES_MAX);
    LS_TRY(ls_grow(&m->added, m->n_added, &m->cap_added, sizeof *m->added, LS_MERGES_MAX, "merges", e));
    m->added[m->n_added++] = *merge;
    return LS_OK;
}

static size_t key_of(const ls_merge *x, bool by_left) { return (size_t)(by_left ? x->left : x->right); }

/* Counting sort, which keeps the order of equals. |begin| [n_ids + 1]: where each id's merges begin in |to|. */
static void sort_by(bool by_left, const ls_merge *from, ls_merge *to, size_t n, uint32_t *begin, size_t n_ids) {
    memset(begin, 0, (n_ids + 1) * sizeof *begin);
    for (size_t i = 0; i < n; i++) begin[key_of(&from[i], by_left)]++;
    uint32_t sum = 0;
    for (size_t id = 0; id <= n_ids; id++) {
        sum += begin[id];
        begin[id] = sum; /* the end, until the loop below has put all of them */
    }
    for (size_t i = n; i-- > 0;) to[--begin[key_of(&from[i], by_left)]] = from[i];
}

/* Packs sorted merges and leaves out all but the last of equal pairs. */
static void pack(ls_merges *m) {
    const ls_merge *x = m->added;
    size_t left = 0;
    for (size_t i = 0; i < m->n_added; i++) {
        if (i + 1 < m->n_added && x[i].left == x[i + 1].left && x[i].right == x[i + 1].right) continue;
        while (left <= (size_t)x[i].left) m->begin[left++] = (uint32_t)m->n;
        m->packed[m->n++] = (uint64_t)(uint32_t)x[i].right << RIGHT_SHIFT | (uint64_t)x[i].rank << ID_BITS | (uint32_t)x[i].merged;
    }
    while (left <= m->n_ids) m->begin[left++] = (uint32_t)m->n;
}

ls_code ls_merges_finish(ls_merges *m, size_t n_ids, ls_error *e) {
    ls_merge *spare = NULL;
    ls_code rc;
    m->n_ids = n_ids;
    LS_GOTO(ls_calloc(&m->begin, n_ids + 1, sizeof *m->begin, "merges", e));
    LS_GOTO(ls_calloc(&spare, m->n_added, sizeof *spare, "merges", e));
    sort_by(false, m->added, spare, m->n_added, m->begin, n_ids);
    sort_by(true, spare, m->added, m->n_added, m->begin, n_ids);
    ls_free(spare);
    spare = NULL;
    LS_GOTO(ls_calloc(&m->packed, m->n_added, sizeof *m->packed, "merges", e));
    pack(m);
    ls_free(m->added);
    m->added = NULL;
    m->n_added = m->cap_added = 0;
out:
    ls_free(spare);
    return rc;
}

bool ls_merges_find(const ls_merges *m, int32_t left, int32_t right, uint32_t *rank, int32_t *merged) {
    size_t low = m->begin[left], n = m->begin[left + 1] - low;
    const uint64_t *first = m->packed + low; /* the first of n left whose right token may be the one */
    if (!n) return false;
    while (n > 1) { /* without a branch on what is compared, which no processor predicts */
        size_t half = n / 2;
        first += right_of(first[half]) <= right ? half : 0;
        n -= half;
    }
    if (right_of(*first) != right) return false;
    *rank = (uint32_t)(*first >> ID_BITS) & (LS_MERGES_MAX - 1);
    *merged = merged_of(*first);
    return true;
}

bool ls_merges_are_sound(const ls_merges *m) {
    if (m->begin[0] || m->begin[m->n_ids] != m->n) return false;
    for (size_t id = 0; id < m->n_ids; id++) {
        if (m->begin[id] > m->begin[id + 1] || m->begin[id + 1] > m->n) return false;
        for (size_t i = m->begin[id]; i < m->begin[id + 1]; i++) {
            if (i > m->begin[id] && right_of(m->packed[i]) <= right_of(m->packed[i - 1])) return false;
            if ((size_t)right_of(m->packed[i]) >= m->n_ids || (size_t)merged_of(m->packed[i]) >= m->n_ids) return false;
        }
    }
    return true;
}

void ls_merges_deinit(ls_merges *m) {
    ls_free(m->packed);
    ls_free(m->begin);
    ls_free(m->added);
    *m = (ls_merges){0};
}
