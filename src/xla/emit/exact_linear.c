/* The exact linear operator (docs/contracts.md, section 3): integer dot products in each group of columns, aligned to the
 * row's largest exponent, summed in i64, converted once. */
#include "contract/exact.h"
#include "xla/emit/lower.h"

/* Shape of one product: T rows, E matrices of N rows and G groups of g columns, each taken as g / sub products. */
typedef struct shape {
    ls_weight_form f;
    ls_dot_plan plan;
    int64_t t, e, n, groups, blocks, sub;
} shape;

/* Largest |u - z|. */
static int64_t integer_bound(const ls_weight_form *f) {
    if (!f->quantised) return (int64_t)127 << (f->weight_p - 6);
    if (f->zero) return f->zero;
    return ((int64_t)1 << f->bits) - 1;
}

static int64_t mantissa_bound(const ls_weight_form *f) { return (int64_t)127 << (f->p - 6); }

/* A narrower product needs fewer digits but gives more partial sums to add up: 8 stands for the price of one. */
static void choose_plan(shape *s, ls_carrier carrier) {
    double best = 1e30;
    for (int64_t sub = s->f.group; sub >= 16; sub /= 2) {
        ls_dot_plan p = ls_plan_dot(carrier, mantissa_bound(&s->f), integer_bound(&s->f), sub);
        double cost = p.cost * (1 + 8.0 / (double)sub);
        if (cost >= best) continue;
        best = cost;
        s->plan = p;
        s->sub = sub;
    }
}

static bool shape_of(ls_lower *l, shape *s, ls_val x, const ls_param *w, int n_params, int64_t experts) {
    ls_contract contract = l->g->contract;
    if (!l->m.rc) l->m.rc = ls_weight_form_of(&s->f, w->tensor, contract, l->m.e);
    for (int i = 1; i < n_params && !l->m.rc; i++) {
        ls_weight_form f;
        l->m.rc = ls_weight_form_of(&f, w[i].tensor, contract, l->m.e);
        if (!l->m.rc && (f.group != s->f.group || f.bits != s->f.bits || f.zero != s->f.zero || f.has_min != s->f.has_min || f.quantised != s->f.quantised ||
                         f.cols != s->f.cols || w[i].rows != w->rows))
            ls_mlir_fail(&l->m, LS_UNIMPLEMENTED, "experts stored in different formats cannot be stacked for a device");
    }
    if (l->m.rc) return false;
    s->t = x.t.dim[0];
    s->e = experts;
    s->n = experts == 1 ? w->rows * n_params : w->rows;
    s->blocks = (s->f.cols + LS_EXACT_BLOCK - 1) / LS_EXACT_BLOCK;
    s->groups = s->blocks * LS_EXACT_BLOCK / s->f.group;
    choose_plan(s, l->o->carrier);
    return true;
}

static ls_emit_weight weight(const shape *s, ls_weight_role role, const ls_param *w, int n_params, ls_tensor_type t) {
    return (ls_emit_weight){.name = w->name, .role = role, .type = t, .contract = s->f.contract, .param = w, .n_params = n_params,
                            .digits = s->plan.b.n, .digit_bits = s->plan.b.bits, .group = s->f.group, .sub = s->sub};
}

/* A value of each block, a [T, E, blocks], for each group: [E, G, T]. */
static ls_val per_group(ls_lower *l, const shape *s, ls_val a) {
    int64_t split = s->groups / s->blocks;
    a = LS_BROADCAST(&l->m, a, LS_TYPE(a.t.dtype, s->t, s->e, s->blocks, split), 0, 1, 2);
    return LS_TRANSPOSE(&l->m, LS_RESHAPE(&l->m, a, s->t, s->e, s->groups), 1, 2, 0);
}

/* I[E, G, T, N], the integer sums of each group: i32 when they fit, else i64. */
static ls_val group_sums(ls_lower *l, const shape *s, ls_val q, const ls_param *w, int n_params) {
    static const int batch_x[] = {1, 2}, batch_w[] = {0, 1};
    int64_t parts = s->f.group / s->sub, products = s->groups * parts;
    ls_mlir *m = &l->m;
    ls_val x[LS_MAX_DIGITS], u[LS_MAX_DIGITS];
    ls_m_digits(m, LS_RESHAPE(m, q, s->t, s->e, products, s->sub), s->plan.a, s->plan.dtype, x);
    for (int i = 0; i < s->plan.b.n; i++) {
        ls_emit_weight d = weight(s, LS_W_INTEGERS, w, n_params, LS_TYPE(s->plan.dtype, s->e, products, s->sub, s->n));
        d.digit = i;
        u[i] = ls_lower_weight(l, d);
    }
    double bound = (double)mantissa_bound(&s->f) * (double)integer_bound(&s->f) * (double)s->f.group;
    ls_val sum = ls_m_dot_digits(m, &s->plan, x, u, 2, batch_x, batch_w, 3, 2, bound);
    if (parts == 1) return sum;
    return ls_m_reduce(m, "add", LS_RESHAPE(m, sum, s->e, s->groups, parts, s->t * s->n), 2);
}

