/* Attention over one range of keys (docs/contracts.md section 6) over the vector vocabulary of the including file, after
 * ops_body.h. A tile of queries shares each load of keys and values.
 *
 * exact16. Lanes own keys in q.k: pairs of columns meet pairs of columns in vi_dot16. The query is split into signed bytes,
 * q = 256 h + l, so that both sums stay in 32 bits: 512 columns * 128 * 32512 < 2^31. In p.v lanes own columns and pairs of
 * keys meet pairs of weights w = 256 h + l, h <= 127, l <= 255: 256 keys * 255 * 32512 < 2^31.
 * exact16-kv8. Keys and values are steps times the scale of their 16 columns. In q.k a block's sum of steps, 16 * 32512 * 127 < 2^26 and
 * without the split, is 2^15 h + l, so that h and l fit signed 16 bits and meet the scale in vi_mac16; the sums of both over the blocks stay in
 * 32 bits. In p.v the steps are multiplied out in 16 bits: |step * scale| <= 32512; from there on it is exact16.
 * exact24. The same with 32-bit mantissas and 64-bit sums. */

/* Keys of a range that one query sees. */
typedef struct span {
    int begin, end;
} span;

static span visible(const ls_attn_tile *t, int i, int64_t range) {
    int64_t base = range * LS_EXACT_KEY_RANGE, begin = t->first[i] - base, end = t->last[i] + 1 - base;
    if (begin < 0) begin = 0;
    if (end > LS_EXACT_KEY_RANGE) end = LS_EXACT_KEY_RANGE;
    return begin < end ? (span){(int)begin, (int)end} : (span){0, 0};
}

/* z before rounding. */
static inline vf limited_score_float(const ls_attn *a, vf j, vf query_unit, vf key_unit) {
    vf f = vf_mul(vf_mul(j, query_unit), key_unit);
    if (a->capped) tanh_of(&f, vf_set(a->cap_factor), 1);
    return vf_max(vf_min(vf_mul(f, vf_set(a->k)), vf_set(a->limit)), vf_set(-a->limit));
}

static inline vi limited_score(const ls_attn *a, vi j, vf query_unit, vf key_unit) {
    return vf_round(limited_score_float(a, vi_float(j), query_unit, key_unit));
}

/* 2^(ek - 127 - p) of W keys. */
static inline vf key_units(const ls_attn *a, const uint8_t *exponent) { return vi_as_float(vi_sll(vi_sub(vi_load8(exponent), vi_set(a->p)), 23)); }

/* rshift(256 h + l, c) in 32 bits, c <= 9: 256 h is a multiple of 2^c up to 2^8. */
static inline vi joined_shift(const ls_attn *a, vi h, vi l) {
    vi half = vi_set(a->c ? 1 << (a->c - 1) : 0);
    if (a->c <= 8) return vi_add(vi_sll(h, 8 - a->c), vi_sra(vi_add(l, half), a->c));
    vi rest = vi_add(vi_add(vi_sll(vi_and(h, vi_set(1)), 8), l), half);
    return vi_add(vi_sra(h, 1), vi_sra(rest, a->c));
}

