/* The plan of a graph: in which steps it runs and where its values live.
 *
 * Nodes become items of steps. All row-wise items that are ready run together, row by row, in one step; all matrix
 * products that are ready run together in the next, a gated unit with the two products it reads; attention and experts have steps of their own. An item that
 * quantises a value for the products that read it is row-wise too. Values lie in one piece of memory, where those that are
 * never alive together share bytes, and a row-wise node that is the only reader of its input overwrites it. The second
 * product of a gated unit has no place: the task that computes columns of both keeps them in its own scratch. */
#ifndef LS_NATIVE_EXECUTOR_PLAN_H
#define LS_NATIVE_EXECUTOR_PLAN_H

#include "graph/graph.h"
#include "native/activations.h"

typedef enum ls_step_kind { LS_STEP_ROWS, LS_STEP_LINEAR, LS_STEP_APPEND, LS_STEP_ATTEND, LS_STEP_COMBINE, LS_STEP_MOE } ls_step_kind;

typedef enum ls_item_kind { LS_ITEM_NODE, LS_ITEM_QUANTISE } ls_item_kind;

/* A node, or the quantisation of a node's value. */
typedef struct ls_item {
    ls_item_kind kind;
    int node;
} ls_item;

typedef struct ls_step {
    ls_step_kind kind;
    bool selected;    /* works on the R selected rows */
    int begin, count; /* items [begin, begin + count) of the plan; the three steps of an attention share its item */
} ls_step;

enum { LS_NO_PLACE = -1, LS_LOGITS_PLACE = -2 };

typedef struct ls_plan {
    ls_step *step;   /* [n_steps] */
    int n_steps;
    ls_item *item;   /* [n_items] */
    int n_items;
    int64_t *value;     /* [n_nodes] offset of each value, LS_NO_PLACE, or LS_LOGITS_PLACE: the caller's logits */
    int64_t *quantised; /* [n_nodes] offset of the quantised value, or LS_NO_PLACE */
    ls_acts_needs *needs; /* [n_nodes] what the matrices need that multiply the quantised value */
    size_t bytes;       /* of all values; offsets are multiples of 64 */
} ls_plan;

/* |max_rows|: T of the largest pass. |node_by_node|: one step per item, in graph order. |keep|: every value is there until the pass ends. Errors:
 * INVALID_ARGUMENT when the last node does not work on selected rows, RESOURCE_EXHAUSTED, those of ls_weight_form_of. */
ls_code ls_plan_init(ls_plan *p, const ls_graph *g, int max_rows, bool node_by_node, bool keep, ls_error *e);
void ls_plan_deinit(ls_plan *p); /* fine on a zeroed struct */

#endif
