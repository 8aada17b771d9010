/* A pass of the XLA executor with every node a module of its own: values rest on the host between nodes, so that an observer
 * can replace them before they are read. */
#include <string.h>

#include "graph/batch.h"
#include "xla/executor_internal.h"

enum { MAX_NODE_INPUTS = LS_MAX_INPUTS + 4 };

/* Rows of one node in one piece: which rows of the pass's values they are. */
typedef struct node_rows {
    int *index, n;
} node_rows;

/* Batch rows of |p|, or for a node on selected rows, the places among the wanted ones; in the |map|-th map of |x|. */
static node_rows rows_of(ls_xla *x, const ls_batch *b, const ls_xla_piece *p, bool selected, int map) {
    node_rows r = {.index = ls_xla_map(x, map)};
    for (int i = 0; i < p->n; i++) {
        int row = x->order[p->begin + i];
        if (!selected) r.index[r.n++] = row;
        else
            for (int j = 0; j < b->n_out; j++)
                if (b->out_row[j] == row) r.index[r.n++] = j;
    }
    return r;
}

/* Rows of an input, padded with zeros to |padded|. */
static ls_code upload_rows(ls_xla *x, int node, const node_rows *r, int64_t padded, ls_buffer **out, ls_error *e) {
    int64_t cols = x->g->nodes[node].cols;
    ls_tensor_type t = {.dtype = LS_DT_F32, .rank = 2, .dim = {padded, cols}};
    float *v;
    LS_TRY(ls_calloc(&v, (size_t)(padded * cols), sizeof *v, "node input", e));
    for (int i = 0; i < r->n; i++) memcpy(v + i * cols, x->value[node] + r->index[i] * cols, (size_t)cols * sizeof *v);
    ls_code rc = x->engine->ops->upload(x->engine, out, &t, v, e);
    ls_free(v);
    return rc;
}

static ls_code read_rows(ls_xla *x, int node, const node_rows *r, int64_t padded, const ls_buffer *result, ls_error *e) {
    int64_t cols = x->g->nodes[node].cols;
    float *v;
    LS_TRY(ls_calloc(&v, (size_t)(padded * cols), sizeof *v, "node output", e));
    ls_code rc = x->engine->ops->read(x->engine, result, v, (size_t)(padded * cols) * sizeof *v, e);
    for (int i = 0; !rc && i < r->n; i++) memcpy(x->value[node] + r->index[i] * cols, v + i * cols, (size_t)cols * sizeof *v);
    ls_free(v);
    return rc;
}

/* The inputs after the node's own values, without caches (ls_emit_node_module). */
static ls_code extra_inputs(ls_xla *x, const ls_batch *b, const ls_xla_piece *p, const ls_node *n, int64_t out_rows, ls_buffer **in, size_t *n_in,
                            ls_error *e) {
    int32_t *v = ls_xla_row_ints(x, 2), slot = p->slot, place = p->place;
    if (n->op == LS_OP_EMBED)
        for (int i = 0; i < p->n; i++) v[i] = ls_embedding_of(b, x->order[p->begin + i]) ? 0 : b->token[x->order[p->begin + i]];
    else if (n->op == LS_OP_ROPE)
        for (int i = 0; i < p->n; i++) v[i] = p->place + i;
    else if (n->op == LS_OP_SELECT_ROWS) {
        int at = 0;
        for (int i = 0; i < p->n; i++)
            for (int j = 0; j < b->n_out; j++)
                if (b->out_row[j] == x->order[p->begin + i]) v[at++] = i;
        return ls_xla_upload_i32(x, &in[(*n_in)++], v, out_rows, e);
    }
    bool given = p->entry == LS_ENTRY_EXTEND_EMBEDDINGS;
    if (n->op == LS_OP_EMBED || n->op == LS_OP_ROPE) LS_TRY(ls_xla_upload_i32(x, &in[(*n_in)++], v, p->rows, e));
    if (n->op == LS_OP_EMBED && given) {
        *n_in += 2;
        return ls_xla_upload_embeddings(x, b, p, in + *n_in - 2, e);
    }
    if (n->op != LS_OP_ATTENTION) return LS_OK;
    LS_TRY(ls_xla_upload_i32(x, &in[(*n_in)++], &slot, 0, e));
    LS_TRY(ls_xla_upload_i32(x, &in[(*n_in)++], &place, 0, e));
    if (!given) return LS_OK;
    *n_in += 2;
    return ls_xla_upload_blocks(x, b, p, in + *n_in - 2, e);
}

