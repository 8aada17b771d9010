/* The micro-oracle: one operator, one small fixture, a reference and a candidate, and a report that says what was seen.
 *
 * A case names the operator's contract and both backends; the harness runs the reference, then the candidate, on the same
 * operands, compares, and computes every digest itself. A report never claims more than was observed: `production_qualified`
 * follows from the claim and from how each side's algorithm is known (docs/qualification.md), never from a caller. */
#ifndef LS_VERIFY_ORACLE_H
#define LS_VERIFY_ORACLE_H

#include "base/json.h"
#include "xla/engine.h"

#define LS_ORACLE_SCHEMA "lockstep-micro-oracle-v1"

enum { LS_ORACLE_MAX_OPERANDS = 16, LS_ORACLE_MAX_FLAGS = 16, LS_ORACLE_MAX_ELEMENTS = 1 << 24 };

/* What a passing report would be evidence of. */
typedef enum ls_oracle_claim {
    LS_CLAIM_PRODUCTION_MLX,          /* "production-mlx": MLX's own kernel and the candidate's are the observed ones */
    LS_CLAIM_CANONICAL_DECOMPOSITION, /* "canonical-decomposition": the written-out form of the operator */
    LS_CLAIM_MATHEMATICAL_CLOSENESS,  /* "mathematical-closeness" */
    LS_CLAIM_EXACT_CONTRACT,          /* "exact-contract": equal bits under a contract that leaves no kernel choice */
    LS_CLAIM_COUNT
} ls_oracle_claim;

typedef enum ls_oracle_mode_kind {
    LS_MODE_EXACT_BITS,        /* "exact-bits": equality of u32 patterns; a NaN equals the same NaN, +0 differs from -0 */
    LS_MODE_ABSOLUTE_RELATIVE, /* "absolute-relative": fails when either side is not finite, or |c - r| > absolute + relative * |r| in f64 */
    LS_MODE_CLOSE_OR_SAME_CLASS, /* "absolute-relative-or-same-class": the same for finite references; a NaN wants any NaN, an infinity the same one */
    LS_MODE_COUNT
} ls_oracle_mode_kind;

typedef struct ls_oracle_mode {
    ls_oracle_mode_kind kind;
    double absolute, relative; /* finite, 0 or more; 0 under exact bits */
} ls_oracle_mode;

/* How it is known which algorithm computed a result. */
typedef enum ls_algorithm_status {
    LS_ALGORITHM_UNOBSERVED,       /* "unobserved": the backend does not tell which kernel it chose */
    LS_ALGORITHM_OBSERVED,         /* "observed" */
    LS_ALGORITHM_FIXED_BY_CONTRACT, /* "fixed-by-contract": every algorithm gives the same bits; only with the exact-contract claim */
    LS_ALGORITHM_STATUS_COUNT
} ls_algorithm_status;

/* Who computed one side. Strings are borrowed, non-empty, without NUL, LF and CR. */
typedef struct ls_oracle_backend {
    const char *runtime, *revision, *patch, *compiler;
    const char *flags[LS_ORACLE_MAX_FLAGS]; /* at least one */
    size_t n_flags;
    const char *target, *device, *artifact_fingerprint;
    const char *precision; /* begins with "tf32=off" or "tf32=on"; a reference must have it off */
    ls_algorithm_status status;
    const char *algorithm; /* its name, or why it is not known */
} ls_oracle_backend;

/* A dense little-endian operand (borrowed). No dimension is 0. */
typedef struct ls_oracle_tensor {
    const char *name;
    ls_tensor_type type;
    const void *data;
    size_t bytes; /* exactly those of the type */
} ls_oracle_tensor;

/* A result: f32 values [product of dims], freed by the harness with ls_free. */
typedef struct ls_oracle_output {
    int rank;
    int64_t dim[LS_XLA_MAX_RANK];
    float *values;
    size_t n;
} ls_oracle_output;

typedef struct ls_oracle_case ls_oracle_case;
typedef ls_code (*ls_oracle_run)(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e);

struct ls_oracle_case {
    const char *operation; /* "micro-oracle.dense-matmul.f32" */
    ls_oracle_claim claim;
    const char *contract;  /* ls_operator_contracts_text [contract_len]: NUL separates records, LF and CR are refused */
    size_t contract_len;
    ls_oracle_backend reference, candidate;
    ls_oracle_mode mode;
    ls_oracle_tensor operands[LS_ORACLE_MAX_OPERANDS];
    size_t n_operands; /* at least 1 */
    ls_oracle_run run_reference, run_candidate;
    void *reference_user, *candidate_user;
};

/* Runs one case and gives its report as JSON (docs/qualification.md lists the fields); free with json_decref. A candidate that
 * differs is a report with passed = false. Errors are cases that could not be compared: INVALID_ARGUMENT for a malformed
 * case or outputs of different shapes, or what the callbacks return. */
ls_code ls_oracle_report(const ls_oracle_case *c, json_t **out, ls_error *e);

/* Judges a report by its own fields: FAILED_PRECONDITION when `passed` or `production_qualified` claims more than the comparison,
 * claim, mode and algorithm statuses in it allow, or when a field that the judgement needs is absent. */
ls_code ls_oracle_check_report(const json_t *report, ls_error *e);

/* SHA-256 of the dimensions as LE u64, then the values as they lie: the digest of an operand. */
void ls_oracle_tensor_digest(const ls_oracle_tensor *t, char hex[65]);

#endif
