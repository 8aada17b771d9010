/* Choosing the next token from logits, on integers only: docs/sampling.md is the definition. */
#ifndef LS_SESSION_SAMPLER_H
#define LS_SESSION_SAMPLER_H

#include "base/alloc.h"

enum {
    LS_SAMPLE_FRAC = 20,       /* logits and options are fixed point with 20 fraction bits */
    LS_SAMPLE_WEIGHT_BITS = 39,/* the most likely token has weight 2^39 */
    LS_SAMPLE_ID_BITS = 24     /* largest vocabulary: 2^24 */
};
#define LS_SAMPLE_ONE ((int64_t)1 << LS_SAMPLE_FRAC)
#define LS_SAMPLE_MAX ((int64_t)1 << 36) /* |logit| saturates at 65536 */

/* ls_sampling after validation and conversion; numbers with _q in fixed point. */
typedef struct ls_sampler_params {
    uint64_t seed;
    int64_t temperature_q;                      /* 0: greedy */
    int64_t top_p_q, min_p_q;                   /* top_p_q == LS_SAMPLE_ONE: off */
    int64_t repetition_q;                       /* LS_SAMPLE_ONE: off */
    int64_t frequency_q, presence_q;
    int64_t dry_multiplier_q, dry_base_q;
    size_t top_k, penalty_window, dry_window;   /* 0: off; 0: all; 0: all */
    size_t dry_allowed, n_breakers;
    int32_t breakers[LS_MAX_BREAKERS];
} ls_sampler_params;

/* Validates |s| (NULL: greedy). INVALID_ARGUMENT naming the option, its value and the allowed range. */
ls_code ls_sampler_prepare(ls_sampler_params *p, const ls_sampling *s, ls_error *e);

/* Working memory for one vocabulary, shared by all requests of a session; each array NULL until some request needs it. */
typedef struct ls_sampler {
    size_t vocab;
    int64_t *value; /* [vocab] fixed-point logits: draws and penalties */
    uint64_t *key;  /* [vocab] heap of (value, id) keys: draws */
    int64_t *dry;   /* [vocab] all zero between calls: penalties */
    int32_t *count; /* [vocab] all zero between calls: penalties */
} ls_sampler;

ls_code ls_sampler_init(ls_sampler *s, size_t vocab, ls_error *e);
void ls_sampler_deinit(ls_sampler *s);

/* The arrays that |p| needs, where they are not there yet: none for a greedy choice without penalties. */
ls_code ls_sampler_reserve(ls_sampler *s, const ls_sampler_params *p, ls_error *e);

/* The next token after |history| [n] (prompt and output so far, ids within the vocabulary) given |logits| f32 [vocab].
 * Draws are keyed by (seed, n), so nothing else influences them. |p| has been reserved; allocates nothing. */
int32_t ls_sampler_next(ls_sampler *s, const ls_sampler_params *p, const float *logits, const int32_t *history, size_t n);

/* ---- Pieces, shared by the files of the sampler and by tests ------------------------------------------------------ */

/* logit * 2^20, rounded to nearest even, saturated to +-LS_SAMPLE_MAX; NaN gives -LS_SAMPLE_MAX. */
int64_t ls_sample_fixed(float logit);

/* 2^31 * 2^(-f / 2^31) for f in [0, 2^31): within 4 of the exact value. */
uint32_t ls_sample_exp2_neg(uint32_t f);

/* The |position|-th output of splitmix64 started at |seed|. */
uint64_t ls_sample_random(uint64_t seed, uint64_t position);

/* Applies repetition, DRY, frequency and presence penalties to s->value, in this order. */
void ls_sampler_penalize(ls_sampler *s, const ls_sampler_params *p, const int32_t *history, size_t n);

/* Whether any penalty is on. */
bool ls_sampler_has_penalty(const ls_sampler_params *p);

#endif
