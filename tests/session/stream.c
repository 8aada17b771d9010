/* Requests on fixtures: see stream.h. */
#include "stream.h"

#include <stdio.h>
#include <string.h>

void stream_append(stream *s, uint32_t seed, size_t n, int64_t vocab) {
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        s->prompt[s->n_prompt++] = (int32_t)((state >> 33) % (uint64_t)vocab);
    }
}

ls_model *stream_model(const char *name, const char *contract, const char *backend, int slots, int chunk) {
    char path[512];
    ls_error e = {0};
    ls_model *m = NULL;
    snprintf(path, sizeof path, "%s/models/%s", LS_FIXTURES, name);
    ls_model_options o = {.struct_size = sizeof o, .contract = contract, .backend = backend, .threads = 1, .slots = slots, .chunk = chunk};
    assert_ok(ls_model_open(&m, path, &o, &e));
    return m;
}

void stream_submit(ls_session *session, stream *s) {
    ls_error e = {0};
    s->sampling.struct_size = sizeof s->sampling;
    ls_request r = {.struct_size = sizeof r, .prompt = s->prompt, .n_prompt = s->n_prompt, .max_new = s->max_new, .sampling = &s->sampling,
                    .ignore_eos = s->ignore_eos, .hash_logits = true};
    s->n = 0;
    s->finish = LS_FINISH_NONE;
    assert_ok(ls_session_submit(session, &r, &s->id, &e));
}

void stream_collect(ls_session *session, stream *s, size_t n) {
    ls_event event;
    while (ls_session_next_event(session, &event))
        for (size_t i = 0; i < n; i++) {
            if (s[i].id != event.id) continue;
            assert_int_equal(s[i].finish, LS_FINISH_NONE);
            s[i].finish = event.finish;
            if (event.finish) memcpy(s[i].sha, event.logits_sha256, sizeof s[i].sha);
            else s[i].out[s[i].n++] = event.token;
            assert_int_equal(event.n_output, s[i].n);
        }
}

void stream_run(ls_session *session, stream *s, size_t n) {
    ls_error e = {0};
    while (!ls_session_is_idle(session)) {
        assert_ok(ls_session_step(session, &e));
        stream_collect(session, s, n);
    }
}

void stream_same(const char *what, const stream *want, const stream *got) {
    if (want->finish != got->finish || want->n != got->n || memcmp(want->out, got->out, want->n * sizeof *want->out))
        fail_msg("%s: other tokens (%zu, %s; wanted %zu, %s)", what, got->n, ls_finish_name(got->finish), want->n, ls_finish_name(want->finish));
    if (strcmp(want->sha, got->sha)) fail_msg("%s: the same tokens from other logits", what);
}
