/* The kernels of the AVX-512 level: the shared bodies in the operations of lanes_avx512.h. */
#include "native/kernels/lanes_avx512.h"

#include "native/kernels/linear_body.h"
#include "native/kernels/quantise_body.h"

#define LS_ONLY_AVX512
#include "native/kernels/instances.h"
