/* Scheduler of a session: FIFO admission into free slots in index order, then one batched decode pass. */
#include "session/session.h"

#include <string.h>
#include <time.h>

#include "base/sha256.h"
#include "session/drafter.h"
#include "session/prefix_cache.h"
#include "session/prepared.h"

/* A request from submission to its last event. */
typedef struct request {
    struct request *next;     /* in the queue */
    uint64_t id;
    int32_t *tokens;          /* [n_prompt + max_new]: the prompt, then the output */
    size_t n_prompt, n, limit;/* limit = n_prompt + max_new */
    size_t stored;            /* the slot holds keys and values of tokens[0 .. stored) */
    ls_prepared_prefill *prepared; /* held until the slot holds the prompt; NULL: none */
    ls_prefix_extra *extra;   /* [n_extra] what entered beside the tokens */
    size_t n_extra;
    size_t width;             /* guesses of the next pass: what paid lately */
    bool ignore_eos, hash_logits;
    ls_sampler_params params;
    ls_sha256 sha;
} request;

/* At most a first token, a decoded token, one per guess and a finish per slot and step. */
enum { EVENTS_PER_SLOT = 3, HASH_CHUNK = 256 };

struct ls_session {
    ls_session_config c;
    int32_t *eos;
    request **active;         /* [slots]; NULL: free */
    request *head, *tail;     /* waiting */
    size_t n_waiting, n_active;
    uint64_t next_id;
    ls_event *events;         /* [cap_events]; first .. n_events are waiting */
    size_t first_event, n_events, cap_events;
    ls_sampler sampler;
    float *logits;            /* [out_rows, vocab] */
    size_t rows, out_rows;    /* of one pass; those of them whose logits may be wanted */
    int32_t *row_token, *row_slot, *row_out; /* [rows] */
    ls_drafter *drafter;      /* NULL: none */
    ls_draft *draft;          /* [slots] of the pass under way; |made| is 0 where nothing was guessed */
    ls_timings timings;
    ls_statistics statistics;
    ls_prefix_cache *prefix;  /* NULL: none */
    ls_str folder, note;      /* of the prefix cache; note: why its file was ignored */
};

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- Creation ---------------------------------------------------------------------------------------------------- */

static ls_prepared_limits limits_of(const ls_session *s) {
    int rows = s->c.chunk > s->c.slots ? s->c.chunk : s->c.slots;
    return (ls_prepared_limits){.hidden = s->c.hidden, .vocab = s->c.vocab, .context = s->c.context, .max_rows = s->c.max_rows ? s->c.max_rows : rows};
}

static ls_code allocate(ls_session *s, ls_error *e) {
    const ls_session_config *c = &s->c;
    size_t rows = (size_t)limits_of(s).max_rows, n_logits = 0, guessed = (size_t)c->slots * (1 + (size_t)c->guesses);
    s->rows = rows;
    s->out_rows = guessed < rows ? guessed : rows;
    if (!ls_size_mul(s->out_rows, (size_t)c->vocab, &n_logits))
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%zu rows of %lld logits", s->out_rows, (long long)c->vocab);
    LS_TRY(ls_calloc(&s->draft, (size_t)c->slots, sizeof *s->draft, "guesses", e));
    LS_TRY(ls_calloc(&s->eos, c->n_eos, sizeof *s->eos, "end-of-sequence ids", e));
    if (c->n_eos) memcpy(s->eos, c->eos, c->n_eos * sizeof *s->eos);
    LS_TRY(ls_calloc(&s->active, (size_t)c->slots, sizeof(request *), "slots", e));
    LS_TRY(ls_calloc(&s->logits, n_logits, sizeof *s->logits, "logits", e));
    LS_TRY(ls_calloc(&s->row_token, rows, sizeof *s->row_token, "batch rows", e));
    LS_TRY(ls_calloc(&s->row_slot, rows, sizeof *s->row_slot, "batch rows", e));
    LS_TRY(ls_calloc(&s->row_out, rows, sizeof *s->row_out, "batch rows", e));
    return ls_sampler_init(&s->sampler, (size_t)c->vocab, e);
}

