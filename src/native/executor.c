/* The native executor: creation, one pass, and the interface of graph/executor.h. */
#include <string.h>

#include "graph/batch.h"
#include "native/executor_internal.h"
#include "reference/exact_ops.h"

/* ---- A pass ------------------------------------------------------------------------------------------------------- */

/* Groups rows by slot and gives each its position. */
static void group_rows(ls_native *x, const ls_batch *b) {
    x->n_runs = 0;
    for (int i = 0; i < b->n_rows; i++) x->slot_run[b->slot[i]] = -1;
    for (int i = 0; i < b->n_rows; i++) {
        int *r = &x->slot_run[b->slot[i]];
        if (*r < 0) {
            *r = x->n_runs++;
            x->slots[*r] = (ls_run){.slot = b->slot[i]};
        }
        x->position[i] = x->kv.slot[b->slot[i]].length + x->slots[*r].n++;
    }
    int begin = 0;
    for (int r = 0; r < x->n_runs; r++) {
        x->slots[r].begin = begin;
        begin += x->slots[r].n;
    }
    for (int i = 0; i < b->n_rows; i++) {
        const ls_run *r = &x->slots[x->slot_run[b->slot[i]]];
        x->order[r->begin + x->position[i] - x->kv.slot[r->slot].length] = i;
    }
}

/* Room for every row; on failure nothing is kept that was not there before. */
static ls_code reserve(ls_native *x, ls_error *e) {
    ls_code rc = LS_OK;
    x->longest = 0;
    for (int r = 0; r < x->n_runs; r++) {
        const ls_run *run = &x->slots[r];
        int length = x->kv.slot[run->slot].length;
        if (run->n > x->o.context - length)
            LS_FAIL(e, LS_OUT_OF_RANGE, "slot %d holds %d positions; %d more do not fit the context of %d", run->slot, length, run->n, x->o.context);
        if (length + run->n > x->longest) x->longest = length + run->n;
    }
    for (int r = 0; !rc && r < x->n_runs; r++) rc = ls_kv_reserve(&x->kv, x->slots[r].slot, x->kv.slot[x->slots[r].slot].length + x->slots[r].n, e);
    for (int r = 0; rc && r < x->n_runs; r++) ls_kv_truncate(&x->kv, x->slots[r].slot, x->kv.slot[x->slots[r].slot].length);
    return rc;
}

static void count_tasks(ls_native *x) {
    for (int s = 0; s < x->plan.n_steps; s++) {
        const ls_step *st = &x->plan.step[s];
        ls_step_run *run = &x->run[s];
        int rows = ls_native_rows(x, st->selected);
        if (st->kind == LS_STEP_ROWS) run->tasks = rows ? ls_native_rows_tasks(x, s) : 0;
        else if (st->kind == LS_STEP_LINEAR) {
            run->cut = run->cuts[rows > LS_FEW_ROWS];
            run->tasks = rows ? run->cut.tasks : 0;
        }
    }
    ls_share_reset(x->share, x->threads);
    ls_native_attention_prepare(x);
}

static void run_task(ls_native *x, int step, int task, int thread) {
    switch (x->plan.step[step].kind) {
        case LS_STEP_ROWS: ls_native_rows_task(x, step, task); break;
        case LS_STEP_APPEND: ls_native_append_task(x, step, task, thread); break;
        case LS_STEP_ATTEND: ls_native_attend_task(x, step, task, thread); break;
        case LS_STEP_COMBINE: ls_native_combine_task(x, step, task, thread); break;
        default: break;
    }
}

static void run_tasks(ls_native *x, int step, int begin, int end, int thread) {
    if (x->plan.step[step].kind == LS_STEP_LINEAR) ls_native_linear_tasks(x, step, begin, end, thread);
    else
        for (int task = begin; task < end; task++) run_task(x, step, task, thread);
}

/* What a thread fetches while it waits: the weights of its first tasks of the next products, |step|. Small passes wait for memory, which nothing else
 * reads while one thread norms and quantises their few rows. */
typedef struct weights_ahead {
    int step;
    ls_pool_idle left;
} weights_ahead;

/* Moves on to the products after step |step|, unless experts come first, whose reads would take the cache. MOST: of a second-level cache of 1 MiB, where it
 * was measured. */
