/* StableHLO modules of the float probes, in the order of operations that the references have. Matrix products ask for the
 * highest precision: a GPU compiler must not answer with TF32. */
#include <math.h>

#include "verify/oracle_probes.h"
#include "xla/emit/schedule.h"

enum { EXACT_COUNT = 1 << 24 }; /* the largest row length that f32 holds exactly, with all below it */

static ls_code write_header(const ls_probe *p, const ls_oracle_case *c, ls_val *arg, ls_str *out, ls_error *e) {
    LS_TRY(ls_str_printf(out, e, "module @numeric_%s {\n  func.func public @main(", p->entry));
    for (size_t i = 0; i < c->n_operands; i++) {
        arg[i] = (ls_val){'a', (int)i, c->operands[i].type};
        LS_TRY(ls_str_printf(out, e, "%s%%a%zu: ", i ? ", " : "", i));
        LS_TRY(ls_mlir_type(out, &arg[i].t, e));
    }
    return LS_OK;
}

/* The body in the order of its operands: that of the calls depends on the C compiler. */
static ls_code write_body(const ls_mlir *m, ls_val y, ls_str *out, ls_error *e) {
    char name[24];
    ls_arena *arena = NULL;
    ls_schedule s = {0};
    ls_code rc;
    LS_GOTO(ls_arena_create(&arena, e));
    LS_GOTO(ls_schedule_body(&s, arena, m, 0, &y, 1, e));
    if (y.kind == 'v') y.id = s.result[y.id];
    ls_val_name(&y, name);
    LS_GOTO(ls_str_append(out, ") -> ", SIZE_MAX, e));
    LS_GOTO(ls_mlir_type(out, &y.t, e));
    LS_GOTO(ls_str_printf(out, e, " {\n%s    return %s : ", s.text.data, name));
    LS_GOTO(ls_mlir_type(out, &y.t, e));
    LS_GOTO(ls_str_append(out, "\n  }\n}\n", SIZE_MAX, e));
out:
    ls_str_deinit(&s.text);
    ls_arena_destroy(arena);
    return rc;
}

ls_code ls_probe_module(const ls_probe *p, const ls_oracle_case *c, ls_str *out, ls_error *e) {
    LS_TRY(p->check(p, e));
    ls_mlir m = {.e = e};
    ls_val arg[LS_ORACLE_MAX_OPERANDS];
    ls_code rc = write_header(p, c, arg, out, e);
    ls_val y = rc ? (ls_val){0} : p->body(&m, p, arg);
    if (!rc) rc = m.rc;
    if (!rc) rc = write_body(&m, y, out, e);
    ls_mlir_deinit(&m);
    return rc;
}

/* ---- Sizes --------------------------------------------------------------------------------------------------------- */

ls_code ls_check_rows(const ls_probe *p, ls_error *e) {
    const ls_probe_size *s = &p->size;
    if (s->rows < 1 || s->cols < 1) LS_FAIL(e, LS_INVALID_ARGUMENT, "probe \"%s\": %d rows of %d columns; both must be positive", p->key, s->rows, s->cols);
    return LS_OK;
}

ls_code ls_check_product(const ls_probe *p, ls_error *e) {
    LS_TRY(ls_check_rows(p, e));
    if (p->size.out < 1) LS_FAIL(e, LS_INVALID_ARGUMENT, "probe \"%s\": %d outputs; there must be at least one", p->key, p->size.out);
    return LS_OK;
}

ls_code ls_check_norm(const ls_probe *p, ls_error *e) {
    const ls_probe_size *s = &p->size;
    LS_TRY(ls_check_rows(p, e));
    if (s->cols > EXACT_COUNT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "probe \"%s\": a row of %d columns; f32 counts exactly up to %d", p->key, s->cols, EXACT_COUNT);
    if (!isfinite(s->eps) || s->eps <= 0)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "probe \"%s\": epsilon is %g; it must be finite and positive", p->key, (double)s->eps);
    return LS_OK;
}

ls_code ls_check_affine(const ls_probe *p, ls_error *e) {
    const ls_probe_size *s = &p->size;
    if ((s->bits != 4 && s->bits != 8) || s->out < 1 || s->cols < 1 || s->group < 8 || s->group % 8 || s->cols % s->group)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "probe \"%s\": %d columns in groups of %d with %d bits; columns must be whole groups of a multiple of 8, bits 4 or 8",
                p->key, s->cols, s->group, s->bits);
    return LS_OK;
}

ls_code ls_check_packed_product(const ls_probe *p, ls_error *e) {
    LS_TRY(ls_check_affine(p, e));
    return ls_check_product(p, e);
}

/* ---- Products ------------------------------------------------------------------------------------------------------ */

/* Scale or bias [out, groups], seen by every column [out, cols]. */
static ls_val per_column(ls_mlir *m, const ls_probe_size *s, ls_val metadata) {
    ls_val v = LS_BROADCAST(m, ls_m_convert(m, metadata, LS_DT_F32), LS_TYPE(LS_DT_F32, s->out, s->cols / s->group, s->group), 0, 1);
    return LS_RESHAPE(m, v, s->out, s->cols);
}

/* Words shifted by each lane's place, masked, converted, times scale, plus bias: two roundings. */
ls_val ls_body_affine(ls_mlir *m, const ls_probe *p, const ls_val *arg) {
    const ls_probe_size *s = &p->size;
    int lanes = 32 / s->bits, words = s->cols / lanes;
    ls_tensor_type t = LS_TYPE(LS_DT_U32, s->out, words, lanes);
    ls_val place = ls_m_with_int(m, "multiply", ls_m_iota(m, t, 2), s->bits);
    ls_val q = ls_m_binary(m, "shift_right_logical", LS_BROADCAST(m, arg[0], t, 0, 1), place);
    q = ls_m_convert(m, ls_m_with_int(m, "and", q, (1 << s->bits) - 1), LS_DT_F32);
    ls_val scaled = ls_m_binary(m, "multiply", LS_RESHAPE(m, q, s->out, s->cols), per_column(m, s, arg[1]));
    return ls_m_binary(m, "add", scaled, per_column(m, s, arg[2]));
}

