/* References of the float probes: each operator as its formula reads, in f32, one rounding per operation, in the written
 * order. The build switches contraction off, so a product and a sum stay two operations. */
#include <math.h>
#include <string.h>

#include "contract/exact.h"
#include "verify/oracle_probes.h"
#include "weights/weights.h"

static ls_code begin_output(ls_oracle_output *out, int rank, const int64_t *dim, ls_error *e) {
    out->rank = rank;
    out->n = 1;
    for (int i = 0; i < rank; i++) {
        out->dim[i] = dim[i];
        out->n *= (size_t)dim[i];
    }
    return ls_calloc(&out->values, out->n, sizeof *out->values, "oracle output", e);
}

static ls_code begin_matrix(ls_oracle_output *out, int rows, int cols, ls_error *e) { return begin_output(out, 2, (int64_t[]){rows, cols}, e); }

static const float *f32(const ls_oracle_case *c, size_t i) { return c->operands[i].data; }

/* ---- Affine weights ------------------------------------------------------------------------------------------------- */

static float widen(uint16_t h, ls_dtype dtype) { return dtype == LS_DT_BF16 ? ls_bf16_to_f32(h) : ls_f16_to_f32(h); }

/* Weight [row, col] = q * scale, rounded, + bias, rounded. Operands 0 to 2 are the words, scales and biases. */
static float affine_weight(const ls_probe_size *s, const ls_oracle_case *c, int row, int col) {
    int lanes = 32 / s->bits, groups = s->cols / s->group, at = row * groups + col / s->group;
    const uint32_t *words = c->operands[0].data;
    const uint16_t *scales = c->operands[1].data, *biases = c->operands[2].data;
    uint32_t q = words[row * (s->cols / lanes) + col / lanes] >> s->bits * (col % lanes) & ((1u << s->bits) - 1);
    float scaled = (float)q * widen(scales[at], c->operands[1].type.dtype);
    return scaled + widen(biases[at], c->operands[2].type.dtype);
}

ls_code ls_probe_run_affine(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e) {
    const ls_probe_size *s = &((const ls_probe *)user)->size;
    LS_TRY(begin_matrix(out, s->out, s->cols, e));
    for (int o = 0; o < s->out; o++)
        for (int k = 0; k < s->cols; k++) out->values[o * s->cols + k] = affine_weight(s, c, o, k);
    return LS_OK;
}

ls_code ls_probe_run_packed_matmul(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e) {
    const ls_probe_size *s = &((const ls_probe *)user)->size;
    const float *x = f32(c, 3);
    LS_TRY(begin_matrix(out, s->rows, s->out, e));
    for (int r = 0; r < s->rows; r++)
        for (int o = 0; o < s->out; o++) {
            float sum = 0;
            for (int k = 0; k < s->cols; k++) sum += x[r * s->cols + k] * affine_weight(s, c, o, k);
            out->values[r * s->out + o] = sum;
        }
    return LS_OK;
}

/* ---- Dense ---------------------------------------------------------------------------------------------------------- */

/* y[r, o] = sum over ascending k of x[r, k] * w[o, k], from 0; operands weight, input. */
ls_code ls_probe_run_matmul(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e) {
    const ls_probe_size *s = &((const ls_probe *)user)->size;
    const float *w = f32(c, 0), *x = f32(c, 1);
    LS_TRY(begin_matrix(out, s->rows, s->out, e));
    for (int r = 0; r < s->rows; r++)
        for (int o = 0; o < s->out; o++) {
            float sum = 0;
            for (int k = 0; k < s->cols; k++) sum += x[r * s->cols + k] * w[o * s->cols + k];
            out->values[r * s->out + o] = sum;
        }
    return LS_OK;
}

/* The reciprocal is a rounding of its own: x / (1 + exp(-x)) would be another operator. */
static float silu(float x) {
    float s = 1.0f / (1.0f + expf(-x));
    return x * s;
}

static float gelu_tanh(float x) {
    float x2 = x * x, x3 = x2 * x, inner = x + 0.044715f * x3;
    return (x * 0.5f) * (1.0f + tanhf(0.7978846f * inner));
}

static float gelu_erf(float x) { return (x * 0.5f) * (1.0f + erff(x * 0.70710678f)); }

static ls_code project(const ls_oracle_case *c, void *user, ls_oracle_output *out, float (*act)(float), ls_error *e) {
    LS_TRY(ls_probe_run_matmul(c, user, out, e));
    for (size_t i = 0; i < out->n; i++) out->values[i] = act(out->values[i]);
    return LS_OK;
}

