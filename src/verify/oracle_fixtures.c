/* Operands of the float probes. The first nine are the ones mlxcel's suite uses; the others are made so that every product
 * and partial sum is exact in f32, whatever the order (matrix products, convolutions), or so that the order shows (sums). */
#include <math.h>

#include "contract/exact.h"
#include "verify/oracle_probes.h"
#include "weights/weights.h"

static ls_code add(ls_oracle_case *c, ls_arena *a, const char *name, ls_dtype dtype, int rank, const int64_t *dim, void *data, ls_error *e) {
    ls_oracle_tensor *t = &c->operands[c->n_operands];
    *t = (ls_oracle_tensor){.name = name, .type = {.dtype = dtype, .rank = rank}, .data = data};
    for (int i = 0; i < rank; i++) t->type.dim[i] = dim[i];
    LS_TRY(ls_tensor_type_bytes(&t->type, &t->bytes, e));
    if (!data) {
        void *zeros; /* the one-element dummy */
        LS_TRY(ls_arena_alloc(a, &zeros, t->bytes, 1, e));
        t->data = zeros;
    }
    c->n_operands++;
    return LS_OK;
}

/* Matrix [rows, cols] of |values| (copied: operands are not const tables). */
static ls_code add_f32(ls_oracle_case *c, ls_arena *a, const char *name, int rank, int64_t rows, int64_t cols, const float *values, ls_error *e) {
    float *data;
    size_t n = (size_t)(rows * cols);
    LS_TRY(ls_arena_alloc(a, &data, n, sizeof *data, e));
    for (size_t i = 0; i < n; i++) data[i] = values[i];
    const int64_t matrix[] = {rows, cols};
    return add(c, a, name, LS_DT_F32, rank, rank == 1 ? &cols : matrix, data, e);
}

/* What a probe without a weight or without a dynamic input has in its place. */
static ls_code add_dummy(ls_oracle_case *c, ls_arena *a, ls_error *e) {
    const int64_t one = 1;
    return add(c, a, "dummy", LS_DT_F32, 1, &one, NULL, e);
}

/* ---- Affine weights ------------------------------------------------------------------------------------------------- */

static uint16_t to_half(float v, ls_dtype dtype) { return dtype == LS_DT_BF16 ? ls_f32_to_bf16(v) : ls_f32_to_f16(v); }

static ls_code add_metadata(ls_oracle_case *c, ls_arena *a, const char *name, ls_dtype dtype, int rows, int groups, const float *values, ls_error *e) {
    uint16_t *data;
    LS_TRY(ls_arena_alloc(a, &data, (size_t)rows * (size_t)groups, sizeof *data, e));
    for (int i = 0; i < rows * groups; i++) data[i] = to_half(values[i], dtype);
    const int64_t dim[] = {rows, groups};
    return add(c, a, name, dtype, 2, dim, data, e);
}

/* Column i lies in word i / lanes, the lowest column in the lowest bits. */
static ls_code add_packed(ls_oracle_case *c, ls_arena *a, int rows, int cols, int bits, const uint8_t *q, ls_error *e) {
    int lanes = 32 / bits, words = cols / lanes;
    uint32_t *data;
    LS_TRY(ls_arena_alloc(a, &data, (size_t)rows * (size_t)words, sizeof *data, e));
    for (int i = 0; i < rows * cols; i++) data[i / lanes] |= (uint32_t)q[i] << bits * (i % lanes);
    const int64_t dim[] = {rows, words};
    return add(c, a, "packed", LS_DT_U32, 2, dim, data, e);
}

ls_code ls_fixture_affine(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e) {
    static const uint8_t q[] = {0, 1, 2, 3, 4, 5, 6, 7, 15, 14, 13, 12, 11, 10, 9, 8, 15, 0, 7, 8, 3, 12, 1, 14, 2, 13, 4, 11, 6, 9, 5, 10};
    static const float scales[] = {.5f, -1, 2, .25f}, biases[] = {-1, 3, .5f, -2};
    LS_TRY(add_packed(c, a, p->size.out, p->size.cols, 4, q, e));
    LS_TRY(add_metadata(c, a, "scales", LS_DT_F16, 2, 2, scales, e));
    LS_TRY(add_metadata(c, a, "biases", LS_DT_F16, 2, 2, biases, e));
    return add_dummy(c, a, e);
}

