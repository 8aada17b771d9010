/* Row-wise items and matrix products of the native executor. */
#include <string.h>

#include "graph/batch.h"
#include "native/executor_internal.h"
#include "reference/exact_ops.h"

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

enum { ROWS_MAX = 16 }; /* of one task: their values stay in the nearest cache from item to item */

static int rows_per_task(const ls_native *x, int rows) {
    int each = (rows + 4 * x->threads - 1) / (4 * x->threads);
    return each < 1 ? 1 : each > ROWS_MAX ? ROWS_MAX : each;
}

int ls_native_rows_tasks(const ls_native *x, int step) {
    int rows = ls_native_rows(x, x->plan.step[step].selected), each = rows_per_task(x, rows);
    return (rows + each - 1) / each;
}

/* A table of positions holds one row for each. */
static void add_position_row(const ls_native *x, int index, float *y, const float *in, int row) {
    const ls_node_weights *w = &x->weights.node[index];
    int64_t cols = x->g->nodes[index].cols;
    ls_native_ops(x)->add(y, in, w->a + x->position[row] * cols, cols);
}

static void pool_row(const ls_native *x, const ls_node *n, float *y, int row) {
    ls_exact_avg_pool(y, ls_native_value(x, n->in[0]) + ls_pool_row(n, row) * n->cols, n->cols, n->grid, n->pool);
}

static void rope_row(const ls_native *x, const ls_node *n, float *y, const float *in, int row) {
    const ls_rope *r = &x->g->rope[n->rope];
    const int32_t *c = x->rope[n->rope] + (size_t)row * (size_t)r->rot_dim;
    ls_native_ops(x)->rope(y, in, n->heads, n->head_dim, r, c, c + r->rot_dim / 2);
}

/* A factor of one column scales the whole row. */
static void mul_row(const ls_native *x, const ls_node *n, float *y, const float *a, const float *b, int64_t b_cols) {
    if (b_cols == n->cols) ls_native_ops(x)->mul(y, a, b, n->cols);
    else ls_native_ops(x)->scale(y, a, n->cols, b[0]);
}

static void node_row(const ls_native *x, int index, int row) {
    const ls_node *n = &x->g->nodes[index];
    const ls_ops *ops = ls_native_ops(x);
    const ls_node_weights *w = &x->weights.node[index];
    const float *in[2] = {NULL, NULL};
    for (int i = 0; i < n->n_in && i < 2; i++) {
        int from = n->op == LS_OP_SELECT_ROWS && !x->g->nodes[n->in[i]].selected ? x->batch->out_row[row] : row;
        in[i] = ls_native_value(x, n->in[i]) + (int64_t)from * x->g->nodes[n->in[i]].cols;
    }
    float *y = ls_native_value(x, index) + (int64_t)row * n->cols;
    switch (n->op) {
        case LS_OP_EMBED: ls_native_embed_row(x, index, y, row); break;
        case LS_OP_RMS_NORM: ops->rms_norm(y, in[0], n->cols, n->group, w->a, w->a_len, n->eps); break;
        case LS_OP_LAYER_NORM: ops->layer_norm(y, in[0], n->cols, n->group, w->a, w->a_len, w->b, w->b_len, n->eps); break;
        case LS_OP_ROPE: rope_row(x, n, y, in[0], row); break;
        case LS_OP_ACTIVATION: ops->act(y, in[0], n->cols, n->act); break;
        case LS_OP_GLU: ops->glu(y, in[0], in[1], n->cols, n->act); break;
        case LS_OP_MUL: mul_row(x, n, y, in[0], in[1], x->g->nodes[n->in[1]].cols); break;
        case LS_OP_ADD: ops->add(y, in[0], in[1], n->cols); break;
        case LS_OP_SCALE: ops->scale(y, in[0], n->cols, n->scale); break;
        case LS_OP_CLAMP: ops->clamp(y, in[0], n->cols, n->limit); break;
        case LS_OP_SOFTCAP: ops->softcap(y, in[0], n->cols, n->limit); break;
        case LS_OP_SLICE: memcpy(y, in[0] + n->begin, (size_t)n->cols * sizeof *y); break;
        case LS_OP_SELECT_ROWS: memcpy(y, in[0], (size_t)n->cols * sizeof *y); break;
        case LS_OP_INPUT: ops->canon(y, x->batch->embedding[row], n->cols); break;
        case LS_OP_ADD_POSITION: add_position_row(x, index, y, in[0], row); break;
        case LS_OP_AVG_POOL: pool_row(x, n, y, row); break;
        default: break; /* other operators have steps of their own */
    }
}

/* Quantises rows [begin, end) of the |rows| of node |node|; few rows without what only products of many read. */
static void quantise_rows(ls_native *x, int node, int rows, int begin, int end) {
    const float *value = ls_native_value(x, node);
    ls_acts acts = x->acts[node];
    if (rows <= LS_FEW_ROWS) memset(acts.lead, 0, sizeof acts.lead);
    for (int row = begin; row < end; row++)
        ls_native_kernels(x)->quantise[ls_contract_of_products(x->g->contract)](&acts, row, value + row * x->g->nodes[node].cols);
}

