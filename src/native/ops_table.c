/* What every level shares: the choice of table, constants of attention, and the layout of keys and values. */
#include "native/ops_table.h"

#include <string.h>

#include "reference/exact_ops.h"

const ls_ops *ls_ops_get(const char *level) {
#if defined(__x86_64__)
    static const ls_ops *const tables[] = {&ls_ops_c, &ls_ops_avx2, &ls_ops_avx512};
#elif defined(__aarch64__)
    static const ls_ops *const tables[] = {&ls_ops_c, &ls_ops_neon};
#else
    static const ls_ops *const tables[] = {&ls_ops_c};
#endif
    if (!strncmp(level, "neon-", 5)) level = "neon"; /* levels that add products of bytes, which the linear layer alone uses */
    if (!strcmp(level, "amx")) level = "avx512";
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (!strcmp(tables[i]->level, level)) return tables[i];
    return NULL;
}

ls_attn ls_attn_of(const ls_node *n) {
    bool wide = ls_contract_is_wide(n->contract);
    ls_attn a = {.d = n->head_dim, .dp = (n->head_dim + 31) / 32 * 32, .wide = wide, .narrow = n->contract == LS_CONTRACT_EXACT16_KV8,
                 .p = wide ? LS_EXACT_ATTN_P24 : LS_EXACT_P16, .f = wide ? 28 : 16, .pb = wide ? LS_EXACT_WEIGHT_BITS24 : LS_EXACT_WEIGHT_BITS16,
                 .g = wide ? LS_EXACT_SUM_SHIFT24 : LS_EXACT_SUM_SHIFT16,
                 .limit = wide ? 0x1p58f : 0x1p30f, .capped = n->limit != 0};
    int c = ls_ceil_log2((uint64_t)a.d) + 2 * (a.p + 1) - (wide ? LS_EXACT_SCORE_BITS24 : LS_EXACT_SCORE_BITS16);
    a.c = c > 0 ? c : 0;
    a.k = ls_exact_score_factor(n->scale, n->limit) * ls_pow2(a.f);
    if (a.capped) a.cap_factor = ls_exact_softcap_factor(n->scale, n->limit);
    return a;
}

ls_kv_layout ls_kv_layout_of(const ls_attn *a) {
    size_t plane = (size_t)a->dp * LS_KV_BLOCK * (a->wide ? sizeof(int32_t) : a->narrow ? sizeof(int8_t) : sizeof(int16_t));
    size_t scales = a->narrow ? plane / LS_EXACT_KV_BLOCK : 0, exponents = 2 * plane + 2 * scales;
    return (ls_kv_layout){.values = plane, .key_scale = 2 * plane, .value_scale = 2 * plane + scales, .key_exp = exponents,
                          .value_exp = exponents + LS_KV_BLOCK, .bytes = exponents + 2 * LS_KV_BLOCK};
}

size_t ls_attn_part_bytes(const ls_attn *a) { return sizeof(ls_attn_part) + (size_t)a->dp * sizeof(int64_t); }

static int quantise_rotated(const ls_ops *ops, const ls_attn *a, int32_t *q, const float *x, int down) {
    float turned[512];
    int e = ops->quantise(q, x, a->d, a->p);
    if (!a->narrow) return e;
    ls_rotate(turned, q, a->d, e, down);
    return ops->quantise(q, turned, a->d, a->p);
}

int ls_attn_quantise_query(const ls_ops *ops, const ls_attn *a, int32_t *q, const float *x) {
    return quantise_rotated(ops, a, q, x, ls_ceil_log2((uint64_t)ls_rotated_columns(a->d)));
}

int ls_attn_quantise_key(const ls_ops *ops, const ls_attn *a, int32_t *q, const float *x) { return quantise_rotated(ops, a, q, x, 0); }

/* Steps m [n] of one block's mantissas q [n] and their scale. The division of ls_kv_step is a product: with r = floor(2^23 / s) + 1,
 * v * r / 2^23 exceeds v / s by at most v / 2^23, less than 1 / s since v < 2^15 and s <= 2^8. */
static int steps_of(const int32_t *q, int n, int8_t *m) {
    int32_t largest = 0;
    for (int i = 0; i < n; i++) {
        int32_t size = q[i] < 0 ? -q[i] : q[i];
        largest = size > largest ? size : largest;
    }
    int scale = ls_kv_scale(largest);
    uint64_t r = (1u << 23) / (unsigned)scale + 1;
    for (int i = 0; i < n; i++) {
        uint32_t size = (uint32_t)((q[i] < 0 ? -q[i] : q[i]) + scale / 2);
        int32_t step = (int32_t)(size * r >> 23);
        m[i] = (int8_t)(q[i] < 0 ? -step : step);
    }
    return scale;
}

