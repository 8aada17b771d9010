/* Kernels of the linear layer at level avx512: linear_body.h over vec_avx512.h. */
#include <stdint.h>
#include <string.h>

#include "contract/exact.h"
#include "native/kernels/kernel.h"

#include "native/kernels/vec_avx512.h"
#define LS_QUANTISE_AVX512(contract, lv) DEFINE_QUANTISE(contract, lv)
#define LS_LINEAR_AVX512(kd, KIND, contract, lv) DEFINE_LINEAR(kd, KIND, contract, lv)
#include "native/kernels/linear_body.h"
