/* Weights of the native executor: every matrix packed once, or taken as it is from a pack file; every vector made canonical once. */
#include <string.h>

#include "native/executor_internal.h"
#include "weights/packfile.h"

enum { LARGE_BYTES = 16 << 20 };

typedef struct loader {
    ls_native_weights *w;
    ls_checkpoint *c;
    ls_contract contract;
    ls_pool *pool;
    const ls_executor_options *o;
    double done, total; /* weights packed, and to pack */
    size_t used;        /* bytes of w->memory */
} loader;

/* A pack file has as tensors what the native executor reads as tensors. */
static ls_code need_data(const ls_tensor *t, ls_error *e) {
    if (!t->data && t->bytes) LS_FAIL(e, LS_DATA_LOSS, "the pack file has no data of tensor \"%s\": pack the model again", t->name);
    return LS_OK;
}

/* ---- Vectors ---------------------------------------------------------------------------------------------------- */

/* Elements [row_begin * cols, (row_begin + rows) * cols) of the flattened tensor. */
static ls_code read_vector(const ls_param *p, float **out, ls_error *e) {
    const ls_tensor *t = p->tensor;
    LS_TRY(need_data(t, e));
    LS_TRY(ls_tensor_check_weight(t, e));
    int64_t width = t->rank ? t->shape[t->rank - 1] : 1, n = p->rows * p->cols, begin = p->row_begin * p->cols;
    if (width < 1 || begin + n > ls_tensor_rows(t) * width)
        LS_FAIL(e, LS_OUT_OF_RANGE, "tensor \"%s\": elements [%lld, %lld) of %lld", t->name, (long long)begin, (long long)(begin + n),
                (long long)(ls_tensor_rows(t) * width));
    float *row = NULL;
    ls_code rc;
    LS_GOTO(ls_calloc(&row, (size_t)width, sizeof *row, t->name, e));
    LS_GOTO(ls_calloc(out, (size_t)n, sizeof **out, t->name, e));
    for (int64_t r = begin / width; r * width < begin + n; r++) {
        ls_tensor_row_values(t, r, row);
        for (int64_t k = 0; k < width; k++) {
            int64_t i = r * width + k - begin;
            if (i >= 0 && i < n) (*out)[i] = ls_canon(row[k]);
        }
    }
out:
    ls_free(row);
    return rc;
}

static ls_code load_norm(loader *l, const ls_node *n, ls_node_weights *w, ls_error *e) {
    if (n->w[0]) {
        LS_TRY(read_vector(n->w[0], &w->a, e));
        w->a_len = n->w[0]->rows * n->w[0]->cols;
        for (int64_t i = 0; n->weight_offset != 0 && i < w->a_len; i++) w->a[i] = ls_canon(n->weight_offset + w->a[i]);
        l->w->bytes += (size_t)w->a_len * sizeof(float);
    }
    if (n->w[1]) {
        LS_TRY(read_vector(n->w[1], &w->b, e));
        w->b_len = n->w[1]->rows * n->w[1]->cols;
    }
    return LS_OK;
}

/* ---- Matrices --------------------------------------------------------------------------------------------------- */

static void report(const loader *l) {
    if (l->o->progress) l->o->progress(l->o->progress_user, l->total > 0 ? l->done / l->total : 1.0);
}

typedef struct checking {
    const ls_tensor *t;
    atomic_bool faulty;
} checking;

static void check_share(void *ctx, int thread, int threads) {
    checking *c = ctx;
    ls_error e = {0};
    if (ls_tensor_check_weight_part(c->t, thread, threads, &e)) atomic_store(&c->faulty, true);
}

/* Threads share the work; the message is that of a check by one. Checking reads a whole tensor: a large one would stay in memory beside what is packed
 * from it. */
static ls_code check(loader *l, const ls_tensor *t, ls_error *e) {
    checking c = {.t = t};
    ls_pool_run(l->pool, check_share, &c);
    if (atomic_load(&c.faulty)) LS_TRY(ls_tensor_check_weight(t, e));
    if (t->bytes > LARGE_BYTES) ls_checkpoint_forget(l->c, t);
    return LS_OK;
}

/* A matrix of a pack file was checked when the file was made, and stays where it is mapped. Those that the file has as plain tensors (of a vision tower) are
 * packed as a checkpoint's are. */
