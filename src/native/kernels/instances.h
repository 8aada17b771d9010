/* Defines the kernels of one level: the lines of kernels.def whose LEVEL is the one that LS_ONLY_<LEVEL> names. */
#ifndef LS_NATIVE_KERNELS_INSTANCES_H
#define LS_NATIVE_KERNELS_INSTANCES_H
#define EXACT16_PLANES 1
#define EXACT24_PLANES 2

#define LINEAR_INSTANCE(kind, KIND, contract, level)                                                                                \
    void ls_linear_##kind##_exact##contract##_##level(const ls_packed *w, int64_t tile_begin, int64_t tile_end, const ls_acts *x,     \
                                                      int64_t row_begin, int64_t row_end, const ls_linear_out *out, void *scratch) { \
        linear(w, tile_begin, tile_end, x, row_begin, row_end, out, scratch, LS_PACK_##KIND, EXACT##contract##_PLANES);              \
    }
#define QUANTISE_INSTANCE(contract, level) \
    void ls_quantise_exact##contract##_##level(const ls_acts *a, int64_t row, const float *x) { quantise(a, row, x, EXACT##contract##_PLANES); }
#define NO_INSTANCE(...)

#if defined(LS_ONLY_C)
#define LINEAR_C LINEAR_INSTANCE
#define QUANTISE_C QUANTISE_INSTANCE
#else
#define LINEAR_C NO_INSTANCE
#define QUANTISE_C NO_INSTANCE
#endif
#if defined(LS_ONLY_AVX2)
#define LINEAR_AVX2 LINEAR_INSTANCE
#define QUANTISE_AVX2 QUANTISE_INSTANCE
#else
#define LINEAR_AVX2 NO_INSTANCE
#define QUANTISE_AVX2 NO_INSTANCE
#endif
#if defined(LS_ONLY_AVX512)
#define LINEAR_AVX512 LINEAR_INSTANCE
#define QUANTISE_AVX512 QUANTISE_INSTANCE
#else
#define LINEAR_AVX512 NO_INSTANCE
#define QUANTISE_AVX512 NO_INSTANCE
#endif
#if defined(LS_ONLY_AMX)
#define LINEAR_AMX LINEAR_INSTANCE
#define QUANTISE_AMX QUANTISE_INSTANCE
#else
#define LINEAR_AMX NO_INSTANCE
#define QUANTISE_AMX NO_INSTANCE
#endif
#if defined(LS_ONLY_NEON)
#define LINEAR_NEON LINEAR_INSTANCE
#define QUANTISE_NEON QUANTISE_INSTANCE
#else
#define LINEAR_NEON NO_INSTANCE
#define QUANTISE_NEON NO_INSTANCE
#endif
#if defined(LS_ONLY_NEON_DOTPROD)
#define LINEAR_NEON_DOTPROD LINEAR_INSTANCE
#define QUANTISE_NEON_DOTPROD QUANTISE_INSTANCE
#else
#define LINEAR_NEON_DOTPROD NO_INSTANCE
#define QUANTISE_NEON_DOTPROD NO_INSTANCE
#endif
#if defined(LS_ONLY_NEON_I8MM)
#define LINEAR_NEON_I8MM LINEAR_INSTANCE
#define QUANTISE_NEON_I8MM QUANTISE_INSTANCE
#else
#define LINEAR_NEON_I8MM NO_INSTANCE
#define QUANTISE_NEON_I8MM NO_INSTANCE
#endif

#define LS_LINEAR(kind, KIND, contract, level, LEVEL) LINEAR_##LEVEL(kind, KIND, contract, level)
#define LS_QUANTISE(contract, level, LEVEL) QUANTISE_##LEVEL(contract, level)
#include "native/kernels.def"

#endif
