/* Attention in the native executor: storing keys and values, tiles of queries, ranges.
 *
 * When a pass has many tiles, one task takes a tile through all its ranges of 256 keys and joins them. When it has few (a
 * decode step), a task is one range of a tile and a further step joins the ranges. The parts of a range are the same
 * integers either way, so the results are too. */
#include <string.h>

#include "graph/batch.h"
#include "native/executor_internal.h"

enum { SPLIT_TASKS = 4 }; /* a pass of fewer tiles than this many per thread is split by ranges */

static const ls_node *node_of(const ls_native *x, int step) { return &x->g->nodes[x->plan.item[x->plan.step[step].begin].node]; }

/* ---- Tiles ------------------------------------------------------------------------------------------------------ */

static void fill_tiles(const ls_native *x, ls_tile_class *c) {
    c->n = 0;
    for (int r = 0; r < x->n_runs; r++)
        for (int q = 0, n = x->slots[r].n * c->group; q < n; q += LS_ATTN_TILE)
            c->tile[c->n++] = (ls_tile){.run = r, .first = q, .n = n - q < LS_ATTN_TILE ? n - q : LS_ATTN_TILE};
}

void ls_native_attention_prepare(ls_native *x) {
    for (int c = 0; c < x->n_classes; c++) fill_tiles(x, &x->class[c]);
    int ranges = (x->longest + LS_EXACT_KEY_RANGE - 1) / LS_EXACT_KEY_RANGE;
    for (int s = 0; s < x->plan.n_steps; s++) {
        ls_step_kind kind = x->plan.step[s].kind;
        if (kind != LS_STEP_APPEND && kind != LS_STEP_ATTEND && kind != LS_STEP_COMBINE) continue;
        const ls_node *n = node_of(x, s);
        ls_step_run *run = &x->run[s];
        int tiles = x->class[run->class].n * n->kv_heads;
        run->split = x->threads > 1 && ranges > 1 && tiles < SPLIT_TASKS * x->threads;
        run->appends = x->class[run->class].n == 1 && !run->split;
        if (kind == LS_STEP_APPEND) run->tasks = run->appends ? 0 : n->kv_heads * ((x->batch->n_rows + LS_APPEND_ROWS - 1) / LS_APPEND_ROWS);
        else if (kind == LS_STEP_ATTEND) run->tasks = run->split ? tiles * ranges : tiles;
        else run->tasks = run->split ? tiles : 0;
    }
}

/* ---- Keys and values -------------------------------------------------------------------------------------------- */

/* Stores key head |head| of rows [begin, end). */
static void append_rows(ls_native *x, const ls_node *n, int head, int begin, int end, ls_attend_scratch *scratch) {
    const ls_attn *a = &x->kv.layer[n->layer].attn;
    int64_t cols = (int64_t)n->kv_heads * n->head_dim;
    const float *k = ls_native_value(x, n->in[1]) + (int64_t)head * n->head_dim, *v = ls_native_value(x, n->in[2]) + (int64_t)head * n->head_dim;
    for (int row = begin; row < end; row++) {
        int position = x->position[row];
        uint8_t *block = ls_kv_head(&x->kv, n->layer, x->batch->slot[row], position, head);
        int e = ls_attn_quantise_key(ls_native_ops(x), a, scratch->mantissa, k + row * cols);
        ls_kv_put_key(a, block, position % LS_KV_BLOCK, scratch->mantissa, e);
        e = ls_native_ops(x)->quantise(scratch->mantissa, v + row * cols, a->d, a->p);
        ls_kv_put_value(a, block, position % LS_KV_BLOCK, scratch->mantissa, e);
    }
}

void ls_native_append_task(ls_native *x, int step, int task, int thread) {
    const ls_node *n = node_of(x, step);
    int begin = task / n->kv_heads * LS_APPEND_ROWS, end = begin + LS_APPEND_ROWS;
    append_rows(x, n, task % n->kv_heads, begin, end < x->batch->n_rows ? end : x->batch->n_rows, ls_pool_scratch(x->pool, thread));
}

/* ---- Ranges ----------------------------------------------------------------------------------------------------- */

/* One tile with one key head. */
typedef struct job {
    const ls_node *n;
    const ls_attn *a;
    ls_attn_tile tile;
    int slot, head, row[LS_ATTN_TILE], column[LS_ATTN_TILE]; /* row of the pass and first column of each query */
    int64_t first_range, ranges;
} job;

