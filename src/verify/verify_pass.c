/* One run of a comparison: executors with observers that meet at every compared node. */
#include "verify/verify_pass.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "contract/exact.h"

typedef struct run run;

/* What an executor's observer is given. */
typedef struct viewer {
    run *run;
    int side;
    const ls_graph *graph; /* that the executor runs: a node's index is its place there */
} viewer;

struct run {
    ls_comparison *c;
    const bool *compared;
    bool *mask;            /* [n_nodes] compared, and what the fault needs */
    viewer viewer[2];
    ls_executor *x[2];
    float *logits[2];      /* [chunk, vocab] */
    int32_t *slot, *row;   /* [chunk] zeros; 0, 1, 2, ... */
    float *patches;        /* [chunk, input_cols] of an image */
    const float **patch;   /* [chunk] */
    float *recorded;       /* rows of a file */
    size_t cap_recorded;
    int first;
    /* The current pass. */
    int pass;
    int64_t position;
    ls_batch batch;
    /* Where the two sides meet. */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool waiting[2], finished[2];
    size_t node[2];
    float *values[2];
    uint64_t met;
    ls_code rc;            /* a failure of the comparison itself */
    ls_error e;
};

void ls_verify_tell(const ls_comparison *c, const char *name, const char *detail, int done, int total, bool begins) {
    ls_verify_stage s = {.name = name, .detail = detail, .done = done, .total = total, .begins = begins};
    if (c->o->stage) c->o->stage(c->o->stage_user, &s);
}

/* ---- Comparing one node ---------------------------------------------------------------------------------------------------- */

static double rms(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(x[i])) sum += (double)x[i] * (double)x[i];
    return n ? sqrt(sum / (double)n) : 0;
}

static ls_bound bound_of(const ls_comparison *c, size_t node, const float *reference, int64_t n) {
    if (c->r->has_bound) return (ls_bound){.absolute = c->r->absolute, .relative = c->r->relative};
    ls_bound_kind kind = c->r->bound_kind;
    double scale = kind == LS_BOUND_BITS ? 0 : rms(reference, n);
    /* Beside a file, rows of images end another chain of f32, the tower's: they have the bound of its end. */
    bool rows = c->file >= 0 && c->o->embedding && !node;
    if (rows && kind != LS_BOUND_COARSE) kind = LS_BOUND_DRIFT;
    return ls_bound_of(kind, c->graph, &c->graph->nodes[rows ? c->graph->n_nodes - 1 : node], scale);
}

/* What each side would choose after each row of logits: the lowest index of the largest value. */
static void choose(run *x, int side, const float *logits, int64_t rows, int64_t cols) {
    for (int64_t i = 0; i < rows; i++) {
        ls_verify_token *t = &x->c->r->token[x->position + i];
        int best = 0;
        for (int64_t k = 1; k < cols; k++)
            if (logits[i * cols + k] > logits[i * cols + best]) best = (int)k;
        t->has[side] = true;
        t->top[side] = best;
        t->logit[side] = logits[i * cols + best];
    }
}

/* Where the rows of |node| begin in this pass. */
static int64_t position_of(const run *x, size_t node) {
    const ls_graph *g = x->c->graph;
    return x->c->vision ? x->pass * (g->nodes[node].selected ? g->image_out : g->image_rows) : x->position;
}

/* Exact contracts read canonical values only. */
static void feed(const ls_comparison *c, float *to, const float *from, int64_t n) {
    if (c->side[c->fed].contract == LS_CONTRACT_FLOAT) memcpy(to, from, (size_t)n * sizeof *to);
    else
        for (int64_t i = 0; i < n; i++) to[i] = isnan(from[i]) ? 0.0f : ls_canon(from[i]);
}