static int block_columns(const ls_attn *a, int begin) { return a->d - begin < LS_EXACT_KV_BLOCK ? a->d - begin : LS_EXACT_KV_BLOCK; }

/* Column i goes to k[i / 2 * (2 * LS_KV_BLOCK) + i % 2], the scale of block b to scale[b * LS_KV_BLOCK]. */
static void put_narrow_key(const ls_attn *a, int8_t *k, uint8_t *scale, const int32_t *q) {
    int8_t m[LS_EXACT_KV_BLOCK];
    for (int begin = 0; begin < a->d; begin += LS_EXACT_KV_BLOCK) {
        int n = block_columns(a, begin);
        scale[begin / LS_EXACT_KV_BLOCK * LS_KV_BLOCK] = (uint8_t)(steps_of(q + begin, n, m) - 1);
        for (int i = 0; i < n; i++) k[(begin + i) / 2 * (2 * LS_KV_BLOCK) + i % 2] = m[i];
    }
}

/* Column i goes to v[2 * i], the scale of block b to scale[2 * b]. */
static void put_narrow_value(const ls_attn *a, int8_t *v, uint8_t *scale, const int32_t *q) {
    int8_t m[LS_EXACT_KV_BLOCK];
    for (int begin = 0; begin < a->d; begin += LS_EXACT_KV_BLOCK) {
        int n = block_columns(a, begin);
        scale[begin / LS_EXACT_KV_BLOCK * 2] = (uint8_t)(steps_of(q + begin, n, m) - 1);
        for (int i = 0; i < n; i++) v[2 * (begin + i)] = m[i];
    }
}

void ls_kv_put_key(const ls_attn *a, uint8_t *head, int position, const int32_t *q, int e) {
    ls_kv_layout l = ls_kv_layout_of(a);
    head[l.key_exp + (size_t)position] = (uint8_t)e;
    if (a->wide) {
        int32_t *k = (int32_t *)(void *)head + position;
        for (int i = 0; i < a->d; i++) k[i * LS_KV_BLOCK] = q[i];
        return;
    }
    if (a->narrow) {
        put_narrow_key(a, (int8_t *)(void *)head + position * 2, head + l.key_scale + position, q);
        return;
    }
    int16_t *k = (int16_t *)(void *)head + position * 2;
    for (int i = 0; i < a->d; i++) k[i / 2 * (2 * LS_KV_BLOCK) + i % 2] = (int16_t)q[i];
}

void ls_kv_put_value(const ls_attn *a, uint8_t *head, int position, const int32_t *q, int e) {
    ls_kv_layout l = ls_kv_layout_of(a);
    head[l.value_exp + (size_t)position] = (uint8_t)e;
    if (a->wide) {
        memcpy(head + l.values + (size_t)position * (size_t)a->dp * sizeof *q, q, (size_t)a->d * sizeof *q);
        return;
    }
    if (a->narrow) {
        put_narrow_value(a, (int8_t *)(void *)(head + l.values) + position / 2 * 2 * a->dp + position % 2,
                         head + l.value_scale + position / 2 * 2 * (a->dp / LS_EXACT_KV_BLOCK) + position % 2, q);
        return;
    }
    int16_t *v = (int16_t *)(void *)(head + l.values) + position / 2 * 2 * a->dp + position % 2;
    for (int i = 0; i < a->d; i++) v[2 * i] = (int16_t)q[i];
}

void ls_attn_put_query(const ls_attn *a, ls_attn_tile *t, int i, const int32_t *q, int e) {
    int32_t *out = t->q + (size_t)i * (size_t)a->dp;
    t->e[i] = e;
    memset(out, 0, (size_t)a->dp * sizeof *out);
    if (a->wide) {
        memcpy(out, q, (size_t)a->d * sizeof *q);
        return;
    }
    int16_t *high = (int16_t *)(void *)out, *low = high + a->dp;
    if (a->narrow) {
        for (int k = 0; k < a->d; k++) high[k] = (int16_t)q[k];
        return;
    }
    for (int k = 0; k < a->d; k++) {
        high[k] = (int16_t)((q[k] + 128) >> 8);
        low[k] = (int16_t)(q[k] - 256 * high[k]);
    }
}
