/* The fake executor: see the header. It checks what a session promises to executors and fails on any breach. */
#include "fake_executor.h"

#include <string.h>

void fake_logits(const int32_t *tokens, int n, float *logits) {
    uint64_t state = 12345;
    for (int i = 0; i < n; i++) state = (state ^ (uint64_t)tokens[i]) * 6364136223846793005u + 1442695040888963407u;
    for (int v = 0; v < FAKE_VOCAB; v++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        logits[v] = (float)(int32_t)(state >> 40) / 1048576.0f;
    }
}

static ls_code forward(ls_executor *x, const ls_batch *b, float *logits, ls_error *e) {
    fake_executor *f = (fake_executor *)x;
    int call = f->n_calls++, out = 0;
    if (call == f->fail_after) LS_FAIL(e, LS_UNAVAILABLE, "ordered failure of call %d", call);
    if (b->n_rows < 1 || b->n_rows > f->max_rows) LS_FAIL(e, LS_INTERNAL, "%d rows of %d", b->n_rows, f->max_rows);
    f->rows_of_call[call] = b->n_rows;
    f->first_slot_of_call[call] = b->slot[0];
    for (int i = 0; i < b->n_rows; i++) {
        int s = b->slot[i];
        if (s < 0 || s >= FAKE_SLOTS || f->length[s] >= f->context) LS_FAIL(e, LS_INTERNAL, "slot %d is wrong or full", s);
        f->tokens[s][f->length[s]++] = b->token[i];
        if (out < b->n_out && b->out_row[out] == i) fake_logits(f->tokens[s], f->length[s], logits + (size_t)out++ * FAKE_VOCAB);
    }
    if (out != b->n_out) LS_FAIL(e, LS_INTERNAL, "%d of %d output rows", out, b->n_out);
    return LS_OK;
}

static int length(const ls_executor *x, int slot) { return ((const fake_executor *)x)->length[slot]; }

static void truncate_slot(ls_executor *x, int slot, int n) { ((fake_executor *)x)->length[slot] = n; }

static void memory(const ls_executor *x, size_t *weights, size_t *kv, size_t *work) {
    (void)x;
    *weights = *kv = *work = 0;
}

static void destroy(ls_executor *x) { (void)x; }

void fake_init(fake_executor *f, int max_rows) {
    memset(f, 0, sizeof *f);
    f->base = (ls_executor){.name = "fake", .forward = forward, .length = length, .truncate = truncate_slot, .memory = memory, .destroy = destroy};
    f->context = FAKE_CONTEXT;
    f->max_rows = max_rows;
    f->fail_after = -1;
}
