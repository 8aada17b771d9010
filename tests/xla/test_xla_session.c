/* Sessions on backend xla with the real PJRT CPU plugin: batches of 4 and 8, first come first served, cancellation, reuse of slots,
 * end of sequence, growing buckets, capacity, the prefix cache in memory and on disk; every stream equal to its single run and to native's, bit for bit
 * where the contract is exact. And that nothing falls back.
 *
 * Compiled programs go to a cache folder of this run, so each is compiled once. */
#include "test.h"

#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include "session/bundle.h"
#include "session/prefix_cache.h"
#include "session/session.h"
#include "xla/iree.h"

enum { MAX_REQUESTS = 20, MAX_TOKENS = 300, MAX_PROMPT = 140 };

/* A request and what became of it. */
typedef struct stream {
    int32_t prompt[MAX_PROMPT], out[MAX_TOKENS];
    int n_prompt, max_new;
    size_t n;
    uint64_t id;
    int first_at; /* index of its first token among all events */
    ls_finish finish;
    char sha[65];
} stream;

static ls_model_options options(const char *backend, const char *contract, int slots) {
    bool xla = !strcmp(backend, "xla");
    return (ls_model_options){.struct_size = sizeof(ls_model_options),
                              .backend = backend,
                              .contract = contract,
                              .slots = slots,
                              .context = 96,
                              .chunk = 16,
                              .allow_unqualified = xla,
                              .threads = xla ? 0 : 1};
}

static const char *path_of(const char *name, char path[512]) {
    snprintf(path, 512, LS_FIXTURES "/models/%.128s", name);
    return path;
}

static ls_model *open_model(const char *name, const ls_model_options *o) {
    char path[512];
    ls_error e = {0};
    ls_model *m;
    assert_ok(ls_model_open(&m, path_of(name, path), o, &e));
    return m;
}

static void make_stream(stream *s, int seed, int n_prompt, int max_new, int64_t vocab) {
    *s = (stream){.n_prompt = n_prompt, .max_new = max_new, .first_at = -1};
    for (int i = 0; i < n_prompt; i++) s->prompt[i] = (int32_t)((seed * 131 + i * 37 + 7) % vocab);
}

static void submit(ls_session *session, stream *s) {
    ls_error e = {0};
    ls_request r = {
        .struct_size = sizeof r, .prompt = s->prompt, .n_prompt = (size_t)s->n_prompt, .max_new = s->max_new, .ignore_eos = true, .hash_logits = true};
    s->n = 0;
    s->finish = LS_FINISH_NONE;
    s->first_at = -1;
    assert_ok(ls_session_submit(session, &r, &s->id, &e));
}

static void collect(ls_session *session, stream *s, int n, int *events) {
    for (ls_event event; ls_session_next_event(session, &event); ++*events)
        for (int i = 0; i < n; i++) {
            if (s[i].id != event.id) continue;
            if (event.finish) {
                s[i].finish = event.finish;
                memcpy(s[i].sha, event.logits_sha256, sizeof s[i].sha);
                continue;
            }
            if (s[i].first_at < 0) s[i].first_at = *events;
            s[i].out[s[i].n++] = event.token;
        }
}

static void run_all(ls_session *session, stream *s, int n) {
    ls_error e = {0};
    int events = 0;
    for (int i = 0; i < n; i++) submit(session, &s[i]);
    while (!ls_session_is_idle(session)) {
        assert_ok(ls_session_step(session, &e));
        collect(session, s, n, &events);
    }
}

static ls_session *new_session(ls_model *m) {
    ls_error e = {0};
    ls_session *s;
    assert_ok(ls_session_create(&s, m, &e));
    return s;
}

/* Each stream alone on |m|. */
static void run_single(ls_model *m, stream *s, int n) {
    ls_session *session = new_session(m);
    for (int i = 0; i < n; i++) run_all(session, &s[i], 1);
    ls_session_destroy(session);
}

static void check_equal(const stream *got, const stream *want, int n, bool bits, const char *how) {
    for (int i = 0; i < n; i++) {
        if (got[i].n != want[i].n || memcmp(got[i].out, want[i].out, want[i].n * sizeof *want[i].out)) fail_msg("%s: stream %d has other tokens", how, i);
        if (bits && strcmp(got[i].sha, want[i].sha)) fail_msg("%s: stream %d has other logits", how, i);
        assert_int_equal(got[i].finish, LS_FINISH_LENGTH);
    }
}

