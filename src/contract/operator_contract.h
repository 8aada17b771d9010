/* Operator contracts as text: what an artifact was compiled to compute, operator by operator. The text is identity (its
 * SHA-256 goes into manifests and reports), never evidence that a test passed.
 *
 * A float operator leaves choices open (precisions, rounding boundaries, association, the kernel), so its record names
 * them all, the backend's included: schema mlxcel-xla-operator-numeric-v1, byte for byte that of mlxcel. An exact
 * operator leaves none: its record is the operator, the contract and the contract's version, and no backend (schema
 * lockstep-operator-contract-v1). Construction order never changes identity; every field does. */
#ifndef LS_CONTRACT_OPERATOR_CONTRACT_H
#define LS_CONTRACT_OPERATOR_CONTRACT_H

#include "base/str.h"
#include "contract/contract.h"

#define LS_DTYPE_CONTRACT_SCHEMA "mlxcel-xla-numeric-dtype-v1"
#define LS_OPERATOR_CONTRACT_SCHEMA "mlxcel-xla-operator-numeric-v1"
#define LS_EXACT_OPERATOR_CONTRACT_SCHEMA "lockstep-operator-contract-v1"

/* Element type of an operand, accumulator or result. */
typedef enum ls_numeric { LS_NUMERIC_F16, LS_NUMERIC_BF16, LS_NUMERIC_F32, LS_NUMERIC_I32, LS_NUMERIC_U8, LS_NUMERIC_U32, LS_NUMERIC_COUNT } ls_numeric;

/* How weights are held while the operator runs: "dense", "host-affine-dequantized", "packed-affine-in-graph". */
typedef enum ls_weight_execution { LS_WEIGHTS_DENSE, LS_WEIGHTS_HOST_AFFINE, LS_WEIGHTS_PACKED_AFFINE, LS_WEIGHTS_COUNT } ls_weight_execution;

/* "affine-q4-dequantize", "dense-matmul", "q4-matmul", "layer-norm", "rms-norm", "residual-add", "silu-projection",
 * "gelu-projection", "attention-softmax", "prefix-reduction", "convolution". */
typedef enum ls_operator_class {
    LS_CLASS_AFFINE_Q4_DEQUANTIZE, LS_CLASS_DENSE_MATMUL, LS_CLASS_Q4_MATMUL, LS_CLASS_LAYER_NORM, LS_CLASS_RMS_NORM, LS_CLASS_RESIDUAL_ADD,
    LS_CLASS_SILU_PROJECTION, LS_CLASS_GELU_PROJECTION, LS_CLASS_ATTENTION_SOFTMAX, LS_CLASS_PREFIX_REDUCTION, LS_CLASS_CONVOLUTION, LS_CLASS_COUNT
} ls_operator_class;

/* How the checkpoint stores the weights: "f16", "bf16", "f32", "affine-u4", "affine-u8". */
typedef enum ls_checkpoint_dtype { LS_CKPT_F16, LS_CKPT_BF16, LS_CKPT_F32, LS_CKPT_AFFINE_U4, LS_CKPT_AFFINE_U8, LS_CKPT_COUNT } ls_checkpoint_dtype;

/* Places where a value is rounded to its type, in canonical order; a set is a bit mask of 1 << these. Names:
 * "checkpoint-load", "dequantized-weight", "operator-input", "accumulator-result", "bias-add", "activation-result",
 * "residual-result", "operator-output". */
typedef enum ls_rounding {
    LS_ROUND_CHECKPOINT_LOAD, LS_ROUND_DEQUANTIZED_WEIGHT, LS_ROUND_OPERATOR_INPUT, LS_ROUND_ACCUMULATOR_RESULT, LS_ROUND_BIAS_ADD,
    LS_ROUND_ACTIVATION_RESULT, LS_ROUND_RESIDUAL_RESULT, LS_ROUND_OPERATOR_OUTPUT, LS_ROUND_COUNT
} ls_rounding;

/* "sequential", "pairwise-tree", "prefix-sequential", "cuda-one-block-scan", "backend-algorithm". */
typedef enum ls_association {
    LS_ASSOC_SEQUENTIAL, LS_ASSOC_PAIRWISE_TREE, LS_ASSOC_PREFIX_SEQUENTIAL, LS_ASSOC_CUDA_ONE_BLOCK_SCAN, LS_ASSOC_BACKEND_ALGORITHM, LS_ASSOC_COUNT
} ls_association;

/* w = q * scale + bias of a packed checkpoint. */
typedef struct ls_affine {
    int bits;                   /* 4 or 8 */
    int group;                  /* > 0: weights that share scale and bias */
    ls_numeric carrier;         /* U32 */
    ls_numeric metadata;        /* of scales and biases: F16 or BF16 */
    bool most_significant_first;/* lane order in a carrier word; "least-significant-first" otherwise */
    bool fused;                 /* "fused-multiply-add"; "separate-multiply-then-add" otherwise */
} ls_affine;

/* Who computes a float operator. All five are non-empty and free of NUL, semicolon, LF and CR. */
typedef struct ls_operator_backend {
    const char *framework, *patch, *compiler, *target, *algorithm;
} ls_operator_backend;

/* One record. An exact contract uses |id| and |op| only; FLOAT uses everything but |op|. Strings are borrowed. */
typedef struct ls_operator_contract {
    const char *id;       /* non-empty, free of NUL, semicolon, LF and CR; unique in a set */
    ls_contract contract;
    const char *op;       /* exact: the operator's name in docs/contracts.md, "rms_norm" */
    ls_operator_class op_class;
    ls_checkpoint_dtype checkpoint;
    ls_numeric input, acc, result;
    uint32_t rounding;    /* bits 1 << ls_rounding; not empty */
    ls_association association;
    ls_weight_execution weights;
    const ls_affine *affine; /* required for affine checkpoints with the same bits, NULL otherwise */
    ls_operator_backend backend;
} ls_operator_contract;

/* Graph-wide element types: a weaker descriptor that qualifies nothing alone. */
typedef struct ls_dtype_contract {
    ls_weight_execution weights;
    ls_numeric dot_in, dot_acc, dot_out, reduce, carrier; /* |carrier|: of activations between operators */
} ls_dtype_contract;

/* INVALID_ARGUMENT naming the record, the field, the value and what is allowed. */
ls_code ls_operator_contract_check(const ls_operator_contract *c, ls_error *e);

/* Appends the canonical text of one record, without schema:
 *   float: "id=;class=;checkpoint=;input=;acc=;result=;round=;association=;weights=;dequant=;framework=;patch=;compiler=;target=;algorithm="
 *   exact: "id=;operator=;contract=exact16;version=1" */
ls_code ls_operator_contract_text(const ls_operator_contract *c, ls_str *out, ls_error *e);

/* Appends the canonical text of a set: the schema id, then for each record in byte order of ids a NUL and its text. The
 * schema is mlxcel's when every record is a float one. INVALID_ARGUMENT when empty or when ids repeat. */
ls_code ls_operator_contracts_text(const ls_operator_contract *records, size_t n, ls_str *out, ls_error *e);

/* Appends "mlxcel-xla-numeric-dtype-v1;weights=;dot-in=;dot-acc=;dot-out=;reduce=;carrier=". */
ls_code ls_dtype_contract_text(const ls_dtype_contract *c, ls_str *out, ls_error *e);

/* A backend string made fit for a record: runs of white space become one space, semicolons commas, ends are trimmed. */
ls_code ls_backend_text_clean(const char *text, ls_str *out, ls_error *e);

#endif