static void look_ahead(const ls_native *x, int step, int thread, weights_ahead *ahead) {
    enum { MOST = 384 << 10 };
    if (ahead->step > step) return;
    for (ahead->step = step + 1; ahead->step < x->plan.n_steps; ahead->step++) {
        ls_step_kind kind = x->plan.step[ahead->step].kind;
        if (kind == LS_STEP_MOE || (kind == LS_STEP_LINEAR && x->run[ahead->step].tasks)) break;
    }
    ahead->left = (ls_pool_idle){0};
    if (ahead->step == x->plan.n_steps || x->plan.step[ahead->step].kind == LS_STEP_MOE) return;
    if (ls_native_rows(x, x->plan.step[ahead->step].selected) > LS_FEW_ROWS) return;
    size_t bytes;
    int64_t first, end;
    ls_pool_split(x->run[ahead->step].tasks, thread, x->threads, &first, &end);
    if (first == end) return;
    const uint8_t *data = ls_native_linear_bytes(x, ahead->step, (int)first, (int)end, &bytes);
    ahead->left = (ls_pool_idle){data, data + (bytes < MOST ? bytes : MOST)};
}

/* A lone task is the first thread's, whose cache holds the values that small passes hand on. Shares are not looked at where no thread has two tasks: another
 * thread's cache may have them. */
static void run_step(ls_native *x, int step, int thread, weights_ahead *ahead) {
    const int tasks = x->run[step].tasks;
    if (tasks > x->threads) {
        for (int t, end; (t = ls_share_take(x->share, thread, x->threads, step, tasks, &end)) >= 0;) run_tasks(x, step, t, end, thread);
    } else if (thread < tasks) {
        run_tasks(x, step, thread, thread + 1, thread);
    }
    look_ahead(x, step, thread, ahead);
    ls_pool_barrier(x->pool, thread, &ahead->left);
}

/* Shows the value of a finished node; the others wait, since the next node may overwrite it, and reads (quantises, stores)
 * what the observer left there: under an observer the plan has one step per node and quantises just before a product. */
static void observe(ls_native *x, int step, int thread) {
    const ls_step *s = &x->plan.step[step];
    ls_item it = x->plan.item[s->begin];
    int rows = ls_native_rows(x, s->selected);
    if (it.kind != LS_ITEM_NODE || s->kind == LS_STEP_APPEND || s->kind == LS_STEP_ATTEND || !rows) return;
    if (x->o.observe && !x->o.observe[it.node]) return;
    const ls_node *n = &x->g->nodes[it.node];
    if (!thread) x->o.observer(x->o.observer_user, n, ls_native_value(x, it.node), rows, n->cols);
    ls_pool_barrier(x->pool, thread, NULL);
}

/* The same when the pass has ended. */
static void observe_all(const ls_native *x) {
    for (size_t i = 0; i < x->g->n_nodes; i++) {
        const ls_node *n = &x->g->nodes[i];
        int rows = ls_native_rows(x, n->selected);
        if (rows && x->plan.value[i] != LS_NO_PLACE && (!x->o.observe || x->o.observe[i]))
            x->o.observer(x->o.observer_user, n, ls_native_value(x, (int)i), rows, n->cols);
    }
}

static void rope_tables(ls_native *x, int thread, int threads) {
    int64_t begin, end;
    ls_pool_split(x->batch->n_rows, thread, threads, &begin, &end);
    for (size_t r = 0; r < x->g->n_rope; r++)
        for (int64_t i = begin; i < end; i++) {
            int32_t *c = x->rope[r] + i * x->g->rope[r].rot_dim;
            ls_exact_rope_table(&x->g->rope[r], x->position[i], c, c + x->g->rope[r].rot_dim / 2);
        }
    ls_pool_barrier(x->pool, thread, NULL);
}

static void pass(void *ctx, int thread, int threads) {
    ls_native *x = ctx;
    weights_ahead ahead = {.step = -1};
    rope_tables(x, thread, threads);
    for (int s = 0; s < x->plan.n_steps; s++) {
        if (x->plan.step[s].kind == LS_STEP_MOE) ls_native_moe_step(x, s, thread);
        else if (x->run[s].tasks) run_step(x, s, thread, &ahead);
        if (x->o.observer && !x->o.observe_after) observe(x, s, thread);
    }
}