static void compare_node(run *x, size_t node, float *left, float *right, int64_t rows, int64_t cols) {
    ls_comparison *c = x->c;
    ls_verify_node *n = &c->r->node[node];
    const float *reference = c->r->reference_side ? right : left, *candidate = c->r->reference_side ? left : right;
    ls_difference d = {.first = -1};
    n->bound = bound_of(c, node, reference, rows * cols);
    ls_compare(&d, reference, candidate, rows * cols, &n->bound);
    if (d.first >= 0 && n->d.first < 0) {
        n->first_pass = x->pass;
        n->first_position = position_of(x, node);
        n->cols = cols;
    }
    if (d.first >= 0 && x->first < 0) x->first = (int)node;
    ls_difference_add(&n->d, &d);
    n->passes++;
    if (node + 1 == c->graph->n_nodes && !c->vision) {
        choose(x, 0, left, rows, cols);
        choose(x, 1, right, rows, cols);
    }
    if (c->o->same_input) feed(c, c->fed ? right : left, c->fed ? left : right, rows * cols);
    ls_verify_tell(c, "comparing", c->graph->nodes[node].name, (int)(x->pass * (int64_t)c->graph->n_nodes + (int64_t)node + 1),
                   c->passes * (int)c->graph->n_nodes, false);
}

/* ---- Meeting ------------------------------------------------------------------------------------------------------------------ */

/* Under the lock: the comparison cannot go on; whoever waits is let go. */
static void give_up(run *x, ls_code code, const char *text, const char *name) {
    if (!x->rc) x->rc = ls_error_set(&x->e, code, __FILE__, __LINE__, "node \"%s\": %s", name, text);
    pthread_cond_broadcast(&x->changed);
}

static void meet(run *x, int side, size_t node, float *values, int64_t rows, int64_t cols) {
    const char *name = x->c->graph->nodes[node].name;
    int other = 1 - side;
    pthread_mutex_lock(&x->mutex);
    x->values[side] = values;
    x->node[side] = node;
    x->waiting[side] = true;
    if (!x->rc && x->waiting[other]) {
        if (x->node[other] != node) give_up(x, LS_INTERNAL, "the other side shows another node; both must follow the graph", name);
        else compare_node(x, node, x->values[0], x->values[1], rows, cols);
        x->waiting[0] = x->waiting[1] = false;
        x->met++;
        pthread_cond_broadcast(&x->changed);
    }
    for (uint64_t met = x->met; x->waiting[side] && met == x->met && !x->rc;) {
        if (x->finished[other]) give_up(x, LS_INTERNAL, "the other side ended its pass without showing it", name);
        else pthread_cond_wait(&x->changed, &x->mutex);
    }
    x->waiting[side] = false;
    pthread_mutex_unlock(&x->mutex);
}

static void meet_file(run *x, int side, size_t node, float *values, int64_t rows, int64_t cols) {
    size_t n = (size_t)rows * (size_t)cols;
    if (x->rc) return;
    if (x->cap_recorded < n) {
        x->rc = ls_realloc(&x->recorded, n, sizeof *x->recorded, "recorded rows", &x->e);
        if (x->rc) return;
        x->cap_recorded = n;
    }
    ls_side_file_rows(&x->c->side[1 - side], node, position_of(x, node), rows, x->recorded);
    compare_node(x, node, side ? x->recorded : values, side ? values : x->recorded, rows, cols);
}

static bool is_compared(const run *x, size_t node) {
    if (x->compared && !x->compared[node]) return false;
    return x->c->file < 0 || x->c->side[x->c->file].tensor[node];
}

static void view(void *user, const ls_node *n, float *values, int64_t rows, int64_t cols) {
    viewer *v = user;
    run *x = v->run;
    size_t node = (size_t)(n - v->graph->nodes);
    ls_fault *fault = x->c->side[v->side].fault;
    if (!rows) return;
    if (fault) ls_fault_before(fault, node, values, rows, cols, x->position);
    if (is_compared(x, node)) (x->c->file < 0 ? meet : meet_file)(x, v->side, node, values, rows, cols);
    else if (x->c->file >= 0 && node + 1 == x->c->graph->n_nodes && !x->c->vision) choose(x, v->side, values, rows, cols);
    if (fault) ls_fault_after(fault, node, values, rows, cols);
}

/* ---- A pass ------------------------------------------------------------------------------------------------------------------- */

typedef struct half {
    run *run;
    int side;
    ls_code rc;
    ls_error e;
} half;