static inline int32_t pair_at(const int16_t *p) {
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Scales of two neighbouring values, side by side. */
static inline vi scale_pair(const uint8_t *less_one) { return vi_set((less_one[0] | less_one[1] << 16) + 0x10001); }

static inline float query_unit(const ls_attn *a, const ls_attn_tile *t, int i) { return ls_pow2(t->e[i] - 127 - a->p + a->c); }

/* rshift(z, c) for c >= 1. Lanes past the last key hold anything: their scores are not used, but must not overflow, so what no
 * sum of mantissas gives is clamped. */
static inline int64_t wide_product(int c, int64_t z) {
    int64_t j = (z >> c) + (z >> (c - 1) & 1), top = (int64_t)1 << LS_EXACT_SCORE_BITS24;
    return j < -top ? -top : j > top ? top : j;
}

/* Scores of the keys of one block under exact24 from their sums, in place: floats with a soft cap. */
static void capped_scores24(const ls_attn *a, int query_exp, const uint8_t *exponent, int64_t *z) {
    float f[W];
    for (int j = 0; j < LS_KV_BLOCK; j += W) {
        for (int i = 0; i < W; i++) f[i] = (float)wide_product(a->c, z[j + i]);
        vf_store(f, limited_score_float(a, vf_load(f), vf_set(ls_pow2(query_exp - 127 - a->p + a->c)), key_units(a, exponent + j)));
        for (int i = 0; i < W; i++) z[j + i] = llrintf(f[i]);
    }
}

/* The same without one where every shift goes right, so that compilers make vectors of it: ls_scaled_score for s = base + exponent < 0. A
 * shift by 63 gives 0, since |t| < 2^62. */
static void lowered_scores24(int64_t base, int64_t factor, int c, const uint8_t *restrict exponent, int64_t *restrict z) {
    int64_t down[LS_KV_BLOCK]; /* less one: rshift(t, n) is ((t >> (n - 1)) + 1) >> 1 */
    for (int i = 0; i < LS_KV_BLOCK; i++) down[i] = -base - exponent[i] > 63 ? 62 : -base - exponent[i] - 1;
    for (int i = 0; i < LS_KV_BLOCK; i++) z[i] = ((wide_product(c, z[i]) * factor >> down[i]) + 1) >> 1;
}

static void wide_scores(const ls_attn *a, int query_exp, const uint8_t *exponent, int64_t *z) {
    const uint32_t bits = ls_bits(a->k);
    const int unit = query_exp - 254 - 2 * a->p + a->c, base = unit + (int)(bits >> 23) - 150;
    int largest = 0;
    for (int i = 0; i < LS_KV_BLOCK; i++) largest = exponent[i] > largest ? exponent[i] : largest;
    if (a->capped) capped_scores24(a, query_exp, exponent, z);
    else if (base + largest < 0) lowered_scores24(base, (bits & 0x7FFFFFu) | 0x800000u, a->c, exponent, z);
    else
        for (int i = 0; i < LS_KV_BLOCK; i++) z[i] = ls_scaled_score(wide_product(a->c, z[i]), a->k, unit + exponent[i]);
}

/* Columns d to d + W - 1 of o of query |i|, from the sums of both halves of the weights. */
static inline void store_values(uint8_t *parts, int i, size_t part_bytes, int d, vi high, vi low) {
    int64_t *o = (int64_t *)(void *)(parts + (size_t)i * part_bytes + sizeof(ls_attn_part)) + d;
    vq_store(o, vq_add(vi_mul_wide(high, vi_set(256)), vi_mul_wide(low, vi_set(1))));
}

/* Where the keys of |s| that are in the block of |key| end. */
static inline int block_stop(int key, span s) {
    int stop = (key / LS_KV_BLOCK + 1) * LS_KV_BLOCK;
    return stop < s.end ? stop : s.end;
}

#define NQ 1
#include "native/ops_attention_tile.h"
#define NQ 2
#include "native/ops_attention_tile.h"
#define NQ 3
#include "native/ops_attention_tile.h"
#define NQ 4
#include "native/ops_attention_tile.h"

typedef void scores_fn(const ls_attn *a, const ls_attn_tile *t, int q0, const uint8_t *head, int key, int n, ls_attn_space *s);
typedef void values_fn(const ls_attn *a, int q0, const uint8_t *const *block, span seen, ls_attn_space *s, uint8_t *part);

static scores_fn *const score_kernels[3][5] = {{NULL, scores16_1, scores16_2, scores16_3, scores16_4},
                                              {NULL, scores24_1, scores24_2, scores24_3, scores24_4},
                                              {NULL, scores8_1, scores8_2, scores8_3, scores8_4}};
static values_fn *const value_kernels[3][5] = {{NULL, values16_1, values16_2, values16_3, values16_4},
                                              {NULL, values24_1, values24_2, values24_3, values24_4},
                                              {NULL, values8_1, values8_2, values8_3, values8_4}};

/* Vectors of keys whose powers are computed in step: a part of a block. */
enum { KEYS_IN_STEP = 4 };
_Static_assert((int)LS_KV_BLOCK % (KEYS_IN_STEP * (int)W) == 0 && (int)KEYS_IN_STEP <= (int)IN_STEP, "KEYS_IN_STEP");

/* Weights of one query over the blocks of |all|, from scores z; those of keys it does not see become 0. */
static void weights16(const uint8_t *const *block, size_t value_exp, span all, span own, int32_t *z, int16_t (*half)[LS_EXACT_KEY_RANGE],
                      ls_attn_part *part) {
    for (int i = all.begin; i < own.begin; i++) z[i] = INT32_MIN;
    for (int i = own.end; i < all.end; i++) z[i] = INT32_MIN;
    vi max = vi_set(INT32_MIN), max_v = vi_set(INT32_MIN);
    for (int i = all.begin; i < all.end; i += W) {
        vi v = vi_load(z + i), ev = vi_sll(vi_load8(block[i / LS_KV_BLOCK] + value_exp + i % LS_KV_BLOCK), 16);
        max = vi_max(max, v);
        max_v = vi_max(max_v, vi_add(v, ev));
    }
    int32_t m = (vi_largest(max) + 0xFFFF) >> 16, mv = (vi_largest(max_v) + 0xFFFF) >> 16;
    vi den = vi_set(0), top = vi_set(0x7FFF), base = vi_set(m * 65536), base_v = vi_set(mv * 65536);
    for (int i = all.begin; i < all.end; i += KEYS_IN_STEP * W) {
        vi power[KEYS_IN_STEP];
        for (int k = 0; k < KEYS_IN_STEP; k++) power[k] = vi_sll(vi_sub(vi_set(0), vi_load(z + i + k * W)), 16);
        exp2_neg(power, KEYS_IN_STEP);
        for (int k = 0; k < KEYS_IN_STEP; k++) {
            const int key = i + k * W;
            vi v = vi_load(z + key), ev = vi_sll(vi_load8(block[i / LS_KV_BLOCK] + value_exp + key % LS_KV_BLOCK), 16), sixteen = vi_set(16);
            den = vi_add(den, vi_min(round_shift(power[k], vi_add(vi_srl(vi_sub(base, v), 16), sixteen)), top));
            vi w = vi_min(round_shift(power[k], vi_add(vi_srl(vi_sub(vi_sub(base_v, v), ev), 16), sixteen)), top);
            vi_store16(half[0] + key, vi_srl(w, 8));
            vi_store16(half[1] + key, vi_and(w, vi_set(255)));
        }
    }
    *part = (ls_attn_part){.any = 1, .m = m, .mv = mv, .den = vi_sum(den)};
}

/* The largest z and z + ev * 2^28 of |n| keys of a block, into *max and *max_v. */
static void largest24(const int64_t *restrict z, const uint8_t *restrict ev, int n, int64_t *max, int64_t *max_v) {
    int64_t m = *max, mv = *max_v;
    for (int i = 0; i < n; i++) {
        int64_t v = z[i] + ((int64_t)ev[i] << 28);
        m = z[i] > m ? z[i] : m;
        mv = v > mv ? v : mv;
    }
    *max = m;
    *max_v = mv;
}

/* What weights of |n| keys of a block shift by, less one: z in units of 2^-28 below |m|. More than 32 gives 0 too. */
static void weight_shifts24(int64_t *restrict shift, const int64_t *restrict z, const uint8_t *restrict ev, int ev_unit, int n, int64_t m) {
    for (int i = 0; i < n; i++) {
        int64_t below = (m - z[i] - ((int64_t)ev[i] << ev_unit)) >> 28;
        shift[i] = (below > 32 ? 32 : below) + 30 - LS_EXACT_WEIGHT_BITS24;
    }
}

/* Weights of |n| keys of a block from scores z and powers <= 2^31, which they replace in w; returns the sum of the weights without ev. m and
 * mv in units of 2^28. A weight is min(rshift(power, shift), 2^PB - 1), where rshift(v, s) is ((v >> (s - 1)) + 1) >> 1. */
static int64_t block_weights24(const int64_t *restrict z, const uint8_t *restrict ev, int32_t *restrict w, int n, int64_t m, int64_t mv) {
    static const uint8_t none[LS_KV_BLOCK] = {0};
    const int64_t top = (INT64_C(1) << LS_EXACT_WEIGHT_BITS24) - 1;
    int64_t plain[LS_KV_BLOCK], scaled[LS_KV_BLOCK], den = 0;
    weight_shifts24(plain, z, none, 0, n, m);
    weight_shifts24(scaled, z, ev, 28, n, mv);
    for (int i = 0; i < n; i++) {
        int64_t power = (uint32_t)w[i], p = ((power >> plain[i]) + 1) >> 1, q = ((power >> scaled[i]) + 1) >> 1;
        den += p < top ? p : top;
        w[i] = (int32_t)(q < top ? q : top);
    }
    return den;
}

static void weights24(const uint8_t *const *block, size_t value_exp, span all, span own, const int64_t *score, int32_t *w, ls_attn_part *part) {
    int64_t max = INT64_MIN, max_v = INT64_MIN, den = 0;
    for (int i = all.begin; i < all.end; i++) w[i] = (int32_t)(uint32_t)((uint64_t)-score[i] << 4);
    for (int i = all.begin; i < all.end; i += KEYS_IN_STEP * W) {
        vi power[KEYS_IN_STEP];
        for (int k = 0; k < KEYS_IN_STEP; k++) power[k] = vi_load(w + i + k * W);
        exp2_neg(power, KEYS_IN_STEP);
        for (int k = 0; k < KEYS_IN_STEP; k++) vi_store(w + i + k * W, power[k]);
    }
    for (int i = own.begin, n; i < own.end; i += n) {
        n = LS_KV_BLOCK - i % LS_KV_BLOCK < own.end - i ? LS_KV_BLOCK - i % LS_KV_BLOCK : own.end - i;
        largest24(score + i, block[i / LS_KV_BLOCK] + value_exp + i % LS_KV_BLOCK, n, &max, &max_v);
    }
    int64_t m = (max + (1 << 28) - 1) >> 28, mv = (max_v + (1 << 28) - 1) >> 28;
    for (int i = own.begin, n; i < own.end; i += n) {
        n = LS_KV_BLOCK - i % LS_KV_BLOCK < own.end - i ? LS_KV_BLOCK - i % LS_KV_BLOCK : own.end - i;
        den += block_weights24(score + i, block[i / LS_KV_BLOCK] + value_exp + i % LS_KV_BLOCK, w + i, n, m * (1 << 28), mv * (1 << 28));
    }
    memset(w + all.begin, 0, (size_t)(own.begin - all.begin) * sizeof *w);
    memset(w + own.end, 0, (size_t)(all.end - own.end) * sizeof *w);
    *part = (ls_attn_part){.any = 1, .m = m, .mv = mv, .den = den};
}

/* The keys from the first to the last that some query sees. */
static span union_of(const span *own, int n) {
    span all = {LS_EXACT_KEY_RANGE, 0};
    for (int i = 0; i < n; i++) {
        if (own[i].begin == own[i].end) continue;
        if (own[i].begin < all.begin) all.begin = own[i].begin;
        if (own[i].end > all.end) all.end = own[i].end;
    }
    return all;
}

/* |s| with its ends moved outwards to multiples of |step|. */
static span whole(span s, int step) { return (span){s.begin / step * step, (s.end + step - 1) / step * step}; }

static void fetch(const uint8_t *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) LS_PREFETCH(p + i);
}

