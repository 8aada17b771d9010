/* checkkern: every kernel of kernels.def, at every level of this machine, against the reference operator, bit for bit.
 *
 * A case is a matrix in one file format, some rows of activations and a place for the result. Each array a kernel may
 * touch is alone in its pages, with pages that cannot be touched before and after it, and inputs are read-only while the
 * kernel runs; outputs are poisoned first and everything around them is compared after. Planted bugs prove, on each run,
 * that the cases see the mistakes they are made for. */
#ifndef LS_TESTS_CHECKKERN_H
#define LS_TESTS_CHECKKERN_H

#include "native/kernels/kernel.h"

/* ---- Memory with guard pages (checkkern_guard.c) ---------------------------------------------------------------- */

typedef enum ck_side { CK_AT_END, CK_AT_BEGIN } ck_side; /* which guard the data touches */

typedef struct ck_buffer {
    uint8_t *data, *pages;
    size_t bytes, page_bytes;
} ck_buffer;

/* Zeroed data of |bytes| bytes; the program ends when the system has no memory. */
void ck_buffer_init(ck_buffer *b, size_t bytes, ck_side side);
void ck_buffer_deinit(ck_buffer *b);
void ck_buffer_protect(const ck_buffer *b, bool read_only);

/* Calls fn(ctx); NULL when it returns, else the name of the signal it raised. */
const char *ck_guarded(void (*fn)(void *ctx), void *ctx);

/* ---- Inputs (checkkern_data.c) ------------------------------------------------------------------------------------ */

typedef struct ck_rng {
    uint64_t state;
} ck_rng;

uint32_t ck_random(ck_rng *r);                         /* splitmix64, the upper half */
int64_t ck_between(ck_rng *r, int64_t lo, int64_t hi); /* both included */

/* A format a matrix can have in a file; MLX by bits, group and type of its scales. */
typedef struct ck_format {
    const char *name;
    ls_format format;
    int mlx_bits, mlx_group;
    ls_format scale_format;
} ck_format;

extern const ck_format ck_formats[];
extern const size_t ck_n_formats;

int ck_granule(const ck_format *f); /* columns come in multiples of this */

typedef enum ck_weights { CK_W_RANDOM, CK_W_ONES, CK_W_WIDE, CK_W_ZERO, CK_W_ALTERNATING, CK_W_KINDS, CK_W_EVERY = CK_W_KINDS } ck_weights;
typedef enum ck_inputs { CK_X_RANDOM, CK_X_LARGEST, CK_X_WIDE, CK_X_ZERO, CK_X_ALTERNATING, CK_X_KINDS, CK_X_APART = CK_X_KINDS } ck_inputs;

/* A tensor [rows, cols] in memory of its own. */
typedef struct ck_tensor {
    ls_tensor t;
    uint8_t *data, *scales, *biases;
} ck_tensor;

void ck_tensor_init(ck_tensor *t, const ck_format *f, int64_t rows, int64_t cols, ck_weights kind, ck_rng *r);
void ck_tensor_deinit(ck_tensor *t);

/* x [n], |kind| over blocks of 64. */
void ck_fill(float *x, int64_t n, ck_inputs kind, ck_rng *r);

/* ---- Cases (checkkern_case.c) ----------------------------------------------------------------------------------- */

typedef struct ck_case {
    const ck_format *format;
    ls_contract contract;
    int64_t n, k, t; /* outputs, columns, rows of activations */
    ck_weights weights;
    ck_inputs inputs;
    ck_side side;
    bool bias;
    uint64_t seed;
} ck_case;

/* Arrays of quantised activations: mantissas, drop, factor, half, and sums, means and leads of each size. */
enum { CK_ARRAYS = 4 + 3 * LS_SUMS };

/* A case made ready: its matrix packed, its activations quantised by the reference, the wanted result. */
typedef struct ck_ready {
    ck_case c;
    ck_tensor tensor;
    ls_packed packed; /* data lies in |weights| */
    ls_acts acts;     /* arrays lie in |arrays| */
    ck_buffer weights, x, bias, y, scratch, arrays[CK_ARRAYS];
    int64_t stride;   /* of y */
    float *want;      /* [t, n] */
} ck_ready;

void ck_ready_init(ck_ready *z, const ck_case *c, ls_pool *pool);
void ck_ready_deinit(ck_ready *z);

/* Runs a linear kernel on all tiles and rows, and a second time in two pieces of each. 0: right; otherwise the reason is
 * in |why|. */
int ck_check_linear(ck_ready *z, ls_linear_fn *fn, char why[256]);

/* Compares every row of the packed matrix with the tensor's. */
int ck_check_row(const ck_ready *z, char why[256]);

/* Runs a quantise kernel on every row and compares all arrays with the reference's. */
int ck_check_quantise(ck_ready *z, ls_quantise_fn *fn, char why[256]);

/* ---- The rest ---------------------------------------------------------------------------------------------------- */

/* A wrong kernel that must be caught (checkkern_bugs.c). */
typedef struct ck_bug {
    const char *name;
    ls_linear_fn *linear; /* one of the two */
    ls_quantise_fn *quantise;
} ck_bug;

extern const ck_bug ck_bugs[];
extern const size_t ck_n_bugs;
void ck_bugs_see(const ck_ready *z); /* the case the wrong kernels compute from now on */

/* Linear kernels of levels that machines of today may lack, emulated (checkkern_amx.c): *n of them, each with the level that it needs. */
const ls_kernel_info *ck_emulated(size_t *n);

/* Times the linear kernels whose name contains |only| (NULL: all). */
void ck_bench(const ls_cpu *cpu, const char *only, ls_pool *pool);

#endif
