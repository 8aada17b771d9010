/* The graph: creation and shape-checked construction of nodes. Parameters are in param.c, canonical text in serialize.c. */
#include "graph/graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NODES = 1 << 20, MAX_ROPE = 64 };

ls_code ls_graph_create(ls_graph **out, ls_contract contract, ls_error *e) {
    ls_graph *g;
    LS_TRY(ls_calloc(&g, 1, sizeof *g, "graph", e));
    g->contract = contract;
    ls_code rc = ls_arena_create(&g->arena, e);
    if (rc) {
        ls_free(g);
        return rc;
    }
    *out = g;
    return LS_OK;
}

void ls_graph_destroy(ls_graph *g) {
    if (!g) return;
    ls_free(g->nodes);
    ls_free(g->rope);
    ls_arena_destroy(g->arena);
    ls_free(g);
}

static const char *const op_names[LS_OP_COUNT] = {
    "embed", "linear", "rms_norm", "layer_norm", "rope", "attention", "activation", "glu",
    "mul", "add", "scale", "clamp", "softcap", "slice", "moe", "select_rows", "input", "add_position", "avg_pool"};
static const char *const layout_names[] = {"rows", "flat", "transposed", "channels_last"};
static const char *const act_names[LS_ACT_COUNT] = {"silu", "gelu", "gelu_tanh", "gelu_quick", "relu", "sigmoid"};

const char *ls_op_name(ls_op op) { return (unsigned)op < LS_OP_COUNT ? op_names[op] : "unknown"; }
const char *ls_layout_name(ls_layout l) { return (unsigned)l <= LS_LAYOUT_CHANNELS_LAST ? layout_names[l] : "unknown"; }
const char *ls_act_name(ls_act a) { return (unsigned)a < LS_ACT_COUNT ? act_names[a] : "unknown"; }

/* ---- Shape checks --------------------------------------------------------------------------------------------- */

static ls_code check_value(const ls_graph *g, int v, const char *name, ls_error *e) {
    if (v < 0 || (size_t)v >= g->n_nodes)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": input %d is not an earlier node (%zu exist)", name, v, g->n_nodes);
    return LS_OK;
}

static ls_code check_cols(const ls_graph *g, int v, int64_t want, const char *what, const char *name, ls_error *e) {
    LS_TRY(check_value(g, v, name, e));
    if (g->nodes[v].cols != want)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": %s \"%s\" has %lld columns, needs %lld", name, what, g->nodes[v].name,
                (long long)g->nodes[v].cols, (long long)want);
    return LS_OK;
}

static ls_code check_vector(const ls_param *p, int64_t a, int64_t b, const char *name, ls_error *e) {
    if (p && p->rows != 1 && p->rows * p->cols != a && p->rows * p->cols != b)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": weight \"%s\" is [%lld, %lld], needs %lld values", name, p->name,
                (long long)p->rows, (long long)p->cols, (long long)a);
    if (p && p->rows == 1 && p->cols != a && p->cols != b)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": weight \"%s\" has %lld values, needs %lld", name, p->name,
                (long long)p->cols, (long long)a);
    return LS_OK;
}

static ls_code check_real(float x, bool positive, const char *what, const char *name, ls_error *e) {
    if (!isfinite(x) || (positive && !(x > 0)))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": %s is %g; needs a finite%s number", name, what, (double)x, positive ? ", positive" : "");
    return LS_OK;
}

/* ---- Nodes ---------------------------------------------------------------------------------------------------- */

/* Appends |n| with its name copied and the contract of the graph; rows kind follows the first input. */
static ls_code push(ls_graph *g, int *out, ls_node n, const char *name, ls_error *e) {
    for (int i = 0; i < n.n_in; i++) LS_TRY(check_value(g, n.in[i], name, e));
    for (int i = 1; i < n.n_in; i++)
        if (g->nodes[n.in[i]].selected != g->nodes[n.in[0]].selected)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": inputs mix all rows and selected rows", name);
    for (size_t i = 0; i < g->n_nodes; i++)
        if (!strcmp(g->nodes[i].name, name)) LS_FAIL(e, LS_ALREADY_EXISTS, "node \"%s\" exists already", name);
    if (n.cols < 1 || n.cols > 1 << 28)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": %lld columns; allowed are 1 to 2^28", name, (long long)n.cols);
    LS_TRY(ls_grow(&g->nodes, g->n_nodes, &g->cap_nodes, sizeof *g->nodes, MAX_NODES, "graph nodes", e));
    LS_TRY(ls_arena_strdup(g->arena, &n.name, name, SIZE_MAX, e));
    n.contract = g->contract;
    if (n.n_in && g->nodes[n.in[0]].selected) n.selected = true;
    g->nodes[g->n_nodes] = n;
    *out = (int)g->n_nodes++;
    return LS_OK;
}