/* sum over G of rshift(S * A, h): A [E, G, T, N] or [E, G, T] (then the same for every n), S i32 [E, G, N]. i64 [E, T, N]. */
static ls_val scaled_sum(ls_lower *l, const shape *s, ls_val a, ls_val scales) {
    ls_mlir *m = &l->m;
    ls_tensor_type full = LS_TYPE(LS_DT_I64, s->e, s->groups, s->t, s->n);
    a = ls_m_convert(m, a, LS_DT_I64);
    if (a.t.rank == 3) a = LS_BROADCAST(m, a, full, 0, 1, 2);
    ls_val b = LS_BROADCAST(m, ls_m_convert(m, scales, LS_DT_I64), full, 0, 1, 3);
    return ls_m_reduce(m, "add", ls_m_rshift_by(m, ls_m_binary(m, "multiply", a, b), s->f.h), 1);
}

/* Zero where a block is too far below the row's largest (|drop| over LS_EXACT_MAX_DROP), else rshift(v, drop). */
static ls_val align(ls_lower *l, ls_val v, ls_val drop) {
    ls_mlir *m = &l->m;
    ls_val far = ls_m_compare(m, "GT", drop, ls_m_int(m, drop.t, LS_EXACT_MAX_DROP));
    ls_val y = ls_m_rshift(m, v, ls_m_with_int(m, "minimum", drop, LS_EXACT_MAX_DROP));
    return ls_m_select(m, far, ls_m_int(m, y.t, 0), y);
}

/* Sum of all groups before the last conversion: i64 [E, T, N]. q f32 [T, E, K'] mantissas, drop i32 [T, E, blocks]. A value is
 * converted before its shape changes: IREE 3.13 fails on the other order. */
static ls_val total(ls_lower *l, const shape *s, ls_val q, ls_val drop, const ls_param *w, int n_params) {
    ls_mlir *m = &l->m;
    ls_tensor_type full = LS_TYPE(LS_DT_I32, s->e, s->groups, s->t, s->n), st = LS_TYPE(LS_DT_I32, s->e, s->groups, s->n);
    ls_val sums = LS_RESHAPE(m, group_sums(l, s, q, w, n_params), s->e, s->groups, s->t, s->n);
    ls_val wide_drop = LS_BROADCAST(m, per_group(l, s, ls_m_convert(m, drop, sums.t.dtype)), full, 0, 1, 2);
    ls_val a = align(l, ls_m_rshift_by(m, sums, s->f.c), wide_drop);
    ls_val acc = scaled_sum(l, s, a, ls_lower_weight(l, weight(s, LS_W_SCALES, w, n_params, st)));
    if (!s->f.has_min) return acc;
    ls_val x = ls_m_convert(m, LS_RESHAPE(m, q, s->t, s->e, s->groups, (int64_t)s->f.group), LS_DT_I32);
    x = LS_TRANSPOSE(m, ls_m_convert(m, ls_m_reduce(m, "add", x, 3), LS_DT_I64), 1, 2, 0);
    ls_val accx = scaled_sum(l, s, align(l, x, per_group(l, s, ls_m_convert(m, drop, LS_DT_I64))), ls_lower_weight(l, weight(s, LS_W_MINS, w, n_params, st)));
    return ls_m_binary(m, "add", acc, ls_m_rshift_by(m, accx, s->f.c));
}

ls_val ls_lower_exact_product(ls_lower *l, ls_val x, const ls_param *w, int n_params, int64_t experts) {
    shape s;
    ls_mlir *m = &l->m;
    if (!shape_of(l, &s, x, w, n_params, experts)) return (ls_val){0};
    x = ls_m_pad_end(m, x, 2, s.blocks * LS_EXACT_BLOCK - s.f.cols);
    x = LS_RESHAPE(m, x, s.t, s.e, s.blocks, LS_EXACT_BLOCK);
    ls_val e = ls_m_block_exponent(m, x), q = ls_m_mantissa(m, x, e, s.f.p);
    ls_val top = ls_m_reduce(m, "maximum", e, 2); /* [T, E] */
    ls_val drop = ls_m_binary(m, "subtract", ls_m_along_last(m, top, e.t), e);
    ls_val v = ls_m_convert(m, total(l, &s, LS_RESHAPE(m, q, s.t, s.e, s.blocks * LS_EXACT_BLOCK), drop, w, n_params), LS_DT_F32);
    ls_val r = ls_lower_weight(l, weight(&s, LS_W_POWERS, w, n_params, LS_TYPE(LS_DT_F32, s.e, s.n)));
    v = ls_m_binary(m, "multiply", v, LS_BROADCAST(m, r, v.t, 0, 2));
    ls_val power = ls_m_pow2_biased(m, ls_m_with_int(m, "subtract", top, s.f.p));
    v = ls_m_binary(m, "multiply", v, LS_BROADCAST(m, power, v.t, 1, 0));
    return LS_TRANSPOSE(m, ls_m_canon(m, v), 1, 0, 2);
}

ls_val ls_lower_exact_linear(ls_lower *l, const ls_node *n, ls_val x) {
    ls_mlir *m = &l->m;
    ls_val y = ls_lower_exact_product(l, LS_RESHAPE(m, x, x.t.dim[0], 1, x.t.dim[1]), n->w[0], 1, 1);
    y = LS_RESHAPE(m, y, x.t.dim[0], n->cols);
    if (!n->w[1]) return y;
    ls_emit_weight b = {.name = n->w[1]->name, .role = LS_W_VECTOR, .type = LS_TYPE(LS_DT_F32, n->cols), .contract = n->contract, .param = n->w[1],
                        .n_params = 1};
    return ls_m_canon(m, ls_m_binary(m, "add", y, LS_BROADCAST(m, ls_lower_weight(l, b), y.t, 1)));
}
