/* Experts (docs/contracts.md section 8): route every row, sort the (row, expert) pairs by expert, run each expert's rows
 * together through the linear kernels, and sum per row in ascending expert order. All threads run ls_native_moe_step at
 * once and meet between its phases. */
#include <string.h>

#include "native/executor_internal.h"
#include "reference/exact_ops.h"

enum { EXPERT_TILES = 8 /* weight tiles of one task */, PAIRS = 8 /* pairs of one task */ };
enum { ROUTE, GATHER, UP, GLU, DOWN, SUM };

/* The step and rows [begin, begin + rows) of the pass. */
typedef struct part {
    ls_native *x;
    const ls_node *n;
    const ls_moe *m;
    const ls_node_weights *w;
    ls_moe_space *s;
    int node, begin, rows, thread;
} part;

static void route(const part *p, int row) {
    const float *logits = ls_native_value(p->x, p->n->in[1]) + (int64_t)(p->begin + row) * p->m->experts;
    ls_exact_route(logits, p->m, p->s->kept + row * p->m->top_k, p->s->score + row * p->m->top_k);
}

/* Counting sort of the pairs by expert; one thread. */
static void sort_pairs(const part *p) {
    ls_moe_space *s = p->s;
    int experts = p->m->experts, pairs = p->rows * p->m->top_k;
    memset(s->begin, 0, ((size_t)experts + 1) * sizeof *s->begin);
    for (int i = 0; i < pairs; i++) s->begin[s->kept[i] + 1]++;
    s->n_active = 0;
    for (int e = 0; e < experts; e++) {
        if (s->begin[e + 1]) s->active[s->n_active++] = e;
        s->begin[e + 1] += s->begin[e];
    }
    for (int i = 0; i < pairs; i++) {
        int at = s->begin[s->kept[i]]++;
        s->pair_row[at] = i / p->m->top_k;
        s->pair_of[i] = at;
    }
    memmove(s->begin + 1, s->begin, (size_t)experts * sizeof *s->begin);
    s->begin[0] = 0;
    ls_share_reset(p->x->moe_share, LS_MOE_PHASES * p->x->threads);
}

static void product(const part *p, int expert, int role, int chunk, const ls_acts *in, float *y) {
    const ls_packed *w = p->w->expert[role * p->m->experts + expert];
    int64_t begin = (int64_t)chunk * EXPERT_TILES, end = begin + EXPERT_TILES < w->tiles ? begin + EXPERT_TILES : w->tiles;
    ls_linear_out out = {.y = y, .stride = w->rows};
    ls_native_kernels(p->x)->linear[ls_contract_of_products(p->x->g->contract)][w->kind](w, begin, end, in, p->s->begin[expert], p->s->begin[expert + 1], &out,
                                                      ls_pool_scratch(p->x->pool, p->thread));
}

static int chunks_of(int64_t outputs) { return (int)((outputs + EXPERT_TILES * LS_TILE - 1) / (EXPERT_TILES * LS_TILE)); }

static void up_task(const part *p, int task) {
    int chunks = chunks_of(p->m->gate[0].rows), expert = p->s->active[task / (2 * chunks)], role = task / chunks % 2;
    product(p, expert, role, task % chunks, &p->s->hidden, role ? p->s->up : p->s->gate);
}

static void down_task(const part *p, int task) {
    int chunks = chunks_of(p->n->cols);
    product(p, p->s->active[task / chunks], 2, task % chunks, &p->s->inner, p->s->down);
}

static void glu_pair(const part *p, int pair) {
    int64_t inner = p->m->gate[0].rows;
    float *g = p->s->gate + pair * inner;
    ls_native_ops(p->x)->glu(g, g, p->s->up + pair * inner, inner, p->n->act);
    ls_native_kernels(p->x)->quantise[ls_contract_of_products(p->x->g->contract)](&p->s->inner, pair, g);
}

/* Kept experts of a row are in ascending order. */
static void sum_row(const part *p, int row) {
    const ls_ops *ops = ls_native_ops(p->x);
    int64_t cols = p->n->cols;
    float *y = ls_native_value(p->x, p->node) + (int64_t)(p->begin + row) * cols;
    for (int k = 0; k < p->m->top_k; k++) {
        int i = row * p->m->top_k + k;
        float *down = p->s->down + (int64_t)p->s->pair_of[i] * cols;
        ops->scale(k ? down : y, down, cols, p->s->score[i]);
        if (k) ops->add(y, y, down, cols);
    }
}

static void gather_pair(const part *p, int pair) {
    ls_acts_copy_row(&p->s->hidden, pair, &p->x->acts[p->n->in[0]], p->begin + p->s->pair_row[pair]);
}

/* Runs item(p, i) for i in [0, n), |each| to a task, shared by all threads; returns when all are done. */
static void phase(const part *p, int index, int n, int each, void (*item)(const part *p, int i)) {
    int tasks = (n + each - 1) / each;
    ls_share *share = p->x->moe_share + index * p->x->threads;
    for (int t, end; (t = ls_share_take(share, p->thread, p->x->threads, index, tasks, &end)) >= 0;)
        for (int i = t * each; i < n && i < end * each; i++) item(p, i);
    ls_pool_barrier(p->x->pool, p->thread, NULL);
}

