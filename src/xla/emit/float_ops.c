/* Operators under the float contract: f32 operations in the order that the reference states (reference/float_ops.inc),
 * except that the compiler chooses the order of sums. Precision narrows the operands of products only. */
#include <math.h>

#include "xla/emit/lower.h"

static ls_val times(ls_mlir *m, ls_val a, ls_val b) { return ls_m_binary(m, "multiply", a, b); }

static ls_dtype narrow_type(const ls_lower *l) {
    return l->o->precision == LS_PRECISION_F16 ? LS_DT_F16 : l->o->precision == LS_PRECISION_BF16 ? LS_DT_BF16 : LS_DT_F32;
}

static ls_val narrowed(ls_lower *l, ls_val x) { return ls_m_convert(&l->m, x, narrow_type(l)); }

static ls_val vector(ls_lower *l, const ls_param *w) {
    return ls_lower_weight(l, (ls_emit_weight){.name = w->name, .role = LS_W_VECTOR, .type = LS_TYPE(LS_DT_F32, w->rows * w->cols),
                                               .contract = LS_CONTRACT_FLOAT,
                                               .param = w, .n_params = 1});
}

/* ---- Linear ------------------------------------------------------------------------------------------------------------ */

/* w = q * scale + bias, two f32 operations; lane j of a word is (word >> (bits j)) & mask. f32 [N, K]. */
static ls_val unpacked(ls_lower *l, const ls_param *w) {
    ls_mlir *m = &l->m;
    int64_t bits = w->tensor->mlx_bits, lanes = 32 / bits, n = w->rows, k = w->cols, group = w->tensor->mlx_group, words = k / lanes;
    ls_emit_weight a = {.name = w->name, .contract = LS_CONTRACT_FLOAT, .param = w, .n_params = 1, .role = LS_W_PACKED, .type = LS_TYPE(LS_DT_U32, n, words)};
    ls_val packed = ls_lower_weight(l, a);
    a.type = LS_TYPE(LS_DT_F32, n, k / group);
    a.role = LS_W_PACKED_SCALES;
    ls_val scale = ls_lower_weight(l, a);
    a.role = LS_W_PACKED_BIASES;
    ls_val bias = ls_lower_weight(l, a);
    ls_tensor_type wide = LS_TYPE(LS_DT_U32, n, words, lanes), grouped = LS_TYPE(LS_DT_F32, n, k / group, group);
    ls_val shift = ls_m_with_int(m, "multiply", ls_m_iota(m, wide, 2), bits);
    ls_val q = ls_m_binary(m, "shift_right_logical", LS_BROADCAST(m, packed, wide, 0, 1), shift);
    q = ls_m_convert(m, ls_m_with_int(m, "and", q, ((int64_t)1 << bits) - 1), LS_DT_F32);
    q = ls_m_reshape(m, q, 3, grouped.dim);
    q = times(m, q, LS_BROADCAST(m, scale, grouped, 0, 1));
    q = ls_m_binary(m, "add", q, LS_BROADCAST(m, bias, grouped, 0, 1));
    return LS_RESHAPE(m, q, n, k);
}

/* f32 or narrower [E, K, N]: |count| matrices stacked along N (E 1) or along E. XLA's CPU products of several rows are up to
 * twice as fast on [K, N] as on the checkpoint's [N, K]. */
static ls_val matrix(ls_lower *l, const ls_param *w, int count, int64_t e) {
    return ls_lower_weight(l, (ls_emit_weight){.name = w->name, .role = LS_W_MATRIX, .type = LS_TYPE(narrow_type(l), e, w->cols, w->rows * count / e),
                                               .contract = LS_CONTRACT_FLOAT, .param = w, .n_params = count});
}

/* x f32 [T, K] times |count| matrices: f32 [T, N * count]. */
static ls_val product(ls_lower *l, ls_val x, const ls_param *w, int count) {
    ls_mlir *m = &l->m;
    bool packed = l->o->packed && count == 1 && ls_lower_can_pack(w);
    if (packed) return ls_m_dot(m, narrowed(l, x), narrowed(l, unpacked(l, w)), 0, NULL, NULL, 1, 1, LS_DT_F32);
    ls_val v = LS_RESHAPE(m, matrix(l, w, count, 1), w->cols, w->rows * count);
    return ls_m_dot(m, narrowed(l, x), v, 0, NULL, NULL, 1, 0, LS_DT_F32);
}

ls_val ls_lower_float_linear(ls_lower *l, const ls_node *n, ls_val x) {
    ls_mlir *m = &l->m;
    ls_val y = product(l, x, n->w[0], 1);
    return n->w[1] ? ls_m_binary(m, "add", y, LS_BROADCAST(m, vector(l, n->w[1]), y.t, 1)) : y;
}

/* ---- Norms ------------------------------------------------------------------------------------------------------------- */

static ls_val over_groups(ls_lower *l, ls_val v, ls_val x) {
    if (v.t.dim[0] == x.t.dim[2]) return LS_BROADCAST(&l->m, v, x.t, 2);
    return LS_BROADCAST(&l->m, LS_RESHAPE(&l->m, v, x.t.dim[1], x.t.dim[2]), x.t, 1, 2);
}

