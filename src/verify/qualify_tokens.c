/* The token stage: pinned prompts, greedy output of the judged executor against the reference's, alone and together. */
#include <stdio.h>
#include <string.h>

#include "session/bundle.h"
#include "verify/qualify.h"

enum { CONTEXT_STEP = 256 };

static const char *const texts[LS_QUALIFY_PROMPTS] = {"The capital of France is", "Once upon a time", "def fibonacci(n):\n",
                                                      "In 1969, three people flew to the Moon. Their names were"};
static const size_t lengths[LS_QUALIFY_PROMPTS] = {3, 5, 8, LS_QUALIFY_PROMPT_IDS}; /* of prompts without a tokenizer */

/* ---- Prompts ----------------------------------------------------------------------------------------------------------- */

static ls_code set_text(ls_qualify_prompt *p, const ls_model *m, const char *text, ls_error *e) {
    int32_t *ids;
    size_t n;
    LS_TRY(ls_model_encode(m, text, strlen(text), true, &ids, &n, e));
    p->n = n < LS_QUALIFY_PROMPT_IDS ? n : LS_QUALIFY_PROMPT_IDS;
    memcpy(p->ids, ids, p->n * sizeof *ids);
    ls_buffer_free(ids);
    return LS_OK;
}

static void set_ids(ls_qualify_prompt *p, int which, int64_t vocab) {
    p->n = lengths[which];
    for (size_t i = 0; i < p->n; i++) p->ids[i] = (int32_t)(((uint64_t)i * 7919 + (uint64_t)which * 104729 + 13) % (uint64_t)vocab);
}

static ls_code recorded_ids(ls_checkpoint *c, const char *file, const char *name, int64_t vocab, int32_t *out, size_t *n, ls_error *e) {
    const ls_tensor *t = ls_checkpoint_find(c, name);
    if (!t || t->format != LS_I32 || t->rank != 1 || t->shape[0] < 1)
        LS_FAIL(e, LS_NOT_FOUND, "\"%s\" has no %s of I32; make it with tools/dump_reference.py MODEL OUT.safetensors --prompt TEXT -n 32", file, name);
    if (t->shape[0] > LS_QUALIFY_MAX_IDS)
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "\"%s\": %s has %lld ids; at most %d are compared", file, name, (long long)t->shape[0], LS_QUALIFY_MAX_IDS);
    *n = (size_t)t->shape[0];
    memcpy(out, t->data, *n * sizeof *out);
    for (size_t i = 0; i < *n; i++)
        if (out[i] < 0 || out[i] >= vocab)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\": %s holds %d; the vocabulary has %lld", file, name, (int)out[i], (long long)vocab);
    return LS_OK;
}

static ls_code read_record(ls_qualify_tokens *t, const char *file, int64_t vocab, ls_error *e) {
    ls_checkpoint *c = NULL;
    char sha[65];
    ls_qualify_prompt *p = t->prompt;
    ls_code rc;
    LS_GOTO(ls_checkpoint_open(&c, file, e));
    LS_GOTO(recorded_ids(c, file, "prompt_ids", vocab, p->ids, &p->n, e));
    LS_GOTO(recorded_ids(c, file, "greedy_ids", vocab, p->want, &p->n_want, e));
    LS_GOTO(ls_checkpoint_bytes_sha256(c, sha, e));
    snprintf(t->reference, sizeof t->reference, "%.300s, sha256 %s", file, sha);
    t->recorded = true;
    t->n = 1;
out:
    ls_checkpoint_close(c);
    return rc;
}

ls_contract ls_qualify_reference_of(ls_contract c) { return c == LS_CONTRACT_EXACT16_KV8 ? c : LS_CONTRACT_EXACT24; }

ls_code ls_qualify_prompts(ls_qualify_tokens *t, const ls_model *m, const char *reference, ls_error *e) {
    if (reference) return read_record(t, reference, ls_model_vocab(m), e);
    t->n = LS_QUALIFY_PROMPTS;
    snprintf(t->reference, sizeof t->reference, "native %s", ls_contract_name(ls_qualify_reference_of(m->contract)));
    for (int i = 0; i < t->n; i++) {
        t->prompt[i].n_want = LS_QUALIFY_TOKENS;
        if (!m->tokenizer) set_ids(&t->prompt[i], i, ls_model_vocab(m));
        else LS_TRY(set_text(&t->prompt[i], m, texts[i], e));
    }
    return LS_OK;
}

/* ---- Running -------------------------------------------------------------------------------------------------------------- */

/* What one executor made of each request. */
typedef struct outcome {
    uint64_t id;
    int32_t ids[LS_QUALIFY_MAX_IDS];
    size_t n;
    char sha[65];
} outcome;

static void collect(ls_session *s, outcome *out, int n) {
    ls_event event;
    while (ls_session_next_event(s, &event))
        for (int i = 0; i < n; i++) {
            if (out[i].id != event.id) continue;
            if (event.finish) memcpy(out[i].sha, event.logits_sha256, sizeof out[i].sha);
            else out[i].ids[out[i].n++] = event.token;
        }
}

static ls_code submit(ls_model *m, ls_session *s, const ls_qualify_prompt *p, uint64_t *id, ls_error *e) {
    ls_request r = {.struct_size = sizeof r, .max_new = (int)p->n_want, .ignore_eos = true, .hash_logits = true};
    ls_prepared_prefill *seen = NULL;
    if (p->seen) {
        LS_TRY(ls_model_prepare(&seen, m, p->seen, e));
        r.prepared = seen;
    } else {
        r.prompt = p->ids;
        r.n_prompt = p->n;
    }
    ls_code rc = ls_session_submit(s, &r, id, e);
    ls_prepared_destroy(seen);
    return rc;
}

