/* Comparing two arrays of f32, and the bounds that comparisons use.
 *
 * Formulas: both values are widened to f64 before anything is subtracted. In bit mode an element fails when its 32 bits differ
 * (+0 and -0 differ, a NaN equals the same NaN). In tolerance mode it fails when either value is not finite, or when
 * |candidate - reference| > absolute + relative * |reference|. The relative error is |candidate - reference| divided by
 * max(|reference|, smallest normal f32); the root mean square divides by all elements, and elements with a value that is not
 * finite add nothing to it. */
#ifndef LS_VERIFY_COMPARE_H
#define LS_VERIFY_COMPARE_H

#include "graph/graph.h"

typedef struct ls_bound {
    bool bits;                 /* equality of bits; otherwise: */
    double absolute, relative; /* finite, 0 or more */
} ls_bound;

/* What was found in any number of arrays added one after another. Zero-initialise, with first = -1. */
typedef struct ls_difference {
    int64_t elements, failures, non_finite; /* non_finite: failures where either value is not finite */
    double max_absolute, max_relative;      /* over elements with two finite values */
    double square_sum;                      /* of the absolute errors */
    uint64_t max_ulp;                       /* largest distance in representable f32 values, over finite elements */
    double reference_square_sum;            /* of the finite reference values */
    int64_t first;                          /* flat index of the first failure in the array where it was found, or -1 */
    float reference, candidate;             /* its values */
} ls_difference;

/* Adds the comparison of |n| elements; returns the failures among them. */
int64_t ls_compare(ls_difference *d, const float *reference, const float *candidate, int64_t n, const ls_bound *bound);

/* Adds the figures of |from|, which came later, to |d|. */
void ls_difference_add(ls_difference *d, const ls_difference *from);

double ls_difference_rms(const ls_difference *d); /* 0 without elements */

/* Number of representable f32 values between two finite values: +0 and -0 are 0 apart. */
uint64_t ls_ulp_distance(float a, float b);

/* ---- Bounds ---------------------------------------------------------------------------------------------------------- */

/* What two sides that do not promise equal bits are held to. docs/verify.md says where each number comes from. */
typedef enum ls_bound_kind {
    LS_BOUND_BITS,       /* both sides compute one exact contract */
    LS_BOUND_SAME_INPUT, /* f32 operators on the same inputs: per-operator bounds */
    LS_BOUND_ROUNDED,    /* the same, where one side has those inputs in f64 and the other rounded to f32 */
    LS_BOUND_DRIFT,      /* f32 chains on their own values: bounds that grow with the layer */
    LS_BOUND_COARSE      /* one side has 16-bit activation mantissas and the other has not */
} ls_bound_kind;

/* The bound of node |n| of a graph whose layers are numbered as ls_node_layer does. |scale|: root mean square of the
 * reference values; absolute bounds are meant for values around 1 and grow with it when it is above 1. */
ls_bound ls_bound_of(ls_bound_kind kind, const ls_graph *g, const ls_node *n, double scale);

/* Layer of a node: the first path component of its name that is a number; -1 when there is none. *rest (may be NULL)
 * receives the name after that component, or the whole name. */
int ls_node_layer(const ls_node *n, const char **rest);

#endif