/* A damaged file is as good as none, but somebody should know. */
static ls_code open_prefix(ls_session *s, ls_error *e) {
    ls_error why = {0};
    LS_TRY(ls_prefix_create(&s->prefix, s->c.executor, s->c.prefix_bytes, s->c.identity ? s->c.identity : "", e));
    if (!s->c.prefix_folder) return LS_OK;
    LS_TRY(ls_str_append(&s->folder, s->c.prefix_folder, SIZE_MAX, e));
    ls_code rc = ls_prefix_load(s->prefix, s->folder.data, &why);
    if (rc == LS_DATA_LOSS) return ls_str_printf(&s->note, e, "the prefix cache is ignored: %s", why.text);
    if (!rc || rc == LS_NOT_FOUND) return LS_OK;
    LS_FAIL(e, rc, "%s", why.text);
}

ls_code ls_session_create_on(ls_session **out, const ls_session_config *c, ls_error *e) {
    if (c->slots < 1 || c->slots > LS_MAX_SLOTS) LS_FAIL(e, LS_INVALID_ARGUMENT, "%d slots; allowed are 1 to %d", c->slots, LS_MAX_SLOTS);
    if (c->chunk < 1 || c->chunk > LS_MAX_CHUNK) LS_FAIL(e, LS_INVALID_ARGUMENT, "chunk of %d rows; allowed are 1 to %d", c->chunk, LS_MAX_CHUNK);
    if (c->guesses < 0 || c->guesses > LS_MAX_GUESSES) LS_FAIL(e, LS_INVALID_ARGUMENT, "%d guesses a pass; allowed are 1 to %d", c->guesses, LS_MAX_GUESSES);
    if (c->in_use && *c->in_use) LS_FAIL(e, LS_FAILED_PRECONDITION, "the model already has a session; destroy that one first");
    ls_session *s;
    LS_TRY(ls_calloc(&s, 1, sizeof *s, "session", e));
    s->c = *c;
    s->c.in_use = NULL;
    s->next_id = 1;
    ls_code rc = allocate(s, e);
    if (!rc && c->prefix_bytes) rc = open_prefix(s, e);
    if (!rc && c->drafter) rc = ls_drafter_create(&s->drafter, c->drafter, e);
    if (rc) {
        ls_session_destroy(s);
        return rc;
    }
    s->c.in_use = c->in_use;
    if (s->c.in_use) *s->c.in_use = true;
    *out = s;
    return LS_OK;
}

static void free_request(request *r) {
    if (!r) return;
    ls_prepared_destroy(r->prepared);
    ls_free(r->extra);
    ls_free(r->tokens);
    ls_free(r);
}

void ls_session_destroy(ls_session *s) {
    if (!s) return;
    for (int i = 0; s->active && i < s->c.slots; i++)
        if (s->active[i]) {
            s->c.executor->truncate(s->c.executor, i, 0);
            free_request(s->active[i]);
        }
    for (request *r = s->head, *next; r; r = next) {
        next = r->next;
        free_request(r);
    }
    if (s->c.in_use) *s->c.in_use = false;
    ls_drafter_destroy(s->drafter);
    ls_free(s->draft);
    ls_prefix_destroy(s->prefix);
    ls_str_deinit(&s->folder);
    ls_str_deinit(&s->note);
    ls_sampler_deinit(&s->sampler);
    ls_free(s->eos);
    ls_free(s->active);
    ls_free(s->events);
    ls_free(s->logits);
    ls_free(s->row_token);
    ls_free(s->row_slot);
    ls_free(s->row_out);
    ls_free(s);
}

/* ---- Submission -------------------------------------------------------------------------------------------------- */

ls_code ls_session_check_prepared(const ls_session *s, ls_prepared_prefill *p, int max_new, ls_prepared_fault *why, ls_error *e) {
    ls_prepared_fault unused;
    ls_prepared_limits l = limits_of(s);
    if (!why) why = &unused;
    *why = LS_PREPARED_FINE;
    if (!s->c.hidden)
        LS_FAIL(e, LS_UNIMPLEMENTED,
                "this session takes token ids only; prepared embeddings (images, audio) are not supported by this model and runtime bundle");
    if (max_new < 1) LS_FAIL(e, LS_INVALID_ARGUMENT, "max_new is %d; ask for at least one new token", max_new);
    return ls_prepared_admit(p, &l, max_new, why, e);
}

