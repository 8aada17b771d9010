/* Prepared prefills: every refusal in its order, masks that come down to blocks, and sessions on the native and the reference executor
 * whose answers depend on the request alone: chunks, neighbours, reused slots, cancellation and the prefix cache change no bit. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "fixture_models.h"
#include "prepared_rows.h"
#include "session/prepared.h"
#include "session/session.h"

enum { CONTEXT = 160, NEW = 6, VOCAB = 256, HIDDEN = 64, SLOTS = 8, PREFIX = 64 << 20 };

/* ---- Refusals ------------------------------------------------------------------------------------------------------------------ */

enum { N = 6 };

/* A payload that is fine; each test spoils one thing. */
typedef struct payload {
    int32_t token[N], position[3 * N];
    float embedding[2 * HIDDEN], bias[N * N];
    size_t at[2];
    ls_prepared_block block[2];
    ls_modality modality[2];
    ls_prepared_options o;
} payload;

static void payload_init(payload *p) {
    *p = (payload){.token = {5, 6, 7, 8, 9, 10}, .at = {2, 3}, .block = {{2, 4}}, .modality = {{"gemma3", 1, 2}}};
    for (int i = 0; i < 2 * HIDDEN; i++) p->embedding[i] = (float)i * 0.01f;
    for (int i = 0; i < 3 * N; i++) p->position[i] = i % N;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) p->bias[i * N + j] = j <= i || (i == 2 && j == 3) ? 0 : -INFINITY;
    p->o = (ls_prepared_options){.struct_size = sizeof p->o, .tokens = p->token, .n_tokens = N, .length = N, .rows_at = p->at, .blocks = p->block, .n_blocks = 1,
                                 .embeddings = {LS_ELEMENT_F32, 2, {2, HIDDEN}, p->embedding, sizeof p->embedding}, .modalities = p->modality, .n_modalities = 1};
}

static ls_array ints(const int32_t *v, int rank, int64_t a, int64_t b) {
    return (ls_array){LS_ELEMENT_I32, rank, {a, b}, v, (size_t)(rank == 1 ? a : a * b) * sizeof *v};
}

static ls_array floats(const float *v, int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    ls_array x = {LS_ELEMENT_F32, rank, {a, b, c, d}, v, sizeof *v};
    for (int i = 0; i < rank; i++) x.bytes *= (size_t)x.shape[i];
    return x;
}

static void not_created(const payload *p, ls_prepared_fault want, const char *part) {
    ls_error e = {0};
    ls_prepared_fault why = LS_PREPARED_FINE;
    ls_prepared_prefill *made = NULL;
    assert_error(ls_prepared_create(&made, &p->o, &why, &e), LS_INVALID_ARGUMENT, part);
    assert_int_equal(why, want);
    assert_null(made);
}

static void structure(void **state) {
    (void)state;
    payload p;
    payload_init(&p);
    p.o.embeddings.shape[0] = INT64_MAX;
    p.o.embeddings.shape[1] = 3;
    not_created(&p, LS_PREPARED_SHAPE_OVERFLOW, "too large");
    p.o.embeddings.shape[0] = -1;
    not_created(&p, LS_PREPARED_SHAPE_OVERFLOW, "dimension 0 of -1");
    payload_init(&p);
    p.o.embeddings.bytes--;
    not_created(&p, LS_PREPARED_BYTE_COUNT, "bytes are given");
    payload_init(&p);
    p.o.embeddings.rank = 1;
    p.o.embeddings.shape[0] = 2 * HIDDEN;
    not_created(&p, LS_PREPARED_EMBEDDING_SHAPE, "embeddings of rank 1");
    payload_init(&p);
    p.o.embeddings.element = LS_ELEMENT_I32;
    not_created(&p, LS_PREPARED_EMBEDDING_TYPE, "must be floats");
    payload_init(&p);
    p.o.positions = ints(p.position, 1, N - 1, 0);
    not_created(&p, LS_PREPARED_POSITION_SHAPE, "last dimension 5");
    p.o.positions = ints(p.position, 2, 2, N);
    not_created(&p, LS_PREPARED_POSITION_SHAPE, "positions of rank 2");
    p.o.positions = floats(p.bias, 1, N, 0, 0, 0);
    not_created(&p, LS_PREPARED_POSITION_TYPE, "must be i32");
    payload_init(&p);
    p.o.n_blocks = 0;
    p.o.bias = ints(p.position, 1, N, 0);
    not_created(&p, LS_PREPARED_MASK_TYPE, "must be floats");
    p.o.bias = floats(p.bias, 1, N - 1, 0, 0, 0);
    not_created(&p, LS_PREPARED_MASK_SHAPE, "last dimension is 5");
    p.o.bias = floats(p.bias, 2, N, N, 0, 0);
    p.o.n_blocks = 1;
    not_created(&p, LS_PREPARED_MASK_SHAPE, "give one of them");
    payload_init(&p);
    p.modality[1] = (ls_modality){"gemma3", 1, N - 1};
    p.o.n_modalities = 2;
    not_created(&p, LS_PREPARED_MODALITY, "7 tokens of media in all");
    p.modality[0].family = "a family whose name has more than thirty-one bytes";
    not_created(&p, LS_PREPARED_MODALITY, "at most 31 bytes");
    p.o.struct_size = 0;
    not_created(&p, LS_PREPARED_FINE, "struct_size");
}

