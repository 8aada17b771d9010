/* The kernels of the NEON level with FEAT_I8MM: the shared bodies in the operations of lanes_neon_i8mm.h. */
#include "native/kernels/lanes_neon_i8mm.h"

#include "native/kernels/linear_body.h"
#include "native/kernels/quantise_body.h"

#define LS_ONLY_NEON_I8MM
#include "native/kernels/instances.h"
