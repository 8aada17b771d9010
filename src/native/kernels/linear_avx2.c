/* The kernels of the AVX2 level: the shared bodies in the operations of lanes_avx2.h. */
#include "native/kernels/lanes_avx2.h"

#include "native/kernels/linear_body.h"
#include "native/kernels/quantise_body.h"

#define LS_ONLY_AVX2
#include "native/kernels/instances.h"