ls_code ls_add_embed(ls_graph *g, int *out, const ls_param *table, float scale, const char *name, ls_error *e) {
    LS_TRY(check_real(scale, true, "scale", name, e));
    return push(g, out, (ls_node){.op = LS_OP_EMBED, .w = {table, NULL}, .cols = table->cols, .scale = scale}, name, e);
}

ls_code ls_add_linear(ls_graph *g, int *out, int x, const ls_param *weight, const ls_param *bias, const char *name, ls_error *e) {
    LS_TRY(check_cols(g, x, weight->cols, "input", name, e));
    LS_TRY(check_vector(bias, weight->rows, weight->rows, name, e));
    return push(g, out, (ls_node){.op = LS_OP_LINEAR, .n_in = 1, .in = {x}, .w = {weight, bias}, .cols = weight->rows}, name, e);
}

static ls_code add_norm(ls_graph *g, int *out, ls_node n, const char *name, ls_error *e) {
    LS_TRY(check_value(g, n.in[0], name, e));
    n.cols = g->nodes[n.in[0]].cols;
    if (!n.group) n.group = n.cols;
    if (n.group < 1 || n.cols % n.group)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": group of %lld does not divide %lld columns", name, (long long)n.group, (long long)n.cols);
    LS_TRY(check_vector(n.w[0], n.group, n.cols, name, e));
    LS_TRY(check_vector(n.w[1], n.group, n.cols, name, e));
    LS_TRY(check_real(n.eps, true, "eps", name, e));
    return push(g, out, n, name, e);
}

ls_code ls_add_rms_norm(ls_graph *g, int *out, int x, const ls_param *weight, float eps, float weight_offset, int64_t group,
                        const char *name, ls_error *e) {
    if (weight_offset != 0 && weight_offset != 1)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": weight offset %g; allowed are 0 and 1", name, (double)weight_offset);
    return add_norm(g, out, (ls_node){.op = LS_OP_RMS_NORM, .n_in = 1, .in = {x}, .w = {weight, NULL}, .eps = eps,
                                      .weight_offset = weight_offset, .group = group}, name, e);
}

ls_code ls_add_layer_norm(ls_graph *g, int *out, int x, const ls_param *weight, const ls_param *bias, float eps, int64_t group,
                          const char *name, ls_error *e) {
    return add_norm(g, out, (ls_node){.op = LS_OP_LAYER_NORM, .n_in = 1, .in = {x}, .w = {weight, bias}, .eps = eps, .group = group}, name, e);
}

ls_code ls_add_rope(ls_graph *g, int *out, int x, int heads, int head_dim, int rope, const char *name, ls_error *e) {
    LS_TRY(check_cols(g, x, (int64_t)heads * head_dim, "input", name, e));
    if (rope < 0 || (size_t)rope >= g->n_rope) LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": rotary table %d does not exist", name, rope);
    if (g->rope[rope].rot_dim > head_dim)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": rotary table turns %d columns, a head has %d", name, g->rope[rope].rot_dim, head_dim);
    return push(g, out, (ls_node){.op = LS_OP_ROPE, .n_in = 1, .in = {x}, .cols = g->nodes[x].cols, .heads = heads,
                                  .head_dim = head_dim, .rope = rope}, name, e);
}

static const ls_node *first_attention(const ls_graph *g) {
    for (size_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == LS_OP_ATTENTION) return &g->nodes[i];
    return NULL;
}

ls_code ls_add_attention(ls_graph *g, int *out, int q, int k, int v, const ls_attention_spec *s, const char *name, ls_error *e) {
    if (s->heads < 1 || s->kv_heads < 1 || s->heads % s->kv_heads || s->head_dim < 1 || s->head_dim > 512 || s->window < 0)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": %d heads over %d key heads of %d columns (1 to 512), window %d", name, s->heads,
                s->kv_heads, s->head_dim, s->window);
    LS_TRY(check_cols(g, q, (int64_t)s->heads * s->head_dim, "query", name, e));
    LS_TRY(check_cols(g, k, (int64_t)s->kv_heads * s->head_dim, "key", name, e));
    LS_TRY(check_cols(g, v, (int64_t)s->kv_heads * s->head_dim, "value", name, e));
    LS_TRY(check_real(s->scale, true, "scale", name, e));
    if (s->softcap != 0) LS_TRY(check_real(s->softcap, true, "soft cap", name, e));
    if (g->nodes[q].selected) LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": attention needs all rows", name);
    ls_node n = {.op = LS_OP_ATTENTION, .n_in = 3, .in = {q, k, v}, .cols = g->nodes[q].cols, .scale = s->scale, .limit = s->softcap,
                 .heads = s->heads, .kv_heads = s->kv_heads, .head_dim = s->head_dim, .window = s->window, .bidirectional = s->bidirectional,
                 .layer = g->n_caches};
    const ls_node *shared = s->bidirectional ? first_attention(g) : NULL;
    if (s->bidirectional && s->window) LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": a window of %d in attention that sees all rows", name, s->window);
    if (shared && (!shared->bidirectional || shared->kv_heads != s->kv_heads || shared->head_dim != s->head_dim || shared->scale != s->scale ||
                   shared->limit != s->softcap))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": attention that sees all rows shares one cache, so it must be like that of \"%s\" in heads, scale and cap",
                name, shared->name);
    if (shared) n.layer = shared->layer;
    LS_TRY(push(g, out, n, name, e));
    g->n_caches += !shared;
    return LS_OK;
}

