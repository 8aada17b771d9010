/* The order of a module's text.
 *
 * C leaves open in which order the arguments of a call are evaluated, so the order of operations that lower one node differs
 * between compilers. The text's order therefore comes from the operands alone: each root's operations, operands before users
 * and the first operand first. What no root needs is left out. */
#ifndef LS_XLA_EMIT_SCHEDULE_H
#define LS_XLA_EMIT_SCHEDULE_H

#include "xla/emit/mlir.h"

typedef struct ls_schedule {
    ls_str text;      /* the function's body; ls_str_deinit it, also after a failure */
    int *result;      /* [m->next] new numbers of results; -1: not needed */
    int *weight;      /* [n_weights] new numbers of weights, by first use in the text; -1: not used */
    int n_results, n_weights; /* that got a number */
} ls_schedule;

/* Orders |m|'s body by |root| [n_roots], in turn; roots that are inputs or no values are passed over. The arrays live in |arena|. */
ls_code ls_schedule_body(ls_schedule *out, ls_arena *arena, const ls_mlir *m, size_t n_weights, const ls_val *root, size_t n_roots, ls_error *e);

#endif
