/* StableHLO modules of the float probes, in the order of operations that the references have. Matrix products ask for the
 * highest precision: a GPU compiler must not answer with TF32. */
#include <math.h>
#include <string.h>

#include "contract/exact.h"
#include "verify/oracle_probes.h"

enum { EXACT_COUNT = 1 << 24 }; /* the largest row length that f32 holds exactly, with all below it */

static ls_code add_type(const ls_tensor_type *t, ls_str *out, ls_error *e) {
    LS_TRY(ls_str_append(out, "tensor<", SIZE_MAX, e));
    for (int i = 0; i < t->rank; i++) LS_TRY(ls_str_printf(out, e, "%lldx", (long long)t->dim[i]));
    return ls_str_printf(out, e, "%s>", ls_dtype_name(t->dtype));
}

ls_code ls_module_begin(const ls_probe *p, const ls_oracle_case *c, const char *result, ls_str *out, ls_error *e) {
    LS_TRY(ls_str_printf(out, e, "module @numeric_%s {\n  func.func public @main(", p->entry));
    for (size_t i = 0; i < c->n_operands; i++) {
        LS_TRY(ls_str_printf(out, e, "%s%%arg%zu: ", i ? ", " : "", i));
        LS_TRY(add_type(&c->operands[i].type, out, e));
    }
    return ls_str_printf(out, e, ") -> %s {\n", result);
}

ls_code ls_module_end(const char *value, const char *result, ls_str *out, ls_error *e) {
    return ls_str_printf(out, e, "    return %s : %s\n  }\n}\n", value, result);
}

static ls_code check_rows(const ls_probe *p, ls_error *e) {
    if (p->size.rows < 1 || p->size.cols < 1) LS_FAIL(e, LS_INVALID_ARGUMENT, "probe \"%s\": %d rows of %d columns; both must be positive", p->key,
                                                      p->size.rows, p->size.cols);
    return LS_OK;
}

static ls_code check_norm(const ls_probe *p, ls_error *e) {
    LS_TRY(check_rows(p, e));
    if (p->size.cols > EXACT_COUNT) LS_FAIL(e, LS_INVALID_ARGUMENT, "probe \"%s\": a row of %d columns; f32 counts exactly up to %d", p->key, p->size.cols,
                                            EXACT_COUNT);
    if (!isfinite(p->size.eps) || p->size.eps <= 0) LS_FAIL(e, LS_INVALID_ARGUMENT, "probe \"%s\": epsilon is %g; it must be finite and positive", p->key,
                                                            (double)p->size.eps);
    return LS_OK;
}

/* ---- Affine weights ------------------------------------------------------------------------------------------------- */

static ls_code check_affine(const ls_probe *p, ls_error *e) {
    const ls_probe_size *s = &p->size;
    if ((s->bits != 4 && s->bits != 8) || s->out < 1 || s->cols < 1 || s->group < 8 || s->group % 8 || s->cols % s->group)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "probe \"%s\": %d columns in groups of %d with %d bits; columns must be whole groups of a multiple of 8, bits 4 or 8",
                p->key, s->cols, s->group,
                s->bits);
    return LS_OK;
}

