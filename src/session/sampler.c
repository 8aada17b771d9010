/* The sampler: fixed-point logits, penalties, temperature, top-k, top-p, min-p, draw. No libm and no float arithmetic
 * beyond the comparison of logits, so every machine draws the same token. docs/sampling.md is the definition. */
#include "session/sampler.h"

#include <string.h>

/* ---- Options ---------------------------------------------------------------------------------------------------- */

/* |x| * 2^20 rounded half away from zero: the product is exact and at most 2^26, so a double holds it and the half. */
static int64_t to_fixed(double x) {
    int64_t magnitude = (int64_t)((x < 0 ? -x : x) * (double)LS_SAMPLE_ONE + 0.5);
    return x < 0 ? -magnitude : magnitude;
}

static ls_code option(const char *name, double x, double lo, double hi, int64_t *out, ls_error *e) {
    if (!(x >= lo && x <= hi)) LS_FAIL(e, LS_INVALID_ARGUMENT, "%s is %g; allowed are %g to %g", name, x, lo, hi);
    *out = to_fixed(x);
    return LS_OK;
}

static ls_code count_option(const char *name, int x, size_t *out, ls_error *e) {
    if (x < 0) LS_FAIL(e, LS_INVALID_ARGUMENT, "%s is %d; it must not be negative", name, x);
    *out = (size_t)x;
    return LS_OK;
}

static ls_code prepare_dry(ls_sampler_params *p, const ls_sampling *s, ls_error *e) {
    LS_TRY(option("DRY multiplier", s->dry_multiplier, 0, 64, &p->dry_multiplier_q, e));
    LS_TRY(option("DRY base", s->dry_base == 0 ? 1.75 : s->dry_base, 0, 64, &p->dry_base_q, e));
    LS_TRY(count_option("DRY allowed length", s->dry_allowed_length ? s->dry_allowed_length : 2, &p->dry_allowed, e));
    LS_TRY(count_option("DRY window", s->dry_window, &p->dry_window, e));
    if (s->n_dry_breakers > LS_MAX_BREAKERS)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "%zu DRY breakers; at most %d are allowed", s->n_dry_breakers, LS_MAX_BREAKERS);
    p->n_breakers = s->n_dry_breakers;
    if (p->n_breakers) memcpy(p->breakers, s->dry_breakers, p->n_breakers * sizeof *p->breakers);
    return LS_OK;
}

ls_code ls_sampler_prepare(ls_sampler_params *p, const ls_sampling *given, ls_error *e) {
    *p = (ls_sampler_params){.top_p_q = LS_SAMPLE_ONE, .repetition_q = LS_SAMPLE_ONE};
    if (!given) return LS_OK;
    ls_sampling s = {0};
    if (!given->struct_size) LS_FAIL(e, LS_INVALID_ARGUMENT, "struct_size of the sampling options is 0; set it to sizeof(ls_sampling)");
    memcpy(&s, given, given->struct_size < sizeof s ? given->struct_size : sizeof s);
    p->seed = s.seed;
    LS_TRY(option("temperature", s.temperature, 0, 64, &p->temperature_q, e));
    if (s.temperature > 0 && !p->temperature_q) p->temperature_q = 1;
    LS_TRY(count_option("top-k", s.top_k, &p->top_k, e));
    LS_TRY(option("top-p", s.top_p == 0 ? 1 : s.top_p, 0, 1, &p->top_p_q, e));
    LS_TRY(option("min-p", s.min_p, 0, 1, &p->min_p_q, e));
    LS_TRY(option("repetition penalty", s.repetition_penalty == 0 ? 1 : s.repetition_penalty, 1.0 / 64, 64, &p->repetition_q, e));
    LS_TRY(option("frequency penalty", s.frequency_penalty, -64, 64, &p->frequency_q, e));
    LS_TRY(option("presence penalty", s.presence_penalty, -64, 64, &p->presence_q, e));
    LS_TRY(count_option("penalty window", s.penalty_window, &p->penalty_window, e));
    return prepare_dry(p, &s, e);
}

/* ---- Integer pieces ---------------------------------------------------------------------------------------------- */

int64_t ls_sample_fixed(float logit) {
    uint32_t bits;
    memcpy(&bits, &logit, sizeof bits);
    int exponent = (int)(bits >> 23 & 0xFF);
    uint64_t m = bits & 0x7FFFFF;
    if (exponent == 0xFF && m) return -LS_SAMPLE_MAX;
    if (exponent) m |= 0x800000;
    else exponent = 1;
    int shift = exponent - 150 + LS_SAMPLE_FRAC; /* |logit| = m * 2^(exponent - 150) */
    uint64_t q = 0;
    if (shift >= 13) {
        q = m ? (uint64_t)LS_SAMPLE_MAX : 0; /* m >= 2^23 here, since such an exponent is normal */
    } else if (shift >= 0) {
        q = m << shift;
    } else if (shift >= -25) {
        uint64_t half = (uint64_t)1 << (-shift - 1), rest = m & (2 * half - 1);
        q = m >> -shift;
        if (rest > half || (rest == half && (q & 1))) q++;
    }
    return bits >> 31 ? -(int64_t)q : (int64_t)q;
}

