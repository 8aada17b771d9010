/* Inner loops of attention for NQ queries at once; included once per NQ by ops_attention_body.h. Sums stay in registers: the
 * loops over columns and keys test at their end, since a test at the start makes gcc 12 copy every sum each round. */
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define NAME(base) PASTE(base, NQ)

/* Scores of the first |n| keys at least of one block (head: the key head's part), for queries q0 .. q0 + NQ - 1, into s->z from |key| on. */
static void NAME(scores16_)(const ls_attn *a, const ls_attn_tile *t, int q0, const uint8_t *head, int key, int n, ls_attn_space *s) {
    const int16_t *keys = (const int16_t *)(const void *)head;
    const uint8_t *exponent = head + ls_kv_layout_of(a).key_exp;
    const int32_t *q = t->q + q0 * a->dp;
    int pairs = (a->d + 1) / 2; /* what pads a head to dp columns is zero */
    for (int j = 0; j < n; j += 2 * W) {
        vi high[NQ][2], low[NQ][2];
        for (int i = 0; i < NQ; i++) high[i][0] = high[i][1] = low[i][0] = low[i][1] = vi_set(0);
        int p = 0;
        do {
            const int16_t *k = keys + (p * LS_KV_BLOCK + j) * 2;
            vi k0 = vi_load(k), k1 = vi_load(k + 2 * W);
            for (int i = 0; i < NQ; i++) {
                vi h = vi_set(q[i * a->dp + p]), l = vi_set(q[i * a->dp + a->dp / 2 + p]);
                high[i][0] = vi_dot16(high[i][0], k0, h);
                high[i][1] = vi_dot16(high[i][1], k1, h);
                low[i][0] = vi_dot16(low[i][0], k0, l);
                low[i][1] = vi_dot16(low[i][1], k1, l);
            }
        } while (++p < pairs);
        for (int i = 0; i < NQ; i++)
            for (int v = 0; v < 2; v++)
                vi_store(s->z[q0 + i] + key + j + v * W,
                         limited_score(a, joined_shift(a, high[i][v], low[i][v]), vf_set(query_unit(a, t, q0 + i)), key_units(a, exponent + j + v * W)));
    }
}

static void NAME(scores8_)(const ls_attn *a, const ls_attn_tile *t, int q0, const uint8_t *head, int key, int n, ls_attn_space *s) {
    enum { PAIRS = LS_EXACT_KV_BLOCK / 2 };
    const ls_kv_layout layout = ls_kv_layout_of(a);
    const uint8_t *exponent = head + layout.key_exp;
    for (int j = 0; j < n; j += 2 * W) {
        const int8_t *k = (const int8_t *)(const void *)head + 2 * j;
        const uint8_t *scale = head + layout.key_scale + j;
        const int32_t *q = t->q + q0 * a->dp, *end = q + a->dp / 2;
        vi high[NQ][2], low[NQ][2];
        for (int i = 0; i < NQ; i++) high[i][0] = high[i][1] = low[i][0] = low[i][1] = vi_set(0);
        do {
            vi sum[NQ][2];
            for (int i = 0; i < NQ; i++) sum[i][0] = sum[i][1] = vi_set(0);
            for (int p = 0; p < PAIRS; p++, k += 2 * LS_KV_BLOCK) {
                vi k0 = vi_load_pairs8(k), k1 = vi_load_pairs8(k + 2 * W);
                for (int i = 0; i < NQ; i++) {
                    vi pair = vi_set(q[i * a->dp + p]);
                    sum[i][0] = vi_dot16(sum[i][0], k0, pair);
                    sum[i][1] = vi_dot16(sum[i][1], k1, pair);
                }
            }
            for (int v = 0; v < 2; v++) {
                vi by = vi_add(vi_load8(scale + v * W), vi_set(1));
                for (int i = 0; i < NQ; i++) {
                    high[i][v] = vi_mac16(high[i][v], vi_sra(sum[i][v], 15), by);
                    low[i][v] = vi_mac16(low[i][v], vi_and(sum[i][v], vi_set(0x7FFF)), by);
                }
            }
            scale += LS_KV_BLOCK;
        } while ((q += PAIRS) < end);
        for (int i = 0; i < NQ; i++)
            for (int v = 0; v < 2; v++)
                vi_store(s->z[q0 + i] + key + j + v * W, limited_score(a, joined_shift(a, vi_sll(high[i][v], 7), low[i][v]),
                                                                       vf_set(query_unit(a, t, q0 + i)), key_units(a, exponent + j + v * W)));
    }
}