static ls_code own_inputs(ls_xla *x, const ls_batch *b, const ls_xla_piece *p, const ls_node *n, int64_t out_rows, ls_buffer **in, size_t *n_in, ls_error *e) {
    for (int i = 0; i < n->n_in; i++) {
        bool again = false;
        for (int j = 0; j < i; j++) again |= n->in[j] == n->in[i];
        if (again) continue;
        bool selected = x->g->nodes[n->in[i]].selected;
        node_rows r = rows_of(x, b, p, selected, 2);
        LS_TRY(upload_rows(x, n->in[i], &r, selected ? out_rows : p->rows, &in[*n_in], e));
        (*n_in)++;
    }
    return extra_inputs(x, b, p, n, out_rows, in, n_in, e);
}

/* The layer's caches go in and their successors come out. */
static ls_code run_node(ls_xla *x, const ls_xla_module *m, const ls_node *n, ls_buffer **in, size_t n_in, ls_buffer *out[3], ls_error *e) {
    if (n->op != LS_OP_ATTENTION) return ls_xla_run(x, m, in, n_in, out, e);
    ls_buffer **k = &x->node_k[n->layer], **v = &x->node_v[n->layer], *all[MAX_NODE_INPUTS + 2];
    memcpy(all, in, n_in * sizeof *in);
    all[n_in] = *k;
    all[n_in + 1] = *v;
    LS_TRY(ls_xla_run(x, m, all, n_in + 2, out, e));
    x->engine->ops->free_buffer(x->engine, *k);
    x->engine->ops->free_buffer(x->engine, *v);
    *k = out[1];
    *v = out[2];
    out[1] = out[2] = NULL;
    return LS_OK;
}

static ls_code run_piece(ls_xla *x, const ls_batch *b, const ls_xla_piece *p, int node, ls_error *e) {
    const ls_node *n = &x->g->nodes[node];
    node_rows mine = rows_of(x, b, p, n->selected, 0), wanted = rows_of(x, b, p, true, 1);
    if (!mine.n) return LS_OK;
    int64_t out_rows = wanted.n <= 1 ? 1 : p->rows;
    ls_xla_module *m;
    ls_buffer *in[MAX_NODE_INPUTS] = {0}, *out[3] = {0};
    size_t n_in = 0;
    ls_entry entry = n->op == LS_OP_EMBED || n->op == LS_OP_ATTENTION ? p->entry : LS_ENTRY_EXTEND;
    LS_TRY(ls_xla_get(x, &m, entry, node, p->rows, out_rows, e));
    ls_code rc = own_inputs(x, b, p, n, out_rows, in, &n_in, e);
    if (!rc) rc = run_node(x, m, n, in, n_in, out, e);
    if (!rc) rc = read_rows(x, node, &mine, n->selected ? out_rows : p->rows, out[0], e);
    ls_xla_free_buffers(x, in, MAX_NODE_INPUTS);
    ls_xla_free_buffers(x, out, 3);
    return rc;
}

ls_code ls_xla_forward_nodes(ls_xla *x, const ls_batch *b, float *logits, ls_error *e) {
    size_t last = x->g->n_nodes - 1;
    for (size_t i = 0; i <= last; i++) {
        const ls_node *n = &x->g->nodes[i];
        for (int p = 0; p < x->n_pieces; p++) {
            ls_code rc = run_piece(x, b, &x->piece[p], (int)i, e);
            if (rc) return ls_error_wrap(e, rc, "node \"%s\"", n->name);
        }
        if (x->observed[i]) x->o.observer(x->o.observer_user, n, x->value[i], n->selected ? b->n_out : b->n_rows, n->cols);
    }
    if (b->n_out) memcpy(logits, x->value[last], (size_t)b->n_out * (size_t)x->g->vocab * sizeof(float));
    return LS_OK;
}