/* First come, first served: first tokens in the order of submission. */
static void check_order(const stream *s, int n) {
    for (int i = 1; i < n; i++) assert_true(s[i].first_at > s[i - 1].first_at);
}

/* Twice as many requests as slots and one more, of mixed lengths, against native one by one. */
static int make_streams(stream *s, int slots, int64_t vocab) {
    int n = 2 * slots + 1;
    for (int i = 0; i < n; i++) make_stream(&s[i], i + 1, 1 + i * 5 % 11, 3 + i * 7 % 12, vocab);
    return n;
}

/* ---- Equality -------------------------------------------------------------------------------------------------------------- */

static void check_streams(const char *name, const char *contract, int slots) {
    ls_model_options o = options("native", contract, 1), x = options("xla", contract, slots);
    ls_model *native = open_model(name, &o), *xla = open_model(name, &x);
    static stream want[MAX_REQUESTS], got[MAX_REQUESTS];
    int n = make_streams(want, slots, ls_model_vocab(native));
    memcpy(got, want, sizeof got);
    run_single(native, want, n);
    ls_session *s = new_session(xla);
    run_all(s, got, n);
    check_order(got, n);
    check_equal(got, want, n, true, "in a batch");
    run_all(s, got, 1);
    check_equal(got, want, 1, true, "alone");
    ls_session_destroy(s);
    ls_model_destroy(xla);
    ls_model_destroy(native);
}

static void test_exact16_batch_of_4(void **state) {
    (void)state;
    check_streams("llama", "exact16", 4);
}

static void test_exact24_batch_of_8(void **state) {
    (void)state;
    check_streams("gemma3", "exact24", 8);
}

static void test_float_batch_of_4(void **state) {
    (void)state;
    ls_model_options o = options("xla", "float", 4);
    ls_model *m = open_model("llama", &o);
    static stream alone[MAX_REQUESTS], together[MAX_REQUESTS];
    int n = make_streams(alone, 4, ls_model_vocab(m));
    memcpy(together, alone, sizeof together);
    run_single(m, alone, n);
    ls_session *s = new_session(m);
    run_all(s, together, n);
    check_order(together, n);
    check_equal(together, alone, n, false, "in a batch");
    ls_session_destroy(s);
    ls_model_destroy(m);
}

/* The third request needs the next bucket while two others are writing; they go on in it, and the bits stay. */
static void test_bucket_grows_in_the_middle(void **state) {
    (void)state;
    ls_error e = {0};
    ls_model_options o = options("native", "exact16", 1), x = options("xla", "exact16", 4);
    o.context = x.context = 300;
    x.buckets = "256,300";
    ls_model *native = open_model("llama", &o), *xla = open_model("llama", &x);
    static stream want[4], got[4];
    static const int lengths[4][2] = {{5, 20}, {3, 25}, {20, 250}, {7, 6}};
    for (int i = 0; i < 4; i++) make_stream(&want[i], 50 + i, lengths[i][0], lengths[i][1], ls_model_vocab(native));
    memcpy(got, want, sizeof got);
    run_single(native, want, 4);
    ls_session *s = new_session(xla);
    size_t weights, before, after, work;
    int events = 0;
    submit(s, &got[0]);
    submit(s, &got[1]);
    for (int i = 0; i < 3; i++) {
        assert_ok(ls_session_step(s, &e));
        collect(s, got, 4, &events);
    }
    xla->executor->memory(xla->executor, &weights, &before, &work);
    submit(s, &got[2]);
    submit(s, &got[3]);
    assert_ok(ls_session_step(s, &e));
    collect(s, got, 4, &events);
    xla->executor->memory(xla->executor, &weights, &after, &work);
    assert_int_equal(after, 2 * before);
    while (!ls_session_is_idle(s)) {
        assert_ok(ls_session_step(s, &e));
        collect(s, got, 4, &events);
    }
    check_equal(got, want, 4, true, "over two buckets");
    ls_session_destroy(s);
    ls_model_destroy(xla);
    ls_model_destroy(native);
}

/* ---- The prefix cache -------------------------------------------------------------------------------------------------------- */

enum { PREFIXED = 6, BIG = 64 << 20 };

/* Prompts that have whole blocks of 64 tokens, parts of blocks, and nothing in common. */
static void prefix_streams(stream s[PREFIXED], int64_t vocab) {
    static const int length[PREFIXED] = {133, 133, 69, 90, 133, 40}, common[PREFIXED] = {133, 101, 64, 85, 133, 0};
    for (int i = 0; i < PREFIXED; i++) {
        make_stream(&s[i], 3, length[i], 6 + i, vocab);
        for (int k = common[i]; k < length[i]; k++) s[i].prompt[k] = (int32_t)((s[i].prompt[k] + 1 + i) % vocab);
    }
}