/* Horner form of sum of (-f ln 2)^k / k!, coefficients (ln 2)^k / k! in Q31. Each partial result is positive, because a
 * coefficient is larger than the next one. */
uint32_t ls_sample_exp2_neg(uint32_t f) {
    static const uint32_t c[] = {2147483648u, 1488522236u, 515882496u, 119194166u, 20654775u, 2863360u, 330788u, 32755u, 2838u, 219u, 15u};
    uint64_t r = c[10];
    for (int k = 9; k >= 0; k--) r = c[k] - (r * f >> 31);
    return (uint32_t)r;
}

uint64_t ls_sample_random(uint64_t seed, uint64_t position) {
    uint64_t z = seed + 0x9E3779B97F4A7C15u * (position + 1);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Upper 64 bits of a * b. */
static uint64_t multiply_high(uint64_t a, uint64_t b) {
    uint64_t al = a & 0xFFFFFFFF, ah = a >> 32, bl = b & 0xFFFFFFFF, bh = b >> 32;
    uint64_t middle = ah * bl + (al * bl >> 32), other = al * bh + (middle & 0xFFFFFFFF);
    return ah * bh + (middle >> 32) + (other >> 32);
}

/* ---- Candidates in order of (value descending, id ascending) ------------------------------------------------------- */

/* A max-heap of keys whose popped elements gather at the end of the array, largest last: popping sorts lazily. */
typedef struct order {
    uint64_t *key;
    size_t n, popped;
    int64_t top;     /* largest value */
    uint64_t scale;  /* log2(e) / temperature with 30 fraction bits */
} order;

enum { SCALE_FRAC = 30, EXPONENT_FRAC = SCALE_FRAC + LS_SAMPLE_FRAC };
#define ID_MASK (((uint64_t)1 << LS_SAMPLE_ID_BITS) - 1)
#define LOG2E_Q30 1549082005u

static uint64_t make_key(int64_t value, size_t id) { return (uint64_t)(value + LS_SAMPLE_MAX) << LS_SAMPLE_ID_BITS | (ID_MASK - id); }
static int64_t key_value(uint64_t key) { return (int64_t)(key >> LS_SAMPLE_ID_BITS) - LS_SAMPLE_MAX; }
static int32_t key_id(uint64_t key) { return (int32_t)(ID_MASK - (key & ID_MASK)); }

static void sift_down(uint64_t *key, size_t n, size_t i) {
    uint64_t moving = key[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && key[child + 1] > key[child]) child++;
        if (key[child] <= moving) break;
        key[i] = key[child];
    }
    key[i] = moving;
}

static uint64_t order_at(order *o, size_t i) {
    while (o->popped <= i) {
        size_t last = o->n - 1 - o->popped;
        uint64_t top = o->key[0];
        o->key[0] = o->key[last];
        o->key[last] = top;
        o->popped++;
        if (last) sift_down(o->key, last, 0);
    }
    return o->key[o->n - 1 - i];
}

/* exp(-(top - value) / temperature) * 2^39. The exponent is at most 40 here: order_init dropped everything smaller. */
static uint64_t weight(const order *o, uint64_t key) {
    uint64_t y = (uint64_t)(o->top - key_value(key)) * o->scale;
    uint32_t mantissa = ls_sample_exp2_neg((uint32_t)(y >> (EXPONENT_FRAC - 31) & 0x7FFFFFFF));
    return ((uint64_t)mantissa << (LS_SAMPLE_WEIGHT_BITS - 31)) >> (y >> EXPONENT_FRAC);
}

static void order_init(order *o, const ls_sampler *s, int64_t temperature_q) {
    *o = (order){.key = s->key, .top = s->value[0], .scale = ((uint64_t)LOG2E_Q30 << LS_SAMPLE_FRAC) / (uint64_t)temperature_q};
    for (size_t i = 1; i < s->vocab; i++)
        if (s->value[i] > o->top) o->top = s->value[i];
    uint64_t reach = ((uint64_t)(LS_SAMPLE_WEIGHT_BITS + 1) << EXPONENT_FRAC) / o->scale;
    for (size_t i = 0; i < s->vocab; i++)
        if ((uint64_t)(o->top - s->value[i]) <= reach) o->key[o->n++] = make_key(s->value[i], i);
    for (size_t i = o->n / 2; i-- > 0;) sift_down(o->key, o->n, i);
}