static const ls_prepared_limits usual = {.hidden = HIDDEN, .vocab = VOCAB, .context = CONTEXT, .max_rows = 16};

static void admission(const payload *p, const ls_prepared_limits *l, ls_code code, ls_prepared_fault want, const char *part) {
    ls_error e = {0};
    ls_prepared_fault why = LS_PREPARED_FINE;
    ls_prepared_prefill *made;
    assert_ok(ls_prepared_create(&made, &p->o, &why, &e));
    if (code) assert_error(ls_prepared_admit(made, l, NEW, &why, &e), code, part);
    else assert_ok(ls_prepared_admit(made, l, NEW, &why, &e));
    assert_int_equal(why, want);
    assert_true(strlen(ls_prepared_fault_name(why)) > 3);
    ls_prepared_destroy(made);
}

static void refused(const payload *p, ls_prepared_fault want, const char *part) { admission(p, &usual, LS_INVALID_ARGUMENT, want, part); }

/* Everything is wrong at first; each repair uncovers the next fault. */
static void admission_in_order(void **state) {
    (void)state;
    payload p;
    payload_init(&p);
    ls_prepared_limits l = usual;
    l.context = N + NEW - 1;
    l.max_rows = 1;
    l.vocab = 10;
    int32_t *three = p.position;
    p.o.n_tokens = 0;
    p.o.n_modalities = 0;
    p.o.rows_at = NULL;
    p.o.n_blocks = 0;
    admission(&p, &l, LS_INVALID_ARGUMENT, LS_PREPARED_EMPTY, "no tokens");
    p.o.n_tokens = N;
    p.o.length = N + 1;
    p.o.positions = ints(three, 2, 3, N);
    p.bias[1] = 1;
    p.o.bias = floats(p.bias, 2, N, N, 0, 0);
    p.o.embeddings.element = LS_ELEMENT_BF16;
    p.o.embeddings.shape[1] = 2 * HIDDEN;
    p.embedding[HIDDEN] = NAN;
    admission(&p, &l, LS_INVALID_ARGUMENT, LS_PREPARED_LENGTH, "length 7 is declared, 6 token ids");
    p.o.length = N;
    admission(&p, &l, LS_RESOURCE_EXHAUSTED, LS_PREPARED_CAPACITY, "6 tokens (images included) + 6 new tokens");
    l.context++;
    admission(&p, &l, LS_INVALID_ARGUMENT, LS_PREPARED_EMBEDDING_TYPE, "must be f32");
    p.o.embeddings.element = LS_ELEMENT_F32;
    p.o.embeddings.shape[0] = 1;
    admission(&p, &l, LS_INVALID_ARGUMENT, LS_PREPARED_EMBEDDING_SHAPE, "1 rows of embeddings for 6 tokens");
    p.o.rows_at = p.at;
    admission(&p, &l, LS_INVALID_ARGUMENT, LS_PREPARED_HIDDEN_SIZE, "embeddings of 128 columns; the model has 64");
    p.o.embeddings.shape[0] = 2;
    p.o.embeddings.shape[1] = HIDDEN;
    admission(&p, &l, LS_INVALID_ARGUMENT, LS_PREPARED_NOT_FINITE, "value 64 is nan");
    p.embedding[HIDDEN] = 0;
    admission(&p, &l, LS_INVALID_ARGUMENT, LS_PREPARED_POSITION_MODE, "M-RoPE");
    p.o.positions = ints(three + 1, 1, N, 0);
    admission(&p, &l, LS_INVALID_ARGUMENT, LS_PREPARED_POSITIONS, "position 0 is given as 1");
    p.o.positions = ints(three, 2, 1, N);
    admission(&p, &l, LS_INVALID_ARGUMENT, LS_PREPARED_MASK_VALUE, "position 0, key 1 is 1;");
    p.bias[1] = NAN;
    admission(&p, &l, LS_INVALID_ARGUMENT, LS_PREPARED_MASK_VALUE, "is nan");
    p.bias[1] = -0x1.fffffep+127f;
    admission(&p, &l, LS_RESOURCE_EXHAUSTED, LS_PREPARED_BLOCK_LENGTH, "block at position 2 has 2 positions, a forward pass at most 1");
    l.max_rows = 2;
    admission(&p, &l, LS_INVALID_ARGUMENT, LS_PREPARED_TOKEN, "token 5 is 10");
    l.vocab = VOCAB;
    admission(&p, &l, LS_OK, LS_PREPARED_FINE, "");
}

