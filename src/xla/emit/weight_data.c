/* Host data of weight arguments: what the emitted module expects in each, from the checkpoint's tensors. */
#include <string.h>

#include "base/detmath.h"
#include "contract/exact.h"
#include "contract/weight_form.h"
#include "reference/exact_ops.h"
#include "xla/emit/emit.h"

/* ---- Values --------------------------------------------------------------------------------------------------------------- */

static void store(const ls_emit_weight *w, void *out, int64_t at, float x) {
    if (w->type.dtype == LS_DT_F16) ((uint16_t *)out)[at] = ls_f32_to_f16(x);
    else if (w->type.dtype == LS_DT_BF16) ((uint16_t *)out)[at] = ls_f32_to_bf16(x);
    else ((float *)out)[at] = x;
}

/* Element of column k of row r (of parameter i) in LS_W_ROWS [rows, cols] or LS_W_MATRIX [E, K, N]. */
static int64_t place_of(const ls_emit_weight *w, int i, int64_t r, int64_t k) {
    if (w->role == LS_W_ROWS) return r * w->param->cols + k;
    int64_t cols = w->type.dim[1], n = w->type.dim[2], row = i * w->param->rows + r;
    return (row / n * cols + k) * n + row % n;
}

/* Rows of all parameters, in order. */
static ls_code fill_rows(const ls_emit_weight *w, void *out, ls_error *e) {
    int64_t cols = w->param->cols;
    float *row;
    LS_TRY(ls_calloc(&row, (size_t)cols, sizeof *row, w->name, e));
    for (int i = 0; i < w->n_params; i++)
        for (int64_t r = 0; r < w->param[i].rows; r++) {
            ls_tensor_row_values(w->param[i].tensor, w->param[i].row_begin + r, row);
            for (int64_t k = 0; k < cols; k++) store(w, out, place_of(w, i, r, k), w->contract == LS_CONTRACT_FLOAT ? row[k] : ls_canon(row[k]));
        }
    ls_free(row);
    return LS_OK;
}

/* Elements [row_begin * cols, (row_begin + rows) * cols) of the flattened tensor, which may have any shape. */
static ls_code fill_vector(const ls_emit_weight *w, float *out, ls_error *e) {
    const ls_tensor *t = w->param->tensor;
    int64_t width = t->rank ? t->shape[t->rank - 1] : 1, n = w->param->rows * w->param->cols, begin = w->param->row_begin * w->param->cols;
    if (width < 1 || begin + n > ls_tensor_rows(t) * width)
        LS_FAIL(e, LS_OUT_OF_RANGE, "tensor \"%s\" is shorter than %lld elements", t->name, (long long)(begin + n));
    float *row;
    LS_TRY(ls_calloc(&row, (size_t)width, sizeof *row, w->name, e));
    for (int64_t r = begin / width; r * width < begin + n; r++) {
        ls_tensor_row_values(t, r, row);
        for (int64_t k = 0; k < width; k++) {
            int64_t i = r * width + k - begin;
            if (i < 0 || i >= n) continue;
            out[i] = w->contract == LS_CONTRACT_FLOAT ? row[k] : ls_canon(row[k]);
            if (w->offset != 0) out[i] = ls_canon(w->offset + out[i]);
        }
    }
    ls_free(row);
    return LS_OK;
}

/* ---- Integer form ------------------------------------------------------------------------------------------------------------ */

enum { ROW_BLOCK = 64 }; /* matrix rows turned into columns together, so that writes are runs */

typedef struct integers {
    ls_weight_form f;
    int32_t *u, *scale, *min; /* [ROW_BLOCK][K or groups] */
    int r[ROW_BLOCK];
    float *scratch;
} integers;

static void integers_deinit(integers *x) {
    ls_free(x->u);
    ls_free(x->scale);
    ls_free(x->min);
    ls_free(x->scratch);
}

static ls_code integers_init(integers *x, const ls_emit_weight *w, ls_error *e) {
    *x = (integers){0};
    LS_TRY(ls_weight_form_of(&x->f, w->param->tensor, w->contract, e));
    ls_code rc = ls_calloc(&x->u, (size_t)x->f.cols * ROW_BLOCK, sizeof *x->u, w->name, e);
    if (!rc) rc = ls_calloc(&x->scale, (size_t)x->f.groups * ROW_BLOCK, sizeof *x->scale, w->name, e);
    if (!rc) rc = ls_calloc(&x->min, (size_t)x->f.groups * ROW_BLOCK, sizeof *x->min, w->name, e);
    if (!rc) rc = ls_calloc(&x->scratch, ls_weight_form_scratch(&x->f), sizeof *x->scratch, w->name, e);
    if (rc) integers_deinit(x);
    return rc;
}

/* Digit |w->digit| of v, as ls_m_digits splits it: all but the last in [-2^(bits-1), 2^(bits-1)). */
static int32_t digit_of(const ls_emit_weight *w, int32_t v) {
    for (int i = 0;; i++) {
        if (i == w->digits - 1) return v;
        int32_t high = (v + (1 << (w->digit_bits - 1))) >> w->digit_bits, low = v - high * (1 << w->digit_bits);
        if (i == w->digit) return low;
        v = high;
    }
}

/* |n| rows from x, whose place in the data is matrix |e|, columns [at, at + n) of |cols|. */
static void put_integers(const ls_emit_weight *w, const integers *x, void *out, int64_t e, int64_t at, int64_t n) {
    int64_t padded = w->type.dim[1] * w->type.dim[2], cols = w->type.dim[3];
    for (int64_t k = 0; k < x->f.cols; k++) {
        int64_t to = (e * padded + k) * cols + at;
        for (int64_t i = 0; i < n; i++) {
            int32_t d = digit_of(w, x->u[i * x->f.cols + k] - x->f.zero);
            if (w->type.dtype == LS_DT_I8) ((int8_t *)out)[to + i] = (int8_t)d;
            else if (w->type.dtype == LS_DT_F64) ((double *)out)[to + i] = d;
            else ((float *)out)[to + i] = (float)d;
        }
    }
}

