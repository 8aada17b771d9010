/* The signature of a StableHLO module's function @main: what an engine checks arguments against, since device
 * compilers' C interfaces do not describe parameters. Reads the text forms that MLIR prints for static shapes. */
#ifndef LS_XLA_SIGNATURE_H
#define LS_XLA_SIGNATURE_H

#include "xla/engine.h"

enum { LS_SIGNATURE_MAX = 1 << 20 }; /* arguments or results */

typedef struct ls_parameter {
    ls_tensor_type type;
    int64_t alias; /* result that may take this argument's storage (tf.aliasing_output); -1: the argument is only read */
} ls_parameter;

typedef struct ls_signature {
    ls_parameter *params; /* [n_params] */
    size_t n_params, cap_params;
    ls_tensor_type *results; /* [n_results] */
    size_t n_results, cap_results;
} ls_signature;

/* Parses `func.func [public] @main(...) -> ...` out of |text| [len]. Each donated parameter must have the type of its
 * result, and each result at most one donor. Errors: INVALID_ARGUMENT naming the position, UNIMPLEMENTED (dynamic
 * dimension, element type or rank outside engine.h). Zero-initialise |s|; deinit it after a failure as well. */
ls_code ls_signature_parse(ls_signature *s, const char *text, size_t len, ls_error *e);
void ls_signature_deinit(ls_signature *s);

/* True when element types, ranks and dimensions are equal. */
bool ls_tensor_type_equal(const ls_tensor_type *a, const ls_tensor_type *b);

/* Appends "tensor<2x3xf32>". */
ls_code ls_tensor_type_text(const ls_tensor_type *t, ls_str *out, ls_error *e);

#endif