/* %w : tensor<out x cols> from %arg0 to %arg2: shifted by the lane's place, masked, converted, times scale, plus bias. */
static ls_code add_affine(const ls_probe *p, const ls_oracle_case *c, ls_str *out, ls_error *e) {
    const ls_probe_size *s = &p->size;
    int lanes = 32 / s->bits, words = s->cols / lanes, groups = s->cols / s->group;
    const char *metadata = ls_dtype_name(c->operands[1].type.dtype);
    LS_TRY(ls_str_printf(out, e,
                         "    %%lane = stablehlo.iota dim = 2 : tensor<%dx%dx%dxui32>\n    %%width = stablehlo.constant dense<%d> : tensor<%dx%dx%dxui32>\n"
                         "    %%place = stablehlo.multiply %%lane, %%width : tensor<%dx%dx%dxui32>\n", s->out, words, lanes, s->bits, s->out, words, lanes,
                                 s->out, words, lanes));
    LS_TRY(ls_str_printf(out, e, "    %%word = stablehlo.broadcast_in_dim %%arg0, dims = [0, 1] : (tensor<%dx%dxui32>) -> tensor<%dx%dx%dxui32>\n"
                         "    %%shifted = stablehlo.shift_right_logical %%word, %%place : tensor<%dx%dx%dxui32>\n", s->out, words, s->out, words, lanes,
                                 s->out, words, lanes));
    LS_TRY(ls_str_printf(out, e,
                         "    %%mask = stablehlo.constant dense<%d> : tensor<%dx%dx%dxui32>\n    %%q = stablehlo.and %%shifted, %%mask : tensor<%dx%dx%dxui32>\n",
                         (1 << s->bits) - 1, s->out, words, lanes, s->out, words, lanes));
    LS_TRY(ls_str_printf(out, e, "    %%qf = stablehlo.convert %%q : (tensor<%dx%dx%dxui32>) -> tensor<%dx%dx%dxf32>\n"
                         "    %%qr = stablehlo.reshape %%qf : (tensor<%dx%dx%dxf32>) -> tensor<%dx%dxf32>\n", s->out, words, lanes, s->out, words, lanes,
                                 s->out, words, lanes, s->out, s->cols));
    for (int i = 1; i <= 2; i++) {
        LS_TRY(ls_str_printf(out, e, "    %%m%d = stablehlo.convert %%arg%d : (tensor<%dx%dx%s>) -> tensor<%dx%dxf32>\n", i, i, s->out, groups, metadata,
                             s->out, groups));
        LS_TRY(ls_str_printf(out, e, "    %%b%d = stablehlo.broadcast_in_dim %%m%d, dims = [0, 1] : (tensor<%dx%dxf32>) -> tensor<%dx%dx%dxf32>\n"
                             "    %%r%d = stablehlo.reshape %%b%d : (tensor<%dx%dx%dxf32>) -> tensor<%dx%dxf32>\n", i, i, s->out, groups, s->out, groups,
                                     s->group, i, i, s->out, groups,
                             s->group, s->out, s->cols));
    }
    return ls_str_printf(out, e,
                         "    %%scaled = stablehlo.multiply %%qr, %%r1 : tensor<%dx%dxf32>\n    %%w = stablehlo.add %%scaled, %%r2 : tensor<%dx%dxf32>\n",
                                 s->out, s->cols, s->out,
                         s->cols);
}

ls_code ls_module_affine(const ls_probe *p, const ls_oracle_case *c, ls_str *out, ls_error *e) {
    char type[64];
    LS_TRY(check_affine(p, e));
    snprintf(type, sizeof type, "tensor<%dx%dxf32>", p->size.out, p->size.cols);
    LS_TRY(ls_module_begin(p, c, type, out, e));
    LS_TRY(add_affine(p, c, out, e));
    return ls_module_end("%w", type, out, e);
}

/* %y : tensor<rows x out> = x w^T */
static ls_code add_dot(const ls_probe *p, const char *x, const char *w, ls_str *out, ls_error *e) {
    const ls_probe_size *s = &p->size;
    return ls_str_printf(out, e,
                         "    %%y = stablehlo.dot_general %s, %s, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<%dx%dxf32>, tensor<%dx%dxf32>) -> "
                         "tensor<%dx%dxf32>\n", x, w, s->rows, s->cols, s->out, s->cols, s->rows, s->out);
}

ls_code ls_module_packed_matmul(const ls_probe *p, const ls_oracle_case *c, ls_str *out, ls_error *e) {
    char type[64];
    LS_TRY(check_affine(p, e));
    LS_TRY(check_rows(p, e));
    snprintf(type, sizeof type, "tensor<%dx%dxf32>", p->size.rows, p->size.out);
    LS_TRY(ls_module_begin(p, c, type, out, e));
    LS_TRY(add_affine(p, c, out, e));
    LS_TRY(add_dot(p, "%arg3", "%w", out, e));
    return ls_module_end("%y", type, out, e);
}

/* ---- Dense ---------------------------------------------------------------------------------------------------------- */

