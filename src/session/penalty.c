/* Penalties: repetition, DRY, then frequency and presence, on fixed-point logits. */
#include "session/sampler.h"

/* A match longer than allowed + DRY_REACH counts as that long, which bounds the work per token. */
enum { DRY_REACH = 64 };

static int64_t saturate(int64_t v) { return v > LS_SAMPLE_MAX ? LS_SAMPLE_MAX : v < -LS_SAMPLE_MAX ? -LS_SAMPLE_MAX : v; }

/* a * b for |a| <= LS_SAMPLE_MAX and 0 <= b <= 2^26, rounded half away from zero: at most 2^62 before the shift. */
static int64_t multiply(int64_t a, int64_t b) {
    int64_t magnitude = ((a < 0 ? -a : a) * b + LS_SAMPLE_ONE / 2) >> LS_SAMPLE_FRAC;
    return saturate(a < 0 ? -magnitude : magnitude);
}

/* a / b for 0 <= a <= LS_SAMPLE_MAX, b > 0, rounded half up: at most 2^57 before the division. */
static int64_t divide(int64_t a, int64_t b) { return saturate((a * LS_SAMPLE_ONE + b / 2) / b); }

static const int32_t *window(const int32_t *history, size_t n, size_t limit, size_t *length) {
    *length = limit && limit < n ? limit : n;
    return history + (n - *length);
}

static void count_tokens(ls_sampler *s, const int32_t *tokens, size_t n) {
    for (size_t i = 0; i < n; i++) s->count[tokens[i]]++;
}

static void repetition(ls_sampler *s, int64_t penalty, const int32_t *tokens, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int32_t id = tokens[i];
        if (!s->count[id]) continue;
        s->count[id] = 0;
        s->value[id] = s->value[id] > 0 ? divide(s->value[id], penalty) : multiply(s->value[id], penalty);
    }
}

/* count <= 2^24 positions, penalties at most 2^26: no overflow. */
static void frequency_presence(ls_sampler *s, int64_t frequency, int64_t presence, const int32_t *tokens, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int32_t id = tokens[i];
        if (!s->count[id]) continue;
        s->value[id] = saturate(s->value[id] - (frequency * s->count[id] + presence));
        s->count[id] = 0;
    }
}

static bool is_breaker(const ls_sampler_params *p, int32_t id) {
    for (size_t i = 0; i < p->n_breakers; i++)
        if (p->breakers[i] == id) return true;
    return false;
}

/* Number of tokens that end alike at position |at| and at the end of tokens[n], up to |limit| or a breaker. */
static size_t match_length(const ls_sampler_params *p, const int32_t *tokens, size_t n, size_t at, size_t limit) {
    size_t length = 0;
    while (length < limit && length <= at && tokens[at - length] == tokens[n - 1 - length] && !is_breaker(p, tokens[at - length])) length++;
    return length;
}

static int64_t dry_penalty(const ls_sampler_params *p, size_t excess) {
    int64_t value = p->dry_multiplier_q;
    for (size_t i = 0; i < excess && value < LS_SAMPLE_MAX; i++) value = multiply(value, p->dry_base_q);
    return value;
}

static void dry(ls_sampler *s, const ls_sampler_params *p, const int32_t *tokens, size_t n) {
    if (n < 2) return;
    for (size_t at = 0; at + 1 < n; at++) {
        size_t length = match_length(p, tokens, n, at, p->dry_allowed + DRY_REACH);
        if (length < p->dry_allowed || !length) continue;
        int64_t penalty = dry_penalty(p, length - p->dry_allowed);
        if (penalty > s->dry[tokens[at + 1]]) s->dry[tokens[at + 1]] = penalty;
    }
    for (size_t i = 1; i < n; i++) {
        s->value[tokens[i]] = saturate(s->value[tokens[i]] - s->dry[tokens[i]]);
        s->dry[tokens[i]] = 0;
    }
}

static bool has_dry(const ls_sampler_params *p) { return p->dry_multiplier_q && p->dry_base_q >= LS_SAMPLE_ONE; }

bool ls_sampler_has_penalty(const ls_sampler_params *p) {
    return p->repetition_q != LS_SAMPLE_ONE || p->frequency_q || p->presence_q || has_dry(p);
}

void ls_sampler_penalize(ls_sampler *s, const ls_sampler_params *p, const int32_t *history, size_t n) {
    size_t length, dry_length;
    const int32_t *tokens = window(history, n, p->penalty_window, &length);
    if (p->repetition_q != LS_SAMPLE_ONE) {
        count_tokens(s, tokens, length);
        repetition(s, p->repetition_q, tokens, length);
    }
    if (has_dry(p)) {
        const int32_t *dry_tokens = window(history, n, p->dry_window, &dry_length);
        dry(s, p, dry_tokens, dry_length);
    }
    if (p->frequency_q || p->presence_q) {
        count_tokens(s, tokens, length);
        frequency_presence(s, p->frequency_q, p->presence_q, tokens, length);
    }
}
