/* The native executor against the reference executor, bit for bit: every model fixture, both exact contracts, every level of
 * this machine, several thread counts, chunk sizes and mixes of sequences. Links with wrappers that count allocations. */
#include <dirent.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "contract/exact.h"
#include "graph/executor.h"
#include "models/model.h"
#include "native/cpu.h"
#include "test.h"

/* ---- Allocation counter ------------------------------------------------------------------------------------------ */

static atomic_long allocations;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t a, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t a, size_t n);
void *__wrap_malloc(size_t n) { atomic_fetch_add(&allocations, 1); return __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t m) { atomic_fetch_add(&allocations, 1); return __real_calloc(n, m); }
void *__wrap_realloc(void *p, size_t n) { atomic_fetch_add(&allocations, 1); return __real_realloc(p, n); }
void *__wrap_aligned_alloc(size_t a, size_t n) { atomic_fetch_add(&allocations, 1); return __real_aligned_alloc(a, n); }

/* ---- Models --------------------------------------------------------------------------------------------------------- */

enum { MAX_ROWS = 320, CONTEXT = 320, SEQS = 17, NODES = 4096 };

static uint64_t state;

static uint32_t next(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* A fixture under a contract, with the reference's logits and node values for one token stream. */
typedef struct subject {
    const char *name;
    ls_checkpoint *c;
    ls_graph *g;
    int n_tokens;
    int32_t token[MAX_ROWS];
    float *logits;            /* [n_tokens, vocab] */
    float *values[NODES];     /* by node: [n_tokens, cols] */
} subject;

static void keep(void *user, const ls_node *n, float *values, int64_t rows, int64_t cols) {
    subject *s = user;
    size_t bytes = (size_t)(rows * cols) * sizeof *values;
    float **copy = &s->values[n - s->g->nodes];
    *copy = malloc(bytes ? bytes : 1);
    memcpy(*copy, values, bytes);
}

static void whole_pass(ls_executor *x, const subject *s, float *logits) {
    ls_error e = {0};
    int32_t slot[MAX_ROWS] = {0}, row[MAX_ROWS];
    for (int i = 0; i < s->n_tokens; i++) row[i] = i;
    ls_batch b = {.n_rows = s->n_tokens, .token = s->token, .slot = slot, .n_out = s->n_tokens, .out_row = row};
    assert_ok(x->forward(x, &b, logits, &e));
}

static void subject_open(subject *s, const char *name, ls_contract contract, int n_tokens) {
    ls_error e = {0};
    char path[512];
    *s = (subject){.name = name, .n_tokens = n_tokens};
    snprintf(path, sizeof path, LS_FIXTURES "/models/%s", name);
    assert_ok(ls_checkpoint_open(&s->c, path, &e));
    ls_build_options o = {.contract = contract, .context = CONTEXT};
    assert_ok(ls_model_build(&s->g, s->c, &o, &e));
    state = 7;
    for (int i = 0; i < n_tokens; i++) s->token[i] = (int32_t)(next() % (uint32_t)s->g->vocab);
    assert_true(s->g->n_nodes <= NODES);
    s->logits = calloc((size_t)n_tokens * (size_t)s->g->vocab, sizeof *s->logits);
    ls_executor_options xo = {.max_seqs = 1, .context = CONTEXT, .max_rows = n_tokens, .observer = keep, .observer_user = s};
    ls_executor *x;
    assert_ok(ls_reference_create(&x, s->g, &xo, &e));
    whole_pass(x, s, s->logits);
    x->destroy(x);
}

static void subject_close(subject *s) {
    for (size_t i = 0; i < s->g->n_nodes; i++) free(s->values[i]);
    free(s->logits);
    ls_graph_destroy(s->g);
    ls_checkpoint_close(s->c);
}

static ls_executor *create(const subject *s, const char *level, int threads, int max_rows) {
    ls_error e = {0};
    ls_executor_options o = {.max_seqs = SEQS, .context = CONTEXT, .max_rows = max_rows, .threads = threads, .level = level};
    ls_executor *x;
    assert_ok(ls_native_create(&x, s->g, s->c, &o, &e));
    return x;
}

static void check_row(const subject *s, const char *what, const float *got, int position) {
    const float *want = s->logits + (size_t)position * (size_t)s->g->vocab;
    for (int64_t i = 0; i < s->g->vocab; i++)
        if (ls_bits(got[i]) != ls_bits(want[i]))
            fail_msg("%s, %s: logit %lld of position %d is %a, the reference gives %a", s->name, what, (long long)i, position, (double)got[i], (double)want[i]);
}

/* ---- Node by node ----------------------------------------------------------------------------------------------------- */

typedef struct comparison {
    const subject *s;
    const char *level;
    size_t seen;
} comparison;

static void compare(void *user, const ls_node *n, float *values, int64_t rows, int64_t cols) {
    comparison *c = user;
    const float *want = c->s->values[n - c->s->g->nodes];
    for (int64_t i = 0; i < rows * cols; i++)
        if (ls_bits(values[i]) != ls_bits(want[i]))
            fail_msg("%s at level %s: node %s (%s), row %lld, column %lld is %a, the reference gives %a", c->s->name, c->level, n->name, ls_op_name(n->op),
                     (long long)(i / cols), (long long)(i % cols), (double)values[i], (double)want[i]);
    c->seen++;
}

static void check_nodes(const subject *s, const char *level, int threads) {
    ls_error e = {0};
    comparison c = {.s = s, .level = level};
    ls_executor_options o = {.max_seqs = 1, .context = CONTEXT, .max_rows = s->n_tokens, .threads = threads, .level = level, .observer = compare, .observer_user = &c};
    ls_executor *x;
    assert_ok(ls_native_create(&x, s->g, s->c, &o, &e));
    float *logits = calloc((size_t)s->n_tokens * (size_t)s->g->vocab, sizeof *logits);
    whole_pass(x, s, logits);
    assert_int_equal(c.seen, s->g->n_nodes);
    for (int i = 0; i < s->n_tokens; i++) check_row(s, "with an observer", logits + (size_t)i * (size_t)s->g->vocab, i);
    free(logits);
    x->destroy(x);
}

/* ---- Mixed batches ---------------------------------------------------------------------------------------------------- */

/* Fills |b| (arrays of |max_rows|) with up to |chunk| rows of each of |seqs| slots in random interleaving; every sequence is
 * the subject's stream. left[i]: rows of slot i still to come in this pass. */
static int mix(const subject *s, ls_executor *x, int seqs, int chunk, int max_rows, int32_t *token, int32_t *slot, int *position) {
    int left[SEQS], at[SEQS], total = 0, rows = 0;
    for (int i = 0; i < seqs; i++) {
        at[i] = x->length(x, i);
        left[i] = s->n_tokens - at[i] < chunk ? s->n_tokens - at[i] : chunk;
        if (i && next() % 4 == 0) left[i] = 0;
        total += left[i];
    }
    while (rows < max_rows && total) {
        int i = (int)(next() % (uint32_t)seqs);
        if (!left[i]) continue;
        left[i]--;
        total--;
        token[rows] = s->token[at[i]];
        slot[rows] = i;
        position[rows++] = at[i]++;
    }
    return rows;
}

static void check_mix(const subject *s, const char *level, int threads, int seqs, int chunk) {
    ls_error e = {0};
    int max_rows = seqs * chunk < MAX_ROWS ? seqs * chunk : MAX_ROWS;
    ls_executor *x = create(s, level, threads, max_rows);
    float *logits = calloc((size_t)max_rows * (size_t)s->g->vocab, sizeof *logits);
    int32_t token[MAX_ROWS], slot[MAX_ROWS], out[MAX_ROWS];
    int position[MAX_ROWS];
    char what[100];
    snprintf(what, sizeof what, "level %s, %d threads, %d sequences, chunk %d", level, threads, seqs, chunk);
    while (x->length(x, 0) < s->n_tokens) {
        ls_batch b = {.n_rows = mix(s, x, seqs, chunk, max_rows, token, slot, position), .token = token, .slot = slot, .out_row = out};
        if (!b.n_rows) continue;
        for (int i = 0; i < b.n_rows; i++)
            if (next() % 2 || position[i] == s->n_tokens - 1) out[b.n_out++] = i;
        assert_ok(x->forward(x, &b, logits, &e));
        for (int i = 0; i < b.n_out; i++) check_row(s, what, logits + (size_t)i * (size_t)s->g->vocab, position[out[i]]);
    }
    free(logits);
    x->destroy(x);
}

static void check_whole(const subject *s, const char *level, int threads) {
    ls_executor *x = create(s, level, threads, s->n_tokens);
    float *logits = calloc((size_t)s->n_tokens * (size_t)s->g->vocab, sizeof *logits);
    whole_pass(x, s, logits);
    for (int i = 0; i < s->n_tokens; i++) check_row(s, "whole", logits + (size_t)i * (size_t)s->g->vocab, i);
    free(logits);
    x->destroy(x);
}

/* |all|: the long list, most of it at the faster levels only: threads and mixes do not know the level. */
static void check_level(const subject *s, const char *level, bool all) {
    check_nodes(s, level, 2);
    check_mix(s, level, 3, 5, 16);
    if (!all) return;
    check_whole(s, level, 1);
    check_mix(s, level, 2, 1, 64);
    if (!strcmp(level, "c")) return;
    check_whole(s, level, 2);
    check_whole(s, level, 3);
    check_whole(s, level, 7);
    check_mix(s, level, 2, 1, 1);
    check_mix(s, level, 1, 1, 3);
    check_mix(s, level, 7, 2, 3);
    check_mix(s, level, 2, 17, 1);
    check_mix(s, level, 7, 17, 7);
}

static void check_model(const char *name, int n_tokens, bool all) {
    ls_cpu cpu;
    ls_cpu_detect(&cpu);
    for (int contract = 0; contract < LS_EXACT_CONTRACTS; contract++) {
        subject s;
        subject_open(&s, name, ls_contract_exact_at(contract), n_tokens);
        for (int l = 0; l < LS_LEVEL_COUNT; l++)
            if (cpu.has[l]) check_level(&s, ls_level_name((ls_level)l), all);
        check_nodes(&s, "random", 2);
        check_mix(&s, "random", 3, 5, 7);
        subject_close(&s);
    }
}

static void test_every_model(void **unused) {
    (void)unused;
    DIR *d = opendir(LS_FIXTURES "/models");
    assert_non_null(d);
    int n = 0;
    for (struct dirent *f; (f = readdir(d));) {
        char path[512];
        snprintf(path, sizeof path, LS_FIXTURES "/models/%.200s/config.json", f->d_name);
        if (f->d_name[0] == '.' || !ls_file_exists(path)) continue;
        check_model(f->d_name, 70, false);
        n++;
    }
    closedir(d);
    assert_true(n >= 3);
}

/* Long enough for two ranges of keys and many window edges. */
static void test_llama(void **unused) { (void)unused; check_model("llama", 300, true); }
static void test_gemma3(void **unused) { (void)unused; check_model("gemma3", 300, true); }
static void test_experts(void **unused) { (void)unused; check_model("qwen2_moe", 100, true); }

/* ---- Behaviour -------------------------------------------------------------------------------------------------------- */

static void feed(ls_executor *x, int slot, const int32_t *token, int n, float *logits) {
    ls_error e = {0};
    int32_t slots[MAX_ROWS], last = n - 1;
    for (int i = 0; i < n; i++) slots[i] = slot;
    ls_batch b = {.n_rows = n, .token = token, .slot = slots, .n_out = logits ? 1 : 0, .out_row = &last};
    assert_ok(x->forward(x, &b, logits, &e));
}

static void test_truncate(void **unused) {
    (void)unused;
    for (int contract = 0; contract < 2; contract++) {
        subject s;
        subject_open(&s, "llama", (ls_contract)contract, 300);
        ls_executor *x = create(&s, NULL, 2, MAX_ROWS);
        float *logits = calloc((size_t)s.g->vocab, sizeof *logits);
        const int keep_lengths[] = {1, 30, 63, 64, 65, 127, 128, 255, 256, 257, 0};
        for (size_t i = 0; i < sizeof keep_lengths / sizeof *keep_lengths; i++) {
            int kept = keep_lengths[i], have = x->length(x, 3);
            if (have < kept) feed(x, 3, s.token + have, kept - have, NULL);
            feed(x, 3, s.token + 5, 40, NULL); /* other tokens past |kept| */
            x->truncate(x, 3, kept);
            assert_int_equal(x->length(x, 3), kept);
            feed(x, 3, s.token + kept, 20, logits);
            check_row(&s, "after truncate", logits, kept + 19);
            x->truncate(x, 3, kept);
        }
        assert_int_equal(x->length(x, 3), 0);
        free(logits);
        x->destroy(x);
        subject_close(&s);
    }
}

static void test_errors_change_nothing(void **unused) {
    (void)unused;
    subject s;
    ls_error e = {0};
    subject_open(&s, "llama", LS_CONTRACT_EXACT16, 20);
    ls_executor *x = create(&s, NULL, 2, 200);
    float *logits = calloc(2 * (size_t)s.g->vocab, sizeof *logits);
    feed(x, 0, s.token, 10, NULL);
    int32_t token[200] = {0}, slot[200] = {0}, out[2] = {0, 1};
    ls_batch b = {.n_rows = 2, .token = token, .slot = slot, .n_out = 2, .out_row = out};
    token[1] = (int32_t)s.g->vocab;
    assert_error(x->forward(x, &b, logits, &e), LS_INVALID_ARGUMENT, "token");
    token[1] = -1;
    assert_error(x->forward(x, &b, logits, &e), LS_INVALID_ARGUMENT, "token");
    token[1] = 0;
    slot[1] = SEQS;
    assert_error(x->forward(x, &b, logits, &e), LS_INVALID_ARGUMENT, "slot");
    slot[1] = 1;
    out[1] = 0;
    assert_error(x->forward(x, &b, logits, &e), LS_INVALID_ARGUMENT, "ascend");
    b.n_rows = 201;
    assert_error(x->forward(x, &b, logits, &e), LS_INVALID_ARGUMENT, "201 rows");
    b = (ls_batch){.n_rows = 0, .token = token, .slot = slot};
    assert_error(x->forward(x, &b, logits, &e), LS_INVALID_ARGUMENT, "0 rows");
    slot[1] = 0;
    for (int i = 0; i < 3; i++) { /* 10 + 150 + 150 = 310 of 320 */
        b = (ls_batch){.n_rows = i < 2 ? 150 : 11, .token = token, .slot = slot};
        if (i < 2) assert_ok(x->forward(x, &b, NULL, &e));
        else assert_error(x->forward(x, &b, NULL, &e), LS_OUT_OF_RANGE, "context of 320");
    }
    assert_int_equal(x->length(x, 0), 310);
    assert_int_equal(x->length(x, 1), 0);
    x->truncate(x, 0, 10);
    feed(x, 0, s.token + 10, 10, logits);
    check_row(&s, "after refused passes", logits, 19);
    free(logits);
    x->destroy(x);
    subject_close(&s);
}

static void test_creation_errors(void **unused) {
    (void)unused;
    ls_error e = {0};
    ls_executor *x;
    subject s;
    subject_open(&s, "llama", LS_CONTRACT_EXACT16, 5);
    ls_executor_options o = {.max_seqs = 1, .context = 10, .max_rows = 5, .level = "mmx"};
    assert_error(ls_native_create(&x, s.g, s.c, &o, &e), LS_INVALID_ARGUMENT, "mmx");
    o = (ls_executor_options){.max_seqs = 0, .context = 10, .max_rows = 5};
    assert_error(ls_native_create(&x, s.g, s.c, &o, &e), LS_INVALID_ARGUMENT, "0 slots");
    o = (ls_executor_options){.max_seqs = 1, .context = 0, .max_rows = 5};
    assert_error(ls_native_create(&x, s.g, s.c, &o, &e), LS_INVALID_ARGUMENT, "context of 0");
    o = (ls_executor_options){.max_seqs = 1, .context = 10, .max_rows = 0};
    assert_error(ls_native_create(&x, s.g, s.c, &o, &e), LS_INVALID_ARGUMENT, "0 rows");
    o = (ls_executor_options){.max_seqs = 1, .context = LS_MAX_CONTEXT, .max_rows = 5, .threads = 64};
    assert_error(ls_native_create(&x, s.g, s.c, &o, &e), LS_UNIMPLEMENTED, "64 threads makes 16777216 tasks");
    ls_graph *g;
    ls_build_options build = {.contract = LS_CONTRACT_FLOAT, .context = CONTEXT};
    assert_ok(ls_model_build(&g, s.c, &build, &e));
    o = (ls_executor_options){.max_seqs = 1, .context = 10, .max_rows = 5};
    assert_error(ls_native_create(&x, g, s.c, &o, &e), LS_UNIMPLEMENTED, "use backend reference or xla");
    ls_graph_destroy(g);
    subject_close(&s);
}

/* A weight that is no number is named alike however many threads look: in the first element of a matrix, between their parts, in the last. */
static void test_damaged_weights(void **unused) {
    (void)unused;
    subject s;
    subject_open(&s, "llama", LS_CONTRACT_EXACT16, 4);
    size_t node = 0;
    while (s.g->nodes[node].op != LS_OP_LINEAR) node++;
    ls_tensor *t = (ls_tensor *)(uintptr_t)s.g->nodes[node].w[0]->tensor;
    const void *data = t->data;
    const size_t size = (size_t)ls_format_get(t->format)->block_bytes, count = t->bytes / size, at[] = {0, count / 3, count / 2, count - 1};
    uint8_t *copy = malloc(t->bytes);
    assert_non_null(copy);
    t->data = copy;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        for (int threads = 1; threads <= 5; threads += 2) {
            ls_error e = {0};
            ls_executor *x = NULL;
            ls_executor_options o = {.max_seqs = 1, .context = 16, .max_rows = 4, .threads = threads};
            char what[64];
            memcpy(copy, data, t->bytes);
            memset(copy + at[i] * size, 0xFF, size);
            snprintf(what, sizeof what, "element %zu is NaN", at[i]);
            assert_error(ls_native_create(&x, s.g, s.c, &o, &e), LS_INVALID_ARGUMENT, what);
            assert_non_null(strstr(e.text, t->name));
        }
    t->data = data;
    free(copy);
    subject_close(&s);
}

static void note(void *user, double fraction) {
    double *last = user;
    assert_true(fraction >= *last && fraction <= 1);
    *last = fraction;
}

static void test_progress_and_memory(void **unused) {
    (void)unused;
    ls_error e = {0};
    ls_executor *x;
    subject s;
    subject_open(&s, "llama", LS_CONTRACT_EXACT16, 5);
    double last = 0;
    ls_executor_options o = {.max_seqs = 2, .context = 300, .max_rows = 70, .progress = note, .progress_user = &last};
    assert_ok(ls_native_create(&x, s.g, s.c, &o, &e));
    assert_true(last == 1);
    size_t weights, kv, work, kv_one;
    x->memory(x, &weights, &kv, &work);
    assert_true(weights > 0 && work > 0);
    assert_int_equal(kv, 0);
    feed(x, 0, s.token, 5, NULL);
    x->memory(x, &weights, &kv_one, &work);
    assert_true(kv_one > 0);
    for (int i = 0; i < 12; i++) feed(x, 1, s.token, 5, NULL);
    x->memory(x, &weights, &kv, &work);
    assert_int_equal(kv, 2 * kv_one);
    x->truncate(x, 1, 0);
    feed(x, 0, s.token, 5, NULL);
    for (int i = 0; i < 12; i++) feed(x, 0, s.token, 5, NULL);
    x->memory(x, &weights, &kv, &work);
    assert_int_equal(kv, 2 * kv_one); /* the freed block serves the other slot */
    x->destroy(x);
    subject_close(&s);
}

/* Bytes of keys and values of one block. */
static size_t block_bytes(ls_contract contract) {
    subject s;
    subject_open(&s, "llama", contract, 5);
    ls_executor *x = create(&s, NULL, 1, 5);
    size_t weights, kv, work;
    feed(x, 0, s.token, 5, NULL);
    x->memory(x, &weights, &kv, &work);
    x->destroy(x);
    subject_close(&s);
    return kv;
}

/* A byte a column, a byte for each 16 columns and one for each vector of a head. */
static void test_eight_bits_take_half(void **unused) {
    (void)unused;
    size_t sixteen = block_bytes(LS_CONTRACT_EXACT16), eight = block_bytes(LS_CONTRACT_EXACT16_KV8);
    assert_true(100 * eight <= 56 * sixteen);
}

static void test_warm_decode_allocates_nothing(void **unused) {
    (void)unused;
    const char *const models[] = {"llama", "gemma3", "qwen2_moe"};
    for (int m = 0; m < 3; m++)
        for (int contract = 0; contract < 2; contract++) {
            subject s;
            subject_open(&s, models[m], (ls_contract)contract, 300);
            ls_executor *x = create(&s, NULL, 2, 32);
            float *logits = calloc((size_t)s.g->vocab, sizeof *logits);
            for (int i = 0; i < 260; i += 20) feed(x, 0, s.token + i, 20, logits);
            feed(x, 0, s.token + 260, 1, logits);
            long before = atomic_load(&allocations);
            for (int i = 261; i < 300; i++) feed(x, 0, s.token + i, 1, logits);
            assert_int_equal(atomic_load(&allocations), before);
            check_row(&s, "decoded", logits, 299);
            free(logits);
            x->destroy(x);
            subject_close(&s);
        }
}

/* ---- Observers that write, and see only some nodes ------------------------------------------------------------------ */

/* Negates every value of node |fault| and counts calls. */
typedef struct writer {
    const ls_graph *g;
    size_t fault, seen;
} writer;

static void negate(void *user, const ls_node *n, float *values, int64_t rows, int64_t cols) {
    writer *w = user;
    w->seen++;
    if ((size_t)(n - w->g->nodes) != w->fault) return;
    for (int64_t i = 0; i < rows * cols; i++) values[i] = values[i] == 0 ? 0 : -values[i];
}

/* Logits of a pass whose node |w->fault| is negated; observes all nodes, or only that one. */
static void written_pass(const subject *s, writer *w, bool native, bool filter, const char *level, float *logits) {
    ls_error e = {0};
    bool wanted[NODES] = {false};
    wanted[w->fault] = true;
    ls_executor_options o = {.max_seqs = 1, .context = CONTEXT, .max_rows = s->n_tokens, .threads = 2, .level = level, .observer = negate, .observer_user = w,
                             .observe = filter ? wanted : NULL};
    ls_executor *x;
    assert_ok(native ? ls_native_create(&x, s->g, s->c, &o, &e) : ls_reference_create(&x, s->g, &o, &e));
    w->seen = 0;
    whole_pass(x, s, logits);
    assert_int_equal(w->seen, filter ? 1 : s->g->n_nodes);
    x->destroy(x);
}

/* What an observer writes at any node is what the rest of the pass reads, in both executors alike. */
static void check_writes(const char *name, ls_contract contract) {
    subject s;
    subject_open(&s, name, contract, 9);
    size_t n = (size_t)s.n_tokens * (size_t)s.g->vocab, changed = 0;
    float *want = calloc(n, sizeof *want), *got = calloc(n, sizeof *got);
    for (size_t i = 0; i < s.g->n_nodes; i++) {
        writer w = {.g = s.g, .fault = i};
        written_pass(&s, &w, false, true, NULL, want);
        changed += memcmp(want, s.logits, n * sizeof *want) != 0;
        for (int filter = 0; filter < 2; filter++) {
            written_pass(&s, &w, true, filter, NULL, got);
            if (memcmp(got, want, n * sizeof *want)) fail_msg("%s: node %s written by an observer: logits differ from the reference", name, s.g->nodes[i].name);
        }
    }
    /* Some faults cannot be seen in the logits: an even function of the value, say. Most can. */
    assert_true(changed * 10 > s.g->n_nodes * 8);
    free(want);
    free(got);
    subject_close(&s);
}

static void test_observer_writes(void **unused) {
    (void)unused;
    check_writes("llama", LS_CONTRACT_EXACT16);
    check_writes("llama", LS_CONTRACT_EXACT24);
    check_writes("gemma2", LS_CONTRACT_EXACT16);
    check_writes("phi3", LS_CONTRACT_EXACT16_KV8);
    check_writes("qwen2_moe", LS_CONTRACT_EXACT24);
}

/* An argument picks tests by name (* and ? stand for others): whole runs are long in builds without optimisation. */
int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama),          cmocka_unit_test(test_gemma3),
        cmocka_unit_test(test_experts),        cmocka_unit_test(test_every_model),
        cmocka_unit_test(test_truncate),       cmocka_unit_test(test_errors_change_nothing),
        cmocka_unit_test(test_creation_errors), cmocka_unit_test(test_damaged_weights), cmocka_unit_test(test_progress_and_memory),
        cmocka_unit_test(test_eight_bits_take_half),
        cmocka_unit_test(test_warm_decode_allocates_nothing), cmocka_unit_test(test_observer_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
