/* The float contract's formulas in f64: the evaluation that errors are measured against. */
#include <math.h>

#define REAL double
#define SQRT sqrt
#define EXP exp
#define TANH tanh
#define ERF erf
#define RUN ls_reference_run_f64
#include "reference/float_ops.inc"
