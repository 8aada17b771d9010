/* Kernels of the linear layer in portable C: linear_body.h over vec_c.h. */
#include <stdint.h>
#include <string.h>

#include "contract/exact.h"
#include "native/kernels/kernel.h"

/* Lanes are loops here: unrolling the pairs as well makes the file slow to compile and no faster to run. */
#undef LS_UNROLL
#define LS_UNROLL

#include "native/kernels/vec_c.h"
#define LS_QUANTISE_C(contract, lv) DEFINE_QUANTISE(contract, lv)
#define LS_LINEAR_C(kd, KIND, contract, lv) DEFINE_LINEAR(kd, KIND, contract, lv)
#include "native/kernels/linear_body.h"
