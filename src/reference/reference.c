/* The reference executor: walks the nodes in order, one output buffer per node, and hands each to the operators of its
 * contract. Slow and plain on purpose: this is the specification that faster executors are compared with. */
#include "reference/reference.h"

#include <string.h>

typedef struct reference {
    ls_executor base;
    const ls_graph *graph;
    ls_executor_options options;
    ls_reference_run run;
    size_t elem;      /* bytes of one element: 4, or 8 when evaluating in f64 */
    int *length;      /* [max_seqs] */
    int32_t *position;/* [max_rows] of the pass under way */
    void **values;    /* [n_nodes] outputs, each [max_rows, cols] */
    void **k, **v;    /* [n_caches * max_seqs] cache rows, allocated on a slot's first use */
    int64_t *kv_cols; /* [n_caches] */
} reference;

static ls_code check_rows(const reference *x, const ls_batch *b, ls_error *e) {
    if (b->n_rows < 1 || b->n_rows > x->options.max_rows)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "forward pass of %d rows; allowed are 1 to %d", b->n_rows, x->options.max_rows);
    if (b->n_out < 0 || b->n_out > b->n_rows)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "%d rows of logits wanted out of %d", b->n_out, b->n_rows);
    for (int i = 0; i < b->n_out; i++)
        if (b->out_row[i] < 0 || b->out_row[i] >= b->n_rows || (i && b->out_row[i] <= b->out_row[i - 1]))
            LS_FAIL(e, LS_INVALID_ARGUMENT, "logits row %d of the pass is out of order or past %d rows", b->out_row[i], b->n_rows);
    for (int i = 0; i < b->n_rows; i++) {
        if (b->token[i] < 0 || b->token[i] >= x->graph->vocab)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "token id %d is outside the vocabulary of %lld", b->token[i], (long long)x->graph->vocab);
        if (b->slot[i] < 0 || b->slot[i] >= x->options.max_seqs)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "slot %d does not exist; there are %d", b->slot[i], x->options.max_seqs);
    }
    return LS_OK;
}

/* Positions continue each slot's length; refuses a row past the context. */
static ls_code place_rows(reference *x, const ls_batch *b, ls_error *e) {
    for (int i = 0; i < b->n_rows; i++) {
        int p = x->length[b->slot[i]];
        for (int j = 0; j < i; j++) p += b->slot[j] == b->slot[i];
        if (p >= x->options.context)
            LS_FAIL(e, LS_OUT_OF_RANGE, "slot %d is full: position %d of a context of %d", b->slot[i], p, x->options.context);
        x->position[i] = p;
    }
    return LS_OK;
}

static ls_code ensure_cache(reference *x, const ls_batch *b, ls_error *e) {
    for (int i = 0; i < b->n_rows; i++)
        for (int l = 0; l < x->graph->n_caches; l++) {
            size_t c = (size_t)l * (size_t)x->options.max_seqs + (size_t)b->slot[i], cells;
            if (x->k[c] && x->v[c]) continue;
            if (!ls_size_mul((size_t)x->options.context, (size_t)x->kv_cols[l], &cells)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "cache size overflows");
            if (!x->k[c]) LS_TRY(ls_calloc(&x->k[c], cells, x->elem, "key cache", e));
            if (!x->v[c]) LS_TRY(ls_calloc(&x->v[c], cells, x->elem, "value cache", e));
        }
    return LS_OK;
}

/* Appends the pass's keys and values to the caches of an attention node. */
static void store_rows(reference *x, const ls_batch *b, const ls_node *n) {
    size_t bytes = (size_t)x->kv_cols[n->layer] * x->elem;
    for (int i = 0; i < b->n_rows; i++) {
        size_t c = (size_t)n->layer * (size_t)x->options.max_seqs + (size_t)b->slot[i], at = (size_t)x->position[i] * bytes;
        memcpy((char *)x->k[c] + at, (char *)x->values[n->in[1]] + (size_t)i * bytes, bytes);
        memcpy((char *)x->v[c] + at, (char *)x->values[n->in[2]] + (size_t)i * bytes, bytes);
    }
}

static void observe(const reference *x, const ls_node *n, const void *values, int64_t rows) {
    if (x->elem == sizeof(float)) x->options.observer(x->options.observer_user, n, values, rows, n->cols);
}

static ls_code run_node(reference *x, const ls_batch *b, size_t i, ls_error *e) {
    const ls_node *n = &x->graph->nodes[i];
    ls_reference_args a = {.graph = x->graph, .node = n, .out = x->values[i], .rows = n->selected ? b->n_out : b->n_rows, .batch = b,
                           .position = x->position};
    for (int j = 0; j < n->n_in; j++) {
        a.in[j] = x->values[n->in[j]];
        a.in_cols[j] = x->graph->nodes[n->in[j]].cols;
    }
    if (n->op == LS_OP_ATTENTION) {
        store_rows(x, b, n);
        a.k = x->k + (size_t)n->layer * (size_t)x->options.max_seqs;
        a.v = x->v + (size_t)n->layer * (size_t)x->options.max_seqs;
    }
    ls_code rc = x->run(&a, e);
    if (rc) return ls_error_wrap(e, rc, "node \"%s\"", n->name);
    if (x->options.observer) observe(x, n, x->values[i], a.rows);
    return LS_OK;
}

