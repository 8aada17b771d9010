/* The kernels of the NEON level: the shared bodies in the operations of lanes_neon.h. */
#include "native/kernels/lanes_neon.h"

#include "native/kernels/linear_body.h"
#include "native/kernels/quantise_body.h"

#define LS_ONLY_NEON
#include "native/kernels/instances.h"