static ls_code check_tokens(const ls_session *s, const ls_request *r, ls_error *e) {
    if (!r->n_prompt || !r->prompt) LS_FAIL(e, LS_INVALID_ARGUMENT, "the prompt is empty; give at least one token");
    if (r->max_new < 1) LS_FAIL(e, LS_INVALID_ARGUMENT, "max_new is %d; ask for at least one new token", r->max_new);
    size_t total = 0;
    if (!ls_size_add(r->n_prompt, (size_t)r->max_new, &total) || total > (size_t)s->c.context)
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED,
                "prompt of %zu tokens + %d new tokens is more than the context of %d positions; shorten the prompt, ask for fewer tokens or raise "
                "the context size",
                r->n_prompt, r->max_new, s->c.context);
    for (size_t i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] < 0 || r->prompt[i] >= s->c.vocab)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "prompt token %zu is %d; the vocabulary has ids 0 to %lld", i, (int)r->prompt[i], (long long)s->c.vocab - 1);
    return LS_OK;
}

static ls_code check_request(const ls_session *s, const ls_request *r, ls_error *e) {
    if (r->prepared && s->c.hidden && (r->prompt || r->n_prompt))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "the request has a prompt and a prepared prefill; give one of them");
    LS_TRY(r->prepared ? ls_session_check_prepared(s, r->prepared, r->max_new, NULL, e) : check_tokens(s, r, e));
    if (s->n_waiting >= LS_MAX_QUEUED) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%zu requests are waiting, the most allowed; try again later", s->n_waiting);
    return LS_OK;
}

/* Most events of one step that does not admit a request of the queue. */
static size_t events_of_slots(const ls_session *s) { return (size_t)s->c.slots * (EVENTS_PER_SLOT + (size_t)s->c.guesses); }

/* Room for every event that can arise before the caller drains again: a whole step, and a cancellation of every live
 * request. Done at submission so that steps and cancellations never allocate. */
static ls_code reserve_events(ls_session *s, ls_error *e) {
    size_t need = s->n_events + events_of_slots(s) + s->n_waiting + s->n_active + 1;
    if (need <= s->cap_events) return LS_OK;
    LS_TRY(ls_realloc(&s->events, need * 2, sizeof *s->events, "events", e));
    s->cap_events = need * 2;
    return LS_OK;
}

/* The admitted payload, and what of it the prefix cache must know after it is gone. */
static ls_code take_prepared(request *r, ls_prepared_prefill *p, ls_error *e) {
    LS_TRY(ls_calloc(&r->extra, p->n_extra, sizeof *r->extra, "request", e));
    for (size_t i = 0; i < p->n_extra; i++) {
        r->extra[i].position = p->extra[i].position;
        memcpy(r->extra[i].sha256, p->extra[i].sha256, sizeof r->extra[i].sha256);
    }
    r->n_extra = p->n_extra;
    ls_prepared_hold(p);
    r->prepared = p;
    return LS_OK;
}

static ls_code new_request(request **out, const ls_request *given, ls_error *e) {
    request *r;
    LS_TRY(ls_calloc(&r, 1, sizeof *r, "request", e));
    const int32_t *prompt = given->prepared ? given->prepared->token : given->prompt;
    ls_code rc = ls_sampler_prepare(&r->params, given->sampling, e);
    r->n_prompt = r->n = given->prepared ? given->prepared->n : given->n_prompt;
    r->limit = r->n_prompt + (size_t)given->max_new;
    r->width = LS_MAX_GUESSES;
    r->ignore_eos = given->ignore_eos;
    r->hash_logits = given->hash_logits;
    ls_sha256_init(&r->sha);
    if (!rc) rc = ls_calloc(&r->tokens, r->limit, sizeof *r->tokens, "request tokens", e);
    if (!rc && given->prepared) rc = take_prepared(r, given->prepared, e);
    if (rc) {
        free_request(r);
        return rc;
    }
    memcpy(r->tokens, prompt, r->n_prompt * sizeof *r->tokens);
    *out = r;
    return LS_OK;
}

ls_code ls_session_submit(ls_session *s, const ls_request *given, uint64_t *id, ls_error *e) {
    ls_request asked = {0};
    if (!given->struct_size) LS_FAIL(e, LS_INVALID_ARGUMENT, "struct_size of the request is 0; set it to sizeof(ls_request)");
    memcpy(&asked, given, given->struct_size < sizeof asked ? given->struct_size : sizeof asked);
    request *r;
    LS_TRY(check_request(s, &asked, e));
    LS_TRY(reserve_events(s, e));
    LS_TRY(new_request(&r, &asked, e));
    ls_code rc = ls_sampler_reserve(&s->sampler, &r->params, e);
    if (!rc && s->drafter) rc = ls_drafter_reserve(s->drafter, &r->params, e);
    if (rc) {
        free_request(r);
        return rc;
    }
    r->id = s->next_id++;
    if (s->tail) s->tail->next = r;
    else s->head = r;
    s->tail = r;
    s->n_waiting++;
    *id = r->id;
    return LS_OK;
}

