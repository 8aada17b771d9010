/* The kernels of the NEON level with FEAT_DotProd: the shared bodies in the operations of lanes_neon_dotprod.h. */
#include "native/kernels/lanes_neon_dotprod.h"

#include "native/kernels/linear_body.h"
#include "native/kernels/quantise_body.h"

#define LS_ONLY_NEON_DOTPROD
#include "native/kernels/instances.h"
