/* The kernels of the portable C level: the shared bodies in the operations of lanes_c.h. */
#include "native/kernels/lanes_c.h"

#include "native/kernels/linear_body.h"
#include "native/kernels/quantise_body.h"

#define LS_ONLY_C
#include "native/kernels/instances.h"
