/* An executor for scheduler tests: logits are a deterministic function of the sequence's tokens alone, forward passes are
 * recorded, and failures can be ordered. */
#ifndef LS_TESTS_SESSION_FAKE_EXECUTOR_H
#define LS_TESTS_SESSION_FAKE_EXECUTOR_H

#include "graph/executor.h"

enum { FAKE_SLOTS = 8, FAKE_CONTEXT = 256, FAKE_VOCAB = 97, FAKE_CALLS = 4096 };

typedef struct fake_executor {
    ls_executor base;
    int32_t tokens[FAKE_SLOTS][FAKE_CONTEXT];
    int length[FAKE_SLOTS];
    int context, max_rows;
    int fail_after; /* the forward pass with this index fails; -1: none */
    int n_calls;
    int rows_of_call[FAKE_CALLS];
    int first_slot_of_call[FAKE_CALLS];
} fake_executor;

void fake_init(fake_executor *f, int max_rows);

/* The logits after tokens[n]: what the session must see whatever the batch. */
void fake_logits(const int32_t *tokens, int n, float *logits);

#endif
