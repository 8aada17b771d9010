/* Keys, values and who sees them: how each entry keeps its caches, and the visibility masks. */
#include "contract/exact.h"
#include "xla/emit/lower.h"

/* ---- Visibility --------------------------------------------------------------------------------------------------------- */

/* i1 [Bq, T, keys]: key j <= the row's own place; or where the additive mask is above -1 for the entry that takes one. */
static ls_val ordered(ls_lower *l, ls_val key, ls_val place) {
    ls_mlir *m = &l->m;
    if (!l->bias.kind) return ls_m_compare(m, "LE", key, place);
    ls_val seen = ls_m_compare(m, "GT", l->bias, ls_m_f32(m, l->bias.t, -1));
    seen = ls_m_pad_end(m, seen, 1, l->keys - l->rows);
    return LS_RESHAPE(m, seen, 1, l->rows, l->keys);
}

/* Keys from the window's or the block's first to the row's own or the block's last, whichever is further. */
static ls_val in_block(ls_lower *l, int window, ls_val key, ls_val place) {
    ls_mlir *m = &l->m;
    ls_val past = ls_m_binary(m, "maximum", ls_m_with_int(m, "add", place, 1), LS_BROADCAST(m, l->end, key.t, 1));
    ls_val v = ls_m_compare(m, "LT", key, past);
    if (!window) return v;
    ls_val first = ls_m_binary(m, "minimum", ls_m_with_int(m, "subtract", place, window - 1), LS_BROADCAST(m, l->begin, key.t, 1));
    return ls_m_binary(m, "and", v, ls_m_compare(m, "GE", key, first));
}

/* All rows of an image, or, where a fault makes its attention causal, those up to the row's own. */
static ls_val in_image(ls_lower *l, const ls_node *n, ls_tensor_type t) {
    ls_mlir *m = &l->m;
    ls_val key = ls_m_iota(m, t, 2);
    if (n->bidirectional) return ls_m_compare(m, "LT", key, ls_m_int(m, t, l->whole));
    return ls_m_compare(m, "LE", key, l->position.kind ? LS_BROADCAST(m, l->position, t, 1) : ls_m_iota(m, t, 1));
}

static ls_val visibility(ls_lower *l, const ls_node *n) {
    ls_mlir *m = &l->m;
    ls_tensor_type t = LS_TYPE(LS_DT_I32, l->sequences, l->rows, l->keys);
    if (l->whole) return in_image(l, n, t);
    ls_val key = ls_m_iota(m, t, 2), place = LS_BROADCAST(m, l->index, t, 0, 1);
    if (l->begin.kind) return in_block(l, n->window, key, place);
    ls_val v = ordered(l, key, place);
    if (!n->window) return v;
    return ls_m_binary(m, "and", v, ls_m_compare(m, "LT", ls_m_binary(m, "subtract", place, key), ls_m_int(m, t, n->window)));
}

ls_val ls_lower_visible(ls_lower *l, const ls_node *n) {
    for (int i = 0; i < l->n_windows; i++)
        if (l->window[i] == n->window) return l->visible[i];
    ls_val v = visibility(l, n);
    if (l->n_windows < LS_MAX_WINDOWS) {
        l->window[l->n_windows] = n->window;
        l->visible[l->n_windows++] = v;
    }
    return v;
}

/* ---- Caches ----------------------------------------------------------------------------------------------------------------- */

static ls_val scalar(ls_lower *l, int64_t v) { return ls_m_int(&l->m, (ls_tensor_type){.dtype = LS_DT_I32}, v); }

/* Element |i| of an i32 vector as a scalar. */
static ls_val element(ls_lower *l, ls_val v, int64_t i) { return ls_m_reshape(&l->m, ls_m_slice(&l->m, v, 0, i, i + 1), 0, NULL); }

/* Rows of a prefill are the whole cache so far: [1, keys, kv, d], and kept for the results. */
static ls_val begin_cache(ls_lower *l, const ls_node *n, ls_val x, ls_val *kept) {
    ls_val k = LS_RESHAPE(&l->m, x, 1, l->rows, n->kv_heads, n->head_dim);
    *kept = k;
    return ls_m_pad_end(&l->m, k, 1, l->keys - l->rows);
}

/* |x| [Bq * T, kv * d] written into |cache| [B, L, C, kv, d] at each sequence's place; *cache becomes the new one. Gives
 * [Bq, C, kv, d] of this layer. */
static ls_val append(ls_lower *l, const ls_node *n, int64_t layer, ls_val x, ls_val *cache) {
    ls_mlir *m = &l->m;
    int64_t kv = n->kv_heads, d = n->head_dim, c = l->keys;
    ls_val zero = scalar(l, 0), at_layer = scalar(l, layer), first = LS_RESHAPE(m, ls_m_slice(m, l->index, 1, 0, 1), l->sequences);
    ls_val rows = LS_RESHAPE(m, x, l->sequences, 1, l->rows, kv, d);
    for (int64_t b = 0; b < l->sequences; b++) {
        ls_val slot = l->slot.kind ? l->slot : scalar(l, b);
        *cache = ls_m_dynamic_update(m, *cache, ls_m_slice(m, rows, 0, b, b + 1), (ls_val[]){slot, at_layer, element(l, first, b), zero, zero});
    }
    if (l->slot.kind) {
        ls_val one = ls_m_dynamic_slice(m, *cache, (ls_val[]){l->slot, at_layer, zero, zero, zero}, (const int64_t[]){1, 1, c, kv, d});
        return LS_RESHAPE(m, one, 1, c, kv, d);
    }
    return LS_RESHAPE(m, ls_m_slice(m, *cache, 1, layer, layer + 1), l->sequences, c, kv, d);
}

void ls_lower_cache(ls_lower *l, const ls_node *n, ls_val *k, ls_val *v) {
    if (!l->kcache.kind) {
        *k = begin_cache(l, n, *k, &l->layer_k[n->layer]);
        *v = begin_cache(l, n, *v, &l->layer_v[n->layer]);
        return;
    }
    int64_t layer = l->kcache.t.dim[1] == 1 ? 0 : n->layer; /* a node alone has just its own layer */
    *k = append(l, n, layer, *k, &l->kcache);
    *v = append(l, n, layer, *v, &l->vcache);
}
