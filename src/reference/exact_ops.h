/* The exact operators other than linear (docs/contracts.md sections 4 to 8), each in plain C on contiguous f32 rows. */
#ifndef LS_REFERENCE_EXACT_OPS_H
#define LS_REFERENCE_EXACT_OPS_H

#include "graph/batch.h"

/* y, x: f32 [cols] in groups of |group|; w, b: [group] or [cols] (|w_len|, |b_len|), or NULL. y may be x. */
void ls_exact_rms_norm(float *y, const float *x, int64_t cols, int64_t group, const float *w, int64_t w_len, float w_offset, float eps);
void ls_exact_layer_norm(float *y, const float *x, int64_t cols, int64_t group, const float *w, int64_t w_len, const float *b, int64_t b_len, float eps);

/* Integer cos and sin of one position: c, s Q30 [rot_dim / 2]. */
void ls_exact_rope_table(const ls_rope *r, int64_t position, int32_t *c, int32_t *s);

/* Turns one row x [heads * head_dim] in place by tables c, s [rot_dim / 2]. */
void ls_exact_rope(float *x, int heads, int head_dim, const ls_rope *r, const int32_t *c, const int32_t *s);

/* One query row q [heads * head_dim] over keys and values of the positions it sees (ls_sees), at least one, each a row of
 * kv_heads * head_dim f32 at k + j * stride, v + j * stride. y [heads * head_dim]. */
ls_code ls_exact_attention(float *y, const float *q, const float *k, const float *v, int64_t stride, ls_span sees, const ls_node *n, ls_error *e);

/* One row y [cols] of an average pool: |x| is the first of the square's pool x pool rows [cols] in a grid of |grid|. */
void ls_exact_avg_pool(float *y, const float *x, int64_t cols, int grid, int pool);
float ls_exact_pool_share(int pool); /* f32(1 / pool^2), on the host */

float ls_exact_act(float x, ls_act act);
float ls_exact_softcap(float x, float cap);

/* tanh(x * factor / (2 log2 e)), signed like x; |factor| from ls_exact_softcap_factor. */
float ls_exact_tanh(float x, float factor);

/* Router of one row: logits [experts] -> kept expert indices, ascending, and their scores. */
void ls_exact_route(const float *logits, const ls_moe *m, int *kept, float *score);

/* Constants computed on the host in f64 and rounded once (section 6). */
float ls_exact_score_factor(float scale, float softcap);   /* f32(scale * log2 e), or f32(cap * log2 e) with a cap */
float ls_exact_softcap_factor(float scale, float cap);     /* f32(2 log2 e * scale / cap) */

#endif
