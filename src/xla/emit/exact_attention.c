/* Attention under the exact contracts (docs/contracts.md, section 6): integer scores, integer exponentials, sums in absolute
 * ranges of 256 keys that combine by powers of two.
 *
 * Shapes: B sequences, K key heads, Q = T * heads / K queries of one key head, C keys in R ranges, D columns. */
#include "contract/exact.h"
#include "reference/exact_ops.h"
#include "xla/emit/lower.h"

typedef struct setup {
    int64_t b, t, k, group, q, c, r, d;
    int p, shift, f, pb, g;
    float limit, factor, cap_factor;
    bool wide, narrow; /* narrow: exact16-kv8 */
    int64_t bound;     /* of mantissas */
} setup;

static setup setup_of(const ls_lower *l, const ls_node *n) {
    bool wide = ls_contract_is_wide(n->contract);
    setup s = {.b = l->sequences, .t = l->rows, .k = n->kv_heads, .group = n->heads / n->kv_heads, .c = l->keys, .d = n->head_dim,
               .p = wide ? LS_EXACT_ATTN_P24 : LS_EXACT_P16, .f = wide ? 28 : 16,
               .pb = wide ? LS_EXACT_WEIGHT_BITS24 : LS_EXACT_WEIGHT_BITS16,
               .g = wide ? LS_EXACT_SUM_SHIFT24 : LS_EXACT_SUM_SHIFT16,
               .limit = wide ? 0x1p58f : 0x1p30f, .wide = wide, .narrow = n->contract == LS_CONTRACT_EXACT16_KV8};
    s.q = s.t * s.group;
    s.r = s.c / LS_EXACT_KEY_RANGE;
    s.bound = (int64_t)127 << (s.p - 6);
    int shift = ls_ceil_log2((uint64_t)s.d) + 2 * (s.p + 1) - (wide ? LS_EXACT_SCORE_BITS24 : LS_EXACT_SCORE_BITS16);
    s.shift = shift > 0 ? shift : 0;
    s.factor = ls_exact_score_factor(n->scale, n->limit) * ls_pow2(s.f);
    if (n->limit != 0) s.cap_factor = ls_exact_softcap_factor(n->scale, n->limit);
    return s;
}

static ls_val low(ls_mlir *m, ls_tensor_type t) { return ls_m_int(m, t, -((int64_t)1 << 61)); }

/* x [.., .., .., D] as ls_rotate gives it from its mantissas. */
static ls_val rotated(ls_mlir *m, const setup *s, ls_val x, int down) {
    const int64_t n = ls_rotated_columns((int)s->d), rows = x.t.dim[0] * x.t.dim[1] * x.t.dim[2];
    const int64_t shape[] = {x.t.dim[0], x.t.dim[1], x.t.dim[2], s->d};
    ls_val e = ls_m_block_exponent(m, x), q = ls_m_convert(m, ls_m_mantissa(m, x, e, s->p), LS_DT_I32);
    for (int64_t half = 1; half < n; half *= 2) {
        q = LS_RESHAPE(m, q, rows, s->d / (2 * half), 2, half);
        ls_val a = ls_m_slice(m, q, 2, 0, 1), b = ls_m_slice(m, q, 2, 1, 2);
        q = ls_m_concat(m, (ls_val[]){ls_m_binary(m, "add", a, b), ls_m_binary(m, "subtract", a, b)}, 2, 2);
    }
    q = ls_m_convert(m, ls_m_reshape(m, q, 4, shape), LS_DT_F32);
    ls_val unit = ls_m_pow2_biased(m, ls_m_with_int(m, "subtract", e, s->p + down));
    return ls_m_binary(m, "multiply", q, ls_m_along_last(m, unit, q.t));
}

/* Queries as mantissas f32 [B, K, Q, D] with exponents i32 [B, K, Q]. */
static ls_val queries(ls_lower *l, const setup *s, ls_val q, ls_val *e) {
    ls_mlir *m = &l->m;
    q = LS_RESHAPE(m, q, s->b, s->t, s->k, s->group, s->d);
    q = LS_RESHAPE(m, LS_TRANSPOSE(m, q, 0, 2, 1, 3, 4), s->b, s->k, s->q, s->d);
    if (s->narrow) q = rotated(m, s, q, ls_ceil_log2((uint64_t)ls_rotated_columns((int)s->d)));
    *e = ls_m_block_exponent(m, q);
    return ls_m_mantissa(m, q, *e, s->p);
}

