/* Scheduling of nodes into steps and places of values: see executor_plan.h. */
#include "native/executor_plan.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Working state of the planner. */
typedef struct planner {
    const ls_graph *g;
    ls_plan *p;
    bool keep;                            /* values neither share places nor overwrite their inputs */
    bool *done, *quantised_done, *wanted; /* [n_nodes]; wanted: a product reads the quantised value */
    bool *passing;                        /* [n_nodes] never whole in memory: the second product of a gated unit */
    int *readers, *last;                  /* [n_nodes] nodes that read a value; last step that does, for either form */
    int *last_quantised;
    int *root;                            /* [n_nodes] the value whose place this one overwrites, or itself */
    int *born, *born_quantised;           /* [n_nodes] first step that writes */
} planner;

static bool reads_quantised(const ls_node *n) { return n->op == LS_OP_LINEAR || n->op == LS_OP_MOE; }

static bool is_row_wise(const ls_node *n) { return n->op != LS_OP_LINEAR && n->op != LS_OP_ATTENTION && n->op != LS_OP_MOE; }

static bool overwrites_input(const ls_node *n) {
    switch (n->op) {
        case LS_OP_RMS_NORM: case LS_OP_LAYER_NORM: case LS_OP_ROPE: case LS_OP_ACTIVATION: case LS_OP_GLU: case LS_OP_MUL: case LS_OP_ADD:
        case LS_OP_SCALE: case LS_OP_CLAMP: case LS_OP_SOFTCAP: case LS_OP_ADD_POSITION: return true;
        default: return false;
    }
}

/* Whether input |i| of |n| is used in its quantised form only. */
static bool input_is_quantised(const ls_node *n, int i) { return reads_quantised(n) && i == 0; }

static bool ready(const planner *s, const ls_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (input_is_quantised(n, i) ? !s->quantised_done[n->in[i]] : !s->done[n->in[i]]) return false;
    return true;
}

/* ---- Steps ------------------------------------------------------------------------------------------------------ */

static void put_item(planner *s, ls_item_kind kind, int node) {
    s->p->item[s->p->n_items++] = (ls_item){kind, node};
    if (kind == LS_ITEM_NODE) s->done[node] = true;
    else s->quantised_done[node] = true;
}

static void put_step(planner *s, ls_step_kind kind, int begin) {
    bool selected = s->g->nodes[s->p->item[begin].node].selected;
    s->p->step[s->p->n_steps++] = (ls_step){.kind = kind, .selected = selected, .begin = begin, .count = s->p->n_items - begin};
}

/* One sweep in graph order over row-wise items that are ready and whose rows are |selected|. An item readied by an earlier
 * one of the sweep joins the same step, since it only reads its own row. */
static bool add_rows(planner *s, bool selected) {
    int begin = s->p->n_items;
    for (int i = 0; i < (int)s->g->n_nodes; i++) {
        const ls_node *n = &s->g->nodes[i];
        if (n->selected != selected) continue;
        if (!s->done[i] && is_row_wise(n) && ready(s, n)) put_item(s, LS_ITEM_NODE, i);
        if (s->done[i] && s->wanted[i] && !s->quantised_done[i]) put_item(s, LS_ITEM_QUANTISE, i);
    }
    if (s->p->n_items == begin) return false;
    put_step(s, LS_STEP_ROWS, begin);
    return true;
}

static bool is_ready_linear(const planner *s, int i, bool selected) {
    const ls_node *n = &s->g->nodes[i];
    return !s->done[i] && n->op == LS_OP_LINEAR && n->selected == selected && ready(s, n);
}

/* A gated unit joins the two products that it alone reads: the task that computes columns of both then combines them. */
static void add_gated(planner *s, int glu, bool selected) {
    const ls_node *n = &s->g->nodes[glu];
    if (n->op != LS_OP_GLU) return;
    for (int i = 0; i < 2; i++)
        if (!is_ready_linear(s, n->in[i], selected) || s->readers[n->in[i]] != 1) return;
    put_item(s, LS_ITEM_NODE, n->in[0]);
    put_item(s, LS_ITEM_NODE, n->in[1]);
    put_item(s, LS_ITEM_NODE, glu);
    s->passing[n->in[1]] = true;
}

static bool add_linears(planner *s, bool selected) {
    int begin = s->p->n_items;
    for (int i = 0; i < (int)s->g->n_nodes; i++) add_gated(s, i, selected);
    for (int i = 0; i < (int)s->g->n_nodes; i++)
        if (is_ready_linear(s, i, selected)) put_item(s, LS_ITEM_NODE, i);
    if (s->p->n_items == begin) return false;
    put_step(s, LS_STEP_LINEAR, begin);
    return true;
}

static void add_alone(planner *s, int node) {
    int begin = s->p->n_items;
    ls_op op = s->g->nodes[node].op;
    put_item(s, LS_ITEM_NODE, node);
    if (op == LS_OP_ATTENTION) {
        put_step(s, LS_STEP_APPEND, begin);
        put_step(s, LS_STEP_ATTEND, begin);
        put_step(s, LS_STEP_COMBINE, begin);
    } else put_step(s, op == LS_OP_MOE ? LS_STEP_MOE : op == LS_OP_LINEAR ? LS_STEP_LINEAR : LS_STEP_ROWS, begin);
}