static void NAME(scores24_)(const ls_attn *a, const ls_attn_tile *t, int q0, const uint8_t *head, int key, int n, ls_attn_space *s) {
    const int32_t *keys = (const int32_t *)(const void *)head;
    const uint8_t *exponent = head + ls_kv_layout_of(a).key_exp;
    const int32_t *q = t->q + q0 * a->dp;
    for (int j = 0; j < n; j += W) {
        vq sum[NQ];
        for (int i = 0; i < NQ; i++) sum[i] = vq_zero();
        int d = 0;
        do {
            vi k = vi_load(keys + d * LS_KV_BLOCK + j);
            for (int i = 0; i < NQ; i++) sum[i] = vq_mac(sum[i], k, q[i * a->dp + d]);
        } while (++d < a->d);
        for (int i = 0; i < NQ; i++) vq_store(s->z64[q0 + i] + key + j, sum[i]);
    }
    for (int i = 0; i < NQ; i++) wide_scores(a, t->e[q0 + i], exponent, s->z64[q0 + i] + key);
}

/* Adds keys |key| and |key| + 1, whose values of two vectors of columns are v0 and v1, to the sums of both halves of the weights. */
static inline void NAME(add_pair_)(vi high[NQ][2], vi low[NQ][2], vi v0, vi v1, int q0, int key, const ls_attn_space *s) {
    for (int i = 0; i < NQ; i++) {
        vi h = vi_set(pair_at(s->half[q0 + i][0] + key)), l = vi_set(pair_at(s->half[q0 + i][1] + key));
        high[i][0] = vi_dot16(high[i][0], v0, h);
        high[i][1] = vi_dot16(high[i][1], v1, h);
        low[i][0] = vi_dot16(low[i][0], v0, l);
        low[i][1] = vi_dot16(low[i][1], v1, l);
    }
}

/* W columns of o from column |d| on: the end of a head whose columns do not fill two vectors. */
static void NAME(last_values16_)(const ls_attn *a, int q0, const uint8_t *const *block, span seen, ls_attn_space *s, uint8_t *part, int d) {
    size_t bytes = ls_attn_part_bytes(a), values = ls_kv_layout_of(a).values;
    vi high[NQ], low[NQ];
    for (int i = 0; i < NQ; i++) high[i] = low[i] = vi_set(0);
    int key = seen.begin;
    do {
        const int stop = block_stop(key, seen);
        const int16_t *v = (const int16_t *)(const void *)(block[key / LS_KV_BLOCK] + values) + key % LS_KV_BLOCK * a->dp + 2 * d;
        do {
            vi v0 = vi_load(v);
            for (int i = 0; i < NQ; i++) {
                high[i] = vi_dot16(high[i], v0, vi_set(pair_at(s->half[q0 + i][0] + key)));
                low[i] = vi_dot16(low[i], v0, vi_set(pair_at(s->half[q0 + i][1] + key)));
            }
            v += 2 * a->dp;
        } while ((key += 2) < stop);
    } while (key < seen.end);
    for (int i = 0; i < NQ; i++) store_values(part, q0 + i, bytes, d, high[i], low[i]);
}

