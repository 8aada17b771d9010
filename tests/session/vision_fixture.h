/* A folder of fixtures/vision: its model, and the cases with what transformers computed for them. */
#ifndef LS_TESTS_SESSION_VISION_FIXTURE_H
#define LS_TESTS_SESSION_VISION_FIXTURE_H

#include "test.h"

#include "session/bundle.h"

enum { VISION_CASES = 64, VISION_IMAGES = 4, VISION_NEW = 64 };

typedef struct vision_case {
    char name[64], image[VISION_IMAGES][64];
    int n_images;
    ls_str messages;        /* JSON */
    const int32_t *ids;     /* [n_ids] of the prompt */
    size_t n_ids, logits_from, n_projected;
    const float *logits;    /* [n_ids - logits_from, vocab] */
    const float *projected; /* [n_projected] numbers; NULL without images */
    const ls_tensor *pixels, *tower; /* f32 [images, channels, size, size], and after post_layernorm [images, patches, vision hidden]; NULL likewise */
    const int32_t *greedy;  /* [VISION_NEW] */
} vision_case;

typedef struct vision_fixture {
    char folder[400];
    ls_checkpoint *golden;
    vision_case cases[VISION_CASES];
    int n_cases;
} vision_fixture;

void vision_open(vision_fixture *f, const char *folder);
void vision_close(vision_fixture *f);

/* Images and messages of a case or a held-out question; c->messages is the caller's to free. */
void vision_read_question(vision_case *c, const json_t *j);

/* The model with a context that holds every case and its answer. */
ls_model *vision_model(const vision_fixture *f, const char *backend, const char *contract, int slots, int chunk);
ls_prepared_prefill *vision_prepare(const vision_fixture *f, const vision_case *c, ls_model *m);

/* One request and what came of it. */
typedef struct vision_stream {
    const vision_case *of;
    ls_prepared_prefill *prepared;
    uint64_t id;
    int32_t out[VISION_NEW];
    size_t n;
    ls_finish finish;
    char sha[65];
} vision_stream;

void vision_submit(ls_session *s, vision_stream *r); /* greedy, VISION_NEW tokens past any end */
void vision_run(ls_session *s, vision_stream *r, int n);

/* Every case once on a new |backend|, one at a time, in passes of up to |chunk| rows; the tokens must be the goldens'. |sha| [n_cases]: their logits. */
void vision_goldens(const vision_fixture *f, const char *backend, const char *contract, int chunk, char sha[][65]);

/* The same in batches of eight without a prefix cache, and twice in a row with one, which must have all of each prompt but its last token the second
 * time, images included; then one at a time without one, and with the first one's file. |sha|: what the logits must be; NULL: under float. */
void vision_cached_goldens(const vision_fixture *f, const char *backend, const char *contract, int chunk, char sha[][65]);

/* Root mean square of |a| - |b| relative to that of |b|. */
double vision_relative_rms(const float *a, const float *b, size_t n);

/* Prompt ids of |c| are the goldens'; its projected rows (relative root mean square) and logits (largest difference) on the executor of |m|,
 * which must have room for the prompt in one pass, are as near to the goldens as given. */
void vision_check_numbers(const vision_fixture *f, const vision_case *c, ls_model *m, double rows_bound, double logits_bound);

/* A copy of the folder in a new one, with |from| in |file| replaced by |to|; |from| "" changes nothing. */
void vision_copy(const vision_fixture *f, const char *file, const char *from, const char *to, char folder[400]);
void vision_copy_remove(const char *folder);

#endif
