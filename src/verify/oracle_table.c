/* The table of float probes, their configuration texts and operator contracts. */
#include <math.h>
#include <string.h>

#include "verify/oracle_probes.h"

#define CLOSE(absolute_, relative_) {LS_MODE_ABSOLUTE_RELATIVE, absolute_, relative_}
#define BITS {LS_MODE_EXACT_BITS, 0, 0}
#define R_LOAD (1u << LS_ROUND_CHECKPOINT_LOAD)
#define R_WEIGHT (1u << LS_ROUND_DEQUANTIZED_WEIGHT)
#define R_IN (1u << LS_ROUND_OPERATOR_INPUT)
#define R_ACC (1u << LS_ROUND_ACCUMULATOR_RESULT)
#define R_BIAS (1u << LS_ROUND_BIAS_ADD)
#define R_ACT (1u << LS_ROUND_ACTIVATION_RESULT)
#define R_RES (1u << LS_ROUND_RESIDUAL_RESULT)
#define R_OUT (1u << LS_ROUND_OPERATOR_OUTPUT)

/* Scans differ in their width alone. */
#define SCAN(key_, entry_, rows_, cols_, own_)                                                                                              \
    {key_, entry_, {.rows = rows_, .cols = cols_}, BITS, LS_CLASS_PREFIX_REDUCTION, R_IN | R_ACC | R_OUT,                                   \
     LS_ASSOC_CUDA_ONE_BLOCK_SCAN, "explicit-mlx-cuda-one-block-contiguous-scan-v1", "mlx-cuda-one-block-contiguous-scan-v1",               \
     ls_fixture_cancelling, ls_check_scan, ls_body_scan, ls_probe_run_scan, own_}