static ls_val mean_of(ls_mlir *m, ls_val x) { return ls_m_with_f32(m, "divide", ls_m_reduce(m, "add", x, 2), (float)x.t.dim[2]); }

ls_val ls_lower_float_norm(ls_lower *l, const ls_node *n, ls_val x) {
    ls_mlir *m = &l->m;
    int64_t t = x.t.dim[0];
    ls_val y = LS_RESHAPE(m, x, t, n->cols / n->group, n->group);
    if (n->op == LS_OP_LAYER_NORM) y = ls_m_binary(m, "subtract", y, ls_m_along_last(m, mean_of(m, y), y.t));
    ls_val square = ls_m_with_f32(m, "add", mean_of(m, times(m, y, y)), n->eps);
    y = times(m, y, ls_m_along_last(m, ls_m_unary(m, "stablehlo.rsqrt", square), y.t));
    if (n->w[0]) {
        ls_val w = vector(l, n->w[0]);
        if (n->weight_offset != 0) w = ls_m_with_f32(m, "add", w, n->weight_offset);
        y = times(m, y, over_groups(l, w, y));
    }
    if (n->w[1]) y = ls_m_binary(m, "add", y, over_groups(l, vector(l, n->w[1]), y));
    return LS_RESHAPE(m, y, t, n->cols);
}

/* ---- Rotary embedding ----------------------------------------------------------------------------------------------------- */

static ls_val turn_table(ls_lower *l, const ls_node *n, ls_weight_role role, ls_tensor_type t) {
    int64_t half = l->g->rope[n->rope].rot_dim / 2;
    ls_emit_weight w = {.name = role == LS_W_COS ? "rope.cos" : "rope.sin", .role = role, .type = LS_TYPE(LS_DT_F32, l->o->capacity, half),
                        .contract = LS_CONTRACT_FLOAT, .rope = n->rope};
    return LS_BROADCAST(&l->m, ls_m_gather_rows(&l->m, ls_lower_weight(l, w), l->position), t, 0, 2);
}

ls_val ls_lower_float_rope(ls_lower *l, const ls_node *n, ls_val x) {
    ls_mlir *m = &l->m;
    const ls_rope *r = &l->g->rope[n->rope];
    int64_t rows = x.t.dim[0], half = r->rot_dim / 2;
    ls_val all = LS_RESHAPE(m, x, rows, n->heads, n->head_dim), turned = ls_m_slice(m, all, 2, 0, r->rot_dim), lo, hi;
    ls_val p = r->interleaved ? LS_RESHAPE(m, turned, rows, n->heads, half, 2) : LS_RESHAPE(m, turned, rows, n->heads, 2, half);
    int axis = r->interleaved ? 3 : 2;
    lo = LS_RESHAPE(m, ls_m_slice(m, p, axis, 0, 1), rows, n->heads, half);
    hi = LS_RESHAPE(m, ls_m_slice(m, p, axis, 1, 2), rows, n->heads, half);
    ls_val c = turn_table(l, n, LS_W_COS, lo.t), s = turn_table(l, n, LS_W_SIN, lo.t);
    ls_val y[2] = {ls_m_binary(m, "subtract", times(m, lo, c), times(m, hi, s)), ls_m_binary(m, "add", times(m, hi, c), times(m, lo, s))};
    for (int i = 0; i < 2; i++) y[i] = r->interleaved ? LS_RESHAPE(m, y[i], rows, n->heads, half, 1) : LS_RESHAPE(m, y[i], rows, n->heads, 1, half);
    ls_val out = LS_RESHAPE(m, ls_m_concat(m, y, 2, axis), rows, n->heads, r->rot_dim);
    if (r->rot_dim < n->head_dim) out = ls_m_concat(m, (ls_val[]){out, ls_m_slice(m, all, 2, r->rot_dim, n->head_dim)}, 2, 2);
    return LS_RESHAPE(m, out, rows, n->cols);
}

/* ---- Attention ---------------------------------------------------------------------------------------------------------------- */

/* y = exp(x - max) / sum over the last axis. */
static ls_val softmax(ls_mlir *m, ls_val x) {
    int last = x.t.rank - 1;
    ls_val e = ls_m_unary(m, "stablehlo.exponential", ls_m_binary(m, "subtract", x, ls_m_along_last(m, ls_m_reduce(m, "maximum", x, last), x.t)));
    return ls_m_binary(m, "divide", e, ls_m_along_last(m, ls_m_reduce(m, "add", e, last), x.t));
}

ls_val ls_lower_float_softcap(ls_lower *l, ls_val x, float cap) {
    return ls_m_with_f32(&l->m, "multiply", ls_m_unary(&l->m, "stablehlo.tanh", ls_m_with_f32(&l->m, "divide", x, cap)), cap);
}