/* Nodes whose output has the shape of their first input. */
static ls_code add_same_shape(ls_graph *g, int *out, ls_node n, const char *name, ls_error *e) {
    LS_TRY(check_value(g, n.in[0], name, e));
    n.cols = g->nodes[n.in[0]].cols;
    return push(g, out, n, name, e);
}

ls_code ls_add_activation(ls_graph *g, int *out, int x, ls_act act, const char *name, ls_error *e) {
    return add_same_shape(g, out, (ls_node){.op = LS_OP_ACTIVATION, .n_in = 1, .in = {x}, .act = act}, name, e);
}

ls_code ls_add_glu(ls_graph *g, int *out, int gate, int up, ls_act act, const char *name, ls_error *e) {
    LS_TRY(check_value(g, gate, name, e));
    LS_TRY(check_cols(g, up, g->nodes[gate].cols, "up", name, e));
    return add_same_shape(g, out, (ls_node){.op = LS_OP_GLU, .n_in = 2, .in = {gate, up}, .act = act}, name, e);
}

ls_code ls_add_mul(ls_graph *g, int *out, int a, int b, const char *name, ls_error *e) {
    LS_TRY(check_value(g, a, name, e));
    LS_TRY(check_value(g, b, name, e));
    if (g->nodes[b].cols != 1) LS_TRY(check_cols(g, b, g->nodes[a].cols, "factor", name, e));
    return add_same_shape(g, out, (ls_node){.op = LS_OP_MUL, .n_in = 2, .in = {a, b}}, name, e);
}

ls_code ls_add_add(ls_graph *g, int *out, int a, int b, const char *name, ls_error *e) {
    LS_TRY(check_value(g, a, name, e));
    LS_TRY(check_cols(g, b, g->nodes[a].cols, "addend", name, e));
    return add_same_shape(g, out, (ls_node){.op = LS_OP_ADD, .n_in = 2, .in = {a, b}}, name, e);
}

ls_code ls_add_scale(ls_graph *g, int *out, int x, float scale, const char *name, ls_error *e) {
    LS_TRY(check_value(g, x, name, e));
    if (scale == 1) {
        *out = x;
        return LS_OK;
    }
    LS_TRY(check_real(scale, false, "scale", name, e));
    return add_same_shape(g, out, (ls_node){.op = LS_OP_SCALE, .n_in = 1, .in = {x}, .scale = scale}, name, e);
}

ls_code ls_add_clamp(ls_graph *g, int *out, int x, float limit, const char *name, ls_error *e) {
    LS_TRY(check_real(limit, true, "limit", name, e));
    return add_same_shape(g, out, (ls_node){.op = LS_OP_CLAMP, .n_in = 1, .in = {x}, .limit = limit}, name, e);
}

ls_code ls_add_softcap(ls_graph *g, int *out, int x, float cap, const char *name, ls_error *e) {
    LS_TRY(check_real(cap, true, "cap", name, e));
    return add_same_shape(g, out, (ls_node){.op = LS_OP_SOFTCAP, .n_in = 1, .in = {x}, .limit = cap}, name, e);
}

ls_code ls_add_slice(ls_graph *g, int *out, int x, int64_t begin, int64_t cols, const char *name, ls_error *e) {
    LS_TRY(check_value(g, x, name, e));
    if (begin < 0 || cols < 1 || begin > g->nodes[x].cols - cols)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": columns [%lld, %lld) of %lld", name, (long long)begin, (long long)(begin + cols),
                (long long)g->nodes[x].cols);
    return push(g, out, (ls_node){.op = LS_OP_SLICE, .n_in = 1, .in = {x}, .cols = cols, .begin = begin}, name, e);
}