static ls_code make_matrix(loader *l, const ls_param *p, bool checked, ls_packed *out, ls_error *e) {
    const ls_pack_matrix *m = ls_checkpoint_matrix(l->c, p->tensor, p->row_begin, p->rows);
    if (m) return ls_packed_map(out, p->tensor, p->rows, l->contract, m->data, m->bytes, e);
    LS_TRY(need_data(p->tensor, e));
    if (!checked) LS_TRY(check(l, p->tensor, e));
    uint8_t *place = l->w->memory ? l->w->memory + l->used : NULL;
    LS_TRY(ls_pack(out, p->tensor, p->row_begin, p->rows, l->contract, l->c, l->pool, place, e));
    ls_checkpoint_forget(l->c, p->tensor);
    l->used += ls_packed_bytes(out);
    return LS_OK;
}

/* Packs |p| as the next matrix. |checked|: its tensor has been checked already. */
static ls_code pack(loader *l, const ls_param *p, bool checked, const ls_packed **out, ls_error *e) {
    ls_native_weights *w = l->w;
    LS_TRY(make_matrix(l, p, checked, &w->packed[w->n_packed], e));
    w->bytes += ls_packed_bytes(&w->packed[w->n_packed]);
    w->source[w->n_packed] = p;
    *out = &w->packed[w->n_packed++];
    l->done += (double)p->rows * (double)p->cols;
    report(l);
    return LS_OK;
}

/* A matrix that an earlier product uses too is packed once. */
static ls_code load_linear(loader *l, const ls_node *n, ls_node_weights *w, ls_error *e) {
    const ls_param *p = n->w[0];
    bool checked = false;
    for (size_t i = 0; i < l->w->n_packed && !w->matrix; i++) {
        const ls_param *s = l->w->source[i];
        checked |= s->tensor == p->tensor;
        if (s->tensor == p->tensor && s->row_begin == p->row_begin && s->rows == p->rows) w->matrix = &l->w->packed[i];
    }
    if (!w->matrix) LS_TRY(pack(l, p, checked, &w->matrix, e));
    return n->w[1] ? read_vector(n->w[1], &w->b, e) : LS_OK;
}

static ls_code load_experts(loader *l, const ls_node *n, ls_node_weights *w, ls_error *e) {
    const ls_moe *m = n->moe;
    const ls_param *role[3] = {m->gate, m->up, m->down};
    LS_TRY(ls_calloc(&w->expert, 3 * (size_t)m->experts, sizeof *w->expert, "experts", e));
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < m->experts; i++) {
            bool checked = i && role[k][i].tensor == role[k][i - 1].tensor;
            LS_TRY(pack(l, &role[k][i], checked, &w->expert[k * m->experts + i], e));
        }
    return LS_OK;
}

static ls_code load_node(loader *l, const ls_node *n, ls_node_weights *w, ls_error *e) {
    switch (n->op) {
        case LS_OP_LINEAR: return load_linear(l, n, w, e);
        case LS_OP_RMS_NORM: case LS_OP_LAYER_NORM: case LS_OP_ADD_POSITION: return load_norm(l, n, w, e);
        case LS_OP_MOE: return load_experts(l, n, w, e);
        default: return LS_OK;
    }
}

/* Where the rows of an embedding table come from, once all matrices are there. */
static ls_code load_table(loader *l, const ls_node *n, ls_node_weights *w, ls_error *e) {
    const ls_param *p = n->w[0];
    bool packed = false;
    for (size_t i = 0; i < l->w->n_packed && !w->matrix; i++) {
        const ls_param *s = l->w->source[i];
        packed |= s->tensor == p->tensor;
        if (s->tensor == p->tensor && s->row_begin == p->row_begin && s->rows == p->rows && l->w->packed[i].form.quantised) w->matrix = &l->w->packed[i];
    }
    if (w->matrix) return LS_OK;
    LS_TRY(need_data(p->tensor, e));
    if (!packed && !ls_checkpoint_pack(l->c)) LS_TRY(ls_tensor_check_weight(p->tensor, e));
    return packed ? ls_native_table_init(&w->table, p->tensor, e) : LS_OK;
}

static ls_code load_tables(loader *l, const ls_graph *g, ls_error *e) {
    for (size_t i = 0; i < g->n_nodes; i++) {
        ls_code rc = g->nodes[i].op == LS_OP_EMBED ? load_table(l, &g->nodes[i], &l->w->node[i], e) : LS_OK;
        if (rc) return ls_error_wrap(e, rc, "node \"%s\"", g->nodes[i].name);
    }
    return LS_OK;
}

/* The matrices of one node: their number, their weights and their bytes when packed, added to what was counted before. A matrix that
 * two nodes share counts twice: memory that is never written costs nothing. */