ls_val ls_lower_float_attention(ls_lower *l, const ls_node *n, ls_val q, ls_val k, ls_val v) {
    static const int batch_q[] = {0, 1}, batch_k[] = {0, 2};
    ls_mlir *m = &l->m;
    int64_t b = l->sequences, t = l->rows, kv = n->kv_heads, group = n->heads / n->kv_heads, d = n->head_dim;
    q = LS_TRANSPOSE(m, LS_RESHAPE(m, q, b, t, kv, group, d), 0, 2, 1, 3, 4);
    ls_val s = ls_m_dot(m, narrowed(l, LS_RESHAPE(m, q, b, kv, t * group, d)), narrowed(l, k), 2, batch_q, batch_k, 3, 3, LS_DT_F32);
    s = ls_m_with_f32(m, "multiply", s, n->scale);
    if (n->limit != 0) s = ls_lower_float_softcap(l, s, n->limit);
    ls_val visible = LS_BROADCAST(m, ls_lower_visible(l, n), LS_TYPE(LS_DT_I1, b, kv, t, group, l->keys), 0, 2, 4);
    s = ls_m_select(m, LS_RESHAPE(m, visible, b, kv, t * group, l->keys), s, ls_m_f32(m, s.t, -1e30f));
    ls_val y = ls_m_dot(m, narrowed(l, softmax(m, s)), narrowed(l, v), 2, batch_q, batch_k, 3, 1, LS_DT_F32);
    y = LS_TRANSPOSE(m, LS_RESHAPE(m, y, b, kv, t, group, d), 0, 2, 1, 3, 4);
    return LS_RESHAPE(m, y, b * t, n->cols);
}

/* ---- Elementwise ------------------------------------------------------------------------------------------------------------------ */

static ls_val sigmoid(ls_mlir *m, ls_val x) {
    ls_val e = ls_m_unary(m, "stablehlo.exponential", ls_m_unary(m, "stablehlo.negate", x));
    return ls_m_binary(m, "divide", ls_m_f32(m, x.t, 1), ls_m_with_f32(m, "add", e, 1));
}

static ls_val half_of(ls_mlir *m, ls_val x, ls_val y) { return times(m, ls_m_with_f32(m, "multiply", x, 0.5f), ls_m_with_f32(m, "add", y, 1)); }

static ls_val gelu_tanh(ls_mlir *m, ls_val x) {
    ls_val cube = times(m, times(m, x, x), x), u = ls_m_binary(m, "add", x, ls_m_with_f32(m, "multiply", cube, 0.044715f));
    return half_of(m, x, ls_m_unary(m, "stablehlo.tanh", ls_m_with_f32(m, "multiply", u, 0.79788456080286536f)));
}

ls_val ls_lower_float_act(ls_lower *l, ls_act act, ls_val x) {
    ls_mlir *m = &l->m;
    switch (act) {
    case LS_ACT_SILU: return times(m, x, sigmoid(m, x));
    case LS_ACT_SIGMOID: return sigmoid(m, x);
    case LS_ACT_GELU_QUICK: return times(m, x, sigmoid(m, ls_m_with_f32(m, "multiply", x, 1.702f)));
    case LS_ACT_GELU_TANH: return gelu_tanh(m, x);
    case LS_ACT_GELU: return half_of(m, x, ls_m_unary(m, "chlo.erf", ls_m_with_f32(m, "multiply", x, 0.70710678118654752f)));
    case LS_ACT_RELU: return ls_m_with_f32(m, "maximum", x, 0);
    default: ls_mlir_fail(m, LS_UNIMPLEMENTED, "activation without a lowering"); return (ls_val){0};
    }
}

/* ---- Experts ------------------------------------------------------------------------------------------------------------------------ */

/* p [T, E]: softmax of all, zero for those not kept, divided by their sum when the model normalises. */
static ls_val expert_scores(ls_lower *l, const ls_moe *moe, ls_val router) {
    ls_mlir *m = &l->m;
    ls_val p = softmax(m, router), kept = ls_lower_top_k(l, router, moe->top_k);
    p = ls_m_select(m, kept, p, ls_m_f32(m, p.t, 0));
    return moe->normalize ? ls_m_binary(m, "divide", p, ls_m_along_last(m, ls_m_reduce(m, "add", p, 1), p.t)) : p;
}

ls_val ls_lower_float_moe(ls_lower *l, const ls_node *n, ls_val x, ls_val router) {
    static const int batch_x[] = {1}, batch_w[] = {0};
    const ls_moe *moe = n->moe;
    ls_mlir *m = &l->m;
    int64_t t = x.t.dim[0], e = moe->experts, inner = moe->gate->rows;
    ls_val p = expert_scores(l, moe, router);
    ls_val gate = LS_RESHAPE(m, product(l, x, moe->gate, moe->experts), t, e, inner);
    ls_val up = LS_RESHAPE(m, product(l, x, moe->up, moe->experts), t, e, inner);
    ls_val mid = times(m, ls_lower_float_act(l, n->act, gate), up);
    ls_val w = matrix(l, moe->down, moe->experts, e);
    ls_val down = ls_m_dot(m, narrowed(l, mid), w, 1, batch_x, batch_w, 2, 1, LS_DT_F32); /* [E, T, H] */
    down = times(m, down, LS_BROADCAST(m, p, down.t, 1, 0));
    return ls_m_reduce(m, "add", down, 0);
}