static void put_scales(const ls_emit_weight *w, const integers *x, const int32_t *scale, int32_t *out, int64_t e, int64_t at, int64_t n) {
    for (int64_t g = 0; g < x->f.groups; g++)
        for (int64_t i = 0; i < n; i++) out[(e * w->type.dim[1] + g) * w->type.dim[2] + at + i] = scale[i * x->f.groups + g];
}

static void put_block(const ls_emit_weight *w, const integers *x, void *out, int64_t e, int64_t at, int64_t n) {
    switch (w->role) {
    case LS_W_INTEGERS: put_integers(w, x, out, e, at, n); return;
    case LS_W_SCALES: put_scales(w, x, x->scale, out, e, at, n); return;
    case LS_W_MINS: put_scales(w, x, x->min, out, e, at, n); return;
    default:
        for (int64_t i = 0; i < n; i++) ((float *)out)[e * w->type.dim[1] + at + i] = ls_pow2(x->r[i] + x->f.c + x->f.h);
    }
}

/* Parameters are stacked along E when there are as many as its size, else along N. */
static ls_code fill_integers(const ls_emit_weight *w, void *out, ls_error *e) {
    integers x;
    LS_TRY(integers_init(&x, w, e));
    bool along_e = w->type.dim[0] == w->n_params;
    for (int p = 0; p < w->n_params; p++) {
        const ls_param *q = &w->param[p];
        int64_t at = along_e ? 0 : p * q->rows;
        for (int64_t r = 0; r < q->rows; r += ROW_BLOCK) {
            int64_t n = q->rows - r < ROW_BLOCK ? q->rows - r : ROW_BLOCK;
            for (int64_t i = 0; i < n; i++)
                ls_weight_form_row(&x.f, q->tensor, q->row_begin + r + i, x.u + i * x.f.cols, x.scale + i * x.f.groups, x.min + i * x.f.groups, &x.r[i],
                                   x.scratch);
            put_block(w, &x, out, along_e ? p : 0, at + r, n);
        }
    }
    integers_deinit(&x);
    return LS_OK;
}

/* ---- Tables and packed weights --------------------------------------------------------------------------------------------------- */

static ls_code fill_rope(const ls_emit_weight *w, const ls_graph *g, void *out, ls_error *e) {
    const ls_rope *r = &g->rope[w->rope];
    int64_t half = r->rot_dim / 2;
    int32_t *table;
    LS_TRY(ls_calloc(&table, (size_t)r->rot_dim, sizeof *table, "rotary table", e));
    for (int64_t p = 0; p < w->type.dim[0]; p++) {
        if (w->contract != LS_CONTRACT_FLOAT) {
            ls_exact_rope_table(r, p, table, table + half);
            memcpy((int32_t *)out + p * half, table + (w->role == LS_W_SIN ? half : 0), (size_t)half * sizeof *table);
            continue;
        }
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)p * r->inv_freq[i];
            ((float *)out)[p * half + i] = (float)((w->role == LS_W_COS ? ls_det_cos(angle) : ls_det_sin(angle)) * (double)r->amplitude);
        }
    }
    ls_free(table);
    return LS_OK;
}

static ls_code fill_packed(const ls_emit_weight *w, void *out, ls_error *e) {
    const ls_param *p = w->param;
    if (w->role == LS_W_PACKED) {
        size_t row = (size_t)w->type.dim[1] * 4;
        memcpy(out, (const char *)p->tensor->data + (size_t)p->row_begin * row, (size_t)p->rows * row);
        return LS_OK;
    }
    int64_t groups = w->type.dim[1];
    uint8_t *q = NULL;
    float *s = NULL;
    ls_code rc = ls_calloc(&q, (size_t)p->cols, 1, w->name, e);
    if (!rc) rc = ls_calloc(&s, (size_t)groups * 2, sizeof *s, w->name, e);
    for (int64_t r = 0; !rc && r < p->rows; r++) {
        ls_tensor_row_quant(p->tensor, p->row_begin + r, q, s, s + groups);
        memcpy((float *)out + r * groups, w->role == LS_W_PACKED_BIASES ? s + groups : s, (size_t)groups * sizeof *s);
    }
    ls_free(q);
    ls_free(s);
    return rc;
}

ls_code ls_emit_weight_data(const ls_emit_weight *w, const ls_graph *g, void **data, ls_error *e) {
    size_t bytes;
    LS_TRY(ls_tensor_type_bytes(&w->type, &bytes, e));
    void *out;
    LS_TRY(ls_calloc(&out, bytes, 1, w->name, e));
    ls_code rc;
    switch (w->role) {
    case LS_W_ROWS:
    case LS_W_MATRIX: rc = fill_rows(w, out, e); break;
    case LS_W_VECTOR: rc = fill_vector(w, out, e); break;
    case LS_W_COS:
    case LS_W_SIN: rc = fill_rope(w, g, out, e); break;
    case LS_W_PACKED:
    case LS_W_PACKED_SCALES:
    case LS_W_PACKED_BIASES: rc = fill_packed(w, out, e); break;
    default: rc = fill_integers(w, out, e);
    }
    if (rc) {
        ls_free(out);
        return rc;
    }
    *data = out;
    return LS_OK;
}
