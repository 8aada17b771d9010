/* The float contract in f32: the plain C reference of the upstream operator contracts. */
#include <math.h>

#define REAL float
#define SQRT sqrtf
#define EXP expf
#define TANH tanhf
#define ERF erff
#define RUN ls_reference_run_f32
#include "reference/float_ops.inc"