/* Multiples of each block's scale nearest to mantissas f32 [B, C, K, D]: exact16-kv8. */
static ls_val scaled_steps(ls_mlir *m, const setup *s, ls_val q) {
    const int64_t blocks = (s->d + LS_EXACT_KV_BLOCK - 1) / LS_EXACT_KV_BLOCK, padded = blocks * LS_EXACT_KV_BLOCK;
    ls_val x = ls_m_pad_end(m, ls_m_convert(m, q, LS_DT_I32), 3, padded - s->d);
    x = LS_RESHAPE(m, x, s->b, s->c, s->k, blocks, LS_EXACT_KV_BLOCK);
    ls_val size = ls_m_unary(m, "stablehlo.abs", x), largest = ls_m_reduce(m, "maximum", size, 4);
    ls_val scale = ls_m_with_int(m, "maximum", ls_m_with_int(m, "divide", ls_m_with_int(m, "add", largest, 126), 127), 1);
    ls_val half = ls_m_along_last(m, ls_m_with_int(m, "shift_right_arithmetic", scale, 1), x.t), by = ls_m_along_last(m, scale, x.t);
    ls_val y = ls_m_binary(m, "multiply", ls_m_binary(m, "divide", ls_m_binary(m, "add", size, half), by), by);
    y = ls_m_select(m, ls_m_compare(m, "LT", x, ls_m_int(m, x.t, 0)), ls_m_unary(m, "stablehlo.negate", y), y);
    return ls_m_convert(m, ls_m_slice(m, LS_RESHAPE(m, y, s->b, s->c, s->k, padded), 3, 0, s->d), LS_DT_F32);
}

/* Mantissas f32 of keys or values x [B, C, K, D] with exponents e. */
static ls_val stored(ls_lower *l, const setup *s, ls_val x, ls_val e) {
    ls_val q = ls_m_mantissa(&l->m, x, e, s->p);
    return s->narrow ? scaled_steps(&l->m, s, q) : q;
}

/* J = rshift(sum of q k, c): i64 [B, K, Q, C]. */
static ls_val products(ls_lower *l, const setup *s, ls_val q, ls_val k) {
    static const int batch_q[] = {0, 1}, batch_k[] = {0, 2};
    ls_mlir *m = &l->m;
    ls_dot_plan plan = ls_plan_dot(l->o->carrier, s->bound, s->bound, s->d);
    ls_val a[LS_MAX_DIGITS], b[LS_MAX_DIGITS];
    ls_m_digits(m, q, plan.a, plan.dtype, a);
    ls_m_digits(m, k, plan.b, plan.dtype, b);
    ls_val dot = ls_m_dot_digits(m, &plan, a, b, 2, batch_q, batch_k, 3, 3, 0x1p62);
    return ls_m_rshift_by(m, dot, s->shift);
}

/* j * factor * 2^e as ls_scaled_score, e i64. */
static ls_val scaled_score(ls_mlir *m, const setup *s, ls_val j, ls_val e) {
    uint32_t u = ls_bits(s->factor);
    ls_val t = ls_m_with_int(m, "multiply", j, (u & 0x7FFFFFu) | 0x800000u);
    ls_val by = ls_m_with_int(m, "add", e, (int)(u >> 23) - 150), zero = ls_m_int(m, by.t, 0);
    ls_val right = ls_m_with_int(m, "minimum", ls_m_with_int(m, "maximum", ls_m_unary(m, "stablehlo.negate", by), 0), 62);
    ls_val down = ls_m_select(m, ls_m_compare(m, "LT", by, ls_m_int(m, by.t, -62)), zero, ls_m_rshift(m, t, right));
    ls_val left = ls_m_with_int(m, "maximum", ls_m_with_int(m, "minimum", by, 40), 0), top = ls_m_int(m, by.t, (int64_t)1 << 58);
    ls_val limit = ls_m_binary(m, "shift_right_arithmetic", top, left), minus_top = ls_m_int(m, by.t, -((int64_t)1 << 58));
    ls_val up = ls_m_binary(m, "shift_left", t, left);
    up = ls_m_select(m, ls_m_compare(m, "GT", t, limit), top, up);
    up = ls_m_select(m, ls_m_compare(m, "LT", t, ls_m_unary(m, "stablehlo.negate", limit)), minus_top, up);
    return ls_m_select(m, ls_m_compare(m, "LT", by, zero), down, up);
}

