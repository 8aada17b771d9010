/* The bounds of comparisons where bits may differ: see docs/verify.md, section "Bounds". */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verify/compare.h"

int ls_node_layer(const ls_node *n, const char **rest) {
    if (rest) *rest = n->name;
    for (const char *p = n->name; *p; p += strcspn(p, "."), p += *p == '.') {
        size_t digits = strspn(p, "0123456789");
        if (!digits || digits > 6 || (p[digits] && p[digits] != '.')) continue;
        if (rest) *rest = p[digits] ? p + digits + 1 : p;
        return (int)strtol(p, NULL, 10);
    }
    return -1;
}

/* Terms of the longest sum behind one output. */
static int64_t terms(const ls_node *n) {
    if (n->op == LS_OP_LINEAR) return n->w[0]->cols;
    if (n->op != LS_OP_MOE) return 1;
    int64_t inner = n->moe->gate[0].rows, hidden = n->moe->gate[0].cols;
    return inner > hidden ? inner : hidden;
}

/* Operators that move values or round once give equal values on every engine; the others have the micro-oracle's bounds, and
 * sums of more than 64 terms a bound that grows with the square root of their number, as rounding errors do. */
static ls_bound same_input(const ls_node *n) {
    switch (n->op) {
    case LS_OP_EMBED: case LS_OP_MUL: case LS_OP_ADD: case LS_OP_SCALE: case LS_OP_CLAMP: case LS_OP_SLICE: case LS_OP_SELECT_ROWS: case LS_OP_INPUT:
    case LS_OP_ADD_POSITION:
        return (ls_bound){.absolute = 0x1p-99}; /* exact contracts have no values below 2^-100 */
    case LS_OP_RMS_NORM: case LS_OP_LAYER_NORM:
        return (ls_bound){.absolute = 2e-6, .relative = 2e-5};
    default:
        return (ls_bound){.absolute = 3e-6 * sqrt(fmax(1, (double)terms(n) / 64)), .relative = 3e-5};
    }
}

static ls_bound rounded_input(const ls_node *n) {
    ls_bound b = same_input(n);
    return (ls_bound){.absolute = fmax(b.absolute, 1e-6), .relative = fmax(b.relative, 1e-6)};
}

/* Chains of f32: 2e-4 in the first layer, 12 % more in each; what follows the last layer has the bound of logits. */
static ls_bound drift(const ls_graph *g, const ls_node *n) {
    int layer = ls_node_layer(n, NULL);
    if (layer < 0) return n == g->nodes ? (ls_bound){.absolute = 1e-6, .relative = 1e-6} : (ls_bound){.absolute = 3e-2, .relative = 3e-3};
    return (ls_bound){.absolute = 2e-4 * pow(1.12, layer), .relative = 1e-3};
}

static ls_bound coarse(const ls_graph *g, const ls_node *n) {
    if (ls_node_layer(n, NULL) < 0) return n == g->nodes ? (ls_bound){.absolute = 1e-6, .relative = 1e-6} : (ls_bound){.absolute = 1.5e-1, .relative = 5e-2};
    return (ls_bound){.absolute = 8e-2, .relative = 4e-2};
}

ls_bound ls_bound_of(ls_bound_kind kind, const ls_graph *g, const ls_node *n, double scale) {
    if (kind == LS_BOUND_BITS) return (ls_bound){.bits = true};
    ls_bound b = kind == LS_BOUND_SAME_INPUT ? same_input(n)
                 : kind == LS_BOUND_ROUNDED ? rounded_input(n) : kind == LS_BOUND_DRIFT ? drift(g, n) : coarse(g, n);
    b.absolute *= fmax(1, scale);
    return b;
}