/* o of each query, behind its part record, over the keys of |seen|: pairs, at least one. Columns past the head's are not written. */
static void NAME(values16_)(const ls_attn *a, int q0, const uint8_t *const *block, span seen, ls_attn_space *s, uint8_t *part) {
    size_t bytes = ls_attn_part_bytes(a), values = ls_kv_layout_of(a).values;
    for (int d = 0; d < a->d; d += 2 * W) {
        if (d + W >= a->d) {
            NAME(last_values16_)(a, q0, block, seen, s, part, d);
            break;
        }
        vi high[NQ][2], low[NQ][2];
        for (int i = 0; i < NQ; i++) high[i][0] = high[i][1] = low[i][0] = low[i][1] = vi_set(0);
        int key = seen.begin;
        do {
            const int stop = block_stop(key, seen);
            const int16_t *v = (const int16_t *)(const void *)(block[key / LS_KV_BLOCK] + values) + key % LS_KV_BLOCK * a->dp + 2 * d;
            do {
                vi v0 = vi_load(v), v1 = vi_load(v + 2 * W);
                NAME(add_pair_)(high, low, v0, v1, q0, key, s);
                v += 2 * a->dp;
            } while ((key += 2) < stop);
        } while (key < seen.end);
        for (int i = 0; i < NQ; i++)
            for (int n = 0; n < 2; n++) store_values(part, q0 + i, bytes, d + n * W, high[i][n], low[i][n]);
    }
}

static void NAME(values8_)(const ls_attn *a, int q0, const uint8_t *const *block, span seen, ls_attn_space *s, uint8_t *part) {
    const ls_kv_layout layout = ls_kv_layout_of(a);
    const int scales = a->dp / LS_EXACT_KV_BLOCK;
    size_t bytes = ls_attn_part_bytes(a);
    for (int d = 0; d < a->dp; d += 2 * W) {
        vi high[NQ][2], low[NQ][2];
        for (int i = 0; i < NQ; i++) high[i][0] = high[i][1] = low[i][0] = low[i][1] = vi_set(0);
        int key = seen.begin;
        do {
            const int stop = block_stop(key, seen);
            const uint8_t *head = block[key / LS_KV_BLOCK], *scale = head + layout.value_scale + key % LS_KV_BLOCK * scales;
            const int8_t *v = (const int8_t *)(const void *)(head + layout.values) + key % LS_KV_BLOCK * a->dp + 2 * d;
            do {
                vi v0 = vi_mul16(vi_load_pairs8(v), scale_pair(scale + d / LS_EXACT_KV_BLOCK * 2));
                vi v1 = vi_mul16(vi_load_pairs8(v + 2 * W), scale_pair(scale + (d + W) / LS_EXACT_KV_BLOCK * 2));
                NAME(add_pair_)(high, low, v0, v1, q0, key, s);
                v += 2 * a->dp;
                scale += 2 * scales;
            } while ((key += 2) < stop);
        } while (key < seen.end);
        for (int i = 0; i < NQ; i++)
            for (int n = 0; n < 2; n++) store_values(part, q0 + i, bytes, d + n * W, high[i][n], low[i][n]);
    }
}

static void NAME(values24_)(const ls_attn *a, int q0, const uint8_t *const *block, span seen, ls_attn_space *s, uint8_t *part) {
    size_t bytes = ls_attn_part_bytes(a), values = ls_kv_layout_of(a).values;
    for (int d = 0; d < a->d; d += W) {
        vq sum[NQ];
        for (int i = 0; i < NQ; i++) sum[i] = vq_zero();
        int key = seen.begin;
        do {
            const int stop = block_stop(key, seen);
            const int32_t *v = (const int32_t *)(const void *)(block[key / LS_KV_BLOCK] + values) + key % LS_KV_BLOCK * a->dp + d;
            do {
                vi v0 = vi_load(v);
                for (int i = 0; i < NQ; i++) sum[i] = vq_mac(sum[i], v0, s->w[q0 + i][key]);
                v += a->dp;
            } while (++key < stop);
        } while (key < seen.end);
        for (int i = 0; i < NQ; i++) vq_store((int64_t *)(void *)(part + (size_t)(q0 + i) * bytes + sizeof(ls_attn_part)) + d, sum[i]);
    }
}

#undef NAME
#undef PASTE
#undef PASTE_
#undef NQ
