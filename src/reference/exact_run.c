/* The exact contracts' half of the reference executor: each node's rows through the operators of exact_ops.h. */
#include <string.h>

#include "contract/exact.h"
#include "reference/exact_linear.h"
#include "reference/exact_ops.h"
#include "reference/reference.h"

/* A vector parameter as f32 (NULL stays NULL); free with ls_free. */
static ls_code load_vector(const ls_param *p, float **out, ls_error *e) {
    *out = NULL;
    if (!p) return LS_OK;
    LS_TRY(ls_calloc(out, (size_t)(p->rows * p->cols), sizeof **out, p->name, e));
    int64_t cols = p->tensor->rank ? p->tensor->shape[p->tensor->rank - 1] : 1;
    for (int64_t r = 0; r < p->rows * p->cols / cols; r++) ls_tensor_row_values(p->tensor, p->row_begin + r, *out + r * cols);
    return LS_OK;
}

static ls_code run_embed(const ls_reference_args *a, ls_error *e) {
    const ls_param *w = a->node->w[0];
    (void)e;
    for (int64_t i = 0; i < a->rows; i++) {
        float *y = (float *)a->out + i * w->cols;
        const float *given = ls_embedding_of(a->batch, i);
        if (given) {
            for (int64_t k = 0; k < w->cols; k++) y[k] = ls_canon(given[k]);
            continue;
        }
        ls_tensor_row_values(w->tensor, w->row_begin + a->batch->token[i], y);
        for (int64_t k = 0; k < w->cols; k++) {
            y[k] = ls_canon(y[k]);
            if (a->node->scale != 1) y[k] = ls_canon(y[k] * a->node->scale);
        }
    }
    return LS_OK;
}

/* Rows from outside are made canonical here. */
static ls_code run_input(const ls_reference_args *a, ls_error *e) {
    (void)e;
    int64_t cols = a->node->cols;
    for (int64_t i = 0; i < a->rows * cols; i++) ((float *)a->out)[i] = ls_canon(a->batch->embedding[i / cols][i % cols]);
    return LS_OK;
}

static ls_code run_add_position(const ls_reference_args *a, ls_error *e) {
    const ls_param *w = a->node->w[0];
    float *row;
    LS_TRY(ls_calloc(&row, (size_t)w->cols, sizeof *row, w->name, e));
    for (int64_t i = 0; i < a->rows; i++) {
        const float *x = (const float *)a->in[0] + i * w->cols;
        ls_tensor_row_values(w->tensor, w->row_begin + a->position[i], row);
        for (int64_t k = 0; k < w->cols; k++) ((float *)a->out)[i * w->cols + k] = ls_canon(x[k] + ls_canon(row[k]));
    }
    ls_free(row);
    return LS_OK;
}

static ls_code run_avg_pool(const ls_reference_args *a, ls_error *e) {
    (void)e;
    const ls_node *n = a->node;
    for (int64_t i = 0; i < a->rows; i++)
        ls_exact_avg_pool((float *)a->out + i * n->cols, (const float *)a->in[0] + ls_pool_row(n, i) * n->cols, n->cols, n->grid, n->pool);
    return LS_OK;
}

static ls_code run_linear(const ls_reference_args *a, ls_error *e) {
    const ls_param *w = a->node->w[0];
    float *bias;
    LS_TRY(load_vector(a->node->w[1], &bias, e));
    ls_code rc = ls_exact_linear(a->out, a->in[0], a->rows, w->tensor, w->row_begin, w->rows, bias, a->node->contract, e);
    ls_free(bias);
    return rc;
}

static ls_code run_norm(const ls_reference_args *a, ls_error *e) {
    const ls_node *n = a->node;
    float *w = NULL, *b = NULL;
    ls_code rc = load_vector(n->w[0], &w, e);
    if (!rc) rc = load_vector(n->w[1], &b, e);
    int64_t w_len = n->w[0] ? n->w[0]->rows * n->w[0]->cols : 0, b_len = n->w[1] ? n->w[1]->rows * n->w[1]->cols : 0;
    for (int64_t i = 0; !rc && i < a->rows; i++) {
        float *y = (float *)a->out + i * n->cols;
        const float *x = (const float *)a->in[0] + i * n->cols;
        if (n->op == LS_OP_RMS_NORM) ls_exact_rms_norm(y, x, n->cols, n->group, w, w_len, n->weight_offset, n->eps);
        else ls_exact_layer_norm(y, x, n->cols, n->group, w, w_len, b, b_len, n->eps);
    }
    ls_free(w);
    ls_free(b);
    return rc;
}

static ls_code run_rope(const ls_reference_args *a, ls_error *e) {
    const ls_node *n = a->node;
    const ls_rope *r = &a->graph->rope[n->rope];
    int32_t *table;
    LS_TRY(ls_calloc(&table, (size_t)r->rot_dim, sizeof *table, n->name, e));
    memcpy(a->out, a->in[0], (size_t)(a->rows * n->cols) * sizeof(float));
    for (int64_t i = 0; i < a->rows; i++) {
        ls_exact_rope_table(r, a->position[i], table, table + r->rot_dim / 2);
        ls_exact_rope((float *)a->out + i * n->cols, n->heads, n->head_dim, r, table, table + r->rot_dim / 2);
    }
    ls_free(table);
    return LS_OK;
}