static ls_code forward(ls_executor *base, const ls_batch *batch, float *logits, ls_error *e) {
    ls_native *x = (ls_native *)(void *)base;
    LS_TRY(ls_batch_check(batch, x->g, &x->o, e));
    LS_TRY(ls_batch_check_blocks(batch, base, e));
    group_rows(x, batch);
    LS_TRY(reserve(x, e));
    x->batch = batch;
    x->logits = logits;
    count_tasks(x);
    ls_pool_run(x->pool, pass, x);
    if (x->o.observer && x->o.observe_after) observe_all(x);
    for (int r = 0; r < x->n_runs; r++) x->kv.slot[x->slots[r].slot].length += x->slots[r].n;
    return LS_OK;
}

/* ---- The rest of the interface ------------------------------------------------------------------------------------ */

static int length(const ls_executor *base, int slot) {
    const ls_native *x = (const ls_native *)(const void *)base;
    return slot < 0 || slot >= x->o.max_seqs ? 0 : x->kv.slot[slot].length;
}

static void truncate_slot(ls_executor *base, int slot, int n) {
    ls_native *x = (ls_native *)(void *)base;
    if (slot >= 0 && slot < x->o.max_seqs) ls_kv_truncate(&x->kv, slot, n);
}

static size_t block_bytes(const ls_executor *base) { return ((const ls_native *)(const void *)base)->kv.block_bytes; }

static ls_code hold_block(ls_executor *base, int slot, int index, void **out, ls_error *e) {
    uint8_t *block = ((ls_native *)(void *)base)->kv.slot[slot].block[index];
    (void)e;
    ls_kv_hold(block);
    *out = block;
    return LS_OK;
}

static void release_block(ls_executor *base, void *block) {
    if (block) ls_kv_release(&((ls_native *)(void *)base)->kv, block);
}

static ls_code attach_blocks(ls_executor *base, int slot, void *const *block, int n, int held, ls_error *e) {
    ls_native *x = (ls_native *)(void *)base;
    if (slot < 0 || slot >= x->o.max_seqs || x->kv.slot[slot].length) LS_FAIL(e, LS_INVALID_ARGUMENT, "slot %d does not exist or is not empty", slot);
    if (held > x->o.context) LS_FAIL(e, LS_OUT_OF_RANGE, "%d positions do not fit the context of %d", held, x->o.context);
    if (held < 1 || n != (held + LS_KV_BLOCK - 1) / LS_KV_BLOCK)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "%d positions in %d blocks of %d", held, n, (int)LS_KV_BLOCK);
    ls_kv_attach(&x->kv, slot, block, n, held);
    return LS_OK;
}

static ls_code create_block(ls_executor *base, void **block, ls_error *e) {
    uint8_t *made;
    LS_TRY(ls_kv_take(&((ls_native *)(void *)base)->kv, &made, e));
    *block = made;
    return LS_OK;
}

static uint8_t *block_contents(void *block) { return block; }

static const ls_block_sharing sharing = {.layout = LS_KV_LAYOUT_NAME, .paged = true, .positions = LS_KV_BLOCK, .bytes = block_bytes,
                                         .hold = hold_block, .release = release_block, .attach = attach_blocks, .create = create_block,
                                         .contents = block_contents};

static void memory(const ls_executor *base, size_t *weights, size_t *kv, size_t *work) {
    const ls_native *x = (const ls_native *)(const void *)base;
    *weights = x->weights.bytes;
    *kv = ls_kv_bytes(&x->kv);
    *work = x->work_bytes;
}

static void destroy(ls_executor *base) {
    ls_native *x = (ls_native *)(void *)base;
    if (!x) return;
    ls_native_attention_deinit(x);
    ls_native_moe_deinit(x);
    for (size_t r = 0; x->rope && r < x->g->n_rope; r++) ls_free(x->rope[r]);
    ls_native_weights_deinit(&x->weights);
    ls_kv_deinit(&x->kv);
    ls_plan_deinit(&x->plan);
    ls_pool_destroy(x->pool);
    ls_free(x->run);
    ls_free(x->share);
    ls_free(x->values);
    ls_free(x->acts);
    ls_free(x->rope);
    ls_free(x->position);
    ls_free(x->slots);
    ls_free(x);
}

