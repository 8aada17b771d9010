/* The reference executor: walks the nodes in order, one output buffer per node, and hands each to the operators of its
 * contract. Slow and plain on purpose: this is the specification that faster executors are compared with. */
#include "reference/reference.h"

#include <string.h>

#include "graph/batch.h"
#include "reference/reference_cache.h"

typedef struct reference {
    ls_executor base;
    const ls_graph *graph;
    ls_executor_options options;
    size_t elem; /* bytes of one element: 4, or 8 when evaluating in f64 */
    ls_reference_cache cache;
    int *next;           /* [max_seqs] length of each slot after the pass under way */
    int32_t *position;   /* [max_rows] of the pass under way */
    void **values;       /* [n_nodes] outputs of the pass under way, [rows, cols] each, NULL once nobody reads them */
    size_t *last_reader; /* [n_nodes] the last node that reads it; n_nodes for the logits, itself when nobody does */
    size_t work, most_work; /* bytes of |values| now, and the most there ever were */
} reference;

/* ---- Before a pass: everything is checked, and memory for keys and values exists ------------------------------ */

/* Rows of one slot take the positions after its length, in order. */
static ls_code place_rows(reference *x, const ls_batch *b, ls_error *e) {
    for (int i = 0; i < b->n_rows; i++) x->next[b->slot[i]] = x->cache.length[b->slot[i]];
    for (int i = 0; i < b->n_rows; i++) {
        int position = x->next[b->slot[i]]++;
        if (position >= x->options.context)
            LS_FAIL(e, LS_OUT_OF_RANGE, "row %d: slot %d is full, its context has %d positions", i, (int)b->slot[i],
                    x->options.context);
        x->position[i] = position;
    }
    for (int i = 0; i < b->n_rows; i++)
        LS_TRY(ls_reference_cache_reserve(&x->cache, b->slot[i], x->next[b->slot[i]], e));
    return LS_OK;
}

/* ---- One node ------------------------------------------------------------------------------------------------- */

static int64_t rows_of(const ls_node *n, const ls_batch *b) { return n->selected ? b->n_out : b->n_rows; }

static size_t bytes_of(const reference *x, const ls_node *n, const ls_batch *b) {
    return (size_t)rows_of(n, b) * (size_t)n->cols * x->elem; /* below 2^45: 2^14 rows, 2^28 columns, 8 bytes */
}

static ls_code make_value(reference *x, size_t i, const ls_batch *b, ls_error *e) {
    size_t bytes = bytes_of(x, &x->graph->nodes[i], b);
    LS_TRY(ls_calloc(&x->values[i], bytes, 1, "node output", e));
    x->work += bytes;
    if (x->work > x->most_work) x->most_work = x->work;
    return LS_OK;
}

static void drop_value(reference *x, size_t i, const ls_batch *b) {
    if (!x->values[i]) return;
    x->work -= bytes_of(x, &x->graph->nodes[i], b);
    ls_free(x->values[i]);
    x->values[i] = NULL;
}

/* Gives back what |i| was the last to read. */
static void drop_inputs(reference *x, size_t i, const ls_batch *b) {
    const ls_node *n = &x->graph->nodes[i];
    for (int j = 0; j < n->n_in; j++)
        if (x->last_reader[n->in[j]] == i) drop_value(x, (size_t)n->in[j], b);
    if (x->last_reader[i] == i) drop_value(x, i, b);
}

/* The only place that knows the contract families. */
static ls_reference_run operators_of(const reference *x, const ls_node *n) {
    if (n->contract != LS_CONTRACT_FLOAT) return ls_reference_run_exact;
    return x->options.f64 ? ls_reference_run_f64 : ls_reference_run_f32;
}

/* Keys and values of the pass join their slots before the attention node reads the slots. */
static void append_to_cache(reference *x, const ls_node *n, const ls_reference_args *a) {
    for (int i = 0; i < a->batch->n_rows; i++) {
        const char *k = (const char *)a->in[1] + (size_t)(i * a->in_cols[1]) * x->elem;
        const char *v = (const char *)a->in[2] + (size_t)(i * a->in_cols[2]) * x->elem;
        ls_reference_cache_store(&x->cache, n->layer, a->batch->slot[i], x->position[i], k, v);
    }
}

/* Copies |n| elements as f32; an f64 evaluation is rounded here and nowhere before. */
static void to_f32(const reference *x, float *out, const void *values, size_t n) {
    if (x->elem == sizeof(float)) memcpy(out, values, n * sizeof *out);
    else
        for (size_t i = 0; i < n; i++) out[i] = (float)((const double *)values)[i];
}

/* The observer gets the f32 values themselves, so that later nodes read what it wrote; of f64 values it gets a copy. */
static ls_code observe(const reference *x, const ls_node *n, void *values, int64_t rows, ls_error *e) {
    if (!x->options.observer || (x->options.observe && !x->options.observe[n - x->graph->nodes])) return LS_OK;
    if (x->elem == sizeof(float)) {
        x->options.observer(x->options.observer_user, n, values, rows, n->cols);
        return LS_OK;
    }
    float *copy;
    size_t count = (size_t)(rows * n->cols);
    LS_TRY(ls_calloc(&copy, count, sizeof *copy, "observed values", e));
    to_f32(x, copy, values, count);
    x->options.observer(x->options.observer_user, n, copy, rows, n->cols);
    ls_free(copy);
    return LS_OK;
}

