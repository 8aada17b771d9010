/* Writes the body of a StableHLO function as text, one operation a call.
 *
 * A value knows its type, so callers name operations and shapes, not types. The builder keeps its first error; after that
 * every call does nothing and gives an empty value. Text depends on the calls alone: equal calls give equal bytes. */
#ifndef LS_XLA_EMIT_MLIR_H
#define LS_XLA_EMIT_MLIR_H

#include "xla/engine.h"

/* A value of the function: result |id| (prefix '%'), or argument |id| of the weights ('w') or the inputs ('a'). */
typedef struct ls_val {
    char kind; /* 0: none, 'v' result, 'w' weight, 'a' input */
    int id;
    ls_tensor_type t;
} ls_val;

typedef struct ls_mlir {
    ls_str body;
    int next;          /* number of the next result */
    const char *loc;   /* location of the operations from now on: a node's name */
    bool named;        /* locations are written; without them equal operators of different layers give equal text */
    ls_error *e;
    ls_code rc;        /* first error */
} ls_mlir;

void ls_mlir_fail(ls_mlir *m, ls_code code, const char *text); /* keeps the first error */
void ls_mlir_deinit(ls_mlir *m);

ls_tensor_type ls_type_of(ls_dtype d, int rank, const int64_t *dim);
#define LS_TYPE(d, ...) ls_type_of((d), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
bool ls_type_equal(const ls_tensor_type *a, const ls_tensor_type *b);
int64_t ls_type_count(const ls_tensor_type *t); /* elements */

/* "%12"; |out| has room for 24 bytes. */
void ls_val_name(const ls_val *v, char out[24]);
/* "tensor<4x8xf32>" appended. */
ls_code ls_mlir_type(ls_str *s, const ls_tensor_type *t, ls_error *e);

/* ---- Constants: every element of |t| is the value ------------------------------------------------------------- */
ls_val ls_m_f32(ls_mlir *m, ls_tensor_type t, float value);  /* t.dtype f32 or f64 */
ls_val ls_m_int(ls_mlir *m, ls_tensor_type t, int64_t value); /* integer types; i1: 0 or 1 */
ls_val ls_m_iota(ls_mlir *m, ls_tensor_type t, int axis);

/* ---- Elementwise; operands of equal shape ------------------------------------------------------------------------ */
ls_val ls_m_unary(ls_mlir *m, const char *op, ls_val a); /* op with its dialect: "stablehlo.abs", "chlo.erf" */
ls_val ls_m_binary(ls_mlir *m, const char *op, ls_val a, ls_val b);
ls_val ls_m_with_f32(ls_mlir *m, const char *op, ls_val a, float b);   /* binary with a constant */
ls_val ls_m_with_int(ls_mlir *m, const char *op, ls_val a, int64_t b);
ls_val ls_m_compare(ls_mlir *m, const char *direction, ls_val a, ls_val b); /* "LT", "LE", "GT", "GE", "EQ", "NE" */
ls_val ls_m_select(ls_mlir *m, ls_val p, ls_val a, ls_val b);
ls_val ls_m_convert(ls_mlir *m, ls_val a, ls_dtype to); /* the same value when the type is already |to| */
ls_val ls_m_bitcast(ls_mlir *m, ls_val a, ls_dtype to); /* of equal width */

/* ---- Shapes -------------------------------------------------------------------------------------------------------- */
/* |map|[i] is the axis of |t| that axis i of |a| becomes; axes of size 1 stretch. */
ls_val ls_m_broadcast(ls_mlir *m, ls_val a, ls_tensor_type t, const int *map);
#define LS_BROADCAST(m, a, t, ...) ls_m_broadcast((m), (a), (t), (const int[]){__VA_ARGS__})
ls_val ls_m_reshape(ls_mlir *m, ls_val a, int rank, const int64_t *dim);
#define LS_RESHAPE(m, a, ...) ls_m_reshape((m), (a), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
ls_val ls_m_transpose(ls_mlir *m, ls_val a, const int *permutation);
#define LS_TRANSPOSE(m, a, ...) ls_m_transpose((m), (a), (const int[]){__VA_ARGS__})
/* [begin, end) of one axis, the whole of the others. */
ls_val ls_m_slice(ls_mlir *m, ls_val a, int axis, int64_t begin, int64_t end);
ls_val ls_m_concat(ls_mlir *m, const ls_val *a, int n, int axis);
/* |low| zeros before and |high| after |axis|; |amount| after it. */
ls_val ls_m_pad(ls_mlir *m, ls_val a, int axis, int64_t low, int64_t high);
ls_val ls_m_pad_end(ls_mlir *m, ls_val a, int axis, int64_t amount);
/* starts [rank]: i32 scalars. */
ls_val ls_m_dynamic_slice(ls_mlir *m, ls_val a, const ls_val *starts, const int64_t *sizes);
ls_val ls_m_dynamic_update(ls_mlir *m, ls_val a, ls_val update, const ls_val *starts);
/* Rows table[index[i]]: table [V, C], index i32 [N] -> [N, C]. */
ls_val ls_m_gather_rows(ls_mlir *m, ls_val table, ls_val index);

/* ---- Sums and products ---------------------------------------------------------------------------------------------- */
/* op "add" (from 0), "maximum" (from the type's lowest value) or "or" along |axis|, which disappears. */
ls_val ls_m_reduce(ls_mlir *m, const char *op, ls_val a, int axis);
/* Batch axes first, then the free axes of |a|, then those of |b|; one contracted axis each. */
ls_val ls_m_dot(ls_mlir *m, ls_val a, ls_val b, int n_batch, const int *batch_a, const int *batch_b, int contract_a, int contract_b, ls_dtype result);
/* x [N, H, W, C] over windows of w [KH, KW, C, O] without padding, stride 1; the result has type |t|. */
ls_val ls_m_convolution(ls_mlir *m, ls_val x, ls_val w, ls_tensor_type t);

#endif
