/* Requests on models of fixtures/models through the public API, for tests that compare what sessions with different options make of
 * them: tokens, and the SHA-256 of all logits. */
#ifndef LS_TESTS_SESSION_STREAM_H
#define LS_TESTS_SESSION_STREAM_H

#include "test.h"

#include "session/bundle.h"

enum { STREAM_TOKENS = 400, STREAM_OUT = 64 };

/* One request and what came of it. */
typedef struct stream {
    int32_t prompt[STREAM_TOKENS];
    size_t n_prompt;
    int max_new;
    ls_sampling sampling;
    bool ignore_eos;
    uint64_t id;
    int32_t out[STREAM_OUT];
    size_t n;
    ls_finish finish;
    char sha[65];
} stream;

/* Appends |n| tokens of a fixed pseudo-random sequence that |seed| names to the prompt. */
void stream_append(stream *s, uint32_t seed, size_t n, int64_t vocab);

/* Opens fixtures/models/|name| on |backend|. */
ls_model *stream_model(const char *name, const char *contract, const char *backend, int slots, int chunk);

void stream_submit(ls_session *session, stream *s);

/* Takes the waiting events into s[n]. */
void stream_collect(ls_session *session, stream *s, size_t n);

/* Steps until the session is idle. */
void stream_run(ls_session *session, stream *s, size_t n);

/* Tokens, finish and hash of logits must be equal; |what| is for the message. */
void stream_same(const char *what, const stream *want, const stream *got);

#endif