static const ls_probe probes[] = {
    {"affine-q4-dequant", "affine_q4_dequant", {.out = 2, .cols = 16, .bits = 4, .group = 8}, BITS, LS_CLASS_AFFINE_Q4_DEQUANTIZE, R_LOAD | R_WEIGHT | R_OUT,
     LS_ASSOC_SEQUENTIAL, "stablehlo-u32-unpack-separate-multiply-add-v1", "least-significant-q4-times-f16-scale-plus-f16-bias-v1",
     ls_fixture_affine, ls_check_affine, ls_body_affine, ls_probe_run_affine, false},
    {"dense-matmul", "dense_matmul", {.rows = 2, .cols = 3, .out = 2}, BITS, LS_CLASS_DENSE_MATMUL, R_IN | R_ACC | R_OUT,
     LS_ASSOC_BACKEND_ALGORITHM, "selected-contraction", "row-major-k-sequential-v1",
     ls_fixture_matmul, ls_check_product, ls_body_matmul, ls_probe_run_matmul, false},
    {"residual-add", "residual_add", {.rows = 2, .cols = 4}, BITS, LS_CLASS_RESIDUAL_ADD, R_IN | R_RES | R_OUT,
     LS_ASSOC_SEQUENTIAL, "selected-residual-add", "elementwise-binary-add-v1",
     ls_fixture_residual, ls_check_rows, ls_body_residual, ls_probe_run_residual, false},
    {"rms-norm", "rms_norm", {.rows = 2, .cols = 4, .eps = 1e-5f}, CLOSE(2e-6, 2e-5), LS_CLASS_RMS_NORM, R_IN | R_ACC | R_OUT,
     LS_ASSOC_BACKEND_ALGORITHM, "selected-rms-norm", "row-major-square-sum-rsqrt-v1",
     ls_fixture_rms_norm, ls_check_norm, ls_body_rms_norm, ls_probe_run_rms_norm, false},
    {"attention-softmax", "attention_softmax", {.rows = 2, .cols = 4}, CLOSE(2e-6, 2e-5), LS_CLASS_ATTENTION_SOFTMAX, R_IN | R_ACC | R_ACT | R_OUT,
     LS_ASSOC_BACKEND_ALGORITHM, "selected-attention-softmax", "stable-row-major-softmax-v1",
     ls_fixture_softmax, ls_check_rows, ls_body_softmax, ls_probe_run_softmax, false},
    {"layer-norm", "layer_norm", {.rows = 2, .cols = 4, .eps = 1e-5f}, CLOSE(2e-6, 2e-5), LS_CLASS_LAYER_NORM, R_IN | R_ACC | R_BIAS | R_OUT,
     LS_ASSOC_BACKEND_ALGORITHM, "selected-layer-norm", "row-major-centered-square-sum-rsqrt-v1",
     ls_fixture_layer_norm, ls_check_norm, ls_body_layer_norm, ls_probe_run_layer_norm, false},
    {"silu-projection", "silu_projection", {.rows = 2, .cols = 4, .out = 3}, CLOSE(3e-6, 3e-5), LS_CLASS_SILU_PROJECTION, R_IN | R_ACC | R_ACT | R_OUT,
     LS_ASSOC_BACKEND_ALGORITHM, "selected-silu-projection", "row-major-projection-then-activation-v1",
     ls_fixture_projection, ls_check_product, ls_body_silu, ls_probe_run_silu, false},
    {"gelu-projection", "gelu_projection", {.rows = 2, .cols = 4, .out = 3}, CLOSE(3e-6, 3e-5), LS_CLASS_GELU_PROJECTION, R_IN | R_ACC | R_ACT | R_OUT,
     LS_ASSOC_BACKEND_ALGORITHM, "selected-gelu-projection", "row-major-projection-then-activation-v1",
     ls_fixture_projection, ls_check_product, ls_body_gelu_tanh, ls_probe_run_gelu_tanh, false},
    SCAN("cuda-prefix-sum", "cuda_prefix_sum", 2, 130, false),

    {"packed-q4-matmul", "packed_q4_matmul", {.rows = 3, .cols = 32, .out = 4, .bits = 4, .group = 8}, BITS, LS_CLASS_Q4_MATMUL,
     R_LOAD | R_WEIGHT | R_IN | R_ACC | R_OUT,
     LS_ASSOC_BACKEND_ALGORITHM, "selected-packed-contraction", "affine-dequantize-then-row-major-k-sequential-v1",
     ls_fixture_packed_matmul, ls_check_packed_product, ls_body_packed_matmul, ls_probe_run_packed_matmul, true},
    {"packed-q8-matmul", "packed_q8_matmul", {.rows = 3, .cols = 32, .out = 4, .bits = 8, .group = 16}, BITS, LS_CLASS_DENSE_MATMUL,
     R_LOAD | R_WEIGHT | R_IN | R_ACC | R_OUT,
     LS_ASSOC_BACKEND_ALGORITHM, "selected-packed-contraction", "affine-dequantize-then-row-major-k-sequential-v1",
     ls_fixture_packed_matmul, ls_check_packed_product, ls_body_packed_matmul, ls_probe_run_packed_matmul, true},
    {"gelu-erf-projection", "gelu_erf_projection", {.rows = 2, .cols = 4, .out = 3}, CLOSE(3e-6, 3e-5), LS_CLASS_GELU_PROJECTION, R_IN | R_ACC | R_ACT | R_OUT,
     LS_ASSOC_BACKEND_ALGORITHM, "selected-gelu-projection", "row-major-projection-then-activation-v1",
     ls_fixture_projection, ls_check_product, ls_body_gelu_erf, ls_probe_run_gelu_erf, true},
    {"convolution", "convolution", {.rows = 3, .cols = 6, .out = 2}, BITS, LS_CLASS_CONVOLUTION, R_IN | R_ACC | R_OUT,
     LS_ASSOC_BACKEND_ALGORITHM, "selected-convolution", "window-ascending-v1",
     ls_fixture_convolution, ls_check_product, ls_body_convolution, ls_probe_run_convolution, true},
    {"convolution-bf16", "convolution_bf16", {.rows = 3, .cols = 6, .out = 2}, BITS, LS_CLASS_CONVOLUTION, R_IN | R_ACC | R_OUT,
     LS_ASSOC_BACKEND_ALGORITHM, "selected-convolution", "window-ascending-v1",
     ls_fixture_convolution_bf16, ls_check_product, ls_body_convolution, ls_probe_run_convolution, true},
    {"pairwise-tree-sum", "pairwise_tree_sum", {.rows = 3, .cols = 130}, BITS, LS_CLASS_PREFIX_REDUCTION, R_IN | R_ACC | R_OUT,
     LS_ASSOC_PAIRWISE_TREE, "explicit-adjacent-pairwise-tree-v1", "adjacent-pairwise-tree-v1",
     ls_fixture_cancelling, ls_check_pairwise, ls_body_pairwise, ls_probe_run_pairwise, true},
    {"xor-row-sum", "xor_row_sum", {.rows = 3, .cols = 102}, BITS, LS_CLASS_PREFIX_REDUCTION, R_IN | R_ACC | R_OUT,
     LS_ASSOC_PAIRWISE_TREE, "explicit-mlx-cuda-row-sum-f32-v1", "mlx-cuda-row-sum-f32-v1",
     ls_fixture_cancelling, ls_check_xor_sum, ls_body_xor_sum, ls_probe_run_xor_sum, true},
    {"softmax-edges", "softmax_edges", {.rows = 8, .cols = 4}, {LS_MODE_CLOSE_OR_SAME_CLASS, 2e-6, 2e-5}, LS_CLASS_ATTENTION_SOFTMAX,
     R_IN | R_ACC | R_ACT | R_OUT,
     LS_ASSOC_BACKEND_ALGORITHM, "selected-attention-softmax", "stable-row-major-softmax-v1",
     ls_fixture_softmax_edges, ls_check_rows, ls_body_softmax, ls_probe_run_softmax, true},
    SCAN("cuda-prefix-sum-1", "cuda_prefix_sum_1", 3, 1, true),
    SCAN("cuda-prefix-sum-128", "cuda_prefix_sum_128", 3, 128, true),
    SCAN("cuda-prefix-sum-129", "cuda_prefix_sum_129", 3, 129, true),
    SCAN("cuda-prefix-sum-4096", "cuda_prefix_sum_4096", 3, 4096, true),
};

