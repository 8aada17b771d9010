/* A pass of the XLA executor over images: the graph of a vision tower, which pools.
 *
 * A small tower is one module an image. Under an exact contract the integers of a large one do not fit into memory at once: every node
 * runs as a module of its own on pieces of the image's rows, of which all layers share the programs, and values rest on the host in
 * between. So does a tower with an observer that may replace them. */
#include <string.h>

#include "graph/batch.h"
#include "xla/executor_internal.h"

enum { FUSED_ROWS = 1024, PIECE_ROWS = 256 };

/* The pass under way, and one image of it. */
typedef struct images {
    ls_xla *x;
    const ls_batch *b;
    float **value; /* [n_nodes] f32 [rows of all images, cols]; NULL when nobody reads them any more */
    int n;
} images;

static int64_t rows_of(const images *p, const ls_node *n) { return n->selected ? p->x->g->image_out : p->x->g->image_rows; }

/* f32 [rows of one image, cols] of node |node|. */
static float *value_of(const images *p, int node, int image) {
    const ls_node *n = &p->x->g->nodes[node];
    return p->value[node] + (size_t)image * (size_t)(rows_of(p, n) * n->cols);
}

/* |n| rows from |v| on, padded with zeros to |padded|. */
static ls_code upload(ls_xla *x, ls_buffer **out, const float *v, int64_t n, int64_t padded, int64_t cols, ls_error *e) {
    ls_tensor_type t = {.dtype = LS_DT_F32, .rank = 2, .dim = {padded, cols}};
    if (n == padded) return x->engine->ops->upload(x->engine, out, &t, v, e);
    float *copy;
    LS_TRY(ls_calloc(&copy, (size_t)(padded * cols), sizeof *copy, "rows of an image", e));
    memcpy(copy, v, (size_t)(n * cols) * sizeof *copy);
    ls_code rc = x->engine->ops->upload(x->engine, out, &t, copy, e);
    ls_free(copy);
    return rc;
}

static ls_code read_rows(ls_xla *x, const ls_buffer *result, float *to, int64_t n, int64_t padded, int64_t cols, ls_error *e) {
    size_t bytes = (size_t)(padded * cols) * sizeof *to;
    if (n == padded) return x->engine->ops->read(x->engine, result, to, bytes, e);
    float *all;
    LS_TRY(ls_calloc(&all, (size_t)(padded * cols), sizeof *all, "rows of an image", e));
    ls_code rc = x->engine->ops->read(x->engine, result, all, bytes, e);
    if (!rc) memcpy(to, all, (size_t)(n * cols) * sizeof *to);
    ls_free(all);
    return rc;
}

/* The patches of |image| as one array; free with ls_free. */
static ls_code gather_patches(const images *p, int image, float **out, ls_error *e) {
    size_t rows = (size_t)p->x->g->image_rows, cols = (size_t)p->x->g->input_cols;
    LS_TRY(ls_calloc(out, rows * cols, sizeof **out, "patches", e));
    for (size_t i = 0; i < rows; i++) memcpy(*out + i * cols, ls_embedding_of(p->b, (int64_t)((size_t)image * rows + i)), cols * sizeof **out);
    return LS_OK;
}

/* ---- One module an image ------------------------------------------------------------------------------------------------- */

/* Captured nodes are the results after the first. */
static ls_code keep_captured(const images *p, int image, ls_buffer **result, ls_error *e) {
    const ls_graph *g = p->x->g;
    for (size_t i = 0, r = 1; i < g->n_nodes; i++) {
        if (!p->x->observed || !p->x->observed[i]) continue;
        int64_t rows = rows_of(p, &g->nodes[i]);
        LS_TRY(read_rows(p->x, result[r++], value_of(p, (int)i, image), rows, rows, g->nodes[i].cols, e));
    }
    return LS_OK;
}