static size_t block_bytes(ls_model *m) {
    ls_prefix_cache *c;
    ls_error e = {0};
    assert_ok(ls_prefix_create(&c, m->executor, BIG, "", &e));
    size_t capacity = ls_prefix_stats(c).capacity;
    ls_prefix_destroy(c);
    return BIG / capacity;
}

static ls_session *cached_session(ls_model *m, size_t blocks, const char *folder) {
    ls_error e = {0};
    ls_session *s;
    const ls_session_options o = {.struct_size = sizeof o, .prefix_cache_bytes = blocks * block_bytes(m), .prefix_cache = folder};
    assert_ok(ls_session_create_with(&s, m, &o, &e));
    assert_null(ls_session_note(s));
    return s;
}

/* One after another, then all at once, in one session with room for |blocks|; what it says of the cache. */
static ls_statistics serve_twice(ls_model *m, size_t blocks, const char *folder, const stream want[PREFIXED], bool bits) {
    static stream got[PREFIXED];
    ls_error e = {0};
    ls_session *s = cached_session(m, blocks, folder);
    memcpy(got, want, sizeof got);
    for (int i = 0; i < PREFIXED; i++) run_all(s, &got[i], 1);
    check_equal(got, want, PREFIXED, bits, "with a prefix cache, one by one");
    run_all(s, got, PREFIXED);
    check_equal(got, want, PREFIXED, bits, "with a prefix cache, in a batch");
    ls_statistics t = ls_session_statistics(s);
    assert_ok(ls_session_save(s, &e));
    ls_session_destroy(s);
    return t;
}

/* Blocks that a new session of |m| finds in |folder|. */
static size_t blocks_in(ls_model *m, const char *folder) {
    ls_session *s = cached_session(m, 20, folder);
    ls_statistics t = ls_session_statistics(s);
    ls_session_destroy(s);
    return t.prefix_blocks;
}

static size_t blocks_for(const char *contract, const char *precision, const char *folder) {
    ls_model_options o = options("xla", contract, 4);
    o.context = 200;
    o.precision = precision;
    ls_model *m = open_model("llama", &o);
    size_t n = blocks_in(m, folder);
    ls_model_destroy(m);
    return n;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *f) {
    (void)st;
    (void)type;
    (void)f;
    return remove(path);
}

/* As much is found and dropped as on native, in a large cache and in a small one; under an exact contract with the same bits. The file is for
 * the same contract, precision and engine. */