/* Opens the module of a projection: %y = input * weight^T. |type| receives its type. */
static ls_code begin_projection(const ls_probe *p, const ls_oracle_case *c, char type[64], ls_str *out, ls_error *e) {
    LS_TRY(check_rows(p, e));
    if (p->size.out < 1) LS_FAIL(e, LS_INVALID_ARGUMENT, "probe \"%s\": %d outputs; there must be at least one", p->key, p->size.out);
    snprintf(type, 64, "tensor<%dx%dxf32>", p->size.rows, p->size.out);
    LS_TRY(ls_module_begin(p, c, type, out, e));
    return add_dot(p, "%arg1", "%arg0", out, e);
}

ls_code ls_module_matmul(const ls_probe *p, const ls_oracle_case *c, ls_str *out, ls_error *e) {
    char type[64];
    LS_TRY(begin_projection(p, c, type, out, e));
    return ls_module_end("%y", type, out, e);
}

static ls_code add_constant(ls_str *out, const char *name, float v, const char *type, ls_error *e) {
    return ls_str_printf(out, e, "    %s = stablehlo.constant dense<0x%08X> : %s\n", name, (unsigned)ls_bits(v), type);
}

static ls_code add_unary(ls_str *out, const char *name, const char *op, const char *x, const char *type, ls_error *e) {
    return ls_str_printf(out, e, "    %s = stablehlo.%s %s : %s\n", name, op, x, type);
}

static ls_code add_binary(ls_str *out, const char *name, const char *op, const char *a, const char *b, const char *type, ls_error *e) {
    return ls_str_printf(out, e, "    %s = stablehlo.%s %s, %s : %s\n", name, op, a, b, type);
}

ls_code ls_module_silu(const ls_probe *p, const ls_oracle_case *c, ls_str *out, ls_error *e) {
    char t[64];
    LS_TRY(begin_projection(p, c, t, out, e));
    LS_TRY(add_constant(out, "%one", 1, t, e));
    LS_TRY(add_unary(out, "%neg", "negate", "%y", t, e));
    LS_TRY(add_unary(out, "%exp", "exponential", "%neg", t, e));
    LS_TRY(add_binary(out, "%den", "add", "%one", "%exp", t, e));
    LS_TRY(add_binary(out, "%sig", "divide", "%one", "%den", t, e));
    LS_TRY(add_binary(out, "%act", "multiply", "%y", "%sig", t, e));
    return ls_module_end("%act", t, out, e);
}

/* (y * 0.5) * (1 + |inner|) */
static ls_code finish_gelu(ls_str *out, const char *inner, const char *t, ls_error *e) {
    LS_TRY(add_constant(out, "%half", 0.5f, t, e));
    LS_TRY(add_constant(out, "%one", 1, t, e));
    LS_TRY(add_binary(out, "%yh", "multiply", "%y", "%half", t, e));
    LS_TRY(add_binary(out, "%sum", "add", "%one", inner, t, e));
    LS_TRY(add_binary(out, "%act", "multiply", "%yh", "%sum", t, e));
    return ls_module_end("%act", t, out, e);
}

ls_code ls_module_gelu_tanh(const ls_probe *p, const ls_oracle_case *c, ls_str *out, ls_error *e) {
    char t[64];
    LS_TRY(begin_projection(p, c, t, out, e));
    LS_TRY(add_constant(out, "%cubic", 0.044715f, t, e));
    LS_TRY(add_constant(out, "%scale", 0.7978846f, t, e));
    LS_TRY(add_binary(out, "%y2", "multiply", "%y", "%y", t, e));
    LS_TRY(add_binary(out, "%y3", "multiply", "%y2", "%y", t, e));
    LS_TRY(add_binary(out, "%cy3", "multiply", "%cubic", "%y3", t, e));
    LS_TRY(add_binary(out, "%in", "add", "%y", "%cy3", t, e));
    LS_TRY(add_binary(out, "%arg", "multiply", "%scale", "%in", t, e));
    LS_TRY(add_unary(out, "%tanh", "tanh", "%arg", t, e));
    return finish_gelu(out, "%tanh", t, e);
}

