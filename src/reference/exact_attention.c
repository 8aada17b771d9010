/* Attention under the exact contracts (docs/contracts.md section 6), one query row at a time. */
#include <stdlib.h>

#include "contract/exact.h"
#include "reference/exact_ops.h"

/* Constants of one attention node. */
typedef struct setup {
    int d, p, c, f, pb, g;
    float limit, k, cap_factor;
    bool capped, wide, narrow; /* narrow: exact16-kv8 */
} setup;

/* What one range of keys gives. */
typedef struct range {
    int64_t m, mv, den;
    bool any;
} range;

static setup setup_of(const ls_node *n) {
    bool wide = ls_contract_is_wide(n->contract);
    setup s = {.d = n->head_dim, .p = wide ? LS_EXACT_ATTN_P24 : LS_EXACT_P16, .f = wide ? 28 : 16,
               .pb = wide ? LS_EXACT_WEIGHT_BITS24 : LS_EXACT_WEIGHT_BITS16,
               .g = wide ? LS_EXACT_SUM_SHIFT24 : LS_EXACT_SUM_SHIFT16,
               .limit = wide ? 0x1p58f : 0x1p30f, .capped = n->limit != 0, .wide = wide, .narrow = n->contract == LS_CONTRACT_EXACT16_KV8};
    int c = ls_ceil_log2((uint64_t)s.d) + 2 * (s.p + 1) - (wide ? LS_EXACT_SCORE_BITS24 : LS_EXACT_SCORE_BITS16);
    s.c = c > 0 ? c : 0;
    s.k = ls_exact_score_factor(n->scale, n->limit) * ls_pow2(s.f);
    if (s.capped) s.cap_factor = ls_exact_softcap_factor(n->scale, n->limit);
    return s;
}

static int quantise(const float *x, int d, int p, int32_t *q) {
    uint32_t max = 0;
    for (int i = 0; i < d; i++) {
        uint32_t b = ls_bits(x[i]) & 0x7FFFFFFFu;
        if (b > max) max = b;
    }
    int e = ls_block_exponent(max);
    for (int i = 0; i < d; i++) q[i] = ls_mantissa(x[i], e, p);
    return e;
}

/* A query, |down| = log2 of the columns rotated together, or a key, 0: exact16-kv8 rotates both. */
static int quantise_rotated(const setup *s, const float *x, int down, int32_t *q) {
    float turned[512];
    int e = quantise(x, s->d, s->p, q);
    if (!s->narrow) return e;
    ls_rotate(turned, q, s->d, e, down);
    return quantise(turned, s->d, s->p, q);
}

/* Under exact16-kv8 the mantissas of a key or value become multiples of their block's scale. */
static void round_to_steps(const setup *s, int32_t *q) {
    for (int begin = 0; s->narrow && begin < s->d; begin += LS_EXACT_KV_BLOCK) {
        int end = begin + LS_EXACT_KV_BLOCK < s->d ? begin + LS_EXACT_KV_BLOCK : s->d;
        int32_t largest = 0;
        for (int i = begin; i < end; i++)
            if (abs(q[i]) > largest) largest = abs(q[i]);
        int scale = ls_kv_scale(largest);
        for (int i = begin; i < end; i++) q[i] = ls_kv_step(q[i], scale) * scale;
    }
}

static int64_t score(const setup *s, const int32_t *q, int eq, const int32_t *k, int ek) {
    int64_t dot = 0;
    for (int i = 0; i < s->d; i++) dot += (int64_t)q[i] * k[i];
    int64_t j = ls_rshift(dot, s->c);
    if (s->wide && !s->capped) return ls_scaled_score(j, s->k, eq + ek - 254 - 2 * s->p + s->c);
    float f = ((float)j * ls_pow2(eq - 127 - s->p + s->c)) * ls_pow2(ek - 127 - s->p);
    float z = s->capped ? ls_exact_tanh(f, s->cap_factor) * s->k : f * s->k;
    z = z > s->limit ? s->limit : z < -s->limit ? -s->limit : z;
    return llrintf(z);
}

/* 2^((z - m * 2^f) * 2^-f) with PB bits. */
static int64_t weight(const setup *s, int64_t m, int64_t z) {
    int64_t d = m * ((int64_t)1 << s->f) - z, n = d >> s->f;
    if (n > 31) return 0;
    int64_t w = ls_rshift(ls_exp2_neg((uint32_t)((uint64_t)d << (32 - s->f))), (int)n + 31 - s->pb), top = ((int64_t)1 << s->pb) - 1;
    return w < top ? w : top;
}

