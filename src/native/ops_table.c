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
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (!strcmp(tables[i]->level, level)) return tables[i];
    return NULL;
}

ls_attn ls_attn_of(const ls_node *n) {
    bool wide = ls_contract_is_wide(n->contract), narrow = n->contract == LS_CONTRACT_EXACT16_KV8;
    ls_attn a = {.d = n->head_dim, .dp = (n->head_dim + 31) / 32 * 32, .wide = wide, .narrow = narrow,
                 .p = wide ? LS_EXACT_ATTN_P24 : LS_EXACT_P16, .f = wide ? 28 : 16, .pb = wide ? LS_EXACT_WEIGHT_BITS24 : LS_EXACT_WEIGHT_BITS16,
                 .g = wide ? LS_EXACT_SUM_SHIFT24 : narrow ? LS_EXACT_SUM_SHIFT8 : LS_EXACT_SUM_SHIFT16,
                 .limit = wide ? 0x1p58f : 0x1p30f, .capped = n->limit != 0};
    a.pk = narrow ? LS_EXACT_KV_P8 : a.p;
    int c = ls_ceil_log2((uint64_t)a.d) + a.p + a.pk + 2 - (wide ? LS_EXACT_SCORE_BITS24 : LS_EXACT_SCORE_BITS16);
    a.c = c > 0 ? c : 0;
    a.k = ls_exact_score_factor(n->scale, n->limit) * ls_pow2(a.f);
    if (a.capped) a.cap_factor = ls_exact_softcap_factor(n->scale, n->limit);
    return a;
}

ls_kv_layout ls_kv_layout_of(const ls_attn *a) {
    size_t plane = (size_t)a->dp * LS_KV_BLOCK * (a->wide ? sizeof(int32_t) : a->narrow ? sizeof(int8_t) : sizeof(int16_t));
    return (ls_kv_layout){.values = plane, .key_exp = 2 * plane, .value_exp = 2 * plane + LS_KV_BLOCK, .bytes = 2 * plane + 2 * LS_KV_BLOCK};
}

size_t ls_attn_part_bytes(const ls_attn *a) { return sizeof(ls_attn_part) + (size_t)a->dp * sizeof(int64_t); }

void ls_kv_put_key(const ls_attn *a, uint8_t *head, int position, const int32_t *q, int e) {
    ls_kv_layout l = ls_kv_layout_of(a);
    head[l.key_exp + (size_t)position] = (uint8_t)e;
    if (a->wide) {
        int32_t *k = (int32_t *)(void *)head + position;
        for (int i = 0; i < a->d; i++) k[i * LS_KV_BLOCK] = q[i];
        return;
    }
    if (a->narrow) {
        int8_t *k = (int8_t *)(void *)head + position * 2;
        for (int i = 0; i < a->d; i++) k[i / 2 * (2 * LS_KV_BLOCK) + i % 2] = (int8_t)q[i];
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
        int8_t *v = (int8_t *)(void *)(head + l.values) + position / 2 * 2 * a->dp + position % 2;
        for (int i = 0; i < a->d; i++) v[2 * i] = (int8_t)q[i];
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