static void attend(const ls_attn *a, const ls_attn_tile *t, int64_t range, const uint8_t *const *block, void *parts, ls_attn_space *s) {
    uint8_t *part = parts;
    const ls_kv_layout layout = ls_kv_layout_of(a);
    const size_t bytes = ls_attn_part_bytes(a), value_exp = layout.value_exp, keys = layout.values;
    int kind = a->wide ? 1 : a->narrow ? 2 : 0;
    span own[LS_ATTN_TILE];
    for (int i = 0; i < t->n; i++) own[i] = visible(t, i, range);
    const span seen = union_of(own, t->n), all = whole(seen, LS_KV_BLOCK);
    for (int q = 0; q < t->n; q += TILE_Q) {
        const bool far = t->far && !q;
        int n = t->n - q < TILE_Q ? t->n - q : TILE_Q;
        if (far && all.begin < all.end) fetch(block[all.begin / LS_KV_BLOCK], keys);
        for (int key = all.begin; key < all.end; key += LS_KV_BLOCK) {
            if (far && key + LS_KV_BLOCK < all.end) fetch(block[key / LS_KV_BLOCK + 1], keys);
            if (far) fetch(block[key / LS_KV_BLOCK] + layout.values, keys);
            score_kernels[kind][n](a, t, q, block[key / LS_KV_BLOCK], key, seen.end - key < LS_KV_BLOCK ? seen.end - key : LS_KV_BLOCK, s);
        }
        for (int i = q; i < q + n; i++) {
            ls_attn_part *p = (ls_attn_part *)(void *)(part + (size_t)i * bytes);
            if (own[i].begin == own[i].end) {
                *p = (ls_attn_part){.any = 0};
                memset(s->w[i], 0, sizeof s->w[i]);
            } else if (a->wide) weights24(block, value_exp, all, own[i], s->z64[i], s->w[i], p);
            else weights16(block, value_exp, all, own[i], s->z[i], s->half[i], p);
        }
        if (all.begin < all.end) value_kernels[kind][n](a, q, block, whole(seen, 2), s, part);
    }
}