static void rows_and_blocks(void **state) {
    (void)state;
    payload p;
    payload_init(&p);
    p.at[1] = 2;
    refused(&p, LS_PREPARED_EMBEDDING_SHAPE, "row 1 belongs to position 2");
    p.at[1] = N;
    refused(&p, LS_PREPARED_EMBEDDING_SHAPE, "row 1 belongs to position 6");
    payload_init(&p);
    static const ls_prepared_block bad[][2] = {{{2, 2}}, {{3, 2}}, {{2, N + 1}}, {{N, N + 1}}, {{0, 3}, {2, 4}}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(p.block, bad[i], sizeof p.block);
        p.o.n_blocks = bad[i][1].end ? 2 : 1;
        refused(&p, LS_PREPARED_MASK_FORM, "blocks must ascend");
    }
}

/* ---- Masks --------------------------------------------------------------------------------------------------------------------- */

static void spans_of(const payload *p, ls_span span[N], ls_code code, const char *part) {
    ls_error e = {0};
    ls_prepared_fault why = LS_PREPARED_FINE;
    ls_prepared_prefill *made;
    assert_ok(ls_prepared_create(&made, &p->o, &why, &e));
    if (code) {
        assert_error(ls_prepared_admit(made, &usual, NEW, &why, &e), code, part);
        assert_true(why == LS_PREPARED_MASK_FORM || why == LS_PREPARED_MASK_VALUE || why == LS_PREPARED_MASK_SHAPE);
    } else {
        assert_ok(ls_prepared_admit(made, &usual, NEW, &why, &e));
        memcpy(span, made->span, N * sizeof *span);
    }
    ls_prepared_destroy(made);
}