/* ---- Events ------------------------------------------------------------------------------------------------------- */

static ls_event *add_event(ls_session *s, const request *r) {
    ls_event *event = &s->events[s->n_events++];
    *event = (ls_event){.id = r->id, .token = -1, .n_output = r->n - r->n_prompt};
    return event;
}

static void finish(ls_session *s, request *r, ls_finish why) {
    ls_event *event = add_event(s, r);
    event->finish = why;
    if (r->hash_logits) {
        uint8_t digest[32];
        ls_sha256_final(&r->sha, digest);
        ls_sha256_hex(digest, event->logits_sha256);
    }
    free_request(r);
}

static ls_prefix_sequence sequence_of(const request *r, size_t n) {
    return (ls_prefix_sequence){.token = r->tokens, .n = n, .extra = r->extra, .n_extra = r->n_extra};
}

/* Keeps what the slot holds for later prompts that begin alike. */
static void keep_prefix(ls_session *s, int slot) {
    const request *r = s->active[slot];
    ls_prefix_sequence held = sequence_of(r, r->stored);
    if (s->prefix) ls_prefix_insert(s->prefix, slot, &held);
}

static void leave_slot(ls_session *s, int slot, ls_finish why) {
    request *r = s->active[slot];
    if (why != LS_FINISH_ERROR) keep_prefix(s, slot);
    s->active[slot] = NULL;
    s->n_active--;
    s->c.executor->truncate(s->c.executor, slot, 0);
    if (s->drafter) ls_drafter_keep(s->drafter, slot, 0);
    finish(s, r, why);
}

bool ls_session_next_event(ls_session *s, ls_event *event) {
    if (s->first_event == s->n_events) return false;
    *event = s->events[s->first_event++];
    if (s->first_event == s->n_events) s->first_event = s->n_events = 0;
    return true;
}

bool ls_session_cancel(ls_session *s, uint64_t id) {
    for (int i = 0; i < s->c.slots; i++)
        if (s->active[i] && s->active[i]->id == id) {
            leave_slot(s, i, LS_FINISH_CANCELLED);
            return true;
        }
    request *before = NULL;
    for (request *r = s->head; r; before = r, r = r->next)
        if (r->id == id) {
            if (before) before->next = r->next;
            else s->head = r->next;
            if (s->tail == r) s->tail = before;
            s->n_waiting--;
            finish(s, r, LS_FINISH_CANCELLED);
            return true;
        }
    return false;
}

/* ---- Steps --------------------------------------------------------------------------------------------------------- */

/* The bytes that are hashed are little-endian on every machine. */
static void hash_row(request *r, const float *logits, size_t n) {
    uint8_t bytes[HASH_CHUNK * 4];
    for (size_t begin = 0; begin < n; begin += HASH_CHUNK) {
        size_t count = n - begin < HASH_CHUNK ? n - begin : HASH_CHUNK;
        for (size_t i = 0; i < count; i++) {
            uint32_t v;
            memcpy(&v, logits + begin + i, sizeof v);
            for (int b = 0; b < 4; b++) bytes[4 * i + (size_t)b] = (uint8_t)(v >> (8 * b));
        }
        ls_sha256_update(&r->sha, bytes, count * 4);
    }
}

static bool is_eos(const ls_session *s, int32_t token) {
    for (size_t i = 0; i < s->c.n_eos; i++)
        if (s->eos[i] == token) return true;
    return false;
}

/* Samples from one row of logits [vocab] and moves the request of |slot| on. Stopping wins over reaching the length. */
static void advance(ls_session *s, int slot, const float *logits) {
    request *r = s->active[slot];
    if (r->hash_logits) hash_row(r, logits, (size_t)s->c.vocab);
    int32_t token = ls_sampler_next(&s->sampler, &r->params, logits, r->tokens, r->n);
    if (!r->ignore_eos && is_eos(s, token)) {
        leave_slot(s, slot, LS_FINISH_STOP);
        return;
    }
    r->tokens[r->n++] = token;
    add_event(s, r)->token = token;
    if (r->n == r->limit) leave_slot(s, slot, LS_FINISH_LENGTH);
}