enum { MAX_WEIGHTS = 256, MAX_GROUPS = 32 };

/* Small multiples of powers of two: |x| <= 2 in steps of 1/4, |w| < 400 in steps of 1/8, so that every sum is exact. */
ls_code ls_fixture_packed_matmul(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e) {
    const ls_probe_size *s = &p->size;
    uint8_t q[MAX_WEIGHTS];
    float x[MAX_WEIGHTS], scales[MAX_GROUPS], biases[MAX_GROUPS];
    int groups = s->cols / s->group;
    for (int i = 0; i < s->out * s->cols; i++) q[i] = (uint8_t)((i * 37 + 3) & ((1 << s->bits) - 1));
    for (int i = 0; i < s->out * groups; i++) {
        scales[i] = (i & 1 ? -1.5f : 1.0f) * ls_pow2(-(i % 3));
        biases[i] = (float)(i % 7 - 3) * 0.25f;
    }
    for (int i = 0; i < s->rows * s->cols; i++) x[i] = (float)(i * 7 % 17 - 8) * 0.25f;
    ls_dtype metadata = s->bits == 4 ? LS_DT_F16 : LS_DT_BF16;
    LS_TRY(add_packed(c, a, s->out, s->cols, s->bits, q, e));
    LS_TRY(add_metadata(c, a, "scales", metadata, s->out, groups, scales, e));
    LS_TRY(add_metadata(c, a, "biases", metadata, s->out, groups, biases, e));
    return add_f32(c, a, "input", 2, s->rows, s->cols, x, e);
}

/* ---- Dense ---------------------------------------------------------------------------------------------------------- */

ls_code ls_fixture_matmul(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e) {
    static const float w[] = {2, -1, .5f, -3, .25f, 4}, x[] = {1, 2, -1, -2, .5f, 3};
    LS_TRY(add_f32(c, a, "weight", 2, p->size.out, p->size.cols, w, e));
    return add_f32(c, a, "input", 2, p->size.rows, p->size.cols, x, e);
}

ls_code ls_fixture_projection(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e) {
    static const float w[] = {.5f, -1, 2, .25f, -2, .5f, .75f, -.125f, 1.25f, 0, -.5f, 2}, x[] = {1, -2, .5f, 3, -.25f, .75f, -1.5f, 2};
    LS_TRY(add_f32(c, a, "weight", 2, p->size.out, p->size.cols, w, e));
    return add_f32(c, a, "input", 2, p->size.rows, p->size.cols, x, e);
}

ls_code ls_fixture_residual(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e) {
    static const float l[] = {1, -2, 3.5f, .25f, -4, 8, .5f, -.125f}, r[] = {-.5f, 1, 2.25f, -.75f, 3, -2, .125f, 4};
    LS_TRY(add_dummy(c, a, e));
    LS_TRY(add_f32(c, a, "left", 2, p->size.rows, p->size.cols, l, e));
    return add_f32(c, a, "right", 2, p->size.rows, p->size.cols, r, e);
}

static const float norm_input[] = {1, -2, 3, -4, .25f, .5f, -.75f, 1.25f}, norm_weight[] = {.5f, 1, 1.5f, -.75f}, norm_bias[] = {.25f, -.5f, .75f, 1};

ls_code ls_fixture_rms_norm(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e) {
    LS_TRY(add_f32(c, a, "weight", 1, 1, p->size.cols, norm_weight, e));
    return add_f32(c, a, "input", 2, p->size.rows, p->size.cols, norm_input, e);
}

ls_code ls_fixture_layer_norm(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e) {
    LS_TRY(add_f32(c, a, "weight", 1, 1, p->size.cols, norm_weight, e));
    LS_TRY(add_f32(c, a, "bias", 1, 1, p->size.cols, norm_bias, e));
    return add_f32(c, a, "input", 2, p->size.rows, p->size.cols, norm_input, e);
}

ls_code ls_fixture_softmax(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e) {
    static const float x[] = {12, 11, -3, .5f, -8, 0, 8, 7.5f};
    LS_TRY(add_dummy(c, a, e));
    return add_f32(c, a, "input", 2, p->size.rows, p->size.cols, x, e);
}