static void masks(void **state) {
    (void)state;
    payload p;
    ls_span a[N], b[N], none[N] = {{0, 0}};
    payload_init(&p);
    spans_of(&p, a, LS_OK, "");
    assert_int_equal(a[2].begin, 2);
    assert_int_equal(a[3].end, 4);
    p.o.n_blocks = 0;
    p.o.bias = floats(p.bias, 2, N, N, 0, 0); /* the same mask as a matrix */
    spans_of(&p, b, LS_OK, "");
    assert_memory_equal(a, b, sizeof a);
    p.o.bias = floats(p.bias, 4, 1, 1, N, N);
    spans_of(&p, b, LS_OK, "");
    assert_memory_equal(a, b, sizeof a);
    p.o.causal = true; /* the upper triangle is masked whatever it says */
    spans_of(&p, b, LS_OK, "");
    assert_memory_equal(none, b, sizeof none);
    static const float zero[N] = {0};
    p.o.bias = floats(zero, 4, 1, 1, 1, N);
    spans_of(&p, b, LS_OK, "");
    assert_memory_equal(none, b, sizeof none);
    p.o.causal = false; /* all positions see each other */
    spans_of(&p, b, LS_OK, "");
    for (int i = 0; i < N; i++) assert_true(b[i].begin == 0 && b[i].end == N);
    p.o.bias = floats(p.bias, 4, 1, N, 1, N);
    spans_of(&p, b, LS_INVALID_ARGUMENT, "the mask must be [n]");
    p.o.bias = floats(p.bias, 2, N, N, 0, 0);
    p.bias[0] = -1e9f;
    spans_of(&p, b, LS_UNIMPLEMENTED, "position 0 does not see itself");
    p.bias[0] = -0.5f;
    spans_of(&p, b, LS_UNIMPLEMENTED, "only 0 (visible) and at most -1e9");
    p.bias[0] = 0;
    p.bias[3 * N + 1] = -1e30f;
    spans_of(&p, b, LS_UNIMPLEMENTED, "position 3 sees key 2 but not key 1");
    p.bias[3 * N + 1] = 0;
    p.bias[2 * N + 4] = 0; /* the block's rows see different ends */
    spans_of(&p, b, LS_UNIMPLEMENTED, "positions 2 and 3 of one block");
}

/* ---- Sessions ------------------------------------------------------------------------------------------------------------------ */

/* A request and what came of it. */
typedef struct stream {
    ls_prepared_prefill *prepared;
    int32_t prompt[40];
    size_t n_prompt;
    uint64_t id;
    int32_t out[NEW];
    size_t n;
    ls_finish finish;
    char sha[65];
} stream;

static ls_prepared_prefill *image_prompt(const fixture *f, uint64_t seed) {
    static const ls_span blocks[] = {{4, 20}, {22, 38}, {56, 72}}; /* the last one across the end of a stored block of 64 */
    enum { ROWS = 112, BLOCKS = 3 };
    ls_error e = {0};
    prepared_rows r;
    ls_prepared_block block[BLOCKS];
    size_t at[ROWS], n = 0;
    float *values = calloc(ROWS, (size_t)f->graph->hidden * sizeof *values);
    prepared_rows_make(&r, f->graph, ROWS, blocks, BLOCKS, seed);
    for (int i = 0; i < BLOCKS; i++) block[i] = (ls_prepared_block){(size_t)blocks[i].begin, (size_t)blocks[i].end};
    for (int i = 0; i < ROWS; i++) {
        if (r.token[i] < 0) r.token[i] = 3; /* the placeholder, the same whatever the image */
        else r.token[i] = (i * 29 + 1) % f->vocab;
        if (!r.embedding[i]) continue;
        memcpy(values + n * (size_t)f->graph->hidden, r.embedding[i], (size_t)f->graph->hidden * sizeof *values);
        at[n++] = (size_t)i;
    }
    ls_prepared_prefill *p;
    ls_prepared_options o = {.struct_size = sizeof o, .tokens = r.token, .n_tokens = ROWS, .length = ROWS, .rows_at = at, .blocks = block, .n_blocks = BLOCKS,
                             .embeddings = floats(values, 2, (int64_t)n, f->graph->hidden, 0, 0)};
    assert_ok(ls_prepared_create(&p, &o, NULL, &e));
    free(values);
    prepared_rows_free(&r);
    return p;
}

static ls_executor *executor_of(const fixture *f, bool native, int slots, int chunk) {
    int rows = chunk > slots ? chunk : slots;
    ls_executor_options o = {.max_seqs = slots, .context = CONTEXT, .max_rows = rows > 16 ? rows : 16, .threads = 2};
    ls_executor *x;
    ls_error e = {0};
    if (native) assert_ok(ls_native_create(&x, f->graph, f->checkpoint, &o, &e));
    else assert_ok(ls_reference_create(&x, f->graph, &o, &e));
    return x;
}