static ls_code run_whole(const images *p, int image, float *out, ls_error *e) {
    ls_xla *x = p->x;
    const ls_graph *g = x->g;
    ls_xla_module *m;
    ls_buffer *in = NULL, **result = NULL;
    float *patches = NULL;
    ls_code rc;
    LS_GOTO(ls_xla_get(x, &m, LS_ENTRY_VISION, LS_XLA_WHOLE, g->image_rows, g->image_out, e));
    LS_GOTO(ls_calloc(&result, m->n_results, sizeof(ls_buffer *), "results", e));
    LS_GOTO(gather_patches(p, image, &patches, e));
    LS_GOTO(upload(x, &in, patches, g->image_rows, g->image_rows, g->input_cols, e));
    LS_GOTO(ls_xla_run(x, m, &in, 1, result, e));
    LS_GOTO(read_rows(x, result[0], out, g->image_out, g->image_out, g->vocab, e));
    rc = keep_captured(p, image, result, e);
out:
    x->engine->ops->free_buffer(x->engine, in);
    if (result) ls_xla_free_buffers(x, result, m->n_results);
    ls_free(result);
    ls_free(patches);
    return rc;
}

static ls_code run_images(const images *p, float *out, ls_error *e) {
    const ls_graph *g = p->x->g;
    for (int i = 0; i < p->n; i++) LS_TRY(run_whole(p, i, out + (size_t)i * (size_t)(g->image_out * g->vocab), e));
    for (size_t i = 0; p->x->observed && i < g->n_nodes; i++)
        if (p->x->observed[i]) p->x->o.observer(p->x->o.observer_user, &g->nodes[i], p->value[i], p->n * rows_of(p, &g->nodes[i]), g->nodes[i].cols);
    return LS_OK;
}

/* ---- A module a node ------------------------------------------------------------------------------------------------------- */

/* Operands that a node reads whole, uploaded once an image. */
static bool reads_all(const ls_node *n, int operand) { return n->op == LS_OP_AVG_POOL || (n->op == LS_OP_ATTENTION && operand); }

static ls_code upload_positions(ls_xla *x, ls_buffer **out, int64_t begin, int64_t rows, ls_error *e) {
    int32_t v[PIECE_ROWS];
    for (int64_t i = 0; i < rows; i++) v[i] = (int32_t)(begin + i < x->g->image_rows ? begin + i : 0);
    return ls_xla_upload_i32(x, out, v, rows, e);
}

/* Rows [begin, begin + n) of node |node|, in a module of |rows|. in: the operands that are whole. */
static ls_code run_piece(const images *p, int image, int node, const float *patches, int64_t begin, int64_t n, int64_t rows, ls_buffer *const *whole,
                         ls_error *e) {
    ls_xla *x = p->x;
    const ls_node *o = &x->g->nodes[node];
    bool pool = o->op == LS_OP_AVG_POOL;
    ls_xla_module *m;
    ls_buffer *in[LS_MAX_INPUTS + 1] = {0}, *own[LS_MAX_INPUTS + 1] = {0}, *result = NULL;
    size_t n_in = 0;
    ls_code rc;
    LS_GOTO(ls_xla_get(x, &m, LS_ENTRY_VISION, node, pool ? x->g->image_rows : rows, o->selected ? rows : 1, e));
    if (o->op == LS_OP_INPUT) LS_GOTO(upload(x, &own[n_in++], patches + begin * o->cols, n, rows, o->cols, e));
    for (int i = 0; i < o->n_in; i++, n_in++) {
        int64_t cols = x->g->nodes[o->in[i]].cols;
        if (!whole[i]) LS_GOTO(upload(x, &own[n_in], value_of(p, o->in[i], image) + begin * cols, n, rows, cols, e));
        in[n_in] = whole[i];
    }
    if (o->op == LS_OP_ADD_POSITION || (o->op == LS_OP_ATTENTION && !o->bidirectional)) LS_GOTO(upload_positions(x, &own[n_in++], begin, rows, e));
    for (size_t i = 0; i < n_in; i++)
        if (own[i]) in[i] = own[i];
    LS_GOTO(ls_xla_run(x, m, in, n_in, &result, e));
    rc = read_rows(x, result, value_of(p, node, image) + begin * o->cols, n, rows, o->cols, e);
out:
    ls_xla_free_buffers(x, own, LS_MAX_INPUTS + 1);
    x->engine->ops->free_buffer(x->engine, result);
    return rc;
}