static ls_code run_node(reference *x, const ls_batch *b, size_t i, ls_error *e) {
    const ls_node *n = &x->graph->nodes[i];
    LS_TRY(make_value(x, i, b, e));
    ls_reference_args a =
        {.graph = x->graph, .node = n, .out = x->values[i], .rows = rows_of(n, b), .batch = b, .position = x->position, .length = x->next};
    for (int j = 0; j < n->n_in; j++) {
        a.in[j] = x->values[n->in[j]];
        a.in_cols[j] = x->graph->nodes[n->in[j]].cols;
    }
    if (n->op == LS_OP_ATTENTION) {
        append_to_cache(x, n, &a);
        a.k = x->cache.k + (size_t)n->layer * (size_t)x->cache.slots;
        a.v = x->cache.v + (size_t)n->layer * (size_t)x->cache.slots;
    }
    if (a.rows) LS_TRY(operators_of(x, n)(&a, e));
    LS_TRY(observe(x, n, x->values[i], a.rows, e));
    drop_inputs(x, i, b);
    return LS_OK;
}

/* ---- The executor's interface --------------------------------------------------------------------------------- */

static ls_code run_nodes(reference *x, const ls_batch *b, float *logits, ls_error *e) {
    size_t last = x->graph->n_nodes - 1;
    for (size_t i = 0; i <= last; i++) {
        ls_code rc = run_node(x, b, i, e);
        if (rc) return ls_error_wrap(e, rc, "node \"%s\"", x->graph->nodes[i].name);
    }
    if (b->n_out) to_f32(x, logits, x->values[last], (size_t)b->n_out * (size_t)x->graph->vocab);
    return LS_OK;
}

static ls_code forward(ls_executor *base, const ls_batch *b, float *logits, ls_error *e) {
    reference *x = (reference *)base;
    LS_TRY(ls_batch_check(b, x->graph, &x->options, e));
    LS_TRY(ls_batch_check_blocks(b, base, e));
    LS_TRY(place_rows(x, b, e));
    ls_code rc = run_nodes(x, b, logits, e);
    for (size_t i = 0; i < x->graph->n_nodes; i++) drop_value(x, i, b);
    if (rc) return rc;
    for (int i = 0; i < b->n_rows; i++) x->cache.length[b->slot[i]] = x->next[b->slot[i]];
    return LS_OK;
}

static bool is_slot(const reference *x, int slot) { return slot >= 0 && slot < x->options.max_seqs; }

static int length_of(const ls_executor *base, int slot) {
    const reference *x = (const reference *)base;
    return is_slot(x, slot) ? x->cache.length[slot] : 0;
}

static void truncate_slot(ls_executor *base, int slot, int length) {
    reference *x = (reference *)base;
    if (is_slot(x, slot)) ls_reference_cache_truncate(&x->cache, slot, length);
}

/* Weights are read from the checkpoint row by row: none are packed. */
static void memory_of(const ls_executor *base, size_t *weights, size_t *kv, size_t *work) {
    const reference *x = (const reference *)base;
    *weights = 0;
    *kv = ls_reference_cache_bytes(&x->cache);
    *work = x->most_work;
}

static void destroy(ls_executor *base) {
    reference *x = (reference *)base;
    ls_reference_cache_deinit(&x->cache);
    ls_free(x->next);
    ls_free(x->position);
    ls_free(x->values);
    ls_free(x->last_reader);
    ls_free(x);
}

/* ---- Creation ------------------------------------------------------------------------------------------------- */

static ls_code allocate(reference *x, ls_error *e) {
    const ls_graph *g = x->graph;
    LS_TRY(ls_reference_cache_init(&x->cache, g, x->options.max_seqs, x->options.context, x->elem, e));
    LS_TRY(ls_calloc(&x->next, (size_t)x->options.max_seqs, sizeof *x->next, "slots", e));
    LS_TRY(ls_calloc(&x->position, (size_t)x->options.max_rows, sizeof *x->position, "row positions", e));
    LS_TRY(ls_calloc(&x->values, g->n_nodes, sizeof *x->values, "node outputs", e));
    LS_TRY(ls_calloc(&x->last_reader, g->n_nodes, sizeof *x->last_reader, "node readers", e));
    for (size_t i = 0; i < g->n_nodes; i++) {
        x->last_reader[i] = i;
        for (int j = 0; j < g->nodes[i].n_in; j++) x->last_reader[g->nodes[i].in[j]] = i;
    }
    x->last_reader[g->n_nodes - 1] = g->n_nodes;
    return LS_OK;
}

ls_code ls_reference_create(ls_executor **out, const ls_graph *g, const ls_executor_options *o, ls_error *e) {
    LS_TRY(ls_executor_options_check(o, g, e));
    LS_TRY(ls_graph_need_tensors(g, "backend reference", e));
    LS_TRY(ls_reference_check_graph(g, o, e));
    reference *x;
    LS_TRY(ls_calloc(&x, 1, sizeof *x, "reference executor", e));
    x->base = (ls_executor){.name = "reference",
                            .forward = forward,
                            .length = length_of,
                            .truncate = truncate_slot,
                            .memory = memory_of,
                            .destroy = destroy};
    x->graph = g;
    x->options = *o;
    x->elem = o->f64 ? sizeof(double) : sizeof(float);
    ls_code rc = allocate(x, e);
    if (rc) {
        destroy(&x->base);
        return rc;
    }
    *out = &x->base;
    return LS_OK;
}