static ls_session *session_of(const fixture *f, ls_executor *x, int slots, int chunk, size_t prefix) {
    int rows = chunk > slots ? chunk : slots;
    ls_session_config c = {.executor = x, .vocab = f->vocab, .context = CONTEXT, .slots = slots, .chunk = chunk, .hidden = f->graph->hidden,
                           .max_rows = rows > 16 ? rows : 16, .prefix_bytes = prefix, .identity = "test"};
    ls_session *s;
    ls_error e = {0};
    assert_ok(ls_session_create_on(&s, &c, &e));
    assert_true(ls_session_capabilities(s).multimodal);
    return s;
}

static void submit(ls_session *s, stream *r) {
    ls_error e = {0};
    ls_request q = {.struct_size = sizeof q, .prepared = r->prepared, .max_new = NEW, .ignore_eos = true, .hash_logits = true};
    if (!r->prepared) {
        q.prompt = r->prompt;
        q.n_prompt = r->n_prompt;
    }
    r->n = 0;
    r->finish = LS_FINISH_NONE;
    assert_ok(ls_session_submit(s, &q, &r->id, &e));
}

static void collect(ls_session *s, stream *r, int n) {
    for (ls_event v; ls_session_next_event(s, &v);)
        for (int i = 0; i < n; i++) {
            if (r[i].id != v.id) continue;
            r[i].finish = v.finish;
            if (v.finish) memcpy(r[i].sha, v.logits_sha256, sizeof v.logits_sha256);
            else r[i].out[r[i].n++] = v.token;
        }
}

static void run(ls_session *s, stream *r, int n) {
    ls_error e = {0};
    for (collect(s, r, n); !ls_session_is_idle(s); collect(s, r, n)) assert_ok(ls_session_step(s, &e));
}

static void same(const char *what, const stream *a, const stream *b) {
    assert_int_equal(b->finish, LS_FINISH_LENGTH);
    if (a->n != b->n || memcmp(a->out, b->out, sizeof a->out) || strcmp(a->sha, b->sha)) fail_msg("%s: logits or tokens differ", what);
}

/* Two different images in the same words, and text. */
static void streams_of(const fixture *f, stream r[3]) {
    memset(r, 0, 3 * sizeof *r);
    r[0].prepared = image_prompt(f, 1);
    r[1].prepared = image_prompt(f, 2);
    r[2].n_prompt = 40;
    for (int i = 0; i < 40; i++) r[2].prompt[i] = (i * 29 + 1) % f->vocab;
}

static void alone(const fixture *f, bool native, int chunk, stream r[3]) {
    ls_executor *x = executor_of(f, native, 1, chunk);
    ls_session *s = session_of(f, x, 1, chunk, 0);
    for (int i = 0; i < 3; i++) {
        submit(s, &r[i]);
        run(s, &r[i], 1);
    }
    ls_session_destroy(s);
    x->destroy(x);
}

static void streams_free(stream r[3]) {
    for (int i = 0; i < 2; i++) {
        assert_int_equal(r[i].prepared->holders, 1); /* no request kept it */
        ls_prepared_destroy(r[i].prepared);
    }
}

static void chunks(void **state) {
    (void)state;
    static const int sizes[] = {1, 5, 16, 40, 112};
    for (int contract = LS_CONTRACT_EXACT16; contract <= LS_CONTRACT_EXACT24; contract++) {
        fixture f;
        ls_error e = {0};
        stream want[3], got[3];
        assert_ok(fixture_open(&f, "gemma3", (ls_contract)contract, &e));
        streams_of(&f, want);
        alone(&f, false, 112, want);
        if (!strcmp(want[0].sha, want[1].sha)) fail_msg("different images give the same logits");
        for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++) {
            memcpy(got, want, sizeof got);
            alone(&f, true, sizes[c], got);
            for (int i = 0; i < 3; i++) same("chunks", &want[i], &got[i]);
        }
        streams_free(want);
        fixture_close(&f);
    }
}

