/* Lookup, and the model that guesses. */
#include "session/drafter.h"

/* ---- Lookup ----------------------------------------------------------------------------------------------------------- */

size_t ls_lookup(int32_t *token, size_t n, size_t most) {
    size_t first = n > LS_LOOKUP_REACH ? n - LS_LOOKUP_REACH : 0, best = 0, follow = 0;
    for (size_t end = n; --end > first && best < LS_LOOKUP_MATCH;) { /* end: what would follow the match */
        size_t same = 0;
        while (same < LS_LOOKUP_MATCH && same < end - first && token[end - 1 - same] == token[n - 1 - same]) same++;
        if (same <= best) continue;
        best = same;
        follow = end;
    }
    for (size_t i = 0; best && i < most; i++) token[n + i] = token[follow + i];
    return best ? most : 0;
}

/* ---- A model ---------------------------------------------------------------------------------------------------------- */

struct ls_drafter {
    ls_drafter_config c;
    ls_sampler sampler;
    float *logits;                    /* [slots, vocab] */
    int32_t *token, *slot, *out, *of; /* [max_rows] rows of a pass; of: which sequence an output row belongs to */
    int n_rows, n_out;
};

ls_code ls_drafter_create(ls_drafter **out, const ls_drafter_config *c, ls_error *e) {
    ls_drafter *d;
    size_t rows = (size_t)c->max_rows, n_logits = 0;
    if (!ls_size_mul((size_t)c->slots, (size_t)c->vocab, &n_logits))
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%d slots of %lld logits", c->slots, (long long)c->vocab);
    LS_TRY(ls_calloc(&d, 1, sizeof *d, "drafter", e));
    d->c = *c;
    d->c.in_use = NULL;
    ls_code rc;
    LS_GOTO(ls_calloc(&d->logits, n_logits, sizeof *d->logits, "drafter", e));
    LS_GOTO(ls_calloc(&d->token, rows, sizeof *d->token, "drafter", e));
    LS_GOTO(ls_calloc(&d->slot, rows, sizeof *d->slot, "drafter", e));
    LS_GOTO(ls_calloc(&d->out, rows, sizeof *d->out, "drafter", e));
    LS_GOTO(ls_calloc(&d->of, rows, sizeof *d->of, "drafter", e));
    LS_GOTO(ls_sampler_init(&d->sampler, (size_t)c->vocab_used, e));
    d->c.in_use = c->in_use;
    if (c->in_use) *c->in_use = true;
    *out = d;
    return LS_OK;
out:
    ls_drafter_destroy(d);
    return rc;
}

void ls_drafter_destroy(ls_drafter *d) {
    if (!d) return;
    if (d->c.in_use) *d->c.in_use = false;
    for (int i = 0; i < d->c.slots; i++) d->c.executor->truncate(d->c.executor, i, 0);
    ls_sampler_deinit(&d->sampler);
    ls_free(d->logits);
    ls_free(d->token);
    ls_free(d->slot);
    ls_free(d->out);
    ls_free(d->of);
    ls_free(d);
}

ls_code ls_drafter_reserve(ls_drafter *d, const ls_sampler_params *p, ls_error *e) { return ls_sampler_reserve(&d->sampler, p, e); }

void ls_drafter_keep(ls_drafter *d, int slot, size_t length) {
    ls_executor *x = d->c.executor;
    if (x->length(x, slot) > (int)length) x->truncate(x, slot, (int)length);
}

/* Runs the rows that wait, and draws the next token of each sequence whose last row is among them. */
static ls_code flush(ls_drafter *d, ls_draft *all, ls_error *e) {
    if (!d->n_rows) return LS_OK;
    ls_batch b = {.n_rows = d->n_rows, .token = d->token, .slot = d->slot, .n_out = d->n_out, .out_row = d->out};
    int n_out = d->n_out;
    d->n_rows = d->n_out = 0;
    LS_TRY(d->c.executor->forward(d->c.executor, &b, d->logits, e));
    for (int i = 0; i < n_out; i++) {
        ls_draft *r = &all[d->of[i]];
        size_t n = r->n + r->made;
        r->token[n] = ls_sampler_next(&d->sampler, r->params, d->logits + (size_t)i * (size_t)d->c.vocab, r->token, n);
        r->made++;
    }
    return LS_OK;
}

/* Adds rows for tokens [begin, end) of sequence |i|; the last one's logits are wanted. */
static ls_code add_rows(ls_drafter *d, ls_draft *all, int i, size_t begin, size_t end, ls_error *e) {
    for (size_t t = begin; t < end; t++) {
        if (d->n_rows == d->c.max_rows) LS_TRY(flush(d, all, e));
        if (t + 1 == end) {
            d->of[d->n_out] = i;
            d->out[d->n_out++] = d->n_rows;
        }
        d->slot[d->n_rows] = all[i].slot;
        d->token[d->n_rows++] = all[i].token[t];
    }
    return LS_OK;
}

static bool can_guess(const ls_drafter *d, const ls_draft *r, size_t held) {
    if (!r->most || r->n + r->most > (size_t)d->c.context) return false;
    for (size_t t = held; t < r->n; t++)
        if (r->token[t] >= d->c.vocab) return false;
    return true;
}

ls_code ls_drafter_run(ls_drafter *d, ls_draft *all, int n, ls_error *e) {
    ls_executor *x = d->c.executor;
    d->n_rows = d->n_out = 0;
    size_t rounds = 0;
    for (int i = 0; i < n; i++) {
        ls_draft *r = &all[i];
        size_t held = (size_t)x->length(x, r->slot);
        if (!can_guess(d, r, held)) r->most = 0;
        if (!r->most) continue;
        if (x->reserve) LS_TRY(x->reserve(x, r->slot, (int)(r->n + r->most), e));
        if (r->most > rounds) rounds = r->most;
        LS_TRY(add_rows(d, all, i, held, r->n, e));
    }
    LS_TRY(flush(d, all, e));
    for (size_t round = 1; round < rounds; round++) {
        for (int i = 0; i < n; i++)
            if (all[i].most > round) LS_TRY(add_rows(d, all, i, all[i].n + round - 1, all[i].n + round, e));
        LS_TRY(flush(d, all, e));
    }
    return LS_OK;
}
