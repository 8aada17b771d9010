/* lockstep bench --steps: measurements asked for one by one on standard input, so that another program can take turns with
 * ours while both stay loaded. */
#include <string.h>

#include "cli/bench_steps.h"

enum { LINE = 256, MAX_STEPS = 1 << 20 };

typedef struct steps {
    ls_session *s;
    ls_model *m;
    uint64_t id[LS_MAX_SLOTS], prompts; /* prompts made so far: no two begin alike, so that no cache of prefixes serves one */
    int open, slots, context;
} steps;

static ls_code drain(steps *x, ls_error *e) {
    ls_event event;
    LS_TRY(ls_session_step(x->s, e));
    while (ls_session_next_event(x->s, &event)) continue;
    return LS_OK;
}

static ls_code submit(steps *x, int n, int max_new, uint64_t *id, ls_error *e) {
    int32_t *prompt;
    LS_TRY(ls_calloc(&prompt, (size_t)n, sizeof *prompt, "prompt", e));
    x->prompts++;
    for (int i = 0; i < n; i++) prompt[i] = (int32_t)(((uint64_t)i * 7919 + x->prompts * 104729 + 13) % (uint64_t)ls_model_vocab(x->m));
    ls_request r = {.struct_size = sizeof r, .prompt = prompt, .n_prompt = (size_t)n, .max_new = max_new, .ignore_eos = true};
    ls_code rc = ls_session_submit(x->s, &r, id, e);
    ls_free(prompt);
    return rc;
}

static ls_code close_all(steps *x, ls_error *e) {
    ls_event event;
    for (int i = 0; i < x->open; i++) ls_session_cancel(x->s, x->id[i]);
    x->open = 0;
    while (ls_session_next_event(x->s, &event)) continue;
    while (!ls_session_is_idle(x->s)) LS_TRY(drain(x, e));
    return LS_OK;
}

/* |batch| sequences of |n| tokens that stay and write on request; of one token more for the first they write. */
static ls_code open_all(steps *x, int batch, int n, ls_error *e) {
    LS_TRY(close_all(x, e));
    for (int i = 0; i < batch; i++) {
        LS_TRY(submit(x, n, x->context - n, &x->id[i], e));
        x->open++;
    }
    return drain(x, e);
}

static ls_code prefill(steps *x, int n, ls_error *e) {
    uint64_t id;
    LS_TRY(submit(x, n, 1, &id, e));
    return drain(x, e);
}

static void answer(const char *what, uint64_t tokens, uint64_t ns) {
    printf("{\"%s\": %llu, \"seconds\": %.9f}\n", what, (unsigned long long)tokens, (double)ns * 1e-9);
    fflush(stdout);
}

/* One line of input. */
static ls_code take(steps *x, const char *line, ls_error *e) {
    int n = 0, batch = 0;
    ls_timings before = ls_session_timings(x->s), after;
    if (sscanf(line, "prefill %d", &n) == 1 && n > 0 && n < x->context) {
        if (x->open) LS_FAIL(e, LS_FAILED_PRECONDITION, "bench: sequences are open; send \"close\" before \"prefill\"");
        LS_TRY(prefill(x, n, e));
    } else if (sscanf(line, "open %d %d", &batch, &n) == 2 && batch > 0 && batch <= x->slots && n > 0 && n < x->context) LS_TRY(open_all(x, batch, n, e));
    else if (sscanf(line, "decode %d", &n) == 1 && n > 0 && n <= MAX_STEPS && x->open) {
        for (int i = 0; i < n; i++) LS_TRY(drain(x, e));
        after = ls_session_timings(x->s);
        answer("decoded", after.decode_tokens - before.decode_tokens, after.decode_ns - before.decode_ns);
        return LS_OK;
    } else if (!strncmp(line, "close", 5)) LS_TRY(close_all(x, e));
    else
        LS_FAIL(e, LS_INVALID_ARGUMENT, "bench: \"%.*s\"; use \"prefill N\", \"open SEQUENCES N\", \"decode STEPS\" after it, or \"close\", "
                "within %d sequences and %d positions (--batch, --ctx-size)", (int)strcspn(line, "\n"), line, x->slots, x->context);
    after = ls_session_timings(x->s);
    answer("read", after.prefill_tokens - before.prefill_tokens, after.prefill_ns - before.prefill_ns);
    return LS_OK;
}

ls_code cli_bench_steps(ls_model *m, int slots, int context, ls_error *e) {
    steps x = {.m = m, .slots = slots, .context = context};
    char line[LINE];
    LS_TRY(ls_session_create(&x.s, m, e));
    ls_code rc = LS_OK;
    answer("loaded", 0, 0);
    while (!rc && fgets(line, sizeof line, stdin)) rc = take(&x, line, e);
    ls_session_destroy(x.s);
    return rc;
}