static ls_code run_node(const images *p, int image, int node, ls_error *e) {
    ls_xla *x = p->x;
    const ls_node *n = &x->g->nodes[node];
    int64_t all = rows_of(p, n), rows = all < PIECE_ROWS || n->op == LS_OP_AVG_POOL ? all : PIECE_ROWS;
    ls_buffer *whole[LS_MAX_INPUTS] = {0};
    float *patches = NULL;
    ls_code rc = LS_OK;
    if (n->op == LS_OP_INPUT) LS_GOTO(gather_patches(p, image, &patches, e));
    for (int i = 0; i < n->n_in; i++) {
        const ls_node *from = &x->g->nodes[n->in[i]];
        if (reads_all(n, i)) LS_GOTO(upload(x, &whole[i], value_of(p, n->in[i], image), rows_of(p, from), rows_of(p, from), from->cols, e));
    }
    for (int64_t begin = 0; begin < all; begin += rows)
        LS_GOTO(run_piece(p, image, node, patches, begin, all - begin < rows ? all - begin : rows, rows, whole, e));
out:
    ls_xla_free_buffers(x, whole, LS_MAX_INPUTS);
    ls_free(patches);
    return rc;
}

static bool is_read_after(const ls_graph *g, int node, size_t after) {
    for (size_t i = after + 1; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_in; k++)
            if (g->nodes[i].in[k] == node) return true;
    return false;
}

static ls_code new_value(const images *p, size_t node, ls_error *e) {
    const ls_node *n = &p->x->g->nodes[node];
    return ls_calloc(&p->value[node], (size_t)p->n * (size_t)(rows_of(p, n) * n->cols), sizeof(float), "node output", e);
}

static ls_code run_nodes(const images *p, float *out, ls_error *e) {
    const ls_graph *g = p->x->g;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ls_node *n = &g->nodes[i];
        LS_TRY(new_value(p, i, e));
        for (int image = 0; image < p->n; image++) {
            ls_code rc = run_node(p, image, (int)i, e);
            if (rc) return ls_error_wrap(e, rc, "node \"%s\"", n->name);
        }
        if (p->x->observed && p->x->observed[i]) p->x->o.observer(p->x->o.observer_user, n, p->value[i], p->n * rows_of(p, n), n->cols);
        for (int k = 0; k < n->n_in; k++) {
            if (is_read_after(g, n->in[k], i)) continue;
            ls_free(p->value[n->in[k]]);
            p->value[n->in[k]] = NULL;
        }
    }
    memcpy(out, p->value[g->n_nodes - 1], (size_t)p->n * (size_t)(g->image_out * g->vocab) * sizeof *out);
    return LS_OK;
}

/* ---- A pass ------------------------------------------------------------------------------------------------------------------ */

bool ls_xla_splits_images(const ls_xla *x) { return x->g->contract != LS_CONTRACT_FLOAT && x->g->image_rows > FUSED_ROWS; }

ls_code ls_xla_forward_images(ls_xla *x, const ls_batch *b, float *out, ls_error *e) {
    const ls_graph *g = x->g;
    images p = {.x = x, .b = b, .n = b->n_rows / (int)g->image_rows};
    bool nodes = x->alone || ls_xla_splits_images(x);
    ls_code rc;
    for (int i = 0; i < p.n; i++) {
        int slot = b->slot[(size_t)i * (size_t)g->image_rows];
        if (x->length[slot]) LS_FAIL(e, LS_OUT_OF_RANGE, "slot %d holds %d positions; an image needs an empty one", slot, x->length[slot]);
    }
    LS_GOTO(ls_calloc(&p.value, g->n_nodes, sizeof(float *), "node outputs", e));
    for (size_t i = 0; !nodes && x->observed && i < g->n_nodes; i++)
        if (x->observed[i]) LS_GOTO(new_value(&p, i, e));
    rc = nodes ? run_nodes(&p, out, e) : run_images(&p, out, e);
    for (int i = 0; !rc && i < p.n; i++) x->length[b->slot[(size_t)i * (size_t)g->image_rows]] = (int)g->image_rows;
out:
    for (size_t i = 0; p.value && i < g->n_nodes; i++) ls_free(p.value[i]);
    ls_free(p.value);
    return rc;
}