/* Whether what a tile of a run reads is too far away to be waited for: few rows read keys and values for the first time in the pass, and long ones are more
 * than a second-level cache of 1 MiB keeps from tile to tile. */
static bool is_far(const ls_native *x, const job *j) {
    enum { NEAR = 512 << 10, BLOCKS = LS_EXACT_KEY_RANGE / LS_KV_BLOCK };
    return x->batch->n_rows <= LS_FEW_ROWS || (size_t)j->ranges * BLOCKS * ls_kv_layout_of(j->a).bytes > NEAR;
}

static job job_of(const ls_native *x, int step, int tile, int head) {
    const ls_node *n = node_of(x, step);
    const ls_tile_class *c = &x->class[x->run[step].class];
    const ls_tile *t = &c->tile[tile];
    const ls_run *run = &x->slots[t->run];
    job j = {.n = n, .a = &x->kv.layer[n->layer].attn, .tile = {.n = t->n}, .slot = run->slot, .head = head, .first_range = INT64_MAX};
    int64_t last_range = 0;
    for (int i = 0; i < t->n; i++) {
        int q = t->first + i;
        j.row[i] = x->order[run->begin + q / c->group];
        j.column[i] = (head * c->group + q % c->group) * n->head_dim;
        ls_span sees = ls_row_sees(n, x->batch, j.row[i], x->position[j.row[i]], x->kv.slot[run->slot].length + run->n);
        j.tile.first[i] = sees.begin;
        j.tile.last[i] = sees.end - 1;
        if (j.tile.first[i] / LS_EXACT_KEY_RANGE < j.first_range) j.first_range = j.tile.first[i] / LS_EXACT_KEY_RANGE;
        if (j.tile.last[i] / LS_EXACT_KEY_RANGE > last_range) last_range = j.tile.last[i] / LS_EXACT_KEY_RANGE;
    }
    j.ranges = last_range - j.first_range + 1;
    j.tile.far = is_far(x, &j);
    return j;
}

static void quantise_queries(const ls_native *x, job *j, ls_attend_scratch *s) {
    j->tile.q = s->tile;
    const float *q = ls_native_value(x, j->n->in[0]);
    for (int i = 0; i < j->tile.n; i++) {
        const float *of_row = q + (int64_t)j->row[i] * (int64_t)j->n->heads * j->n->head_dim;
        int e = ls_attn_quantise_query(ls_native_ops(x), j->a, s->mantissa, of_row + j->column[i]);
        ls_attn_put_query(j->a, &j->tile, i, s->mantissa, e);
    }
}

static void attend_range(const ls_native *x, const job *j, int64_t k, uint8_t *parts, ls_attend_scratch *s) {
    enum { BLOCKS = LS_EXACT_KEY_RANGE / LS_KV_BLOCK };
    int64_t range = j->first_range + k;
    const uint8_t *block[BLOCKS] = {NULL};
    for (int b = 0; b < BLOCKS; b++) {
        int64_t position = range * LS_EXACT_KEY_RANGE + b * LS_KV_BLOCK;
        if (position / LS_KV_BLOCK < x->kv.slot[j->slot].blocks) block[b] = ls_kv_head(&x->kv, j->n->layer, j->slot, position, j->head);
    }
    ls_native_ops(x)->attend(j->a, &j->tile, range, block, parts + (size_t)k * (size_t)j->tile.n * ls_attn_part_bytes(j->a), &s->space);
}

static void combine(const ls_native *x, int step, const job *j, const uint8_t *parts, ls_attend_scratch *s) {
    size_t part = ls_attn_part_bytes(j->a);
    float *y = ls_native_value(x, x->plan.item[x->plan.step[step].begin].node);
    for (int i = 0; i < j->tile.n; i++)
        ls_native_ops(x)->combine(j->a, y + (int64_t)j->row[i] * j->n->cols + j->column[i], parts + (size_t)i * part, j->ranges, (size_t)j->tile.n * part,
                                  s->sum);
}

/* Tasks run head by head, so that neighbouring tasks read the same keys; without a split the last tiles, which see most keys,
 * come first. */