ls_code ls_add_moe(ls_graph *g, int *out, int hidden, int router_logits, const ls_moe *m, ls_act act, const char *name, ls_error *e) {
    LS_TRY(check_value(g, hidden, name, e));
    LS_TRY(check_cols(g, router_logits, m->experts, "router logits", name, e));
    if (m->top_k < 1 || m->top_k > m->experts)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": top %d of %d experts", name, m->top_k, m->experts);
    int64_t width = g->nodes[hidden].cols;
    for (int i = 0; i < m->experts; i++)
        if (m->gate[i].cols != width || m->up[i].cols != width || m->down[i].rows != width || m->gate[i].rows != m->up[i].rows ||
            m->down[i].cols != m->gate[i].rows)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": expert %d has gate [%lld, %lld], up [%lld, %lld], down [%lld, %lld] for width %lld",
                    name, i, (long long)m->gate[i].rows, (long long)m->gate[i].cols, (long long)m->up[i].rows, (long long)m->up[i].cols,
                    (long long)m->down[i].rows, (long long)m->down[i].cols, (long long)width);
    for (int i = 1; i < m->experts; i++)
        if (m->gate[i].rows != m->gate[0].rows)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": expert %d is %lld wide inside, expert 0 %lld; all experts of a layer must be of one size", name, i,
                    (long long)m->gate[i].rows, (long long)m->gate[0].rows);
    ls_moe *copy;
    LS_TRY(ls_arena_alloc(g->arena, &copy, 1, sizeof *copy, e));
    *copy = *m;
    return add_same_shape(g, out, (ls_node){.op = LS_OP_MOE, .n_in = 2, .in = {hidden, router_logits}, .moe = copy, .act = act}, name, e);
}

ls_code ls_add_select_rows(ls_graph *g, int *out, int x, const char *name, ls_error *e) {
    LS_TRY(add_same_shape(g, out, (ls_node){.op = LS_OP_SELECT_ROWS, .n_in = 1, .in = {x}, .selected = true}, name, e));
    return LS_OK;
}

ls_code ls_add_input(ls_graph *g, int *out, int64_t cols, const char *name, ls_error *e) {
    if (g->n_nodes) LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": rows from outside are the first node, but %zu exist", name, g->n_nodes);
    LS_TRY(push(g, out, (ls_node){.op = LS_OP_INPUT, .cols = cols}, name, e));
    g->input_cols = cols;
    return LS_OK;
}

ls_code ls_add_position(ls_graph *g, int *out, int x, const ls_param *table, const char *name, ls_error *e) {
    LS_TRY(check_value(g, x, name, e));
    LS_TRY(check_cols(g, x, table->cols, "input", name, e));
    if (g->nodes[x].selected) LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": selected rows have no positions", name);
    return add_same_shape(g, out, (ls_node){.op = LS_OP_ADD_POSITION, .n_in = 1, .in = {x}, .w = {table, NULL}}, name, e);
}

ls_code ls_add_avg_pool(ls_graph *g, int *out, int x, int grid, int pool, const char *name, ls_error *e) {
    LS_TRY(check_value(g, x, name, e));
    if (grid < 1 || grid > LS_MAX_IMAGE_SIDE || pool < 1 || grid % pool)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": squares of %d in a grid of %d; the grid must be a multiple of the square, at most %d", name, pool, grid,
                LS_MAX_IMAGE_SIDE);
    if (g->nodes[x].selected || g->image_rows) LS_FAIL(e, LS_INVALID_ARGUMENT, "node \"%s\": the rows are pooled or selected already", name);
    ls_node n = {.op = LS_OP_AVG_POOL, .n_in = 1, .in = {x}, .cols = g->nodes[x].cols, .grid = grid, .pool = pool, .selected = true};
    LS_TRY(push(g, out, n, name, e));
    g->image_rows = (int64_t)grid * grid;
    g->image_out = g->image_rows / pool / pool;
    return LS_OK;
}

int64_t ls_pool_row(const ls_node *n, int64_t r) {
    int64_t side = n->grid / n->pool, image = r / (side * side), in_image = r % (side * side);
    return (image * n->grid + in_image / side * n->pool) * n->grid + in_image % side * n->pool;
}

/* ---- Rotary tables -------------------------------------------------------------------------------------------- */

ls_code ls_graph_add_rope(ls_graph *g, int *index, const ls_rope *rope, ls_error *e) {
    if (rope->rot_dim < 2 || rope->rot_dim % 2 || rope->rot_dim > 4096)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "rotary table turns %d columns; allowed are even counts from 2 to 4096", rope->rot_dim);
    LS_TRY(ls_grow(&g->rope, g->n_rope, &g->cap_rope, sizeof *g->rope, MAX_ROPE, "rotary tables", e));
    double *copy;
    size_t n = (size_t)rope->rot_dim / 2;
    LS_TRY(ls_arena_alloc(g->arena, &copy, n, sizeof *copy, e));
    memcpy(copy, rope->inv_freq, n * sizeof *copy);
    g->rope[g->n_rope] = *rope;
    g->rope[g->n_rope].inv_freq = copy;
    *index = (int)g->n_rope++;
    return LS_OK;
}