static void *forward(void *user) {
    half *h = user;
    run *x = h->run;
    ls_executor *exec = x->x[h->side];
    ls_batch batch = x->batch;
    if (x->c->side[h->side].fault) ls_fault_pass(x->c->side[h->side].fault, &batch);
    h->rc = exec->forward(exec, &batch, x->logits[h->side], &h->e);
    pthread_mutex_lock(&x->mutex);
    x->finished[h->side] = true;
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->mutex);
    return NULL;
}

/* Both executors, or the only one. A side's own failure comes before what it caused on the other. */
static ls_code run_pass(run *x, ls_error *e) {
    half halves[2] = {{.run = x, .side = 0}, {.run = x, .side = 1}};
    pthread_t thread;
    x->finished[0] = x->finished[1] = false;
    if (x->c->file >= 0) forward(&halves[1 - x->c->file]);
    else {
        if (pthread_create(&thread, NULL, forward, &halves[0])) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "cannot start a thread for the left side");
        forward(&halves[1]);
        pthread_join(thread, NULL);
    }
    for (int s = 0; s < 2; s++)
        if (halves[s].rc) {
            if (e) *e = halves[s].e;
            return ls_error_wrap(e, halves[s].rc, "%s side \"%s\"", s ? "right" : "left", x->c->side[s].spec->name);
        }
    if (x->rc && e) *e = x->e;
    return x->rc;
}

/* The token at |position| + 1 is the left side's choice, unless a file says. */
static void take_next(run *x, int64_t next) {
    ls_comparison *c = x->c;
    if (c->given_ids || next >= (int64_t)c->n_prompt + c->decode) return;
    const float *row = x->logits[0] + (size_t)(x->batch.n_rows - 1) * (size_t)c->graph->vocab;
    int best = 0;
    for (int64_t k = 1; k < c->graph->vocab; k++)
        if (row[k] > row[best]) best = (int)k;
    c->ids[next] = best;
    c->r->token[next].id = best;
}

int64_t ls_verify_piece(const ls_comparison *c, int64_t position) {
    const ls_span *block = c->o->block;
    int64_t prompt = (int64_t)c->n_prompt, past = 0, whole = 0;
    if (position >= prompt) return 1;
    for (int64_t i = position; i < prompt && (i - position < c->chunk || !whole); i++) {
        if (block && block[i].end > past) past = block[i].end;
        if (past <= i + 1) whole = i + 1 - position;
    }
    return whole;
}

static ls_code run_passes(run *x, ls_error *e) {
    ls_comparison *c = x->c;
    int64_t total = (int64_t)c->n_prompt + c->decode, prompt = (int64_t)c->n_prompt;
    ls_verify_tell(c, "comparing", "", 0, c->passes * (int)c->graph->n_nodes, true);
    for (x->pass = 0; x->position < total; x->pass++) {
        int64_t rows = ls_verify_piece(c, x->position);
        x->batch = (ls_batch){.n_rows = (int)rows, .token = c->ids + x->position, .slot = x->slot, .n_out = (int)rows, .out_row = x->row};
        if (x->position < prompt && c->o->embedding) x->batch.embedding = c->o->embedding + x->position;
        if (x->position < prompt && c->o->block) x->batch.block = c->o->block + x->position;
        LS_TRY(run_pass(x, e));
        if (x->position + rows >= prompt) take_next(x, x->position + rows);
        x->position += rows;
    }
    return c->fault ? ls_fault_status(c->fault, e) : LS_OK;
}

static ls_code run_images(run *x, ls_error *e) {
    ls_comparison *c = x->c;
    int rows = (int)c->graph->image_rows;
    ls_verify_tell(c, "comparing", "", 0, c->passes * (int)c->graph->n_nodes, true);
    for (x->pass = 0; x->pass < c->passes; x->pass++) {
        ls_vision_patches(c->vision, c->o->image[x->pass], x->patches);
        x->batch = (ls_batch){.n_rows = rows, .slot = x->slot, .n_out = (int)c->graph->image_out, .embedding = x->patch};
        LS_TRY(run_pass(x, e));
        for (int s = 0; s < 2; s++)
            if (x->x[s]) x->x[s]->truncate(x->x[s], 0, 0);
    }
    return c->fault ? ls_fault_status(c->fault, e) : LS_OK;
}