static void write_logits(const reference *x, float *logits, int rows) {
    const void *last = x->values[x->graph->n_nodes - 1];
    size_t n = (size_t)rows * (size_t)x->graph->vocab;
    for (size_t i = 0; i < n; i++) logits[i] = x->elem == sizeof(double) ? (float)((const double *)last)[i] : ((const float *)last)[i];
}

static ls_code forward(ls_executor *base, const ls_batch *b, float *logits, ls_error *e) {
    reference *x = (reference *)base;
    LS_TRY(check_rows(x, b, e));
    LS_TRY(place_rows(x, b, e));
    LS_TRY(ensure_cache(x, b, e));
    for (size_t i = 0; i < x->graph->n_nodes; i++) LS_TRY(run_node(x, b, i, e));
    write_logits(x, logits, b->n_out);
    for (int i = 0; i < b->n_rows; i++) x->length[b->slot[i]]++;
    return LS_OK;
}

static int length_of(const ls_executor *base, int slot) { return ((const reference *)base)->length[slot]; }

static void truncate_slot(ls_executor *base, int slot, int length) {
    reference *x = (reference *)base;
    if (length < x->length[slot]) x->length[slot] = length < 0 ? 0 : length;
}

static void memory_of(const ls_executor *base, size_t *weights, size_t *kv, size_t *work) {
    const reference *x = (const reference *)base;
    *weights = *kv = *work = 0;
    for (int l = 0; l < x->graph->n_caches; l++)
        for (int s = 0; s < x->options.max_seqs; s++)
            if (x->k[l * x->options.max_seqs + s]) *kv += 2 * (size_t)x->options.context * (size_t)x->kv_cols[l] * x->elem;
    for (size_t i = 0; i < x->graph->n_nodes; i++) *work += (size_t)x->options.max_rows * (size_t)x->graph->nodes[i].cols * x->elem;
}

static void destroy(ls_executor *base) {
    reference *x = (reference *)base;
    size_t caches = x->graph ? (size_t)x->graph->n_caches * (size_t)x->options.max_seqs : 0;
    for (size_t i = 0; x->values && i < x->graph->n_nodes; i++) ls_free(x->values[i]);
    for (size_t c = 0; c < caches; c++) {
        if (x->k) ls_free(x->k[c]);
        if (x->v) ls_free(x->v[c]);
    }
    ls_free(x->values);
    ls_free(x->k);
    ls_free(x->v);
    ls_free(x->kv_cols);
    ls_free(x->position);
    ls_free(x->length);
    ls_free(x);
}

static ls_code allocate(reference *x, ls_error *e) {
    const ls_graph *g = x->graph;
    size_t caches = (size_t)g->n_caches * (size_t)x->options.max_seqs;
    LS_TRY(ls_calloc(&x->length, (size_t)x->options.max_seqs, sizeof *x->length, "slots", e));
    LS_TRY(ls_calloc(&x->position, (size_t)x->options.max_rows, sizeof *x->position, "rows", e));
    LS_TRY(ls_calloc(&x->values, g->n_nodes, sizeof *x->values, "node values", e));
    LS_TRY(ls_calloc(&x->k, caches, sizeof *x->k, "key caches", e));
    LS_TRY(ls_calloc(&x->v, caches, sizeof *x->v, "value caches", e));
    LS_TRY(ls_calloc(&x->kv_cols, (size_t)g->n_caches, sizeof *x->kv_cols, "caches", e));
    for (size_t i = 0; i < g->n_nodes; i++) {
        size_t cells;
        const ls_node *n = &g->nodes[i];
        if (!ls_size_mul((size_t)x->options.max_rows, (size_t)n->cols, &cells)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "node \"%s\": size overflows", n->name);
        LS_TRY(ls_calloc(&x->values[i], cells, x->elem, n->name, e));
        if (n->op == LS_OP_ATTENTION) x->kv_cols[n->layer] = (int64_t)n->kv_heads * n->head_dim;
    }
    return LS_OK;
}

ls_code ls_reference_create(ls_executor **out, const ls_graph *g, const ls_executor_options *o, ls_error *e) {
    if (!g->n_nodes || g->nodes[g->n_nodes - 1].cols != g->vocab)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "the graph does not end in logits over its vocabulary of %lld", (long long)g->vocab);
    if (o->max_seqs < 1 || o->context < 1 || o->max_rows < 1)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "executor of %d slots, %d positions, %d rows; each must be at least 1", o->max_seqs, o->context, o->max_rows);
    if (o->f64 && g->contract != LS_CONTRACT_FLOAT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "f64 evaluation needs the float contract; the graph has %s", ls_contract_name(g->contract));
    reference *x;
    LS_TRY(ls_calloc(&x, 1, sizeof *x, "reference executor", e));
    x->base = (ls_executor){.name = "reference", .forward = forward, .length = length_of, .truncate = truncate_slot, .memory = memory_of, .destroy = destroy};
    x->graph = g;
    x->options = *o;
    x->elem = o->f64 ? sizeof(double) : sizeof(float);
    x->run = g->contract != LS_CONTRACT_FLOAT ? ls_reference_run_exact : o->f64 ? ls_reference_run_f64 : ls_reference_run_f32;
    ls_code rc = allocate(x, e);
    if (rc) {
        destroy(&x->base);
        return rc;
    }
    *out = &x->base;
    return LS_OK;
}