/* ---- Creation ----------------------------------------------------------------------------------------------------- */

static ls_code check_options(const ls_graph *g, const ls_executor_options *o, ls_error *e) {
    if (g->contract == LS_CONTRACT_FLOAT)
        LS_FAIL(e, LS_UNIMPLEMENTED, "the native backend runs the exact contracts, not %s; use backend reference or xla", ls_contract_name(g->contract));
    LS_TRY(ls_executor_options_check(o, g, e));
    if (!g->n_nodes || g->nodes[g->n_nodes - 1].cols != g->vocab)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "the graph does not end in logits over its vocabulary of %lld", (long long)g->vocab);
    for (size_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].contract != g->contract) LS_FAIL(e, LS_UNIMPLEMENTED, "node \"%s\": mixed contracts", g->nodes[i].name);
    return LS_OK;
}

static ls_code take(ls_native *x, void *out, size_t n, size_t elem, ls_error *e) {
    LS_TRY(ls_calloc(out, n, elem, "native executor", e));
    x->work_bytes += n * elem;
    return LS_OK;
}

static ls_code make_buffers(ls_native *x, ls_error *e) {
    const ls_plan *p = &x->plan;
    LS_TRY(ls_alloc_aligned(&x->values, p->bytes, 1, "native executor", e));
    x->work_bytes += p->bytes;
    LS_TRY(take(x, &x->acts, x->g->n_nodes, sizeof *x->acts, e));
    for (size_t i = 0; i < x->g->n_nodes; i++)
        if (p->quantised[i] != LS_NO_PLACE)
            ls_acts_bind(&x->acts[i], x->values + p->quantised[i], x->g->contract, x->o.max_rows, x->g->nodes[i].cols, p->needs[i]);
    LS_TRY(take(x, &x->rope, x->g->n_rope, sizeof *x->rope, e));
    for (size_t r = 0; r < x->g->n_rope; r++)
        LS_TRY(take(x, &x->rope[r], (size_t)x->o.max_rows * (size_t)x->g->rope[r].rot_dim, sizeof *x->rope[r], e));
    LS_TRY(take(x, &x->position, 2 * (size_t)x->o.max_rows + (size_t)x->o.max_seqs, sizeof *x->position, e));
    x->order = x->position + x->o.max_rows;
    x->slot_run = x->order + x->o.max_rows;
    return take(x, &x->slots, (size_t)x->o.max_seqs, sizeof *x->slots, e);
}

/* Cuts a step of products into tasks of a multiple of |unit| tiles, which kernels work on at a time: about PER_THREAD a thread. They are short, so that
 * threads end together, and cost little: a thread's tasks follow each other in memory (share.h). */
static ls_linear_cut cut_linear(const ls_native *x, const ls_step *st, int unit) {
    enum { PER_THREAD = 32 };
    ls_linear_cut cut = {0};
    int64_t tiles = 0;
    for (int k = st->begin; k < st->begin + st->count; k += ls_native_linear_unit(x, st, k)) tiles += x->weights.node[x->plan.item[k].node].matrix->tiles;
    int64_t each = (tiles / (PER_THREAD * x->threads) + unit / 2) / unit * unit;
    cut.tiles = (int)(x->threads == 1 ? tiles : each < unit ? unit : each);
    for (int k = st->begin; k < st->begin + st->count; k += ls_native_linear_unit(x, st, k))
        cut.tasks += (int)((x->weights.node[x->plan.item[k].node].matrix->tiles + cut.tiles - 1) / cut.tiles);
    return cut;
}

/* The cut for passes of many rows: a task that a thread has less than another costs more than LS_PRODUCT_TILES tiles at a time gain, where tasks are few. */
static ls_linear_cut cut_many(const ls_native *x, const ls_step *st) {
    enum { TASKS_TO_IDLE = 8 };
    ls_linear_cut cut = cut_linear(x, st, LS_PRODUCT_TILES);
    int idle = (x->threads - cut.tasks % x->threads) % x->threads;
    return idle * TASKS_TO_IDLE <= cut.tasks ? cut : cut_linear(x, st, 2);
}

