/* The operators other than linear, as kernels: one table of functions per instruction-set level.
 *
 * Every kernel gives the bits of its counterpart in reference/exact_ops.h; ops_body.h and ops_attention_body.h are compiled
 * once per level over the vector vocabulary of ops_vec_<level>.h. Kernels run on one thread, allocate nothing, need no
 * alignment, and touch no byte outside the arrays they are given. Values are canonical f32 (docs/contracts.md). */
#ifndef LS_NATIVE_OPS_TABLE_H
#define LS_NATIVE_OPS_TABLE_H

#include "contract/exact.h"
#include "graph/graph.h"

enum {
    LS_KV_BLOCK = 64,  /* positions of one block of keys and values */
    LS_ATTN_TILE = 4   /* queries that share each load of keys and values */
};

/* Constants of one attention node (docs/contracts.md section 6). */
typedef struct ls_attn {
    int d, dp;        /* columns of a head, and rounded up to 32 */
    bool wide;        /* exact24 */
    bool narrow;      /* exact16-kv8 */
    int p, c, f, pb, g;
    float limit, k, cap_factor;
    bool capped;
} ls_attn;

/* Bytes of one key head in a block, and where its parts begin. exact16: keys int16 [dp / 2][64][2] (two columns of one key
 * side by side), values int16 [32][dp][2] (two keys of one column side by side). exact16-kv8: the same of int8, then the scales less one,
 * uint8 [dp / 16][64] of keys and [32][dp / 16][2] of values. exact24: keys int32 [dp][64], values int32 [64][dp]. Then the biased exponents,
 * uint8 [64] of keys and [64] of values. */
typedef struct ls_kv_layout {
    size_t values, key_scale, value_scale, key_exp, value_exp, bytes;
} ls_kv_layout;

/* Up to LS_ATTN_TILE queries over one key head of one sequence. */
typedef struct ls_attn_tile {
    int n;
    bool far;                                        /* its keys and values are worth fetching ahead: they are in no near cache */
    int64_t first[LS_ATTN_TILE], last[LS_ATTN_TILE]; /* visible keys of each query */
    int e[LS_ATTN_TILE];                             /* block exponents */
    int32_t *q; /* [n][dp]. exact16: dp / 2 pairs of high bytes, then of low bytes (q = 256 h + l) as int16; exact16-kv8: dp / 2 pairs of
                   mantissas as int16; exact24: mantissas */
} ls_attn_tile;

/* What one range of 256 keys gives one query; followed by o, int64 [dp]. |any| 0: no visible key. */
typedef struct ls_attn_part {
    int64_t any, m, mv, den;
} ls_attn_part;

/* Working memory of one range. */
typedef struct ls_attn_space {
    union {
        int32_t z[LS_ATTN_TILE][LS_EXACT_KEY_RANGE]; /* scores under exact16 */
        int64_t z64[LS_ATTN_TILE][LS_EXACT_KEY_RANGE]; /* and under exact24 */
    };
    union {
        int16_t half[LS_ATTN_TILE][2][LS_EXACT_KEY_RANGE]; /* weights under exact16: 256 * half[0] + half[1] */
        int32_t w[LS_ATTN_TILE][LS_EXACT_KEY_RANGE];       /* weights under exact24 */
    };
} ls_attn_space;

typedef struct ls_ops {
    const char *level;
    /* Groups of |group| of the |cols| columns of one row. w [w_len = group or cols] or NULL, canonical, the offset added;
     * b likewise. */
    void (*rms_norm)(float *y, const float *x, int64_t cols, int64_t group, const float *w, int64_t w_len, float eps);
    void (*layer_norm)(float *y, const float *x, int64_t cols, int64_t group, const float *w, int64_t w_len, const float *b, int64_t b_len, float eps);
    /* y = x turned by tables c, s [rot_dim / 2]. x [heads * head_dim]; y may be x. */
    void (*rope)(float *y, const float *x, int heads, int head_dim, const ls_rope *r, const int32_t *c, const int32_t *s);
    void (*act)(float *y, const float *x, int64_t n, ls_act act);
    void (*glu)(float *y, const float *gate, const float *up, int64_t n, ls_act act);
    void (*softcap)(float *y, const float *x, int64_t n, float cap);
    void (*add)(float *y, const float *a, const float *b, int64_t n);
    void (*mul)(float *y, const float *a, const float *b, int64_t n);
    void (*scale)(float *y, const float *x, int64_t n, float s);
    void (*clamp)(float *y, const float *x, int64_t n, float limit);
    void (*canon)(float *y, const float *x, int64_t n);
    /* One block of n <= 4096 values: mantissas q [n], returns the biased exponent. */
    int (*quantise)(int32_t *q, const float *x, int64_t n, int p);
    /* One range for every query of |t|. block[i]: the key head's part of the range's i-th block, NULL where no query looks.
     * part: t->n records of ls_attn_part_bytes(a). */
    void (*attend)(const ls_attn *a, const ls_attn_tile *t, int64_t range, const uint8_t *const *block, void *part, ls_attn_space *space);
    /* One head y [d] from the parts of |n| ranges, |stride| bytes apart. sum: int64 [dp] scratch. */
    void (*combine)(const ls_attn *a, float *y, const void *part, int64_t n, size_t stride, int64_t *sum);
} ls_ops;

/* The table of |level| ("c", "avx2", "avx512", "amx", "neon", "neon-dotprod", "neon-i8mm"), which the machine must have; several levels may share
 * one. NULL when this build has no such level. */
const ls_ops *ls_ops_get(const char *level);

ls_attn ls_attn_of(const ls_node *n);
ls_kv_layout ls_kv_layout_of(const ls_attn *a);
size_t ls_attn_part_bytes(const ls_attn *a);

/* Mantissas q [d] of a query or of a key x [d], which exact16-kv8 rotates; returns the exponent. Values need no more than ops->quantise. */
int ls_attn_quantise_query(const ls_ops *ops, const ls_attn *a, int32_t *q, const float *x);
int ls_attn_quantise_key(const ls_ops *ops, const ls_attn *a, int32_t *q, const float *x);

/* Stores one key or value (mantissas q [d] of a->p, exponent e) at |position| of its block. */
void ls_kv_put_key(const ls_attn *a, uint8_t *head, int position, const int32_t *q, int e);
void ls_kv_put_value(const ls_attn *a, uint8_t *head, int position, const int32_t *q, int e);

/* Writes query |i| of |t| from mantissas q [d] and exponent e. */
void ls_attn_put_query(const ls_attn *a, ls_attn_tile *t, int i, const int32_t *q, int e);

/* One table per level, defined by ops_<level>.c. */
extern const ls_ops ls_ops_c, ls_ops_avx2, ls_ops_avx512, ls_ops_neon;

#endif