/* The leading candidates that survive top-k, top-p and min-p: their number and the sum of their weights. */
static size_t keep(order *o, const ls_sampler_params *p, uint64_t *sum) {
    size_t n = p->top_k && p->top_k < o->n ? p->top_k : o->n;
    uint64_t total = 0;
    if (n < o->n)
        for (size_t i = 0; i < n; i++) total += weight(o, order_at(o, i));
    else
        for (size_t i = 0; i < n; i++) total += weight(o, o->key[i]);
    *sum = total;
    if (p->top_p_q >= LS_SAMPLE_ONE && !p->min_p_q) return n;
    uint64_t enough = (total >> LS_SAMPLE_FRAC) * (uint64_t)p->top_p_q +
                      ((total & (uint64_t)(LS_SAMPLE_ONE - 1)) * (uint64_t)p->top_p_q >> LS_SAMPLE_FRAC);
    uint64_t least = (uint64_t)p->min_p_q << (LS_SAMPLE_WEIGHT_BITS - LS_SAMPLE_FRAC);
    size_t kept = 0;
    for (*sum = 0; kept < n; kept++) {
        uint64_t w = weight(o, order_at(o, kept));
        if (kept && (*sum >= enough || w < least)) break;
        *sum += w;
    }
    return kept;
}

static int32_t draw(const ls_sampler *s, const ls_sampler_params *p, size_t position) {
    order o;
    uint64_t sum;
    order_init(&o, s, p->temperature_q);
    size_t n = keep(&o, p, &sum);
    uint64_t target = multiply_high(ls_sample_random(p->seed, position), sum);
    size_t i = 0;
    for (; i + 1 < n; i++) {
        uint64_t w = weight(&o, order_at(&o, i));
        if (target < w) break;
        target -= w;
    }
    return key_id(order_at(&o, i));
}

enum { RUN = 64 };

/* Whether one of RUN logits is larger than |best|: a loop of which compilers make vectors. */
static bool has_larger(const float *logits, float best) {
    int32_t larger = 0;
    for (int i = 0; i < RUN; i++) larger |= logits[i] > best;
    return larger;
}

/* The first of the largest; NaN is none, and 0 is returned when all are. Few runs have one that is larger than all before. */
static int32_t largest_logit(const float *logits, size_t n) {
    size_t best = 0;
    while (best < n && logits[best] != logits[best]) best++;
    if (best == n) return 0;
    for (size_t i = best + 1; i < n;) {
        size_t end = n - i < RUN ? n : i + RUN;
        if (end - i == RUN && !has_larger(logits + i, logits[best])) i = end;
        for (; i < end; i++)
            if (logits[i] > logits[best]) best = i;
    }
    return (int32_t)best;
}

static int32_t largest_value(const int64_t *value, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (value[i] > value[best]) best = i;
    return (int32_t)best;
}

ls_code ls_sampler_init(ls_sampler *s, size_t vocab, ls_error *e) {
    *s = (ls_sampler){.vocab = vocab};
    if (!vocab || vocab > ID_MASK) LS_FAIL(e, LS_INVALID_ARGUMENT, "vocabulary of %zu tokens; allowed are 1 to %llu", vocab, (unsigned long long)ID_MASK);
    return LS_OK;
}

ls_code ls_sampler_reserve(ls_sampler *s, const ls_sampler_params *p, ls_error *e) {
    bool penalized = ls_sampler_has_penalty(p), drawn = p->temperature_q != 0;
    if ((penalized || drawn) && !s->value) LS_TRY(ls_calloc(&s->value, s->vocab, sizeof *s->value, "sampler", e));
    if (drawn && !s->key) LS_TRY(ls_calloc(&s->key, s->vocab, sizeof *s->key, "sampler", e));
    if (penalized && !s->dry) LS_TRY(ls_calloc(&s->dry, s->vocab, sizeof *s->dry, "sampler", e));
    if (penalized && !s->count) LS_TRY(ls_calloc(&s->count, s->vocab, sizeof *s->count, "sampler", e));
    return LS_OK;
}

void ls_sampler_deinit(ls_sampler *s) {
    ls_free(s->value);
    ls_free(s->key);
    ls_free(s->dry);
    ls_free(s->count);
    *s = (ls_sampler){0};
}

int32_t ls_sampler_next(ls_sampler *s, const ls_sampler_params *p, const float *logits, const int32_t *history, size_t n) {
    bool penalized = ls_sampler_has_penalty(p);
    if (!penalized && !p->temperature_q) return largest_logit(logits, s->vocab);
    for (size_t i = 0; i < s->vocab; i++) s->value[i] = ls_sample_fixed(logits[i]);
    if (penalized) ls_sampler_penalize(s, p, history, n);
    return p->temperature_q ? draw(s, p, n) : largest_value(s->value, s->vocab);
}
