/* The kernels of the AMX level: many rows by tiles of bytes, the rest by the kernels of AVX-512. */
#include "native/kernels/lanes_amx.h"

#include "native/kernels/linear_body.h"
#include "native/kernels/linear_amx.h"

/* Quantisation has no products of bytes. */
LS_INLINE void quantise(const ls_acts *a, int64_t row, const float *x, int planes) {
    ls_kernels_of(LS_LEVEL_AVX512)->quantise[planes == 1 ? LS_CONTRACT_EXACT16 : LS_CONTRACT_EXACT24](a, row, x);
}

#define LS_ONLY_AMX
#include "native/kernels/instances.h"