/* Begins |slot| with what is kept of the prompt, except its last token, whose logits are wanted. */
static ls_code reuse_prefix(ls_session *s, int slot, ls_error *e) {
    request *r = s->active[slot];
    if (!s->prefix) return LS_OK;
    ls_prefix_sequence wanted = sequence_of(r, r->n_prompt);
    LS_TRY(ls_prefix_attach(s->prefix, slot, &wanted, r->n_prompt - 1, &r->stored, e));
    s->statistics.reused_tokens += r->stored;
    return LS_OK;
}

/* Feeds the rest of the prompt of |slot| in chunks that split no image block; the logits of its last row end in s->logits. The payload
 * of a prepared prompt is not needed after that. */
static ls_code prefill(ls_session *s, int slot, ls_error *e) {
    request *r = s->active[slot];
    ls_executor *x = s->c.executor;
    if (x->reserve) LS_TRY(x->reserve(x, slot, (int)r->limit, e));
    LS_TRY(reuse_prefix(s, slot, e));
    for (size_t begin = r->stored, count; begin < r->n_prompt; begin += count) {
        count = r->n_prompt - begin < (size_t)s->c.chunk ? r->n_prompt - begin : (size_t)s->c.chunk;
        if (r->prepared) count = ls_prepared_piece(r->prepared, begin, count);
        for (size_t i = 0; i < count; i++) s->row_slot[i] = slot;
        s->row_out[0] = (int32_t)count - 1;
        ls_batch batch = {.n_rows = (int)count, .token = r->tokens + begin, .slot = s->row_slot, .n_out = begin + count == r->n_prompt, .out_row = s->row_out};
        if (r->prepared) {
            batch.embedding = r->prepared->row + begin;
            batch.block = r->prepared->span + begin;
        }
        LS_TRY(x->forward(x, &batch, s->logits, e));
        r->stored = begin + count;
        s->timings.prefill_tokens += count;
    }
    keep_prefix(s, slot);
    ls_prepared_destroy(r->prepared);
    r->prepared = NULL;
    return LS_OK;
}

static ls_code admit_one(ls_session *s, int slot, ls_error *e) {
    request *r = s->head;
    s->head = r->next;
    if (!s->head) s->tail = NULL;
    r->next = NULL;
    s->n_waiting--;
    s->active[slot] = r;
    s->n_active++;
    uint64_t begin = now_ns(), id = r->id;
    ls_code rc = prefill(s, slot, e);
    if (rc) {
        leave_slot(s, slot, LS_FINISH_ERROR);
        return ls_error_wrap(e, rc, "request %llu", (unsigned long long)id);
    }
    advance(s, slot, s->logits);
    s->timings.prefill_ns += now_ns() - begin;
    return LS_OK;
}

/* Guesses for every active slot, behind the tokens of its request: from the request itself, else by the drafter. A pass has room for
 * s->rows rows, and a request for its last token, which needs no row. */
static ls_code guess(ls_session *s, ls_error *e) {
    for (int slot = 0; slot < s->c.slots; slot++) {
        const request *r = s->active[slot];
        ls_draft *d = &s->draft[slot];
        *d = (ls_draft){.slot = slot};
        if (!r || !s->c.guesses) continue;
        size_t room = s->rows / s->n_active - 1, left = r->limit - r->n - 1;
        *d = (ls_draft){.slot = slot, .token = r->tokens, .n = r->n, .most = (size_t)s->c.guesses, .params = &r->params};
        if (d->most > r->width) d->most = r->width;
        if (d->most > room) d->most = room;
        if (d->most > left) d->most = left;
        if (s->c.lookup) d->made = ls_lookup(d->token, d->n, d->most);
        if (d->made) d->most = 0;
    }
    return s->drafter && s->c.guesses ? ls_drafter_run(s->drafter, s->draft, s->c.slots, e) : LS_OK;
}

/* One row for the newest token of each active slot, and one for each guess; returns their number. */
static int fill_rows(ls_session *s) {
    int n = 0;
    for (int slot = 0; slot < s->c.slots; slot++) {
        const request *r = s->active[slot];
        for (size_t i = 0; r && i <= s->draft[slot].made; i++) {
            s->row_token[n] = r->tokens[r->n - 1 + i];
            s->row_slot[n] = slot;
            s->row_out[n] = n;
            n++;
        }
    }
    return n;
}