ls_code ls_module_gelu_erf(const ls_probe *p, const ls_oracle_case *c, ls_str *out, ls_error *e) {
    char t[64];
    LS_TRY(begin_projection(p, c, t, out, e));
    LS_TRY(add_constant(out, "%root", 0.70710678f, t, e));
    LS_TRY(add_binary(out, "%arg", "multiply", "%y", "%root", t, e));
    LS_TRY(ls_str_printf(out, e, "    %%erf = chlo.erf %%arg : %s -> %s\n", t, t));
    return finish_gelu(out, "%erf", t, e);
}

ls_code ls_module_residual(const ls_probe *p, const ls_oracle_case *c, ls_str *out, ls_error *e) {
    char t[64];
    LS_TRY(check_rows(p, e));
    snprintf(t, sizeof t, "tensor<%dx%dxf32>", p->size.rows, p->size.cols);
    LS_TRY(ls_module_begin(p, c, t, out, e));
    LS_TRY(add_binary(out, "%y", "add", "%arg1", "%arg2", t, e));
    return ls_module_end("%y", t, out, e);
}

/* ---- Rows ------------------------------------------------------------------------------------------------------------ */

typedef struct row_types {
    char matrix[64], row[64];
} row_types;

static row_types types_of(const ls_probe *p) {
    row_types t;
    snprintf(t.matrix, sizeof t.matrix, "tensor<%dx%dxf32>", p->size.rows, p->size.cols);
    snprintf(t.row, sizeof t.row, "tensor<%dxf32>", p->size.rows);
    return t;
}

/* |name| : tensor<rows> = the reduction of |x| over columns from |init|. */
static ls_code add_reduce(ls_str *out, const char *name, const char *op, const char *x, const char *init, const row_types *t, ls_error *e) {
    return ls_str_printf(out, e, "    %s = stablehlo.reduce(%s init: %s) applies stablehlo.%s across dimensions = [1] : (%s, tensor<f32>) -> %s\n", name, x,
                         init, op, t->matrix, t->row);
}

static ls_code add_broadcast(ls_str *out, const char *name, const char *x, int dim, const char *from, const char *to, ls_error *e) {
    return ls_str_printf(out, e, "    %s = stablehlo.broadcast_in_dim %s, dims = [%d] : (%s) -> %s\n", name, x, dim, from, to);
}

/* %inv : matrix = rsqrt(sum of |x| squared / cols + eps), broadcast over columns. Needs %zero and %count. */
static ls_code add_inverse_rms(const ls_probe *p, const char *x, const row_types *t, ls_str *out, ls_error *e) {
    LS_TRY(add_binary(out, "%square", "multiply", x, x, t->matrix, e));
    LS_TRY(add_reduce(out, "%squares", "add", "%square", "%zero", t, e));
    LS_TRY(add_binary(out, "%variance", "divide", "%squares", "%count", t->row, e));
    LS_TRY(add_constant(out, "%eps", p->size.eps, t->row, e));
    LS_TRY(add_binary(out, "%shifted", "add", "%variance", "%eps", t->row, e));
    LS_TRY(add_unary(out, "%rsqrt", "rsqrt", "%shifted", t->row, e));
    return add_broadcast(out, "%inv", "%rsqrt", 0, t->row, t->matrix, e);
}

static ls_code begin_norm(const ls_probe *p, const ls_oracle_case *c, row_types *t, ls_str *out, ls_error *e) {
    LS_TRY(check_norm(p, e));
    *t = types_of(p);
    LS_TRY(ls_module_begin(p, c, t->matrix, out, e));
    LS_TRY(add_constant(out, "%zero", 0, "tensor<f32>", e));
    return add_constant(out, "%count", (float)p->size.cols, t->row, e);
}

/* A weight or bias [cols], seen by every row. */
static ls_code add_columns(const ls_probe *p, const char *name, const char *x, const row_types *t, ls_str *out, ls_error *e) {
    char from[64];
    snprintf(from, sizeof from, "tensor<%dxf32>", p->size.cols);
    return add_broadcast(out, name, x, 1, from, t->matrix, e);
}

ls_code ls_module_rms_norm(const ls_probe *p, const ls_oracle_case *c, ls_str *out, ls_error *e) {
    row_types t;
    LS_TRY(begin_norm(p, c, &t, out, e));
    LS_TRY(add_inverse_rms(p, "%arg1", &t, out, e));
    LS_TRY(add_binary(out, "%normal", "multiply", "%arg1", "%inv", t.matrix, e));
    LS_TRY(add_columns(p, "%weight", "%arg0", &t, out, e));
    LS_TRY(add_binary(out, "%y", "multiply", "%normal", "%weight", t.matrix, e));
    return ls_module_end("%y", t.matrix, out, e);
}