static bool add_first_other(planner *s) {
    for (int i = 0; i < (int)s->g->n_nodes; i++) {
        const ls_node *n = &s->g->nodes[i];
        if (s->done[i] || (n->op != LS_OP_ATTENTION && n->op != LS_OP_MOE) || !ready(s, n)) continue;
        add_alone(s, i);
        return true;
    }
    return false;
}

/* All rows go first: the selected rows are the end of the graph. */
static void schedule(planner *s) {
    bool more = true;
    while (more) {
        more = add_rows(s, false);
        more |= add_linears(s, false);
        if (!more) more = add_first_other(s);
        if (!more) more = add_rows(s, true) || add_linears(s, true);
    }
}

static void schedule_node_by_node(planner *s) {
    for (int i = 0; i < (int)s->g->n_nodes; i++) {
        const ls_node *n = &s->g->nodes[i];
        if (reads_quantised(n) && !s->quantised_done[n->in[0]]) {
            int begin = s->p->n_items;
            put_item(s, LS_ITEM_QUANTISE, n->in[0]);
            put_step(s, LS_STEP_ROWS, begin);
        }
        add_alone(s, i);
    }
}

/* ---- Places ----------------------------------------------------------------------------------------------------- */

/* Which values overwrite their input. Its one reader may not need the value after the node runs. */
static void find_roots(planner *s) {
    for (int i = 0; i < (int)s->g->n_nodes; i++) {
        const ls_node *n = &s->g->nodes[i];
        s->root[i] = i;
        if (!s->keep && overwrites_input(n) && s->readers[n->in[0]] == 1 && s->g->nodes[n->in[0]].cols == n->cols) s->root[i] = s->root[n->in[0]];
    }
}

static void find_lives(planner *s) {
    for (int t = 0; t < s->p->n_steps; t++)
        for (int k = s->p->step[t].begin; k < s->p->step[t].begin + s->p->step[t].count; k++) {
            ls_item it = s->p->item[k];
            const ls_node *n = &s->g->nodes[it.node];
            int root = s->root[it.node];
            if (s->last[root] < t) s->last[root] = t;
            if (it.kind == LS_ITEM_QUANTISE) {
                s->born_quantised[it.node] = s->last_quantised[it.node] = t;
                continue;
            }
            if (s->born[root] > t) s->born[root] = t;
            for (int i = 0; i < n->n_in; i++) {
                int *last = input_is_quantised(n, i) ? &s->last_quantised[n->in[i]] : &s->last[s->root[n->in[i]]];
                if (*last < t) *last = t;
            }
        }
}

/* A value that needs |bytes| from step |born| to step |last|; *place is where its offset goes. */
typedef struct span {
    size_t bytes;
    int born, last;
    int64_t *place;
} span;

static int larger_first(const void *pa, const void *pb) {
    const span *a = pa, *b = pb;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a->born != b->born ? (a->born > b->born) - (a->born < b->born) : (a->place > b->place) - (a->place < b->place);
}

static ls_code collect_spans(planner *s, int max_rows, span *v, size_t *count, ls_error *e) {
    const ls_graph *g = s->g;
    int n = (int)g->n_nodes, logits = s->root[n - 1];
    for (int i = 0; i < n; i++) {
        if (s->root[i] == i && i != logits && s->born[i] != INT_MAX && !s->passing[i]) {
            span *x = &v[(*count)++];
            *x = (span){0, s->born[i], s->keep ? INT_MAX : s->last[i], &s->p->value[i]};
            if (!ls_size_mul((size_t)g->nodes[i].cols, (size_t)max_rows * sizeof(float), &x->bytes) || x->bytes > PTRDIFF_MAX - 63)
                LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "node \"%s\": %d rows of %lld columns do not fit", g->nodes[i].name, max_rows, (long long)g->nodes[i].cols);
            x->bytes = (x->bytes + 63) & ~(size_t)63;
        }
        if (s->born_quantised[i] != INT_MAX)
            v[(*count)++] = (span){ls_acts_bytes(g->contract, max_rows, g->nodes[i].cols, s->p->needs[i]), s->born_quantised[i], s->last_quantised[i],
                                   &s->p->quantised[i]};
    }
    return LS_OK;
}

/* The lowest offset at which |x| overlaps none of the |placed| values that are alive with it. beside: scratch [placed]. */
static size_t free_place(const span *v, size_t placed, const span *x, const span **beside) {
    size_t n = 0, at = 0;
    for (size_t k = 0; k < placed; k++)
        if (v[k].last >= x->born && x->last >= v[k].born) beside[n++] = &v[k];
    for (size_t k = 0; k < n;) {
        size_t begin = (size_t)*beside[k]->place, end = begin + beside[k]->bytes;
        bool overlaps = at < end && begin < at + x->bytes;
        if (overlaps) at = end;
        k = overlaps ? 0 : k + 1;
    }
    return at;
}