/* Takes the tokens that |logits| [1 + made, vocab] give: the row behind the newest token, and each further row while the guess it was fed
 * was right. What the slot stored beyond them is dropped, and a request that guesses badly guesses less. */
static void take_rows(ls_session *s, int slot, const float *logits) {
    request *r = s->active[slot];
    size_t made = s->draft[slot].made, right = 0;
    for (;; right++) {
        int32_t guessed = right < made ? r->tokens[r->n] : -1;
        r->stored = r->n;
        advance(s, slot, logits + right * (size_t)s->c.vocab);
        s->timings.decode_tokens++;
        if (!s->active[slot] || right == made || r->tokens[r->n - 1] != guessed) break;
    }
    s->statistics.drafted += made;
    s->statistics.accepted += right;
    if (!s->active[slot]) return;
    if (right < made) s->c.executor->truncate(s->c.executor, slot, (int)r->stored);
    if (s->drafter) ls_drafter_keep(s->drafter, slot, r->stored);
    if (made) r->width = right == made ? 2 * made : right + 1;
}

static ls_code decode(ls_session *s, ls_error *e) {
    if (!s->n_active) return LS_OK;
    uint64_t begin = now_ns();
    ls_code rc = guess(s, e);
    int n = rc ? 0 : fill_rows(s);
    ls_batch batch = {.n_rows = n, .token = s->row_token, .slot = s->row_slot, .n_out = n, .out_row = s->row_out};
    if (!rc) rc = s->c.executor->forward(s->c.executor, &batch, s->logits, e);
    const float *logits = s->logits;
    for (int slot = 0; slot < s->c.slots; slot++) {
        if (!s->active[slot]) continue;
        if (rc) leave_slot(s, slot, LS_FINISH_ERROR);
        else take_rows(s, slot, logits);
        logits += (1 + s->draft[slot].made) * (size_t)s->c.vocab;
    }
    if (rc) return rc;
    s->statistics.decode_passes++;
    s->timings.decode_ns += now_ns() - begin;
    return LS_OK;
}

ls_code ls_session_step(ls_session *s, ls_error *e) {
    size_t most = events_of_slots(s) + s->n_waiting + s->n_active;
    if (s->cap_events - s->n_events < most && !ls_session_is_idle(s))
        LS_FAIL(e, LS_FAILED_PRECONDITION, "%zu events are waiting; take them with ls_session_next_event before the next step", s->n_events - s->first_event);
    for (int slot = 0; slot < s->c.slots && s->head; slot++)
        if (!s->active[slot]) LS_TRY(admit_one(s, slot, e));
    return decode(s, e);
}

/* ---- Questions ------------------------------------------------------------------------------------------------------ */

ls_capabilities ls_session_capabilities(const ls_session *s) {
    const ls_block_sharing *sharing = s->c.executor->sharing;
    return (ls_capabilities){.batched_serving = s->c.slots > 1, .multimodal = s->c.hidden > 0, .paged_kv = sharing && sharing->paged,
                             .speculative_decode = s->c.guesses > 0};
}
bool ls_session_is_idle(const ls_session *s) { return !s->n_waiting && !s->n_active; }
size_t ls_session_pending(const ls_session *s) { return s->n_waiting; }
size_t ls_session_active(const ls_session *s) { return s->n_active; }
ls_timings ls_session_timings(const ls_session *s) { return s->timings; }
const char *ls_session_note(const ls_session *s) { return s->note.data; }

ls_statistics ls_session_statistics(const ls_session *s) {
    ls_statistics all = s->statistics;
    if (s->prefix) {
        ls_prefix_statistics p = ls_prefix_stats(s->prefix);
        all.prefix_blocks = p.blocks;
        all.prefix_bytes = p.bytes;
        all.prefix_evicted = p.evicted;
    }
    return all;
}

ls_code ls_session_save(ls_session *s, ls_error *e) { return s->folder.data ? ls_prefix_save(s->prefix, s->folder.data, e) : LS_OK; }

const char *ls_finish_name(ls_finish f) {
    static const char *const names[] = {"none", "stop", "length", "cancelled", "error"};
    return (unsigned)f < sizeof names / sizeof *names ? names[f] : "unknown";
}