/* ---- A run -------------------------------------------------------------------------------------------------------------------- */

static void tell_packing(void *user, double fraction) {
    const viewer *v = user;
    ls_verify_tell(v->run->c, v->side ? "opening right" : "opening left", v->run->c->side[v->side].spec->name, (int)(fraction * 100), 100, false);
}

static ls_code open_executor(run *x, int s, ls_error *e) {
    ls_comparison *c = x->c;
    const ls_side *side = &c->side[s];
    x->viewer[s] = (viewer){.run = x, .side = s, .graph = side->fault ? ls_fault_graph(side->fault) : side->graph};
    int context = c->vision ? c->chunk : (int)c->n_prompt + c->decode;
    ls_executor_options o = {.max_seqs = 1, .context = context, .max_rows = c->chunk, .threads = c->o->threads, .level = c->o->level,
                             .observe = x->mask, .observer = view, .observer_user = &x->viewer[s], .progress = tell_packing, .progress_user = &x->viewer[s]};
    ls_verify_tell(c, s ? "opening right" : "opening left", side->spec->name, 0, 100, true);
    LS_TRY(ls_calloc(&x->logits[s], (size_t)c->chunk * (size_t)c->graph->vocab, sizeof *x->logits[s], "logits", e));
    return ls_side_executor(side, &x->x[s], &o, e);
}

static ls_code prepare(run *x, ls_error *e) {
    ls_comparison *c = x->c;
    size_t n = c->graph->n_nodes;
    LS_TRY(ls_calloc(&x->mask, n, sizeof *x->mask, "observed nodes", e));
    LS_TRY(ls_calloc(&x->slot, 2 * (size_t)c->chunk, sizeof *x->slot, "batch rows", e));
    x->row = x->slot + c->chunk;
    for (int i = 0; i < c->chunk; i++) x->row[i] = i;
    if (c->vision) {
        size_t cols = (size_t)c->graph->input_cols;
        LS_TRY(ls_calloc(&x->patches, (size_t)c->chunk * cols, sizeof *x->patches, "patches", e));
        LS_TRY(ls_calloc(&x->patch, (size_t)c->chunk, sizeof(const float *), "patches", e));
        for (int i = 0; i < c->chunk; i++) x->patch[i] = x->patches + (size_t)i * cols;
    }
    for (size_t i = 0; i < n; i++) {
        x->mask[i] = is_compared(x, i) || (c->file >= 0 && i + 1 == n);
        if (!x->compared || x->compared[i]) c->r->node[i] = (ls_verify_node){.d.first = -1, .absent = !is_compared(x, i)};
    }
    if (c->fault) {
        ls_fault_observe(c->fault, x->mask);
        ls_fault_reset(c->fault);
    }
    for (int s = 0; s < 2; s++) {
        if (s != c->file) {
            ls_code rc = open_executor(x, s, e);
            if (rc) return ls_error_wrap(e, rc, "%s side \"%s\"", s ? "right" : "left", c->side[s].spec->name);
        }
        if (!c->r->side[s].name[0]) LS_TRY(ls_side_identify(&c->side[s], x->x[s], c->o->compiler, &c->r->side[s], e));
    }
    return LS_OK;
}

ls_code ls_verify_passes(ls_comparison *c, const bool *compared, int *first, ls_error *e) {
    run x = {.c = c, .compared = compared, .first = -1};
    pthread_mutex_init(&x.mutex, NULL);
    pthread_cond_init(&x.changed, NULL);
    ls_code rc = prepare(&x, e);
    if (!rc) rc = c->vision ? run_images(&x, e) : run_passes(&x, e);
    *first = x.first;
    for (int s = 0; s < 2; s++) {
        if (x.x[s]) x.x[s]->destroy(x.x[s]);
        ls_free(x.logits[s]);
    }
    ls_free(x.mask);
    ls_free(x.slot);
    ls_free(x.patches);
    ls_free(x.patch);
    ls_free(x.recorded);
    pthread_cond_destroy(&x.changed);
    pthread_mutex_destroy(&x.mutex);
    return rc;
}
