/* The scalar vocabulary of the exact contracts (docs/contracts.md, sections 1 and 2) as StableHLO on whole tensors. Each
 * function is the elementwise form of the C function of the same name in contract/exact.h. Integers are i64 unless said
 * otherwise; shifts get amounts in [0, 63] only. */
#ifndef LS_XLA_EMIT_EXACT_MATH_H
#define LS_XLA_EMIT_EXACT_MATH_H

#include "xla/emit/mlir.h"

ls_val ls_m_canon(ls_mlir *m, ls_val x);
/* 2^(e - 127) as f32, e i32 biased exponents in [1, 254]. */
ls_val ls_m_pow2_biased(ls_mlir *m, ls_val e);
/* Block exponents (i32) of the last axis of x, which disappears. */
ls_val ls_m_block_exponent(ls_mlir *m, ls_val x);
/* Mantissas of x, as whole f32 numbers; e has the axes of x but the last. */
ls_val ls_m_mantissa(ls_mlir *m, ls_val x, ls_val e, int p);
/* A value with the axes of x but the last, repeated along the last axis of x. */
ls_val ls_m_along_last(ls_mlir *m, ls_val a, ls_tensor_type t);
/* floor((v + 2^(n-1)) / 2^n) by a constant, and by a tensor of amounts of v's type in [0, 62]. */
ls_val ls_m_rshift_by(ls_mlir *m, ls_val v, int n);
ls_val ls_m_rshift(ls_mlir *m, ls_val v, ls_val n);
/* 2^-x in Q31 for x in Q32. */
ls_val ls_m_exp2_neg(ls_mlir *m, ls_val x);
/* 1 / d in Q30 for d in Q31, [2^30, 2^31]. */
ls_val ls_m_recip(ls_mlir *m, ls_val d);
/* round(min(|x| * c, 92) * 2^24) as i64, x f32. */
ls_val ls_m_sigmoid_argument(ls_mlir *m, ls_val x, float c);
/* f32 logistic of an argument a, for x < 0 (sign bit set) and x >= 0. */
ls_val ls_m_sigmoid(ls_mlir *m, ls_val a, ls_val x);
/* tanh of a sigmoid argument, Q31. */
ls_val ls_m_tanh_fixed(ls_mlir *m, ls_val a);
/* tanh(x * factor / (2 log2 e)) as f32, signed like x. */
ls_val ls_m_exact_tanh(ls_mlir *m, ls_val x, float factor);
/* floor(sqrt(v)) for v in [2^60, 2^62). */
ls_val ls_m_isqrt(ls_mlir *m, ls_val v);
/* 1 / d = r * 2^k: *r f32 in [2^30, 2^31], *k i32. d > 0. */
void ls_m_recip_wide(ls_mlir *m, ls_val d, ls_val *r, ls_val *k);
/* True where the sign bit of x (f32) is set. */
ls_val ls_m_signbit(ls_mlir *m, ls_val x);

#endif