/* ---- Joining ranges ----------------------------------------------------------------------------------------------- */

static int64_t shift_down(int64_t v, int64_t n) { return n > 62 ? 0 : ls_rshift(v, (int)n); }

static void add_shifted(int64_t *restrict sum, const int64_t *restrict o, int n, int64_t factor, int64_t shift) {
    if (shift > 62) return;
    int64_t half = shift ? INT64_C(1) << (shift - 1) : 0;
    for (int i = 0; i < n; i++) sum[i] += (o[i] * factor + half) >> shift;
}

static void combine(const ls_attn *a, float *y, const void *parts, int64_t n, size_t stride, int64_t *sum) {
    int64_t m = INT64_MIN, mv = INT64_MIN, den = 0;
    for (int64_t i = 0; i < n; i++) {
        const ls_attn_part *p = (const ls_attn_part *)(const void *)((const uint8_t *)parts + (size_t)i * stride);
        if (!p->any) continue;
        if (p->m > m) m = p->m;
        if (p->mv > mv) mv = p->mv;
    }
    memset(sum, 0, (size_t)a->d * sizeof *sum);
    for (int64_t i = 0; i < n; i++) {
        const ls_attn_part *p = (const ls_attn_part *)(const void *)((const uint8_t *)parts + (size_t)i * stride);
        if (!p->any) continue;
        den += shift_down(p->den * 65536, m - p->m);
        add_shifted(sum, (const int64_t *)(const void *)(p + 1), a->d, a->g >= 0 ? 1 << a->g : 1, mv - p->mv + (a->g >= 0 ? 0 : -a->g));
    }
    memset(y, 0, (size_t)a->d * sizeof *y);
    if (!den) return;
    float r;
    int e;
    ls_recip_wide(den, &r, &e);
    float unit = r * 0x1p-31f, first = ls_pow2(e + 31 + 16 - a->g), second = ls_pow2((int)(mv - m) - 127 - a->p);
    for (int i = 0; i < a->d; i++) y[i] = ls_canon((((float)sum[i] * unit) * first) * second);
}
