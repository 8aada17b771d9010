/* What must hold before the reference executor runs a graph: it ends in logits, and every weight can be read. */
#include "reference/reference.h"

/* The rows of |p| lie in its tensor, which can be computed with. |seen|: a tensor already checked, or NULL. */
static ls_code check_param(const ls_param *p, const ls_tensor *seen, ls_contract contract, ls_error *e) {
    const ls_tensor *t = p->tensor;
    int64_t cols = t->rank ? t->shape[t->rank - 1] : 1, rows = cols > 0 ? p->rows * p->cols / cols : 0;
    if (!t->data || rows < 1 || rows * cols != p->rows * p->cols || p->row_begin < 0 ||
        p->row_begin > ls_tensor_rows(t) - rows)
        LS_FAIL(e, LS_INVALID_ARGUMENT,
                "tensor \"%s\" with %lld rows of %lld columns does not hold rows %lld to %lld of %lld columns", p->name,
                (long long)ls_tensor_rows(t), (long long)cols, (long long)p->row_begin,
                (long long)(p->row_begin + p->rows - 1), (long long)p->cols);
    if (t == seen) return LS_OK;
    return contract == LS_CONTRACT_FLOAT ? ls_tensor_check_finite(t, e) : ls_tensor_check_weight(t, e);
}

static ls_code check_experts(const ls_param *p, const ls_node *n, const ls_param *first, ls_error *e) {
    const ls_moe *m = n->moe;
    for (int i = 0; i < m->experts; i++) {
        if (p[i].rows != first->rows || p[i].cols != first->cols)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "expert matrix \"%s\" is [%lld, %lld], those before it [%lld, %lld]",
                    p[i].name, (long long)p[i].rows, (long long)p[i].cols, (long long)first->rows,
                    (long long)first->cols);
        LS_TRY(check_param(&p[i], i ? p[i - 1].tensor : NULL, n->contract, e));
    }
    return LS_OK;
}

static ls_code check_node(const ls_graph *g, const ls_node *n, ls_error *e) {
    for (int i = 0; i < 2; i++)
        if (n->w[i]) LS_TRY(check_param(n->w[i], NULL, n->contract, e));
    if (n->op == LS_OP_EMBED && n->w[0]->rows < g->vocab)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "table \"%s\" has %lld rows for a vocabulary of %lld", n->w[0]->name,
                (long long)n->w[0]->rows, (long long)g->vocab);
    if (!n->moe) return LS_OK;
    LS_TRY(check_experts(n->moe->gate, n, n->moe->gate, e));
    LS_TRY(check_experts(n->moe->up, n, n->moe->gate, e));
    return check_experts(n->moe->down, n, n->moe->down, e);
}

ls_code ls_reference_check_graph(const ls_graph *g, const ls_executor_options *o, ls_error *e) {
    const ls_node *last = g->n_nodes ? &g->nodes[g->n_nodes - 1] : NULL;
    if (!last || !last->selected || last->cols != g->vocab)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "the graph does not end in logits of selected rows over its vocabulary of %lld",
                (long long)g->vocab);
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ls_node *n = &g->nodes[i];
        if (o->f64 && n->contract != LS_CONTRACT_FLOAT)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "f64 evaluation needs the float contract; node \"%s\" has %s", n->name,
                    ls_contract_name(n->contract));
        ls_code rc = check_node(g, n, e);
        if (rc) return ls_error_wrap(e, rc, "node \"%s\"", n->name);
        if (o->progress) o->progress(o->progress_user, (double)(i + 1) / (double)g->n_nodes);
    }
    return LS_OK;
}