static ls_code count_node(loader *l, const ls_node *n, size_t *count, size_t *bytes, ls_error *e) {
    const ls_param *role[3] = {n->op == LS_OP_LINEAR ? n->w[0] : NULL};
    size_t roles = n->op == LS_OP_LINEAR, each = 1;
    if (n->op == LS_OP_MOE) {
        roles = 3;
        each = (size_t)n->moe->experts;
        role[0] = n->moe->gate;
        role[1] = n->moe->up;
        role[2] = n->moe->down;
    }
    for (size_t k = 0; k < roles; k++)
        for (size_t i = 0; i < each; i++) {
            const ls_param *p = &role[k][i];
            size_t b = 0;
            LS_TRY(ls_pack_bytes(&b, p->tensor, p->rows, l->contract, e));
            if (!ls_size_add(*bytes, b, bytes)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "the size of all packed weights overflows");
            l->total += (double)p->rows * (double)p->cols;
            ++*count;
        }
    return LS_OK;
}

/* Room for everything: all matrices one after the other in one piece of memory, so that it can consist of huge pages. Those of a pack file have their
 * place. */
static ls_code make_room(loader *l, const ls_graph *g, ls_error *e) {
    size_t count = 0, bytes = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        ls_code rc = count_node(l, &g->nodes[i], &count, &bytes, e);
        if (rc) return ls_error_wrap(e, rc, "node \"%s\"", g->nodes[i].name);
    }
    if (!ls_checkpoint_pack(l->c)) LS_TRY(ls_alloc_aligned(&l->w->memory, bytes, 1, "weights", e));
    LS_TRY(ls_calloc(&l->w->packed, count, sizeof *l->w->packed, "weights", e));
    return ls_calloc(&l->w->source, count, sizeof *l->w->source, "weights", e);
}

ls_code ls_pack_check_layout(const struct ls_packfile *p, ls_error *e) {
    if (p->id.layout == LS_PACK_LAYOUT) return LS_OK;
    LS_FAIL(e, LS_FAILED_PRECONDITION, "\"%s\": header: weights in layout %u; this lockstep computes with layout %d: pack the model again", p->path,
            p->id.layout, LS_PACK_LAYOUT);
}

/* Packed matrices are of one layout and one contract. */
static ls_code check_pack(const ls_packfile *p, ls_contract contract, ls_error *e) {
    if (!p) return LS_OK;
    LS_TRY(ls_pack_check_layout(p, e));
    if (p->id.contract != (uint32_t)contract || p->id.contract_version != LS_CONTRACT_VERSION)
        LS_FAIL(e, LS_FAILED_PRECONDITION, "\"%s\": header: packed for contract %s version %u, not for %s version %d: pack the model for that contract",
                p->path,
                p->id.contract < LS_CONTRACT_COUNT ? ls_contract_name((ls_contract)p->id.contract) : "unknown", p->id.contract_version,
                ls_contract_name(contract), (int)LS_CONTRACT_VERSION);
    return LS_OK;
}

ls_code ls_native_weights_init(ls_native_weights *w, const ls_graph *g, ls_checkpoint *c, ls_pool *pool, const ls_executor_options *o, ls_error *e) {
    loader l = {.w = w, .c = c, .contract = g->contract, .pool = pool, .o = o};
    ls_code rc = LS_OK;
    *w = (ls_native_weights){.n_nodes = g->n_nodes};
    LS_TRY(check_pack(ls_checkpoint_pack(c), g->contract, e));
    LS_GOTO(ls_calloc(&w->node, g->n_nodes, sizeof *w->node, "weights", e));
    LS_GOTO(make_room(&l, g, e));
    report(&l);
    for (size_t i = 0; i < g->n_nodes; i++) {
        rc = load_node(&l, &g->nodes[i], &w->node[i], e);
        if (rc) rc = ls_error_wrap(e, rc, "node \"%s\"", g->nodes[i].name);
        if (rc) goto out;
    }
    LS_GOTO(load_tables(&l, g, e));
    l.done = l.total;
    report(&l);
    if (!ls_checkpoint_pack(c)) ls_checkpoint_forget_files(c); /* pages around small tensors and the ends of large ones */
    return LS_OK;
out:
    ls_native_weights_deinit(w);
    return rc;
}

void ls_native_weights_deinit(ls_native_weights *w) {
    for (size_t i = 0; w->node && i < w->n_nodes; i++) {
        ls_free(w->node[i].a);
        ls_free(w->node[i].b);
        ls_free(w->node[i].expert);
        ls_free(w->node[i].table);
    }
    for (size_t i = 0; i < w->n_packed; i++) ls_packed_deinit(&w->packed[i]);
    ls_free(w->node);
    ls_free(w->packed);
    ls_free(w->source);
    ls_free(w->memory);
    *w = (ls_native_weights){0};
}