/* The largest values choose first: small ones fit between them. */
static ls_code place(planner *s, int max_rows, ls_error *e) {
    ls_plan *p = s->p;
    size_t n = s->g->n_nodes, count = 0;
    span *v = NULL;
    const span **beside = NULL;
    ls_code rc;
    LS_GOTO(ls_calloc(&v, 2 * n, sizeof *v, "plan", e));
    LS_GOTO(ls_calloc(&beside, 2 * n, sizeof(const span *), "plan", e));
    LS_GOTO(collect_spans(s, max_rows, v, &count, e));
    qsort(v, count, sizeof *v, larger_first);
    for (size_t k = 0; k < count; k++) {
        size_t at = free_place(v, k, &v[k], beside), end = 0;
        if (!ls_size_add(at, v[k].bytes, &end) || end > PTRDIFF_MAX) LS_FAIL_GOTO(e, LS_RESOURCE_EXHAUSTED, "the values of %d rows do not fit", max_rows);
        if (end > p->bytes) p->bytes = end;
        *v[k].place = (int64_t)at;
    }
    for (size_t i = 0; i < n; i++) p->value[i] = s->root[i] == s->root[n - 1] ? LS_LOGITS_PLACE : p->value[s->root[i]];
out:
    ls_free(v);
    ls_free(beside);
    return rc;
}

/* ---- Life of a plan ----------------------------------------------------------------------------------------------- */

static void planner_deinit(planner *s) {
    ls_free(s->done);
    ls_free(s->readers);
}

static ls_code planner_init(planner *s, ls_error *e) {
    size_t n = s->g->n_nodes;
    LS_TRY(ls_calloc(&s->done, 4 * n, sizeof *s->done, "plan", e));
    s->quantised_done = s->done + n;
    s->wanted = s->done + 2 * n;
    s->passing = s->done + 3 * n;
    LS_TRY(ls_calloc(&s->readers, 6 * n, sizeof *s->readers, "plan", e));
    int *next = s->readers + n;
    int **arrays[] = {&s->last, &s->last_quantised, &s->root, &s->born, &s->born_quantised};
    for (int i = 0; i < 5; i++, next += n) *arrays[i] = next;
    for (size_t i = 0; i < n; i++) {
        const ls_node *node = &s->g->nodes[i];
        s->born[i] = s->born_quantised[i] = INT_MAX;
        s->last[i] = s->last_quantised[i] = -1;
        for (int k = 0; k < node->n_in; k++) s->readers[node->in[k]]++;
        if (reads_quantised(node)) s->wanted[node->in[0]] = true;
    }
    return LS_OK;
}

static ls_code plan_arrays(ls_plan *p, size_t n, ls_error *e) {
    LS_TRY(ls_calloc(&p->step, 4 * n, sizeof *p->step, "plan", e));
    LS_TRY(ls_calloc(&p->item, 2 * n, sizeof *p->item, "plan", e));
    LS_TRY(ls_calloc(&p->value, n, sizeof *p->value, "plan", e));
    LS_TRY(ls_calloc(&p->quantised, n, sizeof *p->quantised, "plan", e));
    LS_TRY(ls_calloc(&p->needs, n, sizeof *p->needs, "plan", e));
    for (size_t i = 0; i < n; i++) p->value[i] = p->quantised[i] = LS_NO_PLACE;
    return LS_OK;
}

/* Experts share the memory of their inputs between layers, whose formats may differ. */
static ls_code find_needs(planner *s, ls_error *e) {
    const ls_graph *g = s->g;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ls_node *n = &g->nodes[i];
        ls_weight_form form;
        if (n->op == LS_OP_MOE) s->p->needs[n->in[0]] = LS_ACTS_ALL;
        if (n->op != LS_OP_LINEAR) continue;
        ls_code rc = ls_weight_form_of(&form, n->w[0]->tensor, ls_contract_of_products(g->contract), e);
        if (rc) return ls_error_wrap(e, rc, "node \"%s\"", n->name);
        s->p->needs[n->in[0]] |= ls_acts_needs_of(&form);
    }
    return LS_OK;
}

ls_code ls_plan_init(ls_plan *p, const ls_graph *g, int max_rows, bool node_by_node, bool keep, ls_error *e) {
    *p = (ls_plan){0};
    if (!g->n_nodes || !g->nodes[g->n_nodes - 1].selected)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "the graph's last node must give the logits of selected rows; add a select_rows node");
    planner s = {.g = g, .p = p, .keep = keep};
    ls_code rc;
    LS_GOTO(planner_init(&s, e));
    LS_GOTO(plan_arrays(p, g->n_nodes, e));
    LS_GOTO(find_needs(&s, e));
    (node_by_node ? schedule_node_by_node : schedule)(&s);
    find_roots(&s);
    find_lives(&s);
    rc = place(&s, max_rows, e);
out:
    planner_deinit(&s);
    if (rc) ls_plan_deinit(p);
    return rc;
}

void ls_plan_deinit(ls_plan *p) {
    ls_free(p->step);
    ls_free(p->item);
    ls_free(p->value);
    ls_free(p->quantised);
    ls_free(p->needs);
    *p = (ls_plan){0};
}
