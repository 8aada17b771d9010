/* The oracle's probes: fixtures, references in plain C and StableHLO modules of the float operators, and one-node graphs of
 * the exact ones. One line of oracle_table.c is one probe. */
#ifndef LS_VERIFY_ORACLE_PROBES_H
#define LS_VERIFY_ORACLE_PROBES_H

#include "contract/operator_contract.h"
#include "verify/oracle.h"
#include "xla/emit/mlir.h"

enum { LS_SCAN_PER_THREAD = 4, LS_SCAN_WARP = 32, LS_SCAN_BLOCK = LS_SCAN_PER_THREAD * LS_SCAN_WARP, LS_SCAN_LIMIT = 4096, LS_XOR_LIMIT = 128 };

typedef struct ls_probe ls_probe;

/* Sizes and constants of a probe; those it does not use are 0. */
typedef struct ls_probe_size {
    int rows, cols, out; /* x is [rows, cols], a weight [out, cols] */
    float eps;
    int bits, group;     /* affine weights */
} ls_probe_size;

struct ls_probe {
    const char *key;       /* "dense-matmul": the operation is "micro-oracle.<key>.f32", the module "numeric_<entry>" */
    const char *entry;
    ls_probe_size size;
    ls_oracle_mode mode;
    ls_operator_class op_class;
    uint32_t rounding;
    ls_association association;
    const char *candidate; /* algorithm of the candidate; "selected-X": "<runtime>-selected-X-unobserved" */
    const char *reference; /* algorithm of the reference */
    ls_code (*fixture)(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e);          /* fills operands */
    ls_code (*check)(const ls_probe *p, ls_error *e);                    /* INVALID_ARGUMENT for sizes that the operator does not take */
    ls_val (*body)(ls_mlir *m, const ls_probe *p, const ls_val *arg);    /* the module's result from the operands */
    ls_oracle_run run;                                                                           /* |user| is the probe */
    bool lockstep;         /* one that mlxcel's suite lacks */
};

/* The nine operators and 340 outputs of mlxcel's suite in its order, then lockstep's own. NULL past the end. */
const ls_probe *ls_probe_at(size_t i);

/* Appends the configuration text of a probe: every size that it uses, epsilon in exponent form, the element type. */
ls_code ls_probe_config(const ls_probe *p, ls_str *out, ls_error *e);

/* The probe's operator contract on a backend; |text| is ls_operator_contracts_text of its one record. */
ls_code ls_probe_contract(const ls_probe *p, const ls_operator_backend *backend, ls_str *text, ls_error *e);

/* ---- Fixtures (oracle_fixtures.c). Weights come first, then inputs; data belongs to the arena. ------------------------- */

ls_code ls_fixture_affine(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e);       /* packed, scales, biases, dummy */
ls_code ls_fixture_packed_matmul(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e);/* packed, scales, biases, input */
ls_code ls_fixture_matmul(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e);       /* weight, input */
ls_code ls_fixture_projection(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e);   /* weight, input */
ls_code ls_fixture_residual(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e);     /* dummy, left, right */
ls_code ls_fixture_rms_norm(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e);     /* weight, input */
ls_code ls_fixture_layer_norm(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e);   /* weight, bias, input */
ls_code ls_fixture_softmax(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e);      /* dummy, input */
ls_code ls_fixture_softmax_edges(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e);/* the same, rows with masks, NaN, infinities */
ls_code ls_fixture_cancelling(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e);   /* dummy, input: 1e8, 1, -1e8; a third row is -0.0 */
ls_code ls_fixture_convolution(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e);  /* weight, input: 16384, 1, -16384 */
ls_code ls_fixture_convolution_bf16(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e);

/* ---- References (oracle_reference.c): f32, products and sums in the written order, k ascending, no fused multiply-add --- */

ls_code ls_probe_run_affine(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e);
ls_code ls_probe_run_packed_matmul(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e);
ls_code ls_probe_run_matmul(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e);
ls_code ls_probe_run_residual(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e);
ls_code ls_probe_run_rms_norm(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e);
ls_code ls_probe_run_layer_norm(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e);
ls_code ls_probe_run_softmax(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e);
ls_code ls_probe_run_silu(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e);
ls_code ls_probe_run_gelu_tanh(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e);
ls_code ls_probe_run_gelu_erf(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e);
ls_code ls_probe_run_scan(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e);
ls_code ls_probe_run_pairwise(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e);
ls_code ls_probe_run_xor_sum(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e);
ls_code ls_probe_run_convolution(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e);

/* ---- Modules (oracle_modules.c) --------------------------------------------------------------------------------------- */

/* Appends "module @numeric_<entry>" with one function @main of the operands of |c|, after |p|'s check. */
ls_code ls_probe_module(const ls_probe *p, const ls_oracle_case *c, ls_str *out, ls_error *e);

ls_code ls_check_rows(const ls_probe *p, ls_error *e);
ls_code ls_check_product(const ls_probe *p, ls_error *e);
ls_code ls_check_norm(const ls_probe *p, ls_error *e);
ls_code ls_check_affine(const ls_probe *p, ls_error *e);
ls_code ls_check_packed_product(const ls_probe *p, ls_error *e);
ls_code ls_check_scan(const ls_probe *p, ls_error *e);
ls_code ls_check_pairwise(const ls_probe *p, ls_error *e);
ls_code ls_check_xor_sum(const ls_probe *p, ls_error *e);

ls_val ls_body_affine(ls_mlir *m, const ls_probe *p, const ls_val *arg);
ls_val ls_body_packed_matmul(ls_mlir *m, const ls_probe *p, const ls_val *arg);
ls_val ls_body_matmul(ls_mlir *m, const ls_probe *p, const ls_val *arg);
ls_val ls_body_residual(ls_mlir *m, const ls_probe *p, const ls_val *arg);
ls_val ls_body_rms_norm(ls_mlir *m, const ls_probe *p, const ls_val *arg);
ls_val ls_body_layer_norm(ls_mlir *m, const ls_probe *p, const ls_val *arg);
ls_val ls_body_softmax(ls_mlir *m, const ls_probe *p, const ls_val *arg);
ls_val ls_body_silu(ls_mlir *m, const ls_probe *p, const ls_val *arg);
ls_val ls_body_gelu_tanh(ls_mlir *m, const ls_probe *p, const ls_val *arg);
ls_val ls_body_gelu_erf(ls_mlir *m, const ls_probe *p, const ls_val *arg);
ls_val ls_body_convolution(ls_mlir *m, const ls_probe *p, const ls_val *arg);
/* oracle_sums.c: reductions whose association is written out */
ls_val ls_body_scan(ls_mlir *m, const ls_probe *p, const ls_val *arg);
ls_val ls_body_pairwise(ls_mlir *m, const ls_probe *p, const ls_val *arg);
ls_val ls_body_xor_sum(ls_mlir *m, const ls_probe *p, const ls_val *arg);

#endif