/* z i64 [B, K, Q, C]; eq i32 [B, K, Q], ek i32 [B, K, C]. */
static ls_val scores(ls_lower *l, const setup *s, ls_val j, ls_val eq, ls_val ek) {
    ls_mlir *m = &l->m;
    ls_tensor_type t = j.t;
    if (s->wide && s->cap_factor == 0) {
        ls_val e = ls_m_binary(m, "add", ls_m_along_last(m, eq, t), LS_BROADCAST(m, ek, t, 0, 1, 3));
        e = ls_m_with_int(m, "add", ls_m_convert(m, e, LS_DT_I64), s->shift - 254 - 2 * s->p);
        return scaled_score(m, s, j, e);
    }
    ls_val pq = ls_m_pow2_biased(m, ls_m_with_int(m, "add", eq, s->shift - s->p)), pk = ls_m_pow2_biased(m, ls_m_with_int(m, "subtract", ek, s->p));
    ls_val f = ls_m_binary(m, "multiply", ls_m_convert(m, j, LS_DT_F32), ls_m_along_last(m, pq, t));
    f = ls_m_binary(m, "multiply", f, LS_BROADCAST(m, pk, t, 0, 1, 3));
    ls_val z = s->cap_factor != 0 ? ls_m_exact_tanh(m, f, s->cap_factor) : f;
    z = ls_m_with_f32(m, "multiply", z, s->factor);
    z = ls_m_with_f32(m, "maximum", ls_m_with_f32(m, "minimum", z, s->limit), -s->limit);
    return ls_m_convert(m, ls_m_unary(m, "stablehlo.round_nearest_even", z), LS_DT_I64);
}

/* i1 [B, K, Q, C] of i1 [B, T, C]. */
static ls_val per_query(ls_lower *l, const setup *s, ls_val visible) {
    ls_val v = LS_BROADCAST(&l->m, visible, LS_TYPE(LS_DT_I1, s->b, s->k, s->t, s->group, s->c), 0, 2, 4);
    return LS_RESHAPE(&l->m, v, s->b, s->k, s->q, s->c);
}

/* Weights of z [B, K, Q, R, 256] (hidden ones very low) within each range: *top = the range's m, i64 [B, K, Q, R]. */
static ls_val weights(ls_lower *l, const setup *s, ls_val z, ls_val visible, ls_val *top) {
    ls_mlir *m = &l->m;
    int64_t one = (int64_t)1 << s->f;
    *top = ls_m_with_int(m, "shift_right_arithmetic", ls_m_with_int(m, "add", ls_m_reduce(m, "maximum", z, 4), one - 1), s->f);
    ls_val d = ls_m_binary(m, "subtract", ls_m_along_last(m, ls_m_with_int(m, "shift_left", *top, s->f), z.t), z);
    ls_val n = ls_m_with_int(m, "shift_right_arithmetic", d, s->f), zero = ls_m_int(m, n.t, 0);
    ls_val e = ls_m_exp2_neg(m, ls_m_with_int(m, "shift_left", ls_m_with_int(m, "and", d, one - 1), 32 - s->f));
    ls_val by = ls_m_with_int(m, "add", ls_m_with_int(m, "maximum", ls_m_with_int(m, "minimum", n, 31), 0), 31 - s->pb);
    ls_val w = ls_m_with_int(m, "minimum", ls_m_rshift(m, e, by), ((int64_t)1 << s->pb) - 1);
    w = ls_m_select(m, ls_m_compare(m, "GT", n, ls_m_int(m, n.t, 31)), zero, w);
    return ls_m_select(m, visible, w, zero);
}

/* rshift(v, n) with 0 beyond 62; n >= 0. */
static ls_val shift_down(ls_mlir *m, ls_val v, ls_val n) {
    ls_val y = ls_m_rshift(m, v, ls_m_with_int(m, "minimum", n, 62));
    return ls_m_select(m, ls_m_compare(m, "GT", n, ls_m_int(m, n.t, 62)), ls_m_int(m, v.t, 0), y);
}

/* How far each range's exponent is below the largest: i64 of top's shape; *most without the last axis. */
static ls_val below(ls_mlir *m, ls_val top, ls_val *most) {
    *most = ls_m_reduce(m, "maximum", top, 3);
    return ls_m_binary(m, "subtract", ls_m_along_last(m, *most, top.t), top);
}

/* o = sum of w v in each range: i64 [B, K, R, Q, D]. v f32 mantissas [B, C, K, D]. */
static ls_val mix(ls_lower *l, const setup *s, ls_val w, ls_val v) {
    static const int batch_w[] = {0, 1, 3}, batch_v[] = {0, 3, 1};
    ls_mlir *m = &l->m;
    ls_dot_plan plan = ls_plan_dot(l->o->carrier, ((int64_t)1 << s->pb) - 1, s->bound, LS_EXACT_KEY_RANGE);
    ls_val a[LS_MAX_DIGITS], b[LS_MAX_DIGITS];
    ls_m_digits(m, w, plan.a, plan.dtype, a);
    ls_m_digits(m, LS_RESHAPE(m, v, s->b, s->r, LS_EXACT_KEY_RANGE, s->k, s->d), plan.b, plan.dtype, b);
    return ls_m_dot_digits(m, &plan, a, b, 3, batch_w, batch_v, 4, 2, 0x1p62);
}