/* Eight slots of images and text, more requests than slots, some cancelled while they wait or run; then the slots again. */
static void batches(const fixture *f, const stream want[3], size_t prefix) {
    enum { REQUESTS = 14 };
    ls_error e = {0};
    ls_executor *x = executor_of(f, true, SLOTS, 16);
    ls_session *s = session_of(f, x, SLOTS, 16, prefix);
    stream got[REQUESTS];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < REQUESTS; i++) {
            got[i] = want[i % 3];
            submit(s, &got[i]);
        }
        assert_true(ls_session_cancel(s, got[12].id)); /* waiting */
        assert_ok(ls_session_step(s, &e));
        collect(s, got, REQUESTS);
        assert_true(ls_session_cancel(s, got[3].id)); /* active */
        run(s, got, REQUESTS);
        for (int i = 0; i < REQUESTS; i++)
            if (i == 3 || i == 12) assert_int_equal(got[i].finish, LS_FINISH_CANCELLED);
            else same(prefix ? "a mixed batch with a prefix cache" : "a mixed batch", &want[i % 3], &got[i]);
    }
    if (prefix) assert_true(ls_session_statistics(s).reused_tokens > 0);
    ls_session_destroy(s);
    for (int i = 0; i < SLOTS; i++) assert_int_equal(x->length(x, i), 0);
    x->destroy(x);
}

static void mixed_batches(void **state) {
    (void)state;
    fixture f;
    ls_error e = {0};
    stream want[3];
    assert_ok(fixture_open(&f, "gemma3", LS_CONTRACT_EXACT16, &e));
    streams_of(&f, want);
    alone(&f, true, 16, want);
    batches(&f, want, 0);
    batches(&f, want, PREFIX);
    streams_free(want);
    fixture_close(&f);
}

/* The same words and another image: nothing behind the image's first position is reused; the same image is, even in the middle of a
 * block. Each request has its own payload. */
static void another_image_never_hits(void **state) {
    (void)state;
    fixture f;
    ls_error e = {0};
    stream want[3], got;
    assert_ok(fixture_open(&f, "gemma3", LS_CONTRACT_EXACT16, &e));
    streams_of(&f, want);
    alone(&f, true, 16, want);
    ls_executor *x = executor_of(&f, true, 1, 16);
    ls_session *s = session_of(&f, x, 1, 16, PREFIX);
    static const struct {
        int which;
        uint64_t reused;
    } steps[] = {{0, 0}, {1, 0}, {2, 0}, {0, 64}, {1, 64}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        uint64_t before = ls_session_statistics(s).reused_tokens;
        got = want[steps[i].which];
        if (got.prepared) got.prepared = image_prompt(&f, (uint64_t)steps[i].which + 1);
        submit(s, &got);
        ls_prepared_destroy(got.prepared); /* the request holds it */
        run(s, &got, 1);
        same("after another image", &want[steps[i].which], &got);
        assert_int_equal(ls_session_statistics(s).reused_tokens - before, steps[i].reused);
    }
    ls_session_destroy(s);
    x->destroy(x);
    streams_free(want);
    fixture_close(&f);
}

/* A block of 16 positions of which the first half has embeddings and the rest tokens, the last of them |word|; a stored block of 64 ends
 * between the two. */
static ls_prepared_prefill *captioned(const fixture *f, int32_t word) {
    enum { ROWS = 80, BEGIN = 56, END = 72, IMAGE = 8 };
    ls_error e = {0};
    ls_prepared_block block = {BEGIN, END};
    ls_prepared_prefill *p;
    int32_t token[ROWS];
    size_t at[IMAGE], hidden = (size_t)f->graph->hidden;
    float *values = calloc(IMAGE, hidden * sizeof *values);
    for (int i = 0; i < ROWS; i++) token[i] = (i * 29 + 1) % f->vocab;
    token[END - 1] = word;
    for (size_t i = 0; i < IMAGE * hidden; i++) values[i] = (float)(i % 37) * 0.05f - 0.9f;
    for (size_t i = 0; i < IMAGE; i++) at[i] = BEGIN + i;
    ls_prepared_options o = {.struct_size = sizeof o, .tokens = token, .n_tokens = ROWS, .length = ROWS, .rows_at = at, .blocks = &block, .n_blocks = 1,
                             .embeddings = floats(values, 2, IMAGE, f->graph->hidden, 0, 0)};
    assert_ok(ls_prepared_create(&p, &o, NULL, &e));
    free(values);
    return p;
}

