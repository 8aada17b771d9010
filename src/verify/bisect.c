/* Bisection: the first diverging node from a few nodes at a time.
 *
 * A run compares evenly spaced nodes; the interval between the last equal one and the first different one is cut again.
 * When it holds one node, that node's inputs are compared as well: a graph is no chain, and an equal node may stand behind a
 * different one of another branch. If an input differs, the search goes on there. So the answer is a node that differs
 * although everything it reads is equal, in this pass and (through keys and values) in earlier ones. */
#include "verify/verify_pass.h"

typedef struct search {
    ls_comparison *c;
    bool *probe;     /* [n_nodes] of the next run */
    int observed;    /* of the next run */
    int *pass;       /* [n_nodes] first pass where a node differs, n_passes when it never does, -1 when not yet compared */
    int first_pass;  /* the earliest pass in which anything was seen to differ */
    int low, high;   /* |low| is equal (or -1), |high| differs in first_pass (or n_nodes) */
} search;

static void forget_probes(search *s) {
    for (size_t i = 0; i < s->c->graph->n_nodes; i++) s->probe[i] = false;
    s->observed = 0;
}

static void probe(search *s, int node) {
    if (!s->probe[node]) s->observed++;
    s->probe[node] = true;
}

/* Runs the probes and notes what they gave. */
static ls_code look(search *s, ls_error *e) {
    ls_verify_report *r = s->c->r;
    int first;
    LS_TRY(ls_verify_passes(s->c, s->probe, &first, e));
    r->rounds++;
    if (s->observed > r->most_observed) r->most_observed = s->observed;
    for (size_t i = 0; i < s->c->graph->n_nodes; i++) {
        if (!s->probe[i]) continue;
        s->pass[i] = r->node[i].d.first >= 0 ? r->node[i].first_pass : s->c->passes;
        if (s->pass[i] < s->first_pass) s->first_pass = s->pass[i];
    }
    return LS_OK;
}

/* The first node known to differ in first_pass, below |limit| unless that pass is new, and the last equal one before it. */
static void narrow(search *s) {
    int n = (int)s->c->graph->n_nodes;
    s->high = n;
    for (int i = n - 1; i >= 0; i--)
        if (s->pass[i] >= 0 && s->pass[i] <= s->first_pass) s->high = i;
    for (s->low = s->high - 1; s->low >= 0 && s->pass[s->low] <= s->first_pass; s->low--) continue;
}

/* |n| nodes evenly spaced strictly between low and high; those a file does not have cannot be compared. */
static bool probe_between(search *s, int n) {
    int room = s->high - s->low - 1;
    forget_probes(s);
    if (n > room) n = room;
    for (int k = 1; k <= n; k++) {
        int node = s->low + (int)((int64_t)k * (room + 1) / (n + 1));
        if (s->pass[node] < 0) probe(s, node);
    }
    return s->observed > 0;
}

/* The inputs of |high| that were not compared yet, and |high| itself. */
static bool probe_inputs(search *s) {
    const ls_node *n = &s->c->graph->nodes[s->high];
    forget_probes(s);
    for (int i = 0; i < n->n_in; i++)
        if (s->pass[n->in[i]] < 0) probe(s, n->in[i]);
    if (!s->observed) return false;
    probe(s, s->high);
    return true;
}

/* Nodes without a tensor in the file count as compared and equal: nothing else is known of them. */
static void skip_absent(search *s) {
    const ls_side *file = s->c->file < 0 ? NULL : &s->c->side[s->c->file];
    for (size_t i = 0; i < s->c->graph->n_nodes; i++) {
        bool absent = file && !file->tensor[i];
        s->pass[i] = absent ? s->c->passes : -1;
        s->c->r->node[i].absent = absent;
    }
}

static ls_code find(search *s, int probes, ls_error *e) {
    int n = (int)s->c->graph->n_nodes;
    s->first_pass = s->c->passes - 1;
    s->low = -1;
    s->high = n;
    probe_between(s, probes - 1);
    if (s->pass[n - 1] < 0) probe(s, n - 1);
    LS_TRY(look(s, e));
    for (narrow(s); s->high < n; narrow(s)) {
        if (!probe_between(s, probes) && !probe_inputs(s)) break;
        LS_TRY(look(s, e));
    }
    s->c->r->first = s->high < n ? s->high : -1;
    return LS_OK;
}

ls_code ls_verify_bisect(ls_comparison *c, int probes, ls_error *e) {
    search s = {.c = c};
    size_t n = c->graph->n_nodes;
    ls_code rc;
    c->r->bisected = true;
    LS_GOTO(ls_calloc(&s.probe, n, sizeof *s.probe, "probes", e));
    LS_GOTO(ls_calloc(&s.pass, n, sizeof *s.pass, "probes", e));
    skip_absent(&s);
    rc = find(&s, probes, e);
out:
    ls_free(s.probe);
    ls_free(s.pass);
    return rc;
}
