/* Native first, with the schedule of any pass and every value kept; then the reference on the same rows, whose observer compares node by node. */
#include "session/shadow.h"

#include "base/alloc.h"
#include "base/bits.h"

typedef struct shadow {
    ls_executor base, *native, *reference;
    const ls_graph *g, *reference_graph;
    const float **value;  /* [n_nodes] of the native pass; NULL: not whole in memory, or no rows */
    float *logits;        /* [logits_rows, vocab] the reference's */
    size_t logits_rows;
    int *length;          /* [max_seqs] before the pass */
    int max_seqs;
    ls_error found;       /* code LS_OK: no difference yet */
} shadow;

static void keep(void *user, const ls_node *n, float *values, int64_t rows, int64_t cols) {
    shadow *x = user;
    (void)rows, (void)cols;
    x->value[n - x->g->nodes] = values;
}

static void compare(void *user, const ls_node *n, float *values, int64_t rows, int64_t cols) {
    shadow *x = user;
    const float *native = x->value[n - x->reference_graph->nodes];
    if (!native || x->found.code) return;
    for (int64_t i = 0; i < rows * cols; i++)
        if (ls_bits(native[i]) != ls_bits(values[i])) {
            ls_error_set(&x->found, LS_INTERNAL, __FILE__, __LINE__, "node \"%s\", row %lld, column %lld: native gives %a, the reference %a", n->name,
                         (long long)(i / cols), (long long)(i % cols), (double)native[i], (double)values[i]);
            return;
        }
}

/* Both executors hold what they held before the pass. */
static void undo(shadow *x) {
    for (int slot = 0; slot < x->max_seqs; slot++) {
        x->native->truncate(x->native, slot, x->length[slot]);
        x->reference->truncate(x->reference, slot, x->length[slot]);
    }
}

static ls_code follow(shadow *x, const ls_batch *batch, ls_error *e) {
    if ((size_t)batch->n_out > x->logits_rows) {
        x->logits_rows = (size_t)batch->n_out;
        ls_free(x->logits);
        x->logits = NULL;
        LS_TRY(ls_calloc(&x->logits, x->logits_rows, (size_t)x->g->vocab * sizeof *x->logits, "logits of the reference", e));
    }
    x->found = (ls_error){0};
    LS_TRY(x->reference->forward(x->reference, batch, x->logits, e));
    if (x->found.code && e) *e = x->found;
    return x->found.code;
}

static ls_code forward(ls_executor *base, const ls_batch *batch, float *logits, ls_error *e) {
    shadow *x = (shadow *)(void *)base;
    for (int slot = 0; slot < x->max_seqs; slot++) x->length[slot] = x->native->length(x->native, slot);
    for (size_t i = 0; i < x->g->n_nodes; i++) x->value[i] = NULL;
    LS_TRY(x->native->forward(x->native, batch, logits, e));
    ls_code rc = follow(x, batch, e);
    if (rc) undo(x);
    return rc;
}

static int length(const ls_executor *base, int slot) {
    const shadow *x = (const shadow *)(const void *)base;
    return x->native->length(x->native, slot);
}

static void truncate_slot(ls_executor *base, int slot, int n) {
    shadow *x = (shadow *)(void *)base;
    x->native->truncate(x->native, slot, n);
    x->reference->truncate(x->reference, slot, n);
}

static void memory(const ls_executor *base, size_t *weights, size_t *kv, size_t *work) {
    const shadow *x = (const shadow *)(const void *)base;
    x->native->memory(x->native, weights, kv, work);
}

static void destroy(ls_executor *base) {
    shadow *x = (shadow *)(void *)base;
    if (x->native) x->native->destroy(x->native);
    if (x->reference) x->reference->destroy(x->reference);
    ls_free(x->value);
    ls_free(x->logits);
    ls_free(x->length);
    ls_free(x);
}

ls_code ls_shadow_create(ls_executor **out, const ls_graph *g, const ls_graph *reference, ls_checkpoint *c, const ls_executor_options *o, ls_error *e) {
    shadow *x;
    LS_TRY(ls_calloc(&x, 1, sizeof *x, "shadow executor", e));
    x->base = (ls_executor){.name = "native", .forward = forward, .length = length, .truncate = truncate_slot, .memory = memory, .destroy = destroy};
    x->g = g;
    x->reference_graph = reference;
    x->max_seqs = o->max_seqs;
    ls_executor_options own = *o, other = *o;
    own.observer = keep;
    own.observer_user = other.observer_user = x;
    own.observe_after = true;
    other.observer = compare;
    ls_code rc;
    LS_GOTO(ls_calloc(&x->value, g->n_nodes, sizeof(const float *), "shadow executor", e));
    LS_GOTO(ls_calloc(&x->length, (size_t)o->max_seqs, sizeof *x->length, "shadow executor", e));
    LS_GOTO(ls_reference_create(&x->reference, reference, &other, e));
    LS_GOTO(ls_native_create(&x->native, g, c, &own, e));
    x->base.level = x->native->level;
    x->base.threads = x->native->threads;
    *out = &x->base;
    return LS_OK;
out:
    destroy(&x->base);
    return rc;
}
