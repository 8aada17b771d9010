/* The emitter from the inside: what its files share. Not for other folders. */
#ifndef LS_XLA_EMIT_LOWER_H
#define LS_XLA_EMIT_LOWER_H

#include "contract/weight_form.h"
#include "xla/emit/emit.h"
#include "xla/emit/exact_math.h"

enum { LS_MAX_WINDOWS = 8 };

/* One module under construction. */
typedef struct ls_lower {
    ls_mlir m;
    const ls_graph *g;
    const ls_emit_options *o;
    ls_emit_module *out;
    ls_val *value;        /* [n_nodes] outputs so far */
    ls_val operand[LS_MAX_INPUTS]; /* a node alone of an image: its inputs; kind 0: values */
    int64_t sequences;    /* Bq: sequences of this pass */
    int64_t rows;         /* T: rows of each; the pass has Bq * T rows, sequence after sequence */
    int64_t keys;         /* keys each row attends over, a multiple of LS_EXACT_KEY_RANGE */
    ls_val token, position; /* i32 [Bq * T] */
    ls_val embeddings;      /* f32 [Bq * T, H] in place of tokens; kind 0: none */
    ls_val given;           /* i32 [T]: rows whose embedding is not 0 here take it; kind 0: all, where there are embeddings */
    ls_val index;           /* i32 [Bq, T]: place of each row in its cache */
    ls_val bias;            /* f32 [T, T] additive mask; kind 0: causal */
    int64_t whole;          /* rows of an image, which bidirectional attention sees; 0: the pass is no image */
    ls_val begin, end;      /* i32 [T] block of each row; kind 0: no blocks */
    ls_val out_row;         /* i32 [R] */
    ls_val kcache, vcache;  /* f32 [B, L, C, kv, d]; kind 0: the pass begins with empty caches */
    ls_val slot;            /* i32: the sequence of an extend */
    ls_val *layer_k, *layer_v; /* [n_caches] f32 [keys, kv, d]: prefill's caches */
    int n_windows, window[LS_MAX_WINDOWS];
    ls_val visible[LS_MAX_WINDOWS]; /* i1 [Bq, T, keys] */
} ls_lower;

/* A weight argument; an equal one given before is the same value. |w->key| is made here from the rest. */
ls_val ls_lower_weight(ls_lower *l, ls_emit_weight w);

/* The keys each row sees in attention |n|: i1 [Bq, T, keys]. Nodes of one window see alike: the graph is bidirectional or not. */
ls_val ls_lower_visible(ls_lower *l, const ls_node *n);
/* Puts k, v f32 [rows, kv * d] of |n| into its cache; gives the whole K, V f32 [Bq, keys, kv, d]. */
void ls_lower_cache(ls_lower *l, const ls_node *n, ls_val *k, ls_val *v);

/* ---- Exact contracts ------------------------------------------------------------------------------------------------ */

/* Digits that carry a product of integers: v = sum of digit[i] * 2^(i * bits), |digit[i]| <= largest, the last one <= top. */
typedef struct ls_digits {
    int n, bits;
    int64_t largest, top;
} ls_digits;

/* How one sum of |width| products |a| <= bound_a, |b| <= bound_b is carried. */
typedef struct ls_dot_plan {
    ls_digits a, b;
    ls_dtype dtype; /* of the digits: f32, f64 or i8 */
    double cost;
} ls_dot_plan;
ls_dot_plan ls_plan_dot(ls_carrier carrier, int64_t bound_a, int64_t bound_b, int64_t width);

/* Digits of whole numbers, f32 or i64: out [d.n] of |dtype|. */
void ls_m_digits(ls_mlir *m, ls_val v, ls_digits d, ls_dtype dtype, ls_val *out);
enum { LS_MAX_DIGITS = 8 };

/* sum over i, j of 2^(...) * dot(a[i], b[j]) as i64, or i32 when |bound| (of the true sum) is below 2^31. */
ls_val ls_m_dot_digits(ls_mlir *m, const ls_dot_plan *plan, const ls_val *a, const ls_val *b, int n_batch, const int *batch_a, const int *batch_b,
                       int contract_a,
                       int contract_b, double bound);

/* x f32 [T, E, K] against |n_params| matrices: E 1 and the matrices stacked along N, or one for each of E. y f32 [T, E, N]. */
ls_val ls_lower_exact_product(ls_lower *l, ls_val x, const ls_param *w, int n_params, int64_t experts);
ls_val ls_lower_exact_linear(ls_lower *l, const ls_node *n, ls_val x);
ls_val ls_lower_exact_norm(ls_lower *l, const ls_node *n, ls_val x);
ls_val ls_lower_exact_rope(ls_lower *l, const ls_node *n, ls_val x);
ls_val ls_lower_exact_attention(ls_lower *l, const ls_node *n, ls_val q, ls_val k, ls_val v); /* k, v: whole caches */
ls_val ls_lower_exact_act(ls_lower *l, ls_act act, ls_val x);
ls_val ls_lower_exact_moe(ls_lower *l, const ls_node *n, ls_val x, ls_val router);
ls_val ls_lower_exact_softcap(ls_lower *l, ls_val x, float cap);
ls_val ls_lower_exact_pool(ls_lower *l, const ls_node *n, ls_val x); /* x f32 [R, C, pool^2]; y f32 [R, C] */

/* ---- Float contract --------------------------------------------------------------------------------------------------- */

bool ls_lower_can_pack(const ls_param *w); /* a linear layer's weight that stays packed when options ask for it */
ls_val ls_lower_float_linear(ls_lower *l, const ls_node *n, ls_val x);
ls_val ls_lower_float_norm(ls_lower *l, const ls_node *n, ls_val x);
ls_val ls_lower_float_rope(ls_lower *l, const ls_node *n, ls_val x);
ls_val ls_lower_float_attention(ls_lower *l, const ls_node *n, ls_val q, ls_val k, ls_val v);
ls_val ls_lower_float_act(ls_lower *l, ls_act act, ls_val x);
ls_val ls_lower_float_moe(ls_lower *l, const ls_node *n, ls_val x, ls_val router);
ls_val ls_lower_float_softcap(ls_lower *l, ls_val x, float cap);

/* ---- Both ----------------------------------------------------------------------------------------------------------------- */

/* Lowers node |i|; its inputs' values are there. */
void ls_lower_node(ls_lower *l, int i);
/* The |top_k| largest of x [T, E], lower index first among equals: i1 [T, E]. */
ls_val ls_lower_top_k(ls_lower *l, ls_val x, int top_k);

#endif