void ls_native_attend_task(ls_native *x, int step, int task, int thread) {
    ls_attend_scratch *s = ls_pool_scratch(x->pool, thread);
    int n = x->class[x->run[step].class].n, kv_heads = node_of(x, step)->kv_heads;
    if (x->run[step].split) {
        int pair = task % (n * kv_heads), k = task / (n * kv_heads);
        job j = job_of(x, step, pair % n, pair / n);
        if (k >= j.ranges) return;
        quantise_queries(x, &j, s);
        attend_range(x, &j, k, x->parts + (size_t)pair * x->part_slot_bytes, s);
        return;
    }
    job j = job_of(x, step, n - 1 - task % n, task / n);
    uint8_t *parts = x->parts + (size_t)thread * x->part_slot_bytes;
    if (x->run[step].appends) append_rows(x, j.n, j.head, 0, x->batch->n_rows, s);
    quantise_queries(x, &j, s);
    for (int64_t k = 0; k < j.ranges; k++) attend_range(x, &j, k, parts, s);
    combine(x, step, &j, parts, s);
}

void ls_native_combine_task(ls_native *x, int step, int task, int thread) {
    int n = x->class[x->run[step].class].n;
    job j = job_of(x, step, task % n, task / n);
    combine(x, step, &j, x->parts + (size_t)task * x->part_slot_bytes, ls_pool_scratch(x->pool, thread));
}

/* ---- Life ------------------------------------------------------------------------------------------------------- */

static ls_code class_of(ls_native *x, int group, int *index, ls_error *e) {
    for (int c = 0; c < x->n_classes; c++)
        if (x->class[c].group == group) {
            *index = c;
            return LS_OK;
        }
    size_t tiles = ((size_t)x->o.max_rows * (size_t)group + LS_ATTN_TILE - 1) / LS_ATTN_TILE + (size_t)x->o.max_seqs;
    ls_tile_class *c = &x->class[x->n_classes];
    *c = (ls_tile_class){.group = group};
    LS_TRY(ls_calloc(&c->tile, tiles, sizeof *c->tile, "attention", e));
    x->work_bytes += tiles * sizeof *c->tile;
    *index = x->n_classes++;
    return LS_OK;
}

ls_code ls_native_attention_init(ls_native *x, ls_error *e) {
    size_t part = 0, tasks = 0, ranges = ((size_t)x->o.context + LS_EXACT_KEY_RANGE - 1) / LS_EXACT_KEY_RANGE;
    LS_TRY(ls_calloc(&x->class, (size_t)x->kv.n_layers, sizeof *x->class, "attention", e));
    for (int s = 0; s < x->plan.n_steps; s++) {
        ls_step_kind kind = x->plan.step[s].kind;
        if (kind != LS_STEP_APPEND && kind != LS_STEP_ATTEND && kind != LS_STEP_COMBINE) continue;
        const ls_node *n = node_of(x, s);
        size_t bytes = ls_attn_part_bytes(&x->kv.layer[n->layer].attn);
        if (bytes > part) part = bytes;
        size_t whole = (((size_t)x->o.max_rows * (size_t)(n->heads / n->kv_heads)) / LS_ATTN_TILE + 1 + (size_t)x->o.max_seqs) * (size_t)n->kv_heads;
        if (whole > tasks) tasks = whole;
        LS_TRY(class_of(x, n->heads / n->kv_heads, &x->run[s].class, e));
    }
    x->part_slots = SPLIT_TASKS * (size_t)x->threads;
    if (x->part_slots * ranges > tasks) tasks = x->part_slots * ranges;
    if (tasks > LS_SHARE_TASKS)
        LS_FAIL(e, LS_UNIMPLEMENTED, "attention over %d positions, %d rows a pass, on %d threads makes %zu tasks; allowed are %d: ask for less of one of them",
                x->o.context, x->o.max_rows, x->threads, tasks, LS_SHARE_TASKS);
    x->part_slot_bytes = ranges * LS_ATTN_TILE * part;
    x->work_bytes += x->part_slots * x->part_slot_bytes;
    return ls_alloc_aligned(&x->parts, x->part_slots, x->part_slot_bytes, "attention", e);
}

void ls_native_attention_deinit(ls_native *x) {
    for (int c = 0; c < x->n_classes; c++) ls_free(x->class[c].tile);
    ls_free(x->class);
    ls_free(x->parts);
}
