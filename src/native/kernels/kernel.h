/* Kernels of the exact linear operator: their types, the table of them, and what their files share.
 *
 * Every kernel gives, bit for bit, what src/reference/exact_linear.c gives on the same inputs. Kernels do not allocate,
 * log, start threads or look at the processor; they read nothing outside the arrays named here and write only the
 * outputs. kernels.def lists them, one line each. */
#ifndef LS_NATIVE_KERNELS_KERNEL_H
#define LS_NATIVE_KERNELS_KERNEL_H

#include "native/activations.h"
#include "native/cpu.h"
#include "native/pack.h"

/* Quantises one row: x f32 [cols] (any alignment) into row |row| of |a|. */
typedef void ls_quantise_fn(const ls_acts *a, int64_t row, const float *x);

/* Where a product goes: y f32 [T, N], rows |stride| floats apart; bias f32 [N] or NULL. y may lack the outputs before |first|, the first of a tile. */
typedef struct ls_linear_out {
    float *y;
    int64_t stride, first;
    const float *bias;
} ls_linear_out;

/* y[t, n] for rows t in [row_begin, row_end) of |x| and the outputs n of tiles [tile_begin, tile_end) of |w|. |scratch|:
 * LS_LINEAR_SCRATCH bytes, 64-byte aligned, contents of no meaning before and after. */
typedef void ls_linear_fn(const ls_packed *w, int64_t tile_begin, int64_t tile_end, const ls_acts *x, int64_t row_begin, int64_t row_end,
                          const ls_linear_out *out, void *scratch);

/* Tiles that products of many rows are fastest by; the other kernels take two at a time. Sizes of the working memory: unpacked weights of two tiles by CHUNK
 * columns as two planes, their scales, minima and sums of products for groups of 16, and sums of TOKENS rows. */
enum {
    LS_PRODUCT_TILES = 4,
    LS_LINEAR_CHUNK = 2048,
    LS_LINEAR_TOKENS = 256,
    LS_LINEAR_SCRATCH = 2 * LS_TILE * LS_LINEAR_CHUNK * 2 * 2 + 3 * 2 * LS_TILE * (LS_LINEAR_CHUNK / 16) * 4 + LS_LINEAR_TOKENS * 2 * 2 * LS_TILE * 8
};

/* The kernels of one level. */
typedef struct ls_kernels {
    ls_level level;
    ls_quantise_fn *quantise[2];              /* [ls_contract_of_products] */
    ls_linear_fn *linear[2][LS_PACK_COUNT];   /* [ls_contract_of_products][kind]; NULL where the contract has no such kind */
} ls_kernels;

/* The table of |level|, NULL when this build has no kernels of that level. */
const ls_kernels *ls_kernels_of(ls_level level);

/* One row of kernels.def. Exactly one of quantise and linear is set. */
typedef struct ls_kernel_info {
    const char *name;
    ls_level level;
    ls_contract contract;
    ls_pack_kind kind; /* linear only */
    ls_quantise_fn *quantise;
    ls_linear_fn *linear;
} ls_kernel_info;

/* All kernels of this build, *n of them, in the order of kernels.def: what tests/native/checkkern checks and `make bench` times, so
 * that no kernel runs that neither has seen. Executors take theirs from ls_kernels_of. */
const ls_kernel_info *ls_kernel_table(size_t *n);

#define LS_LINEAR(kind, KIND, contract, level, LEVEL) ls_linear_fn ls_linear_##kind##_exact##contract##_##level;
#define LS_QUANTISE(contract, level, LEVEL) ls_quantise_fn ls_quantise_exact##contract##_##level;
#include "native/kernels.def"
#undef LS_LINEAR
#undef LS_QUANTISE

/* For kernel files: functions that must be inlined for their constant arguments to specialise them, functions that must not (LS_APART: their
 * sums then have all registers), loops to unroll completely, and addresses that will be read soon, or later (NEXT: they wait in the second-level cache).
 * Builds for checking (no optimisation, sanitizers) do not specialise: they would compile for minutes. */
#if defined(__GNUC__) && defined(__OPTIMIZE__) && !defined(LS_SANITIZED)
#define LS_INLINE static inline __attribute__((always_inline))
#define LS_APART static __attribute__((noinline))
#define LS_PREFETCH(p) __builtin_prefetch(p)
#define LS_PREFETCH_NEXT(p) __builtin_prefetch(p, 0, 2)
#if defined(__clang__)
#define LS_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LS_UNROLL _Pragma("GCC unroll 32")
#endif
#else
#define LS_INLINE static inline
#define LS_APART static
#define LS_PREFETCH(p) ((void)(p))
#define LS_PREFETCH_NEXT(p) ((void)(p))
#define LS_UNROLL
#endif

#endif
