/* Lowers one node: picks the operator's lowering by contract. */
#include "xla/emit/lower.h"

static bool exact(const ls_node *n) { return n->contract != LS_CONTRACT_FLOAT; }

static ls_val finished(ls_lower *l, const ls_node *n, ls_val y) { return exact(n) ? ls_m_canon(&l->m, y) : y; }

static ls_val lower_embed(ls_lower *l, const ls_node *n) {
    ls_mlir *m = &l->m;
    const ls_param *w = n->w[0];
    if (l->embeddings.kind && !l->given.kind) return finished(l, n, l->embeddings); /* from outside: made canonical here */
    ls_val table = ls_lower_weight(l, (ls_emit_weight){.name = w->name, .role = LS_W_ROWS, .type = LS_TYPE(LS_DT_F32, w->rows, w->cols),
                                                       .contract = n->contract,
                                                       .param = w, .n_params = 1});
    ls_val y = ls_m_gather_rows(m, table, l->token);
    if (n->scale != 1) y = finished(l, n, ls_m_with_f32(m, "multiply", y, n->scale));
    if (!l->given.kind) return y;
    ls_val given = ls_m_compare(m, "NE", l->given, ls_m_int(m, l->given.t, 0)), outside = finished(l, n, l->embeddings);
    return ls_m_select(m, LS_BROADCAST(m, given, LS_TYPE(LS_DT_I1, y.t.dim[0], y.t.dim[1]), 0), outside, y);
}

/* Keys and values of an image are the pass's own: [1, keys, kv, d]. */
static ls_val all_keys(ls_lower *l, const ls_node *n, ls_val x) {
    return ls_m_pad_end(&l->m, LS_RESHAPE(&l->m, x, 1, l->whole, n->kv_heads, n->head_dim), 1, l->keys - l->whole);
}

static ls_val lower_attention(ls_lower *l, const ls_node *n, ls_val q, ls_val k, ls_val v) {
    if (l->whole) {
        k = all_keys(l, n, k);
        v = all_keys(l, n, v);
    } else ls_lower_cache(l, n, &k, &v);
    return exact(n) ? ls_lower_exact_attention(l, n, q, k, v) : ls_lower_float_attention(l, n, q, k, v);
}

static ls_val lower_act(ls_lower *l, const ls_node *n, ls_val x) {
    return exact(n) ? ls_lower_exact_act(l, n->act, x) : ls_lower_float_act(l, n->act, x);
}

static ls_val lower_mul(ls_lower *l, const ls_node *n, ls_val a, ls_val b) {
    if (b.t.dim[1] != a.t.dim[1]) b = ls_m_broadcast(&l->m, b, a.t, (const int[]){0, 1});
    return finished(l, n, ls_m_binary(&l->m, "multiply", a, b));
}

static ls_val lower_clamp(ls_lower *l, const ls_node *n, ls_val x) {
    return ls_m_with_f32(&l->m, "minimum", ls_m_with_f32(&l->m, "maximum", x, -n->limit), n->limit);
}

/* Rows already selected stay as they are. */
static ls_val lower_select(ls_lower *l, const ls_node *n, ls_val x) {
    if (l->g->nodes[n->in[0]].selected || !l->out_row.kind) return x;
    return ls_m_gather_rows(&l->m, x, l->out_row);
}

/* Row t of the table for position t; all of it when the rows are a whole image. */
static ls_val lower_position(ls_lower *l, const ls_node *n, ls_val x) {
    const ls_param *w = n->w[0];
    ls_val table = ls_lower_weight(l, (ls_emit_weight){.name = w->name, .role = LS_W_ROWS, .type = LS_TYPE(LS_DT_F32, w->rows, w->cols),
                                                       .contract = n->contract, .param = w, .n_params = 1});
    ls_val rows = l->position.kind ? ls_m_gather_rows(&l->m, table, l->position) : ls_m_slice(&l->m, table, 0, 0, x.t.dim[0]);
    return finished(l, n, ls_m_binary(&l->m, "add", x, rows));
}

/* Squares of rows side by side: [R, C, pool^2]. */
static ls_val lower_pool(ls_lower *l, const ls_node *n, ls_val x) {
    ls_mlir *m = &l->m;
    int64_t side = n->grid / n->pool, count = (int64_t)n->pool * n->pool;
    x = LS_TRANSPOSE(m, LS_RESHAPE(m, x, side, n->pool, side, n->pool, n->cols), 0, 2, 4, 1, 3);
    x = LS_RESHAPE(m, x, side * side, n->cols, count);
    if (exact(n)) return ls_lower_exact_pool(l, n, x);
    return ls_m_with_f32(m, "divide", ls_m_reduce(m, "add", x, 2), (float)count);
}

static ls_val operand(const ls_lower *l, const ls_node *n, int i) {
    if (i >= n->n_in) return (ls_val){0};
    return l->operand[i].kind ? l->operand[i] : l->value[n->in[i]];
}

static ls_val lower(ls_lower *l, const ls_node *n) {
    ls_val x = operand(l, n, 0), y = operand(l, n, 1);
    switch (n->op) {
    case LS_OP_EMBED: return lower_embed(l, n);
    case LS_OP_LINEAR: return exact(n) ? ls_lower_exact_linear(l, n, x) : ls_lower_float_linear(l, n, x);
    case LS_OP_RMS_NORM:
    case LS_OP_LAYER_NORM: return exact(n) ? ls_lower_exact_norm(l, n, x) : ls_lower_float_norm(l, n, x);
    case LS_OP_ROPE: return exact(n) ? ls_lower_exact_rope(l, n, x) : ls_lower_float_rope(l, n, x);
    case LS_OP_ATTENTION: return lower_attention(l, n, x, y, operand(l, n, 2));
    case LS_OP_ACTIVATION: return lower_act(l, n, x);
    case LS_OP_GLU: return finished(l, n, ls_m_binary(&l->m, "multiply", lower_act(l, n, x), y));
    case LS_OP_MUL: return lower_mul(l, n, x, y);
    case LS_OP_ADD: return finished(l, n, ls_m_binary(&l->m, "add", x, y));
    case LS_OP_SCALE: return finished(l, n, ls_m_with_f32(&l->m, "multiply", x, n->scale));
    case LS_OP_CLAMP: return lower_clamp(l, n, x);
    case LS_OP_SOFTCAP: return exact(n) ? ls_lower_exact_softcap(l, x, n->limit) : ls_lower_float_softcap(l, x, n->limit);
    case LS_OP_SLICE: return ls_m_slice(&l->m, x, 1, n->begin, n->begin + n->cols);
    case LS_OP_MOE: return exact(n) ? ls_lower_exact_moe(l, n, x, y) : ls_lower_float_moe(l, n, x, y);
    case LS_OP_SELECT_ROWS: return lower_select(l, n, x);
    case LS_OP_INPUT: return finished(l, n, l->embeddings);
    case LS_OP_ADD_POSITION: return lower_position(l, n, x);
    case LS_OP_AVG_POOL: return lower_pool(l, n, x);
    default: ls_mlir_fail(&l->m, LS_UNIMPLEMENTED, "this operator has no StableHLO lowering yet"); return (ls_val){0};
    }
}

void ls_lower_node(ls_lower *l, int i) {
    const ls_node *n = &l->g->nodes[i];
    l->m.loc = n->name;
    l->value[i] = lower(l, n);
}
