/* Opening the small models of fixtures/models with their goldens, for tests that run them. */
#ifndef LS_TESTS_FIXTURE_MODELS_H
#define LS_TESTS_FIXTURE_MODELS_H

#include "graph/executor.h"
#include "models/model.h"

enum { FIXTURE_MAX = 64 };

typedef struct fixture {
    char name[128];
    ls_checkpoint *checkpoint, *golden;
    ls_graph *graph;
    int n_prompt, vocab;
    const int32_t *prompt;       /* [n_prompt] */
    const int32_t *greedy;       /* [64] */
    const float *logits;         /* [n_prompt, vocab], transformers f32 */
    const double *logits_f64;    /* [n_prompt, vocab], or NULL */
} fixture;

/* Names of all fixtures, sorted; returns their count. */
int fixture_names(char names[FIXTURE_MAX][128]);

ls_code fixture_open(fixture *f, const char *name, ls_contract contract, ls_error *e);
void fixture_close(fixture *f);

/* Runs the whole prompt in slot |slot| in chunks of at most |chunk| rows; logits f32 [n, vocab] of every position. */
ls_code fixture_prefill(ls_executor *x, const int32_t *ids, int n, int slot, int chunk, int vocab, float *logits, ls_error *e);

/* Continues greedily from the last row of logits [vocab]: |n| ids into out, one row at a time. */
ls_code fixture_greedy(ls_executor *x, int slot, int vocab, const float *last, int n, int32_t *out, ls_error *e);

/* SHA-256 of |n| f32 values, little endian, as lowercase hex. */
void fixture_digest(const float *values, size_t n, char hex[65]);

#endif
