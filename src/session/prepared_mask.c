/* The mask of a prepared prefill: an additive bias comes down to the image blocks that executors know.
 *
 * Executors let a row see the keys up to its own, within the layer's window, and the whole of its block. So each row of a bias must see
 * the keys from the first to some last one, and the rows that see beyond themselves must share that last one: they are a block. */
#include <math.h>

#include "session/prepared.h"

static const float masked = -1e9f; /* what a masked key has at most; 0 is visible, and nothing lies between */

/* Value of row |i|, key |j|. */
static float bias_at(const ls_prepared_prefill *p, size_t i, size_t j) {
    const float *v = p->bias.data;
    size_t rows = p->bias.rank == 2 || p->bias.rank == 4 ? (size_t)p->bias.shape[p->bias.rank - 2] : 1;
    return v[(rows == 1 ? 0 : i * p->n) + j];
}

/* Whether row |i| sees key |j|. */
static ls_code sees(const ls_prepared_prefill *p, size_t i, size_t j, bool *seen, ls_prepared_fault *why, ls_error *e) {
    float v = bias_at(p, i, j);
    *why = LS_PREPARED_MASK_VALUE;
    if (isnan(v) || v > 0)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "prepared prefill: the mask of position %zu, key %zu is %g; allowed are 0 and at most -1e9", i, j, (double)v);
    if (v < 0 && v > masked)
        LS_FAIL(e, LS_UNIMPLEMENTED, "prepared prefill: the mask of position %zu, key %zu is %g; only 0 (visible) and at most -1e9 (masked) can be served",
                i, j, (double)v);
    *seen = v >= 0 && !(p->causal && j > i);
    return LS_OK;
}

/* *end: keys that row |i| sees, counted from the first. */
static ls_code row_end(const ls_prepared_prefill *p, size_t i, size_t *end, ls_prepared_fault *why, ls_error *e) {
    *end = 0;
    for (size_t j = 0; j < p->n; j++) {
        bool seen = false;
        LS_TRY(sees(p, i, j, &seen, why, e));
        *why = LS_PREPARED_MASK_FORM;
        if (seen && *end != j)
            LS_FAIL(e, LS_UNIMPLEMENTED, "prepared prefill: position %zu sees key %zu but not key %zu; only image blocks in the causal order can be served", i,
                    j, *end);
        if (seen) *end = j + 1;
    }
    if (*end <= i) LS_FAIL(e, LS_UNIMPLEMENTED, "prepared prefill: position %zu does not see itself; leave padding out", i);
    return LS_OK;
}

static ls_code from_bias(const ls_prepared_prefill *p, ls_span *span, ls_prepared_fault *why, ls_error *e) {
    for (size_t i = 0, begin = 0, end = 0; i < p->n; i++) {
        size_t own;
        LS_TRY(row_end(p, i, &own, why, e));
        if (i >= end) {
            begin = i;
            end = own;
        }
        if (own != end) LS_FAIL(e, LS_UNIMPLEMENTED, "prepared prefill: positions %zu and %zu of one block see up to %zu and %zu", begin, i, end, own);
        if (end - begin > 1) span[i] = (ls_span){(int32_t)begin, (int32_t)end};
    }
    return LS_OK;
}

ls_code ls_prepared_mask(const ls_prepared_prefill *p, ls_span *span, ls_prepared_fault *why, ls_error *e) {
    if (p->bias.element) return from_bias(p, span, why, e);
    *why = LS_PREPARED_MASK_FORM;
    for (size_t b = 0, past = 0; b < p->n_blocks; b++) {
        const ls_prepared_block *k = &p->block[b];
        if (k->begin < past || k->begin >= k->end || k->end > p->n)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "prepared prefill: image block %zu is [%zu, %zu); blocks must ascend within the %zu positions", b, k->begin,
                    k->end, p->n);
        for (size_t i = k->begin; i < k->end; i++) span[i] = (ls_span){(int32_t)k->begin, (int32_t)k->end};
        past = k->end;
    }
    return LS_OK;
}