static ls_code make_steps(ls_native *x, ls_error *e) {
    if (x->plan.n_steps >= LS_SHARE_STEPS)
        LS_FAIL(e, LS_UNIMPLEMENTED, "the model's plan has %d steps; the native backend runs at most %d", x->plan.n_steps, LS_SHARE_STEPS - 1);
    LS_TRY(take(x, &x->run, (size_t)x->plan.n_steps, sizeof *x->run, e));
    LS_TRY(ls_alloc_aligned(&x->share, (size_t)x->threads, sizeof *x->share, "native executor", e));
    x->work_bytes += (size_t)x->threads * sizeof *x->share;
    for (int s = 0; s < x->plan.n_steps; s++)
        if (x->plan.step[s].kind == LS_STEP_LINEAR) {
            x->run[s].cuts[0] = cut_linear(x, &x->plan.step[s], 2);
            x->run[s].cuts[1] = cut_many(x, &x->plan.step[s]);
        }
    return LS_OK;
}

static void add_level(ls_native *x, ls_level level) {
    x->ops[x->n_levels] = ls_ops_get(ls_level_name(level));
    x->kernels[x->n_levels++] = ls_kernels_of(level);
}

/* The kernels of the level asked for, or of every level of the machine, of which each call takes one, for "random": a mode for tests, in
 * which a difference between any two kernels would show. */
static ls_code choose_levels(ls_native *x, ls_error *e) {
    ls_cpu cpu;
    ls_level level = LS_LEVEL_C;
    ls_cpu_detect(&cpu);
    x->draws = &x->draw_count;
    if (x->o.level && !strcmp(x->o.level, "random")) {
        ls_cpu_permit(&cpu);
        for (int l = 0; l < LS_LEVEL_COUNT; l++)
            if (cpu.has[l]) add_level(x, (ls_level)l);
        x->base.level = "random";
        return LS_OK;
    }
    LS_TRY(ls_level_parse(&cpu, x->o.level, &level, e));
    if (level == LS_LEVEL_AMX) {
        ls_cpu_permit(&cpu);
        LS_TRY(ls_level_parse(&cpu, x->o.level, &level, e));
    }
    add_level(x, level);
    x->base.level = ls_level_name(level);
    return LS_OK;
}

ls_code ls_native_create(ls_executor **out, const ls_graph *g, ls_checkpoint *c, const ls_executor_options *o, ls_error *e) {
    LS_TRY(check_options(g, o, e));
    ls_native *x;
    LS_TRY(ls_calloc(&x, 1, sizeof *x, "native executor", e));
    x->base = (ls_executor){.name = "native", .forward = forward, .length = length, .truncate = truncate_slot, .sharing = &sharing, .memory = memory,
                            .destroy = destroy};
    x->g = g;
    x->checkpoint = c;
    x->o = *o;
    x->gated_floats = ls_native_gated_floats(o->max_rows);
    size_t linear = LS_LINEAR_SCRATCH + x->gated_floats * sizeof(float), scratch = sizeof(ls_attend_scratch) > linear ? sizeof(ls_attend_scratch) : linear;
    ls_code rc;
    LS_GOTO(choose_levels(x, e));
    LS_GOTO(ls_pool_create(&x->pool, o->threads, o->pin, scratch, e));
    x->threads = ls_pool_threads(x->pool);
    x->base.threads = x->threads;
    x->work_bytes = sizeof *x + (size_t)x->threads * scratch;
    LS_GOTO(ls_plan_init(&x->plan, g, o->max_rows, o->observer && !o->observe_after, o->observer && o->observe_after, e));
    LS_GOTO(ls_native_weights_init(&x->weights, g, c, x->pool, o, e));
    LS_GOTO(ls_kv_init(&x->kv, g, o->max_seqs, o->context, e));
    LS_GOTO(make_buffers(x, e));
    LS_GOTO(make_steps(x, e));
    LS_GOTO(ls_native_attention_init(x, e));
    LS_GOTO(ls_native_moe_init(x, e));
    *out = &x->base;
    return LS_OK;
out:
    destroy(&x->base);
    return rc;
}

const char *ls_native_level(void) {
    ls_cpu cpu;
    ls_cpu_detect(&cpu);
    return ls_level_name(cpu.best);
}