/* Masked by -1e30 and by -infinity; masked whole by -1e30, by the lowest f32 (both uniform) and by -infinity (NaN); one NaN;
 * one +infinity; scores that overflow exp without the maximum subtracted. */
ls_code ls_fixture_softmax_edges(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e) {
    const float low = -0x1.fffffep127f, inf = INFINITY;
    const float x[] = {1, -1e30f, 2, -1e30f, .5f, -inf, -inf, 1, -1e30f, -1e30f, -1e30f, -1e30f, low, low, low, low,
                       -inf, -inf, -inf, -inf, 1, NAN, 2, 3, 1, inf, 2, 3, 1000, 999, -1000, 1000};
    LS_TRY(add_dummy(c, a, e));
    return add_f32(c, a, "input", 2, p->size.rows, p->size.cols, x, e);
}

/* ---- Sums and windows -------------------------------------------------------------------------------------------------- */

/* Groups of four that cancel, so that every association has its own result; row 1 is row 0 negated, row 2 all -0.0. */
ls_code ls_fixture_cancelling(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e) {
    static const float lane[2][4] = {{1e8f, 1, -1e8f, 0}, {1, 0, 0, 0}};
    float *x;
    LS_TRY(ls_arena_alloc(a, &x, (size_t)p->size.rows * (size_t)p->size.cols, sizeof *x, e));
    for (int r = 0; r < p->size.rows; r++)
        for (int i = 0; i < p->size.cols; i++) {
            float v = lane[i / 4 % 3 == 1][i % 4];
            x[r * p->size.cols + i] = r == 0 ? v : r == 1 ? -v : -0.0f;
        }
    const int64_t dim[] = {p->size.rows, p->size.cols};
    LS_TRY(add_dummy(c, a, e));
    return add(c, a, "input", LS_DT_F32, 2, dim, x, e);
}

enum { CONV_TAPS = 3 };
static const float conv_weight[CONV_TAPS][2] = {{1, .5f}, {1, 2}, {1, .5f}};
static const float conv_cycle[CONV_TAPS] = {16384, 1, -16384};

/* Every window of three holds 16384, 1 and -16384 in one of their cyclic orders: a sum kept in bf16 loses the 1 in two of three.
 * Weight [1, 3, 1, 2], input [1, rows, cols, 1]; rows times 1, -1, 2. */
static ls_code convolution(const ls_probe *p, ls_oracle_case *c, ls_arena *a, bool bf16, ls_error *e) {
    const int64_t wd[] = {1, CONV_TAPS, 1, p->size.out}, xd[] = {1, p->size.rows, p->size.cols, 1};
    const float factor[] = {1, -1, 2};
    int n = p->size.rows * p->size.cols;
    float *w, *x;
    LS_TRY(ls_arena_alloc(a, &w, CONV_TAPS * 2, sizeof *w, e));
    LS_TRY(ls_arena_alloc(a, &x, (size_t)n, sizeof *x, e));
    for (int i = 0; i < CONV_TAPS * 2; i++) w[i] = conv_weight[i / 2][i % 2];
    for (int i = 0; i < n; i++) x[i] = conv_cycle[i % p->size.cols % CONV_TAPS] * factor[i / p->size.cols];
    if (!bf16) {
        LS_TRY(add(c, a, "weight", LS_DT_F32, 4, wd, w, e));
        return add(c, a, "input", LS_DT_F32, 4, xd, x, e);
    }
    uint16_t *hw, *hx;
    LS_TRY(ls_arena_alloc(a, &hw, CONV_TAPS * 2, sizeof *hw, e));
    LS_TRY(ls_arena_alloc(a, &hx, (size_t)n, sizeof *hx, e));
    for (int i = 0; i < CONV_TAPS * 2; i++) hw[i] = to_half(w[i], LS_DT_BF16);
    for (int i = 0; i < n; i++) hx[i] = to_half(x[i], LS_DT_BF16);
    LS_TRY(add(c, a, "weight", LS_DT_BF16, 4, wd, hw, e));
    return add(c, a, "input", LS_DT_BF16, 4, xd, hx, e);
}

ls_code ls_fixture_convolution(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e) { return convolution(p, c, a, false, e); }
ls_code ls_fixture_convolution_bf16(const ls_probe *p, ls_oracle_case *c, ls_arena *a, ls_error *e) { return convolution(p, c, a, true, e); }