const ls_probe *ls_probe_at(size_t i) { return i < sizeof probes / sizeof *probes ? &probes[i] : NULL; }

static ls_code add_size(ls_str *out, const char *name, int value, ls_error *e) { return value ? ls_str_printf(out, e, "%s=%d;", name, value) : LS_OK; }

ls_code ls_probe_config(const ls_probe *p, ls_str *out, ls_error *e) {
    LS_TRY(add_size(out, "rows", p->size.rows, e));
    LS_TRY(add_size(out, "columns", p->size.cols, e));
    LS_TRY(add_size(out, "outputs", p->size.out, e));
    if (p->size.eps > 0) LS_TRY(ls_str_printf(out, e, "epsilon=%e;", (double)p->size.eps));
    if (p->size.bits) LS_TRY(ls_str_printf(out, e, "bits=%d;group=%d;metadata=%s;result=f32;", p->size.bits, p->size.group,
                                           p->size.bits == 4 ? "f16" : "bf16"));
    if (p->association == LS_ASSOC_CUDA_ONE_BLOCK_SCAN)
        LS_TRY(ls_str_printf(out, e, "values-per-thread=%d;warp=%d;block-limit=%d;", LS_SCAN_PER_THREAD, LS_SCAN_WARP, LS_SCAN_LIMIT));
    return ls_str_append(out, p->fixture == ls_fixture_convolution_bf16 ? "dtype=bf16" : "dtype=f32", SIZE_MAX, e);
}

ls_code ls_probe_contract(const ls_probe *p, const ls_operator_backend *backend, ls_str *text, ls_error *e) {
    ls_affine affine = {.bits = p->size.bits, .group = p->size.group, .carrier = LS_NUMERIC_U32,
                        .metadata = p->size.bits == 4 ? LS_NUMERIC_F16 : LS_NUMERIC_BF16};
    ls_str id = {0};
    ls_code rc = ls_str_printf(&id, e, "micro-oracle.%s.f32", p->key);
    ls_operator_contract c = {.id = id.data, .contract = LS_CONTRACT_FLOAT, .op_class = p->op_class, .checkpoint = LS_CKPT_F32, .input = LS_NUMERIC_F32,
                              .acc = LS_NUMERIC_F32,
                              .result = LS_NUMERIC_F32, .rounding = p->rounding, .association = p->association, .backend = *backend};
    if (p->size.bits) {
        c.checkpoint = p->size.bits == 4 ? LS_CKPT_AFFINE_U4 : LS_CKPT_AFFINE_U8;
        c.weights = LS_WEIGHTS_PACKED_AFFINE;
        c.affine = &affine;
        if (p->op_class == LS_CLASS_AFFINE_Q4_DEQUANTIZE) c.input = LS_NUMERIC_U32;
    }
    if (p->fixture == ls_fixture_convolution_bf16) {
        c.checkpoint = LS_CKPT_BF16;
        c.input = LS_NUMERIC_BF16;
    }
    if (!rc) rc = ls_operator_contracts_text(&c, 1, text, e);
    ls_str_deinit(&id);
    return rc;
}