static int64_t ceil_log(const setup *s, int64_t z) { return (z + ((int64_t)1 << s->f) - 1) >> s->f; }

static int64_t shift_down(int64_t v, int64_t n) { return n > 62 ? 0 : ls_rshift(v, (int)n); }

/* Workspace of one head: mantissas of the range's keys and values, scores, sums. */
typedef struct space {
    int32_t q[512], k[512], v[LS_EXACT_KEY_RANGE][512];
    int ev[LS_EXACT_KEY_RANGE];
    int64_t z[LS_EXACT_KEY_RANGE], o[512];
} space;

/* Sums over visible keys [begin, end) of one range into w->o; k, v point at the head's columns of position 0. */
static range sum_range(const setup *s, space *w, int eq, const float *k, const float *v, int64_t stride, int64_t begin, int64_t end) {
    range r = {.any = begin < end};
    int64_t zmax = INT64_MIN, zvmax = INT64_MIN;
    for (int64_t j = begin; j < end; j++) {
        int64_t i = j - begin;
        int ek = quantise_rotated(s, k + j * stride, 0, w->k);
        w->ev[i] = quantise(v + j * stride, s->d, s->p, w->v[i]);
        round_to_steps(s, w->k);
        round_to_steps(s, w->v[i]);
        w->z[i] = score(s, w->q, eq, w->k, ek);
        int64_t zv = w->z[i] + (int64_t)w->ev[i] * ((int64_t)1 << s->f);
        if (w->z[i] > zmax) zmax = w->z[i];
        if (zv > zvmax) zvmax = zv;
    }
    if (!r.any) return r;
    r.m = ceil_log(s, zmax);
    r.mv = ceil_log(s, zvmax);
    for (int i = 0; i < s->d; i++) w->o[i] = 0;
    for (int64_t i = 0; i < end - begin; i++) {
        r.den += weight(s, r.m, w->z[i]);
        int64_t wv = weight(s, r.mv, w->z[i] + (int64_t)w->ev[i] * ((int64_t)1 << s->f));
        for (int d = 0; d < s->d; d++) w->o[d] += wv * w->v[i][d];
    }
    return r;
}

/* One head over keys [first, past). The ranges are walked twice: first for the largest exponents, then for the sums aligned to them. */
static void head(const setup *s, space *w, float *y, const float *q, const float *k, const float *v, int64_t stride, int64_t first, int64_t past) {
    int eq = quantise_rotated(s, q, ls_ceil_log2((uint64_t)ls_rotated_columns(s->d)), w->q);
    int64_t sum[512] = {0}, den = 0, m = INT64_MIN, mv = INT64_MIN;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t begin = first; begin < past;) {
            int64_t end = (begin / LS_EXACT_KEY_RANGE + 1) * LS_EXACT_KEY_RANGE;
            if (end > past) end = past;
            range r = sum_range(s, w, eq, k, v, stride, begin, end);
            begin = end;
            if (!pass) {
                if (r.m > m) m = r.m;
                if (r.mv > mv) mv = r.mv;
                continue;
            }
            den += shift_down(r.den * 65536, m - r.m);
            for (int d = 0; d < s->d; d++)
                sum[d] += s->g >= 0 ? shift_down(w->o[d] * ((int64_t)1 << s->g), mv - r.mv) : shift_down(w->o[d], mv - r.mv - s->g);
        }
    float rc;
    int e;
    ls_recip_wide(den, &rc, &e);
    for (int d = 0; d < s->d; d++)
        y[d] = ls_canon((((float)sum[d] * (rc * 0x1p-31f)) * ls_pow2(e + 31 + 16 - s->g)) * ls_pow2((int)(mv - m) - 127 - s->p));
}

ls_code ls_exact_attention(float *y, const float *q, const float *k, const float *v, int64_t stride, ls_span sees, const ls_node *n, ls_error *e) {
    space *w;
    LS_TRY(ls_calloc(&w, 1, sizeof *w, "exact attention", e));
    setup s = setup_of(n);
    for (int h = 0; h < n->heads; h++) {
        int64_t col = (int64_t)(h / (n->heads / n->kv_heads)) * s.d;
        head(&s, w, y + (int64_t)h * s.d, q + (int64_t)h * s.d, k + col, v + col, stride, sees.begin, sees.end);
    }
    ls_free(w);
    return LS_OK;
}