static void check_prefix_cache(const char *contract, bool bits) {
    char folder[] = "/tmp/lockstep-prefix-XXXXXX";
    ls_model_options n = options("native", bits ? contract : "exact16", 4), x = options("xla", contract, 4);
    n.context = x.context = 200;
    ls_model *native = open_model("llama", &n), *xla = open_model("llama", &x);
    static stream want[PREFIXED], counted[PREFIXED];
    assert_non_null(mkdtemp(folder));
    prefix_streams(want, ls_model_vocab(native));
    memcpy(counted, want, sizeof want);
    run_single(native, counted, PREFIXED);
    if (bits) memcpy(want, counted, sizeof want);
    else run_single(xla, want, PREFIXED);
    for (size_t blocks = 2; blocks <= 20; blocks += 18) {
        ls_statistics a = serve_twice(native, blocks, NULL, counted, true), b = serve_twice(xla, blocks, blocks == 20 ? folder : NULL, want, bits);
        assert_true(b.reused_tokens > 0 && b.prefix_blocks > 0 && b.prefix_blocks <= blocks);
        if (!bits) continue; /* other tokens, other blocks */
        assert_int_equal(a.reused_tokens, b.reused_tokens);
        assert_int_equal(a.prefix_blocks, b.prefix_blocks);
        assert_int_equal(a.prefix_evicted, b.prefix_evicted);
    }
    ls_model_destroy(xla);
    assert_int_equal(blocks_in(native, folder), 0);
    assert_int_equal(blocks_for("exact24", NULL, folder), 0);
    assert_int_equal(blocks_for("float", "bf16", folder), 0);
    assert_true(blocks_for(contract, NULL, folder) > 0);
    xla = open_model("llama", &x);
    ls_session *s = cached_session(xla, 20, folder);
    run_all(s, counted, 1);
    assert_int_equal(ls_session_statistics(s).reused_tokens, 128);
    check_equal(counted, want, 1, bits, "from the file");
    ls_session_destroy(s);
    ls_model_destroy(xla);
    ls_model_destroy(native);
    assert_int_equal(nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static void test_exact16_prefix_cache(void **state) {
    (void)state;
    check_prefix_cache("exact16", true);
}

static void test_float_prefix_cache(void **state) {
    (void)state;
    check_prefix_cache("float", false);
}

/* Blocks of one capacity begin a slot of another; what does not fit a slot is refused, and the slot stays as it was. */
static void test_prefix_over_buckets(void **state) {
    (void)state;
    ls_error e = {0};
    ls_model_options n = options("native", "exact16", 1), x = options("xla", "exact16", 4);
    n.context = x.context = 300;
    x.buckets = "256,300";
    ls_model *native = open_model("llama", &n), *m = open_model("llama", &x);
    static stream want[2], got[2];
    for (int i = 0; i < 2; i++) make_stream(&want[i], 3, 133, i ? 160 : 6, ls_model_vocab(native));
    memcpy(got, want, sizeof got);
    run_single(native, want, 2);
    ls_session *s = cached_session(m, 20, NULL);
    size_t weights, small, large, work;
    run_all(s, &got[0], 1);
    m->executor->memory(m->executor, &weights, &small, &work);
    run_all(s, &got[1], 1);
    m->executor->memory(m->executor, &weights, &large, &work);
    assert_true(large > 2 * small - 8 * block_bytes(m));
    check_equal(got, want, 2, true, "over two buckets");
    assert_int_equal(ls_session_statistics(s).reused_tokens, 128);
    assert_false(ls_session_capabilities(s).paged_kv);
    ls_session_destroy(s);
    const ls_block_sharing *ops = m->executor->sharing;
    void *block = NULL;
    assert_ok(ops->create(m->executor, &block, &e));
    assert_error(ops->attach(m->executor, 4, &block, 1, 64, &e), LS_INVALID_ARGUMENT, "slot 4 does not exist");
    assert_error(ops->attach(m->executor, 0, &block, 1, 65, &e), LS_INVALID_ARGUMENT, "65 positions in 1 blocks of 64");
    assert_error(ops->attach(m->executor, 0, &block, 5, 301, &e), LS_OUT_OF_RANGE, "301 positions do not fit the context of 300");
    assert_ok(ops->attach(m->executor, 0, &block, 1, 40, &e));
    assert_error(ops->attach(m->executor, 0, &block, 1, 64, &e), LS_INVALID_ARGUMENT, "not empty");
    assert_int_equal(m->executor->length(m->executor, 0), 40);
    m->executor->truncate(m->executor, 0, 0);
    ops->release(m->executor, block);
    ls_model_destroy(m);
    ls_model_destroy(native);
}

/* ---- Scheduling -------------------------------------------------------------------------------------------------------------- */

/* One of four running and one of two waiting requests are cancelled; the freed slot serves the next, and nobody else notices. */
static void test_cancel_and_reuse(void **state) {
    (void)state;
    ls_error e = {0};
    ls_model_options o = options("native", "exact16", 1), x = options("xla", "exact16", 4);
    ls_model *native = open_model("llama", &o), *xla = open_model("llama", &x);
    static stream want[6], got[6];
    for (int i = 0; i < 6; i++) make_stream(&want[i], 80 + i, 2 + i, 12, ls_model_vocab(native));
    memcpy(got, want, sizeof got);
    run_single(native, want, 6);
    ls_session *s = new_session(xla);
    int events = 0;
    for (int i = 0; i < 6; i++) submit(s, &got[i]);
    for (int i = 0; i < 3; i++) {
        assert_ok(ls_session_step(s, &e));
        collect(s, got, 6, &events);
    }
    assert_int_equal(ls_session_active(s), 4);
    assert_int_equal(ls_session_pending(s), 2);
    assert_true(ls_session_cancel(s, got[1].id));
    assert_true(ls_session_cancel(s, got[4].id));
    assert_false(ls_session_cancel(s, got[4].id));
    assert_int_equal(xla->executor->length(xla->executor, 1), 0);
    assert_ok(ls_session_step(s, &e));
    collect(s, got, 6, &events);
    assert_int_equal(ls_session_pending(s), 0);
    assert_int_equal(xla->executor->length(xla->executor, 1), got[5].n_prompt + 1); /* the sixth request has the second's slot */
    while (!ls_session_is_idle(s)) {
        assert_ok(ls_session_step(s, &e));
        collect(s, got, 6, &events);
    }
    for (int i = 0; i < 6; i++) {
        bool cancelled = i == 1 || i == 4;
        assert_int_equal(got[i].finish, cancelled ? LS_FINISH_CANCELLED : LS_FINISH_LENGTH);
        assert_int_equal(got[i].n, i == 4 ? 0 : i == 1 ? 4 : 12);
        assert_memory_equal(got[i].out, want[i].out, got[i].n * sizeof *got[i].out);
        if (!cancelled) assert_string_equal(got[i].sha, want[i].sha);
    }
    ls_session_destroy(s);
    ls_model_destroy(xla);
    ls_model_destroy(native);
}

/* The token that ends the answer is no part of it. */
static void test_end_of_sequence(void **state) {
    (void)state;
    ls_error e = {0};
    ls_model_options x = options("xla", "exact16", 4);
    ls_model *m = open_model("llama", &x);
    static stream full[2];
    make_stream(&full[0], 90, 4, 10, ls_model_vocab(m));
    make_stream(&full[1], 91, 6, 10, ls_model_vocab(m));
    ls_session *s = new_session(m);
    run_all(s, full, 2);
    ls_session_destroy(s);
    size_t at = 0;
    while (at < 9 && full[0].out[at] == full[0].out[0]) at++; /* a token that is not the first one */
    int32_t eos = full[0].out[at];
    ls_session_config c = {
        .executor = m->executor, .vocab = m->graph->vocab, .context = m->context, .slots = m->slots, .chunk = m->chunk, .eos = &eos, .n_eos = 1};
    assert_ok(ls_session_create_on(&s, &c, &e));
    static stream cut[2];
    memcpy(cut, full, sizeof cut);
    int events = 0;
    for (int i = 0; i < 2; i++) {
        ls_request r = {.struct_size = sizeof r, .prompt = cut[i].prompt, .n_prompt = (size_t)cut[i].n_prompt, .max_new = 10};
        cut[i].n = 0;
        assert_ok(ls_session_submit(s, &r, &cut[i].id, &e));
    }
    while (!ls_session_is_idle(s)) {
        assert_ok(ls_session_step(s, &e));
        collect(s, cut, 2, &events);
    }
    assert_int_equal(cut[0].finish, LS_FINISH_STOP);
    assert_int_equal(cut[0].n, at);
    assert_memory_equal(cut[0].out, full[0].out, at * sizeof *cut[0].out);
    assert_memory_equal(cut[1].out, full[1].out, cut[1].n * sizeof *cut[1].out);
    ls_session_destroy(s);
    ls_model_destroy(m);
}

/* ---- Refusals -------------------------------------------------------------------------------------------------------------- */

/* What is over the largest bucket is refused before anything is compiled or uploaded. */
static void test_capacity(void **state) {
    (void)state;
    char path[512];
    ls_error e = {0};
    ls_model *m;
    ls_model_options o = options("xla", "exact16", 4);
    o.buckets = "64";
    assert_error(ls_model_open(&m, path_of("llama", path), &o, &e), LS_INVALID_ARGUMENT, "context of 96 positions; the largest bucket holds 64");
    o.context = 0;
    assert_ok(ls_model_open(&m, path, &o, &e));
    assert_int_equal(ls_model_context(m), 64);
    ls_session *s = new_session(m);
    int32_t prompt[5] = {1, 2, 3, 4, 5};
    uint64_t id;
    ls_request r = {.struct_size = sizeof r, .prompt = prompt, .n_prompt = 5, .max_new = 60};
    assert_error(ls_session_submit(s, &r, &id, &e), LS_RESOURCE_EXHAUSTED, "prompt of 5 tokens + 60 new tokens is more than the context of 64 positions");
    r.n_prompt = 0;
    assert_error(ls_session_submit(s, &r, &id, &e), LS_INVALID_ARGUMENT, "empty");
    assert_true(ls_session_is_idle(s));
    assert_error(m->executor->reserve(m->executor, 0, 257, &e), LS_RESOURCE_EXHAUSTED, "257 positions are more than the largest bucket of 256");
    assert_int_equal(ls_xla_executor_stats(m->executor).programs, 0);
    size_t weights, kv, work;
    m->executor->memory(m->executor, &weights, &kv, &work);
    assert_int_equal(weights + kv, 0);
    ls_session_destroy(s);
    ls_model_destroy(m);
    static const char *const bad[] = {"", "0", "256,", "512,256", "256;512", "-1", "99999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o.buckets = bad[i];
        assert_error(ls_model_open(&m, path, &o, &e), LS_INVALID_ARGUMENT, "buckets");
    }
}

static void refuse(ls_model_options o, ls_code code, const char *part) {
    char path[512];
    ls_error e = {0};
    ls_model *m;
    assert_error(ls_model_open(&m, path_of("llama", path), &o, &e), code, part);
}

/* Another backend, device, engine, precision or weight form than the one asked for is never taken instead. */
static void test_nothing_falls_back(void **state) {
    (void)state;
    ls_model_options x = options("xla", "exact16", 1), n = options("native", "exact16", 1), o;
    refuse((o = x, o.allow_unqualified = false, o), LS_FAILED_PRECONDITION, "llama under exact16 on pjrt cpu is not qualified: there is no record of it");
    refuse((o = x, o.device = "cuda", o), LS_NOT_FOUND, "no PJRT plugin for device \"cuda\"");
    refuse((o = x, o.device = "cuda", o.plugin = LS_CPU_PLUGIN, o), LS_FAILED_PRECONDITION, "cuda");
    refuse((o = x, o.device = "npu", o), LS_INVALID_ARGUMENT, "npu");
    refuse((o = x, o.plugin = "/nonexistent.so", o), LS_NOT_FOUND, "nonexistent.so");
    refuse((o = x, o.engine = "tvm", o), LS_INVALID_ARGUMENT, "use pjrt or iree");
    if (!ls_iree_has_runtime()) refuse((o = x, o.engine = "iree", o), LS_UNIMPLEMENTED, "no IREE runtime");
    refuse((o = x, o.engine = "iree", o.plugin = LS_CPU_PLUGIN, o), LS_INVALID_ARGUMENT, "engine iree");
    refuse((o = x, o.gpu_target = "sm_80", o), LS_INVALID_ARGUMENT, "gpu-target \"sm_80\" is for engine iree");
    refuse((o = x, o.precision = "f16", o), LS_INVALID_ARGUMENT, "precision \"f16\" is for contract float");
    refuse((o = x, o.quant = "packed", o), LS_INVALID_ARGUMENT, "quant \"packed\" is for contract float");
    refuse((o = x, o.contract = "float", o.precision = "f8", o), LS_INVALID_ARGUMENT, "f8");
    refuse((o = x, o.contract = "float", o.quant = "packed", o), LS_INVALID_ARGUMENT, "none can stay packed");
    refuse((o = x, o.contract = "float", o.quant = "sparse", o), LS_INVALID_ARGUMENT, "use dense or packed");
    refuse((o = x, o.level = "avx2", o), LS_INVALID_ARGUMENT, "level \"avx2\" is for backend native");
    refuse((o = x, o.threads = 2, o), LS_INVALID_ARGUMENT, "2 threads are for backend native");
    refuse((o = n, o.device = "cpu", o), LS_INVALID_ARGUMENT, "device \"cpu\" is for backend xla; the backend is native");
    refuse((o = n, o.backend = NULL, o.engine = "pjrt", o), LS_INVALID_ARGUMENT, "engine \"pjrt\" is for backend xla");
    refuse((o = n, o.backend = "gpu", o), LS_INVALID_ARGUMENT, "use native, reference or xla");
}

/* ---- The cache folder ------------------------------------------------------------------------------------------------------------ */

static char cache[64];

static int make_cache(void **state) {
    (void)state;
    snprintf(cache, sizeof cache, "/tmp/lockstep-session-XXXXXX");
    setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0);
    unsetenv("LOCKSTEP_PJRT_PLUGIN");
    return !mkdtemp(cache) || setenv("XDG_CACHE_HOME", cache, 1) || setenv("LOCKSTEP_PYTHON_ENV", LS_PLUGINS, 1);
}

static int remove_cache(void **state) {
    (void)state;
    return nftw(cache, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_falls_back),   cmocka_unit_test(test_capacity),           cmocka_unit_test(test_exact16_batch_of_4),
        cmocka_unit_test(test_exact24_batch_of_8),   cmocka_unit_test(test_float_batch_of_4),   cmocka_unit_test(test_bucket_grows_in_the_middle),
        cmocka_unit_test(test_cancel_and_reuse),     cmocka_unit_test(test_end_of_sequence),    cmocka_unit_test(test_exact16_prefix_cache),
        cmocka_unit_test(test_float_prefix_cache),   cmocka_unit_test(test_prefix_over_buckets),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