static ls_val product(ls_mlir *m, ls_val x, ls_val w) { return ls_m_dot(m, x, w, 0, NULL, NULL, 1, 1, LS_DT_F32); }

ls_val ls_body_packed_matmul(ls_mlir *m, const ls_probe *p, const ls_val *arg) { return product(m, arg[3], ls_body_affine(m, p, arg)); }

ls_val ls_body_matmul(ls_mlir *m, const ls_probe *p, const ls_val *arg) {
    (void)p;
    return product(m, arg[1], arg[0]);
}

/* y * (1 / (1 + exp(-y))): the reciprocal is a rounding of its own. */
ls_val ls_body_silu(ls_mlir *m, const ls_probe *p, const ls_val *arg) {
    ls_val y = ls_body_matmul(m, p, arg), one = ls_m_f32(m, y.t, 1);
    ls_val e = ls_m_unary(m, "stablehlo.exponential", ls_m_unary(m, "stablehlo.negate", y));
    ls_val sigmoid = ls_m_binary(m, "divide", one, ls_m_binary(m, "add", one, e));
    return ls_m_binary(m, "multiply", y, sigmoid);
}

/* (y * 0.5) * (1 + inner) */
static ls_val finish_gelu(ls_mlir *m, ls_val y, ls_val inner) {
    ls_val half = ls_m_with_f32(m, "multiply", y, 0.5f);
    return ls_m_binary(m, "multiply", half, ls_m_binary(m, "add", ls_m_f32(m, y.t, 1), inner));
}

ls_val ls_body_gelu_tanh(ls_mlir *m, const ls_probe *p, const ls_val *arg) {
    ls_val y = ls_body_matmul(m, p, arg), cubic = ls_m_f32(m, y.t, 0.044715f), scale = ls_m_f32(m, y.t, 0.7978846f);
    ls_val y3 = ls_m_binary(m, "multiply", ls_m_binary(m, "multiply", y, y), y);
    ls_val inner = ls_m_binary(m, "add", y, ls_m_binary(m, "multiply", cubic, y3));
    return finish_gelu(m, y, ls_m_unary(m, "stablehlo.tanh", ls_m_binary(m, "multiply", scale, inner)));
}

ls_val ls_body_gelu_erf(ls_mlir *m, const ls_probe *p, const ls_val *arg) {
    ls_val y = ls_body_matmul(m, p, arg);
    return finish_gelu(m, y, ls_m_unary(m, "chlo.erf", ls_m_with_f32(m, "multiply", y, 0.70710678f)));
}

/* ---- Rows ------------------------------------------------------------------------------------------------------------ */

ls_val ls_body_residual(ls_mlir *m, const ls_probe *p, const ls_val *arg) {
    (void)p;
    return ls_m_binary(m, "add", arg[1], arg[2]);
}

/* x * rsqrt(sum of x squared / cols + eps) * w */
static ls_val scaled_by_rms(ls_mlir *m, const ls_probe_size *s, ls_val x, ls_val w) {
    ls_val squares = ls_m_reduce(m, "add", ls_m_binary(m, "multiply", x, x), 1);
    ls_val shifted = ls_m_with_f32(m, "add", ls_m_with_f32(m, "divide", squares, (float)s->cols), s->eps);
    ls_val inverse = LS_BROADCAST(m, ls_m_unary(m, "stablehlo.rsqrt", shifted), x.t, 0);
    return ls_m_binary(m, "multiply", ls_m_binary(m, "multiply", x, inverse), LS_BROADCAST(m, w, x.t, 1));
}

ls_val ls_body_rms_norm(ls_mlir *m, const ls_probe *p, const ls_val *arg) { return scaled_by_rms(m, &p->size, arg[1], arg[0]); }

ls_val ls_body_layer_norm(ls_mlir *m, const ls_probe *p, const ls_val *arg) {
    ls_val x = arg[2], mean = ls_m_with_f32(m, "divide", ls_m_reduce(m, "add", x, 1), (float)p->size.cols);
    ls_val centred = ls_m_binary(m, "subtract", x, LS_BROADCAST(m, mean, x.t, 0));
    return ls_m_binary(m, "add", scaled_by_rms(m, &p->size, centred, arg[0]), LS_BROADCAST(m, arg[1], x.t, 1));
}

ls_val ls_body_softmax(ls_mlir *m, const ls_probe *p, const ls_val *arg) {
    (void)p;
    ls_val x = arg[1], max = LS_BROADCAST(m, ls_m_reduce(m, "maximum", x, 1), x.t, 0);
    ls_val e = ls_m_unary(m, "stablehlo.exponential", ls_m_binary(m, "subtract", x, max));
    return ls_m_binary(m, "divide", e, LS_BROADCAST(m, ls_m_reduce(m, "add", e, 1), x.t, 0));
}

/* ---- Convolution -------------------------------------------------------------------------------------------------------- */

/* Input [1, rows, cols, 1], weight [1, taps, 1, out]; no padding, stride 1. */
ls_val ls_body_convolution(ls_mlir *m, const ls_probe *p, const ls_val *arg) {
    ls_val w = arg[0], x = arg[1];
    ls_tensor_type t = LS_TYPE(LS_DT_F32, 1, p->size.rows, x.t.dim[2] - w.t.dim[1] + 1, p->size.out);
    return ls_m_convolution(m, x, w, t);
}