/* Positions before the end of a block see the tokens in it, so another token there is another prefix. */
static void another_word_in_a_block_never_hits(void **state) {
    (void)state;
    fixture f;
    ls_error e = {0};
    stream want[2] = {{0}}, got;
    static const uint64_t reused[] = {0, 0, 64, 64};
    assert_ok(fixture_open(&f, "gemma3", LS_CONTRACT_EXACT16, &e));
    ls_executor *x = executor_of(&f, true, 1, 16);
    ls_session *s = session_of(&f, x, 1, 16, 0);
    for (int i = 0; i < 2; i++) {
        want[i].prepared = captioned(&f, 5 + i);
        submit(s, &want[i]);
        run(s, &want[i], 1);
    }
    ls_session_destroy(s);
    assert_string_not_equal(want[0].sha, want[1].sha);
    s = session_of(&f, x, 1, 16, PREFIX);
    for (int i = 0; i < 4; i++) {
        uint64_t before = ls_session_statistics(s).reused_tokens;
        got = want[i % 2];
        submit(s, &got);
        run(s, &got, 1);
        same("after another word", &want[i % 2], &got);
        assert_int_equal(ls_session_statistics(s).reused_tokens - before, reused[i]);
    }
    ls_session_destroy(s);
    for (int i = 0; i < 2; i++) ls_prepared_destroy(want[i].prepared);
    x->destroy(x);
    fixture_close(&f);
}

static void submissions(void **state) {
    (void)state;
    fixture f;
    ls_error e = {0};
    stream want[3];
    uint64_t id;
    ls_prepared_fault why;
    assert_ok(fixture_open(&f, "gemma3", LS_CONTRACT_EXACT16, &e));
    streams_of(&f, want);
    ls_executor *x = executor_of(&f, true, 1, 4);
    ls_session_config c = {.executor = x, .vocab = f.vocab, .context = CONTEXT, .slots = 1, .chunk = 4};
    ls_session *s;
    assert_ok(ls_session_create_on(&s, &c, &e));
    ls_request q = {.struct_size = sizeof q, .prepared = want[0].prepared, .max_new = NEW};
    assert_error(ls_session_submit(s, &q, &id, &e), LS_UNIMPLEMENTED, "takes token ids only");
    ls_session_destroy(s);
    s = session_of(&f, x, 1, 4, 0);
    q.prompt = want[2].prompt;
    assert_error(ls_session_submit(s, &q, &id, &e), LS_INVALID_ARGUMENT, "give one of them");
    q.prompt = NULL;
    q.max_new = 0;
    assert_error(ls_session_submit(s, &q, &id, &e), LS_INVALID_ARGUMENT, "max_new is 0");
    q.max_new = CONTEXT;
    assert_error(ls_session_submit(s, &q, &id, &e), LS_RESOURCE_EXHAUSTED, "images included");
    assert_error(ls_session_check_prepared(s, want[0].prepared, CONTEXT, &why, &e), LS_RESOURCE_EXHAUSTED, "images included");
    assert_int_equal(why, LS_PREPARED_CAPACITY);
    assert_ok(ls_session_check_prepared(s, want[0].prepared, NEW, &why, &e));
    assert_true(ls_session_is_idle(s));
    ls_session_destroy(s);
    c.hidden = f.graph->hidden; /* passes of 4 rows cannot hold a block of 16 */
    assert_ok(ls_session_create_on(&s, &c, &e));
    q.max_new = NEW;
    assert_error(ls_session_submit(s, &q, &id, &e), LS_RESOURCE_EXHAUSTED, "has 16 positions, a forward pass at most 4");
    ls_session_destroy(s);
    x->destroy(x);
    streams_free(want);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structure),     cmocka_unit_test(admission_in_order),       cmocka_unit_test(rows_and_blocks), cmocka_unit_test(masks), cmocka_unit_test(chunks),
        cmocka_unit_test(mixed_batches), cmocka_unit_test(another_image_never_hits), cmocka_unit_test(another_word_in_a_block_never_hits),
        cmocka_unit_test(submissions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