void ls_native_moe_step(ls_native *x, int step, int thread) {
    const ls_step *st = &x->plan.step[step];
    int node = x->plan.item[st->begin].node, total = ls_native_rows(x, st->selected);
    part p = {.x = x, .n = &x->g->nodes[node], .m = x->g->nodes[node].moe, .w = &x->weights.node[node], .s = &x->moe, .node = node, .thread = thread};
    for (p.begin = 0; p.begin < total; p.begin += p.rows) {
        p.rows = total - p.begin < LS_MOE_ROWS ? total - p.begin : LS_MOE_ROWS;
        int pairs = p.rows * p.m->top_k;
        phase(&p, ROUTE, p.rows, 1, route);
        if (!thread) sort_pairs(&p);
        ls_pool_barrier(x->pool, thread, NULL);
        phase(&p, GATHER, pairs, PAIRS, gather_pair);
        phase(&p, UP, p.s->n_active * 2 * chunks_of(p.m->gate[0].rows), 1, up_task);
        phase(&p, GLU, pairs, PAIRS, glu_pair);
        phase(&p, DOWN, p.s->n_active * chunks_of(p.n->cols), 1, down_task);
        phase(&p, SUM, p.rows, 1, sum_row);
    }
}

/* ---- Life ------------------------------------------------------------------------------------------------------- */

/* Largest sizes over all expert nodes. The layout of quantised rows depends on the columns, so all nodes must agree. */
typedef struct sizes {
    size_t experts, top_k, inner, hidden;
} sizes;

static ls_code find_sizes(const ls_graph *g, sizes *out, ls_error *e) {
    *out = (sizes){0};
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ls_node *n = &g->nodes[i];
        if (n->op != LS_OP_MOE) continue;
        sizes s = {(size_t)n->moe->experts, (size_t)n->moe->top_k, (size_t)n->moe->gate[0].rows, (size_t)n->cols};
        if (out->experts && memcmp(&s, out, sizeof s)) LS_FAIL(e, LS_UNIMPLEMENTED, "node \"%s\": expert layers of different sizes", n->name);
        *out = s;
    }
    return LS_OK;
}

static ls_code take(ls_native *x, int slot, void *out, size_t n, size_t elem, ls_error *e) {
    size_t bytes = 0;
    if (!ls_size_mul(n, elem, &bytes)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "experts: %zu values do not fit", n);
    LS_TRY(ls_alloc_aligned(&x->moe.memory[slot], bytes, 1, "experts", e));
    memcpy(out, &x->moe.memory[slot], sizeof(void *));
    x->work_bytes += bytes;
    return LS_OK;
}

ls_code ls_native_moe_init(ls_native *x, ls_error *e) {
    sizes z;
    LS_TRY(find_sizes(x->g, &z, e));
    if (!z.experts) return LS_OK;
    ls_moe_space *s = &x->moe;
    size_t rows = x->o.max_rows < LS_MOE_ROWS ? (size_t)x->o.max_rows : LS_MOE_ROWS, pairs = rows * z.top_k;
    LS_TRY(take(x, 0, &s->kept, 3 * pairs + 2 * z.experts + 1, sizeof *s->kept, e));
    s->pair_row = s->kept + pairs;
    s->pair_of = s->pair_row + pairs;
    s->begin = s->pair_of + pairs;
    s->active = s->begin + z.experts + 1;
    LS_TRY(take(x, 1, &s->score, pairs, sizeof *s->score, e));
    LS_TRY(take(x, 2, &s->gate, pairs * z.inner, sizeof *s->gate, e));
    LS_TRY(take(x, 3, &s->up, pairs * z.inner, sizeof *s->up, e));
    LS_TRY(take(x, 4, &s->down, pairs * z.hidden, sizeof *s->down, e));
    void *memory;
    LS_TRY(take(x, 5, &memory, ls_acts_bytes(x->g->contract, (int64_t)pairs, (int64_t)z.hidden, LS_ACTS_ALL), 1, e));
    ls_acts_bind(&s->hidden, memory, x->g->contract, (int64_t)pairs, (int64_t)z.hidden, LS_ACTS_ALL);
    LS_TRY(take(x, 6, &memory, ls_acts_bytes(x->g->contract, (int64_t)pairs, (int64_t)z.inner, LS_ACTS_ALL), 1, e));
    ls_acts_bind(&s->inner, memory, x->g->contract, (int64_t)pairs, (int64_t)z.inner, LS_ACTS_ALL);
    LS_TRY(take(x, 7, &x->moe_share, (size_t)LS_MOE_PHASES * (size_t)x->threads, sizeof *x->moe_share, e));
    ls_share_reset(x->moe_share, LS_MOE_PHASES * x->threads);
    return LS_OK;
}

void ls_native_moe_deinit(ls_native *x) {
    for (size_t i = 0; i < sizeof x->moe.memory / sizeof *x->moe.memory; i++) ls_free(x->moe.memory[i]);
}