/* The ranges' sums o aligned to the largest exponent and added: i64 [B, K, Q, D]. */
static ls_val combine(ls_lower *l, const setup *s, ls_val o, ls_val top, ls_val *most) {
    ls_mlir *m = &l->m;
    ls_val n = below(m, top, most);
    n = ls_m_along_last(m, LS_TRANSPOSE(m, n, 0, 1, 3, 2), o.t);
    if (s->g > 0) o = ls_m_with_int(m, "shift_left", o, s->g);
    else n = ls_m_with_int(m, "add", n, -s->g);
    return ls_m_reduce(m, "add", shift_down(m, o, n), 2);
}

/* 2^k as f32 for k clamped to the normal range; rows that see nothing may have any k. */
static ls_val power_of(ls_mlir *m, ls_val k) {
    ls_val biased = ls_m_with_int(m, "maximum", ls_m_with_int(m, "minimum", ls_m_with_int(m, "add", k, 127), 254), 1);
    return ls_m_pow2_biased(m, ls_m_convert(m, biased, LS_DT_I32));
}

/* y = canon(((f32(O) * (r * 2^-31)) * 2^(k + 31 + 16 - G)) * 2^(M' - M - 127 - p)), zeros for rows that see nothing. */
static ls_val finish(ls_lower *l, const setup *s, ls_val o, ls_val den, ls_val m_den, ls_val m_o, ls_val any) {
    ls_mlir *m = &l->m;
    ls_val r, k;
    ls_m_recip_wide(m, den, &r, &k);
    ls_val y = ls_m_binary(m, "multiply", ls_m_convert(m, o, LS_DT_F32), ls_m_along_last(m, ls_m_with_f32(m, "multiply", r, 0x1p-31f), o.t));
    y = ls_m_binary(m, "multiply", y, ls_m_along_last(m, power_of(m, ls_m_with_int(m, "add", k, 31 + 16 - s->g)), y.t));
    ls_val gap = ls_m_with_int(m, "subtract", ls_m_binary(m, "subtract", m_o, m_den), 127 + s->p);
    y = ls_m_canon(m, ls_m_binary(m, "multiply", y, ls_m_along_last(m, power_of(m, gap), y.t)));
    return ls_m_select(m, ls_m_along_last(m, any, y.t), y, ls_m_f32(m, y.t, 0));
}

ls_val ls_lower_exact_attention(ls_lower *l, const ls_node *n, ls_val q, ls_val k, ls_val v) {
    ls_mlir *m = &l->m;
    setup s = setup_of(l, n);
    ls_tensor_type ranges = LS_TYPE(LS_DT_I64, s.b, s.k, s.q, s.r, LS_EXACT_KEY_RANGE);
    if (s.narrow) k = rotated(m, &s, k, 0);
    ls_val eq, ek = ls_m_block_exponent(m, k), ev = ls_m_block_exponent(m, v);
    q = queries(l, &s, q, &eq);
    ls_val j = products(l, &s, q, stored(l, &s, k, ek));
    ls_val z = scores(l, &s, j, eq, LS_TRANSPOSE(m, ek, 0, 2, 1));
    ls_val visible = per_query(l, &s, ls_lower_visible(l, n)), any = ls_m_reduce(m, "or", visible, 3);
    z = ls_m_select(m, visible, z, low(m, z.t));
    ls_val value_e = ls_m_with_int(m, "shift_left", ls_m_convert(m, LS_TRANSPOSE(m, ev, 0, 2, 1), LS_DT_I64), s.f);
    ls_val zv = ls_m_binary(m, "add", z, LS_BROADCAST(m, value_e, z.t, 0, 1, 3)), top, top_v, most, most_v;
    visible = ls_m_reshape(m, visible, 5, ranges.dim);
    ls_val w = weights(l, &s, ls_m_reshape(m, z, 5, ranges.dim), visible, &top);
    ls_val wv = weights(l, &s, ls_m_reshape(m, zv, 5, ranges.dim), visible, &top_v);
    ls_val den = ls_m_with_int(m, "shift_left", ls_m_reduce(m, "add", w, 4), 16);
    den = ls_m_reduce(m, "add", shift_down(m, den, below(m, top, &most)), 3);
    ls_val o = combine(l, &s, mix(l, &s, wv, stored(l, &s, v, ev)), top_v, &most_v);
    ls_val y = finish(l, &s, o, den, most, most_v, any);
    y = LS_TRANSPOSE(m, LS_RESHAPE(m, y, s.b, s.k, s.t, s.group, s.d), 0, 2, 1, 3, 4);
    return LS_RESHAPE(m, y, s.b * s.t, n->cols);
}