static ls_code run_requests(const ls_qualify_tokens *t, ls_model *m, ls_session *s, outcome *out, int n, ls_error *e) {
    for (int i = 0; i < n; i++) {
        out[i] = (outcome){0};
        LS_TRY(submit(m, s, &t->prompt[i % t->n], &out[i].id, e));
    }
    while (!ls_session_is_idle(s)) {
        LS_TRY(ls_session_step(s, e));
        collect(s, out, n);
    }
    return LS_OK;
}

/* Opens the model as |mo| says and runs |n| requests on as many slots as that has. */
static ls_code run_model(const ls_qualify_tokens *t, const char *path, const ls_model_options *mo, outcome *out, int n, ls_error *e) {
    ls_model *m = NULL;
    ls_session *s = NULL;
    ls_code rc;
    LS_GOTO(ls_model_open(&m, path, mo, e));
    LS_GOTO(ls_session_create(&s, m, e));
    LS_GOTO(run_requests(t, m, s, out, n, e));
out:
    ls_session_destroy(s);
    ls_model_destroy(m);
    return rc;
}

/* ---- Comparing ------------------------------------------------------------------------------------------------------------- */

static void compare(ls_qualify_tokens *t, const char *how, const outcome *out, const outcome *native, int n) {
    for (int i = 0; i < n; i++) {
        const ls_qualify_prompt *p = &t->prompt[i % t->n];
        for (size_t k = 0; k < p->n_want; k++, t->compared++)
            if (!t->first[0] && (k >= out[i].n || out[i].ids[k] != p->want[k]))
                snprintf(t->first, sizeof t->first, "prompt %d %s, token %zu: %d, the reference has %d", i % t->n, how, k,
                         k < out[i].n ? (int)out[i].ids[k] : -1, (int)p->want[k]);
        if (!native || !strcmp(out[i].sha, native[i % t->n].sha)) continue;
        t->bits_equal = false;
        if (!t->first[0]) snprintf(t->first, sizeof t->first, "prompt %d %s: logits are not the native executor's, bit for bit", i % t->n, how);
    }
}

static int context_of(const ls_qualify_tokens *t, int64_t max_context) {
    size_t need = 1;
    for (int i = 0; i < t->n; i++)
        if (t->prompt[i].n + t->prompt[i].n_want > need) need = t->prompt[i].n + t->prompt[i].n_want;
    int64_t context = (int64_t)((need + CONTEXT_STEP - 1) / CONTEXT_STEP * CONTEXT_STEP);
    return (int)(max_context > 0 && max_context < context ? max_context : context);
}

/* The reference's tokens where no file gave them, and under an exact contract the native executor's logits. */
static ls_code run_native(ls_qualify_tokens *t, const char *path, ls_model_options mo, ls_contract contract, bool wanted, outcome *out, ls_error *e) {
    mo.contract = ls_contract_name(contract);
    LS_TRY(run_model(t, path, &mo, out, t->n, e));
    if (t->recorded || !wanted) return LS_OK;
    for (int i = 0; i < t->n; i++) memcpy(t->prompt[i].want, out[i].ids, out[i].n * sizeof *out[i].ids);
    return LS_OK;
}

static void stage(const ls_qualify_options *o, const char *detail, int done) {
    ls_verify_stage s = {.name = "tokens", .detail = detail, .done = done, .total = 4, .begins = !done};
    if (o->stage) o->stage(o->stage_user, &s);
}

static ls_code run_all(ls_qualify_tokens *t, const char *path, const ls_qualify_options *o, ls_contract contract, int64_t max_context, outcome *native,
                       outcome *out, ls_error *e) {
    bool exact = contract != LS_CONTRACT_FLOAT;
    ls_model_options mo = {.struct_size = sizeof mo, .context = context_of(t, max_context), .slots = 1};
    stage(o, "native", 0);
    ls_contract reference = ls_qualify_reference_of(contract);
    if (!t->recorded || contract == reference) LS_TRY(run_native(t, path, mo, reference, true, native, e));
    if (exact && contract != reference) LS_TRY(run_native(t, path, mo, contract, false, native, e));
    ls_model_options judged = o->model;
    judged.struct_size = sizeof judged;
    judged.parts = LS_LOAD_ALL;
    judged.backend = "xla";
    judged.allow_unqualified = true;
    judged.context = mo.context;
    judged.buckets = NULL;
    t->bits_known = exact;
    t->bits_equal = exact;
    stage(o, "alone", 1);
    judged.slots = 1;
    LS_TRY(run_model(t, path, &judged, out, t->n, e));
    compare(t, "alone", out, exact ? native : NULL, t->n);
    stage(o, "in a batch of 4", 2);
    judged.slots = LS_QUALIFY_PROMPTS;
    LS_TRY(run_model(t, path, &judged, out, LS_QUALIFY_PROMPTS, e));
    compare(t, "in a batch of 4", out, exact ? native : NULL, LS_QUALIFY_PROMPTS);
    stage(o, "done", 4);
    return LS_OK;
}

ls_code ls_qualify_run_tokens(ls_qualify_tokens *t, const char *path, const ls_qualify_options *o, ls_contract contract, int64_t max_context, ls_error *e) {
    outcome *all;
    LS_TRY(ls_calloc(&all, 2 * LS_QUALIFY_PROMPTS, sizeof *all, "outcomes", e));
    ls_code rc = run_all(t, path, o, contract, max_context, all, all + LS_QUALIFY_PROMPTS, e);
    ls_free(all);
    return rc;
}