ls_code ls_probe_run_silu(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e) { return project(c, user, out, silu, e); }
ls_code ls_probe_run_gelu_tanh(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e) { return project(c, user, out, gelu_tanh, e); }
ls_code ls_probe_run_gelu_erf(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e) { return project(c, user, out, gelu_erf, e); }

ls_code ls_probe_run_residual(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e) {
    const ls_probe_size *s = &((const ls_probe *)user)->size;
    LS_TRY(begin_matrix(out, s->rows, s->cols, e));
    for (size_t i = 0; i < out->n; i++) out->values[i] = f32(c, 1)[i] + f32(c, 2)[i];
    return LS_OK;
}

ls_code ls_probe_run_rms_norm(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e) {
    const ls_probe_size *s = &((const ls_probe *)user)->size;
    LS_TRY(begin_matrix(out, s->rows, s->cols, e));
    for (int r = 0; r < s->rows; r++) {
        const float *x = f32(c, 1) + r * s->cols;
        float sum = 0;
        for (int k = 0; k < s->cols; k++) sum += x[k] * x[k];
        float inv = 1.0f / sqrtf(sum / (float)s->cols + s->eps);
        for (int k = 0; k < s->cols; k++) out->values[r * s->cols + k] = (x[k] * inv) * f32(c, 0)[k];
    }
    return LS_OK;
}

ls_code ls_probe_run_layer_norm(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e) {
    const ls_probe_size *s = &((const ls_probe *)user)->size;
    LS_TRY(begin_matrix(out, s->rows, s->cols, e));
    for (int r = 0; r < s->rows; r++) {
        const float *x = f32(c, 2) + r * s->cols;
        float sum = 0, squares = 0;
        for (int k = 0; k < s->cols; k++) sum += x[k];
        float mean = sum / (float)s->cols;
        for (int k = 0; k < s->cols; k++) squares += (x[k] - mean) * (x[k] - mean);
        float inv = 1.0f / sqrtf(squares / (float)s->cols + s->eps);
        for (int k = 0; k < s->cols; k++) out->values[r * s->cols + k] = (((x[k] - mean) * inv) * f32(c, 0)[k]) + f32(c, 1)[k];
    }
    return LS_OK;
}

/* A NaN anywhere makes the maximum, and with it the row, NaN. */
ls_code ls_probe_run_softmax(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e) {
    const ls_probe_size *s = &((const ls_probe *)user)->size;
    LS_TRY(begin_matrix(out, s->rows, s->cols, e));
    for (int r = 0; r < s->rows; r++) {
        const float *x = f32(c, 1) + r * s->cols;
        float *y = out->values + r * s->cols, m = -INFINITY, sum = 0;
        for (int k = 0; k < s->cols; k++)
            if (x[k] > m || isnan(x[k])) m = x[k];
        for (int k = 0; k < s->cols; k++) sum += y[k] = expf(x[k] - m);
        for (int k = 0; k < s->cols; k++) y[k] = y[k] / sum;
    }
    return LS_OK;
}

/* ---- Sums and windows -------------------------------------------------------------------------------------------------- */

/* Inclusive Hillis-Steele scan of one warp. */
static void warp_scan(float v[LS_SCAN_WARP]) {
    for (int offset = 1; offset < LS_SCAN_WARP; offset *= 2) {
        float old[LS_SCAN_WARP];
        memcpy(old, v, sizeof old);
        for (int i = offset; i < LS_SCAN_WARP; i++) v[i] = old[i] + old[i - offset];
    }
}

/* v becomes the scan of what comes before each lane. */
static void to_exclusive(float v[LS_SCAN_WARP]) {
    memmove(v + 1, v, (LS_SCAN_WARP - 1) * sizeof *v);
    v[0] = 0;
}

/* Serial sums of four values, warp scans of the 32 thread sums, a scan of the warp totals. The sum begins from +0.0, so no output is
 * -0.0. */