static ls_code run_attention(const ls_reference_args *a, ls_error *e) {
    const ls_node *n = a->node;
    int64_t stride = (int64_t)n->kv_heads * n->head_dim;
    for (int64_t i = 0; i < a->rows; i++) {
        int slot = a->batch->slot[i];
        ls_span sees = ls_row_sees(n, a->batch, i, a->position[i], a->length[slot]);
        LS_TRY(ls_exact_attention((float *)a->out + i * n->cols, (const float *)a->in[0] + i * n->cols, a->k[slot], a->v[slot], stride, sees, n, e));
    }
    return LS_OK;
}

static float pointwise(const ls_node *n, float x, float y) {
    switch (n->op) {
        case LS_OP_ACTIVATION: return ls_exact_act(x, n->act);
        case LS_OP_GLU: return ls_canon(ls_exact_act(x, n->act) * y);
        case LS_OP_MUL: return ls_canon(x * y);
        case LS_OP_ADD: return ls_canon(x + y);
        case LS_OP_SCALE: return ls_canon(x * n->scale);
        case LS_OP_CLAMP: return x < -n->limit ? -n->limit : x > n->limit ? n->limit : x;
        default: return ls_exact_softcap(x, n->limit);
    }
}

static ls_code run_pointwise(const ls_reference_args *a, ls_error *e) {
    (void)e;
    const float *x = a->in[0], *y = a->in[1];
    float *out = a->out;
    int64_t cols = a->node->cols;
    for (int64_t i = 0; i < a->rows * cols; i++) {
        int64_t j = a->in_cols[1] == cols ? i : i / cols;
        out[i] = pointwise(a->node, x[i], y ? y[j] : 0.0f);
    }
    return LS_OK;
}

/* One expert on one row: score * down(act(gate(x)) * up(x)). |mid| holds 2 I values. */
static ls_code run_expert(const ls_node *n, int expert, float score, const float *x, float *mid, float *y, ls_error *e) {
    const ls_param *gate = &n->moe->gate[expert], *up = &n->moe->up[expert], *down = &n->moe->down[expert];
    float *second = mid + gate->rows;
    LS_TRY(ls_exact_linear(mid, x, 1, gate->tensor, gate->row_begin, gate->rows, NULL, n->contract, e));
    LS_TRY(ls_exact_linear(second, x, 1, up->tensor, up->row_begin, up->rows, NULL, n->contract, e));
    for (int64_t k = 0; k < gate->rows; k++) mid[k] = ls_canon(ls_exact_act(mid[k], n->act) * second[k]);
    LS_TRY(ls_exact_linear(y, mid, 1, down->tensor, down->row_begin, down->rows, NULL, n->contract, e));
    for (int64_t k = 0; k < n->cols; k++) y[k] = ls_canon(score * y[k]);
    return LS_OK;
}

static ls_code run_moe(const ls_reference_args *a, ls_error *e) {
    const ls_node *n = a->node;
    const ls_moe *m = n->moe;
    float *mid = NULL, *part = NULL, *score = NULL;
    int *kept = NULL;
    ls_code rc = ls_calloc(&mid, 2 * (size_t)m->gate->rows, sizeof *mid, n->name, e);
    if (!rc) rc = ls_calloc(&part, (size_t)n->cols, sizeof *part, n->name, e);
    if (!rc) rc = ls_calloc(&score, (size_t)m->experts, sizeof *score, n->name, e);
    if (!rc) rc = ls_calloc(&kept, (size_t)m->experts, sizeof *kept, n->name, e);
    for (int64_t i = 0; !rc && i < a->rows; i++) {
        float *y = (float *)a->out + i * n->cols;
        const float *x = (const float *)a->in[0] + i * n->cols;
        ls_exact_route((const float *)a->in[1] + i * m->experts, m, kept, score);
        for (int j = 0; !rc && j < m->top_k; j++) {
            rc = run_expert(n, kept[j], score[j], x, mid, j ? part : y, e);
            for (int64_t k = 0; !rc && j && k < n->cols; k++) y[k] = ls_canon(y[k] + part[k]);
        }
    }
    ls_free(mid);
    ls_free(part);
    ls_free(score);
    ls_free(kept);
    return rc;
}

static ls_code run_copy(const ls_reference_args *a, ls_error *e) {
    (void)e;
    const ls_node *n = a->node;
    for (int64_t i = 0; i < a->rows; i++) {
        int64_t row = n->op == LS_OP_SELECT_ROWS && !a->graph->nodes[n->in[0]].selected ? a->batch->out_row[i] : i;
        memcpy((float *)a->out + i * n->cols, (const float *)a->in[0] + row * a->in_cols[0] + n->begin, (size_t)n->cols * sizeof(float));
    }
    return LS_OK;
}

ls_code ls_reference_run_exact(const ls_reference_args *a, ls_error *e) {
    switch (a->node->op) {
        case LS_OP_EMBED: return run_embed(a, e);
        case LS_OP_LINEAR: return run_linear(a, e);
        case LS_OP_RMS_NORM:
        case LS_OP_LAYER_NORM: return run_norm(a, e);
        case LS_OP_ROPE: return run_rope(a, e);
        case LS_OP_ATTENTION: return run_attention(a, e);
        case LS_OP_MOE: return run_moe(a, e);
        case LS_OP_SLICE:
        case LS_OP_SELECT_ROWS: return run_copy(a, e);
        case LS_OP_INPUT: return run_input(a, e);
        case LS_OP_ADD_POSITION: return run_add_position(a, e);
        case LS_OP_AVG_POOL: return run_avg_pool(a, e);
        default: return run_pointwise(a, e);
    }
}