void ls_native_rows_task(ls_native *x, int step, int task) {
    const ls_step *s = &x->plan.step[step];
    int rows = ls_native_rows(x, s->selected), each = rows_per_task(x, rows), begin = task * each, end = begin + each < rows ? begin + each : rows;
    for (int k = s->begin; k < s->begin + s->count; k++) {
        ls_item it = x->plan.item[k];
        for (int row = begin; row < end && it.kind == LS_ITEM_NODE; row++) node_row(x, it.node, row);
        if (it.kind == LS_ITEM_QUANTISE) quantise_rows(x, it.node, rows, begin, end);
    }
}

/* ---- Products --------------------------------------------------------------------------------------------------- */

/* Items of a step of products come in units: a product, or two products and the gated unit that reads them. */
int ls_native_linear_unit(const ls_native *x, const ls_step *s, int item) {
    bool gated = item + 2 < s->begin + s->count && x->g->nodes[x->plan.item[item + 2].node].op == LS_OP_GLU;
    return gated ? 3 : 1;
}

static void product(ls_native *x, int node, int64_t begin, int64_t end, int rows, ls_linear_out out, int thread) {
    const ls_packed *w = x->weights.node[node].matrix;
    out.bias = x->weights.node[node].b;
    ls_native_kernels(x)->linear[ls_contract_of_products(x->g->contract)][w->kind](w, begin, end, &x->acts[x->g->nodes[node].in[0]], 0, rows, &out,
                                                                                 ls_pool_scratch(x->pool, thread));
}

size_t ls_native_gated_floats(int max_rows) {
    enum { FLOATS = 64 << 10 >> 2, PAIR = 2 * LS_TILE };
    size_t least = (size_t)max_rows * PAIR;
    return least > FLOATS ? least : FLOATS;
}

/* Tiles [begin, end) of the gated unit whose items are |it|: some columns at a time, so many that those of the second product fit the scratch. */
static void gated_product(ls_native *x, const ls_item *it, int64_t begin, int64_t end, int rows, int thread) {
    const ls_node *n = &x->g->nodes[it[2].node];
    float *y = ls_native_value(x, it[2].node), *gate = ls_native_value(x, n->in[0]);
    float *up = (float *)(void *)((uint8_t *)ls_pool_scratch(x->pool, thread) + LS_LINEAR_SCRATCH);
    int64_t each = (int64_t)x->gated_floats / ((int64_t)rows * LS_TILE) / 2 * 2;
    for (int64_t tile = begin, next; tile < end; tile = next) {
        next = end - tile < each ? end : tile + each;
        int64_t col = tile * LS_TILE, width = (next * LS_TILE < n->cols ? next * LS_TILE : n->cols) - col;
        product(x, n->in[0], tile, next, rows, (ls_linear_out){.y = gate, .stride = n->cols}, thread);
        product(x, n->in[1], tile, next, rows, (ls_linear_out){.y = up, .stride = width, .first = col}, thread);
        for (int row = 0; row < rows; row++) ls_native_ops(x)->glu(y + row * n->cols + col, gate + row * n->cols + col, up + row * width, width, n->act);
    }
}

/* The weights that tasks of products work on: tiles [begin, end) for the items from |it| on, by the first |tasks| of them. */
typedef struct linear_part {
    const ls_item *it;
    int unit, tasks;
    int64_t begin, end;
} linear_part;

/* The part that the first of tasks [task, end) lies in. */
static linear_part linear_part_of(const ls_native *x, int step, int task, int end) {
    const ls_step *s = &x->plan.step[step];
    const int tiles = x->run[step].cut.tiles;
    for (int k = s->begin, unit;; k += unit) {
        const ls_item *it = &x->plan.item[k];
        int64_t all = x->weights.node[it->node].matrix->tiles;
        int tasks = (int)((all + tiles - 1) / tiles);
        unit = ls_native_linear_unit(x, s, k);
        if (task < tasks) {
            if (end > tasks) end = tasks;
            int64_t last = (int64_t)end * tiles;
            return (linear_part){.it = it, .unit = unit, .tasks = end - task, .begin = (int64_t)task * tiles, .end = last < all ? last : all};
        }
        task -= tasks;
        end -= tasks;
    }
}

const uint8_t *ls_native_linear_bytes(const ls_native *x, int step, int task, int end, size_t *bytes) {
    linear_part p = linear_part_of(x, step, task, end);
    const ls_packed *w = x->weights.node[p.it->node].matrix;
    *bytes = (size_t)(p.end - p.begin) * w->tile_bytes;
    return w->data + (size_t)p.begin * w->tile_bytes;
}

void ls_native_linear_tasks(ls_native *x, int step, int begin, int end, int thread) {
    const int rows = ls_native_rows(x, x->plan.step[step].selected);
    for (linear_part p; begin < end; begin += p.tasks) {
        p = linear_part_of(x, step, begin, end);
        const int64_t cols = x->g->nodes[p.it->node].cols;
        if (p.unit == 3) gated_product(x, p.it, p.begin, p.end, rows, thread);
        else product(x, p.it->node, p.begin, p.end, rows, (ls_linear_out){.y = ls_native_value(x, p.it->node), .stride = cols}, thread);
    }
}
