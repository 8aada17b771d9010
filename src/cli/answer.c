/* Running one request and showing its text. */
#include "cli/answer.h"

#include <signal.h>
#include <string.h>

enum { MAX_ANSWER = 1 << 24 };

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal) {
    (void)signal;
    interrupted = 1;
}

/* What runs in the background of a script ignores the interrupt, which is meant for the script's other parts. */
void answer_catch_interrupt(void) {
    struct sigaction action = {.sa_handler = on_interrupt}, before;
    if (!sigaction(SIGINT, NULL, &before) && before.sa_handler == SIG_IGN) return;
    sigaction(SIGINT, &action, NULL);
}

bool answer_interrupted(void) { return interrupted; }

void answer_deinit(answer *a) {
    ls_free(a->ids);
    ls_str_deinit(&a->text);
    *a = (answer){0};
}

static ls_code show(answer *a, FILE *stream, const char *piece, size_t len, ls_error *e) {
    LS_TRY(ls_str_append(&a->text, piece, len, e));
    if (stream && len && (fwrite(piece, 1, len, stream) != len || fflush(stream))) LS_FAIL(e, LS_UNAVAILABLE, "cannot write the answer to standard output");
    return LS_OK;
}

static ls_code take_token(answer *a, int32_t token, ls_text *text, FILE *stream, bool *stopped, ls_error *e) {
    LS_TRY(ls_grow(&a->ids, a->n, &a->cap, sizeof *a->ids, MAX_ANSWER, "answer", e));
    a->ids[a->n++] = token;
    if (!text) return LS_OK;
    const char *piece;
    size_t len;
    LS_TRY(ls_text_push(text, token, &piece, &len, stopped, e));
    return show(a, stream, piece, len, e);
}

/* Takes the events of one step. Tokens after a stop string are dropped. */
static ls_code take_events(ls_session *s, answer *a, ls_text *text, FILE *stream, bool *stopped, ls_error *e) {
    ls_event event;
    ls_code rc = LS_OK;
    while (ls_session_next_event(s, &event)) {
        if (event.finish) {
            a->finish = *stopped ? "stop" : ls_finish_name(event.finish);
            memcpy(a->logits_sha256, event.logits_sha256, sizeof a->logits_sha256);
        } else if (!*stopped && !rc) {
            rc = take_token(a, event.token, text, stream, stopped, e);
        }
    }
    return rc;
}

ls_code answer_run(ls_session *s, const ls_request *r, ls_text *text, FILE *stream, answer *out, ls_error *e) {
    uint64_t id;
    bool stopped = false;
    interrupted = 0;
    LS_TRY(ls_str_append(&out->text, "", 0, e));
    LS_TRY(ls_session_submit(s, r, &id, e));
    ls_code rc = LS_OK;
    while (!rc && !ls_session_is_idle(s)) {
        rc = ls_session_step(s, e);
        ls_code taken = take_events(s, out, text, stream, &stopped, rc ? NULL : e);
        if (!rc) rc = taken;
        out->interrupted = interrupted;
        if (rc || stopped || interrupted) ls_session_cancel(s, id);
    }
    take_events(s, out, NULL, NULL, &stopped, NULL);
    if (rc || !text) return rc;
    const char *piece;
    size_t len;
    LS_TRY(ls_text_flush(text, &piece, &len, e));
    return show(out, stream, piece, len, e);
}