ls_code ls_module_layer_norm(const ls_probe *p, const ls_oracle_case *c, ls_str *out, ls_error *e) {
    row_types t;
    LS_TRY(begin_norm(p, c, &t, out, e));
    LS_TRY(add_reduce(out, "%sum", "add", "%arg2", "%zero", &t, e));
    LS_TRY(add_binary(out, "%mean", "divide", "%sum", "%count", t.row, e));
    LS_TRY(add_broadcast(out, "%means", "%mean", 0, t.row, t.matrix, e));
    LS_TRY(add_binary(out, "%centred", "subtract", "%arg2", "%means", t.matrix, e));
    LS_TRY(add_inverse_rms(p, "%centred", &t, out, e));
    LS_TRY(add_binary(out, "%normal", "multiply", "%centred", "%inv", t.matrix, e));
    LS_TRY(add_columns(p, "%weight", "%arg0", &t, out, e));
    LS_TRY(add_columns(p, "%bias", "%arg1", &t, out, e));
    LS_TRY(add_binary(out, "%weighted", "multiply", "%normal", "%weight", t.matrix, e));
    LS_TRY(add_binary(out, "%y", "add", "%weighted", "%bias", t.matrix, e));
    return ls_module_end("%y", t.matrix, out, e);
}

ls_code ls_module_softmax(const ls_probe *p, const ls_oracle_case *c, ls_str *out, ls_error *e) {
    LS_TRY(check_rows(p, e));
    row_types t = types_of(p);
    LS_TRY(ls_module_begin(p, c, t.matrix, out, e));
    LS_TRY(add_constant(out, "%zero", 0, "tensor<f32>", e));
    LS_TRY(add_constant(out, "%lowest", -INFINITY, "tensor<f32>", e));
    LS_TRY(add_reduce(out, "%max", "maximum", "%arg1", "%lowest", &t, e));
    LS_TRY(add_broadcast(out, "%maxima", "%max", 0, t.row, t.matrix, e));
    LS_TRY(add_binary(out, "%below", "subtract", "%arg1", "%maxima", t.matrix, e));
    LS_TRY(add_unary(out, "%exp", "exponential", "%below", t.matrix, e));
    LS_TRY(add_reduce(out, "%sum", "add", "%exp", "%zero", &t, e));
    LS_TRY(add_broadcast(out, "%sums", "%sum", 0, t.row, t.matrix, e));
    LS_TRY(add_binary(out, "%y", "divide", "%exp", "%sums", t.matrix, e));
    return ls_module_end("%y", t.matrix, out, e);
}

/* ---- Convolution -------------------------------------------------------------------------------------------------------- */

ls_code ls_module_convolution(const ls_probe *p, const ls_oracle_case *c, ls_str *out, ls_error *e) {
    const ls_tensor_type *w = &c->operands[0].type, *x = &c->operands[1].type;
    char type[64];
    LS_TRY(check_rows(p, e));
    if (w->dim[1] > x->dim[2]) LS_FAIL(e, LS_INVALID_ARGUMENT, "probe \"%s\": a window of %lld columns over %lld", p->key, (long long)w->dim[1],
                                       (long long)x->dim[2]);
    snprintf(type, sizeof type, "tensor<1x%dx%lldx%dxf32>", p->size.rows, (long long)(x->dim[2] - w->dim[1] + 1), p->size.out);
    LS_TRY(ls_module_begin(p, c, type, out, e));
    LS_TRY(ls_str_append(out,
                         "    %y = stablehlo.convolution(%arg1, %arg0) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]]} "
                         "{batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (",
                         SIZE_MAX, e));
    LS_TRY(add_type(x, out, e));
    LS_TRY(ls_str_append(out, ", ", SIZE_MAX, e));
    LS_TRY(add_type(w, out, e));
    LS_TRY(ls_str_printf(out, e, ") -> %s\n", type));
    return ls_module_end("%y", type, out, e);
}