static void scan_row(const float *x, float *y, int width) {
    enum { MAX_WARPS = LS_SCAN_LIMIT / LS_SCAN_BLOCK };
    float local[LS_SCAN_LIMIT] = {0}, thread[MAX_WARPS][LS_SCAN_WARP], warp[LS_SCAN_WARP] = {0};
    int warps = (width + LS_SCAN_BLOCK - 1) / LS_SCAN_BLOCK;
    memcpy(local, x, (size_t)width * sizeof *x);
    for (int i = 0; i < warps * LS_SCAN_BLOCK; i++)
        if (i % LS_SCAN_PER_THREAD) local[i] = local[i] + local[i - 1];
    for (int w = 0; w < warps; w++) {
        float sum[LS_SCAN_WARP];
        for (int t = 0; t < LS_SCAN_WARP; t++) sum[t] = thread[w][t] = local[(w * LS_SCAN_WARP + t) * LS_SCAN_PER_THREAD + LS_SCAN_PER_THREAD - 1];
        warp_scan(thread[w]);
        to_exclusive(thread[w]);
        warp[w] = thread[w][LS_SCAN_WARP - 1] + sum[LS_SCAN_WARP - 1];
    }
    warp_scan(warp);
    to_exclusive(warp);
    for (int i = 0; i < width; i++) y[i] = ((local[i] + 0.0f) + warp[i / LS_SCAN_BLOCK]) + thread[i / LS_SCAN_BLOCK][i % LS_SCAN_BLOCK / LS_SCAN_PER_THREAD];
}

ls_code ls_probe_run_scan(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e) {
    const ls_probe_size *s = &((const ls_probe *)user)->size;
    LS_TRY(begin_matrix(out, s->rows, s->cols, e));
    for (int r = 0; r < s->rows; r++) scan_row(f32(c, 1) + r * s->cols, out->values + r * s->cols, s->cols);
    return LS_OK;
}

/* Neighbours are added, then neighbouring sums, until one is left; the row is padded with +0.0 to a power of two. */
ls_code ls_probe_run_pairwise(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e) {
    const ls_probe_size *s = &((const ls_probe *)user)->size;
    int width = 1 << ls_ceil_log2((uint64_t)s->cols);
    float *v;
    LS_TRY(begin_output(out, 1, (int64_t[]){s->rows}, e));
    LS_TRY(ls_calloc(&v, (size_t)width, sizeof *v, "pairwise tree", e));
    for (int r = 0; r < s->rows; r++) {
        memset(v, 0, (size_t)width * sizeof *v);
        memcpy(v, f32(c, 1) + r * s->cols, (size_t)s->cols * sizeof *v);
        for (int n = width / 2; n; n /= 2)
            for (int i = 0; i < n; i++) v[i] = v[2 * i] + v[2 * i + 1];
        out->values[r] = v[0];
    }
    ls_free(v);
    return LS_OK;
}

/* Four values a lane, added from 0; then each lane adds the lane whose index differs in one bit, the highest bit first. */
ls_code ls_probe_run_xor_sum(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e) {
    const ls_probe_size *s = &((const ls_probe *)user)->size;
    LS_TRY(begin_output(out, 1, (int64_t[]){s->rows}, e));
    for (int r = 0; r < s->rows; r++) {
        float v[LS_XOR_LIMIT] = {0}, lane[32], old[32];
        memcpy(v, f32(c, 1) + r * s->cols, (size_t)s->cols * sizeof *v);
        for (int i = 0; i < 32; i++) lane[i] = (((0.0f + v[4 * i]) + v[4 * i + 1]) + v[4 * i + 2]) + v[4 * i + 3];
        for (int mask = 16; mask; mask /= 2) {
            memcpy(old, lane, sizeof old);
            for (int i = 0; i < 32; i++) lane[i] = old[i] + old[i ^ mask];
        }
        out->values[r] = lane[0];
    }
    return LS_OK;
}

static float element(const ls_oracle_tensor *t, int i) { return t->type.dtype == LS_DT_BF16 ? widen(((const uint16_t *)t->data)[i],
        LS_DT_BF16) : ((const float *)t->data)[i]; }

/* Windows of |taps| columns; input [1, rows, cols, 1], weight [1, taps, 1, out], output [1, rows, cols - taps + 1, out]. */
ls_code ls_probe_run_convolution(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e) {
    const ls_probe_size *s = &((const ls_probe *)user)->size;
    const ls_oracle_tensor *w = &c->operands[0], *x = &c->operands[1];
    int taps = (int)w->type.dim[1], cols = s->cols - taps + 1;
    LS_TRY(begin_output(out, 4, (int64_t[]){1, s->rows, cols, s->out}, e));
    for (int i = 0; i < s->rows * cols * s->out; i++) {
        int o = i % s->out, at = i / s->out / cols * s->cols + i / s->out % cols;
        float sum = 0;
        for (int k = 0; k < taps; k++) sum += element(x, at + k) * element(w, k * s->out + o);
        out->values[i] = sum;
    }
    return LS_OK;
}
