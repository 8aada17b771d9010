/* The prefix cache: the same tokens and logits with it and without on every fixture, whatever shares, is cancelled or dropped; what is
 * kept and dropped; and its file, whole and damaged. */
#include "stream.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture_models.h"
#include "session/prefix_cache.h"

enum { N = 7, SLOTS = 3, CHUNK = 48, BIG = 64 << 20 };

/* Prompts that begin alike in many ways: whole blocks, parts of blocks, nothing. One fixture takes 96 positions. */
static void requests(stream s[N], const ls_model *m) {
    int64_t vocab = ls_model_vocab(m);
    static const struct {
        size_t common, own;
        uint32_t seed;
    } shape[N] = {{150, 0, 0}, {100, 60, 1}, {150, 0, 0}, {64, 0, 0}, {65, 0, 0}, {0, 70, 2}, {128, 90, 3}};
    memset(s, 0, N * sizeof *s);
    for (int i = 0; i < N; i++) {
        stream_append(&s[i], 99, shape[i].common, vocab);
        stream_append(&s[i], shape[i].seed, shape[i].own, vocab);
        s[i].max_new = 3 + i % 4;
        if (s[i].n_prompt > (size_t)ls_model_context(m) - 6) s[i].n_prompt = (size_t)ls_model_context(m) - 6;
        s[i].ignore_eos = true;
        if (i % 2) s[i].sampling = (ls_sampling){.seed = (uint64_t)i, .temperature = 0.9};
    }
}

static ls_session *cached(ls_model *m, size_t bytes, const char *folder) {
    ls_error e = {0};
    ls_session *s = NULL;
    assert_ok(ls_session_create_with(&s, m, &(ls_session_options){.struct_size = sizeof(ls_session_options), .prefix_cache_bytes = bytes, .prefix_cache = folder}, &e));
    return s;
}

/* Bytes of one kept block. */
static size_t block_bytes(ls_model *m) {
    ls_prefix_cache *c;
    ls_error e = {0};
    assert_ok(ls_prefix_create(&c, m->executor, BIG, "", &e));
    size_t capacity = ls_prefix_stats(c).capacity;
    ls_prefix_destroy(c);
    return BIG / capacity;
}

/* One after another, twice; all at once; and with cancellations between, on a session that keeps up to |bytes|. */
static void check_session(const char *name, ls_model *m, size_t bytes, const stream want[N]) {
    ls_error e = {0};
    stream got[N];
    char what[200];
    ls_session *s = cached(m, bytes, NULL);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < N; i++) {
            snprintf(what, sizeof what, "%.100s, %zu bytes, request %d, round %d", name, bytes, i, round);
            memcpy(got, want, sizeof got);
            stream_submit(s, &got[i]);
            stream_run(s, &got[i], 1);
            stream_same(what, &want[i], &got[i]);
        }
    memcpy(got, want, sizeof got);
    for (int i = 0; i < N; i++) stream_submit(s, &got[i]);
    assert_ok(ls_session_step(s, &e));
    stream_collect(s, got, N);
    assert_true(ls_session_cancel(s, got[1].id)); /* active: its blocks are kept and shared */
    assert_true(ls_session_cancel(s, got[4].id)); /* waiting */
    stream_run(s, got, N);
    for (int i = 0; i < N; i++) {
        snprintf(what, sizeof what, "%.100s, %zu bytes, request %d among others", name, bytes, i);
        if (i == 1 || i == 4) assert_int_equal(got[i].finish, LS_FINISH_CANCELLED);
        else stream_same(what, &want[i], &got[i]);
    }
    ls_statistics t = ls_session_statistics(s);
    assert_true(t.prefix_bytes <= bytes);
    assert_true(t.reused_tokens > 0);
    ls_session_destroy(s);
    for (int i = 0; i < SLOTS; i++) assert_int_equal(m->executor->length(m->executor, i), 0);
}

static void check_model(const char *name, const char *contract) {
    ls_error e = {0};
    stream want[N];
    ls_session *s = NULL;
    ls_model *m = stream_model(name, contract, NULL, SLOTS, CHUNK);
    requests(want, m);
    assert_ok(ls_session_create(&s, m, &e));
    for (int i = 0; i < N; i++) {
        stream_submit(s, &want[i]);
        stream_run(s, &want[i], 1);
    }
    ls_session_destroy(s);
    check_session(name, m, BIG, want);
    check_session(name, m, 3 * block_bytes(m), want); /* fewer blocks than one prompt has, or two */
    ls_model_destroy(m);
}

static void test_every_model(void **state) {
    (void)state;
    char names[FIXTURE_MAX][128];
    int n = fixture_names(names);
    assert_true(n > 20);
    for (int i = 0; i < n; i++) check_model(names[i], i % 3 ? i % 3 == 1 ? "exact24" : "exact16-kv8" : "exact16");
    check_model("gemma3", "exact16"); /* a window under every contract */
    check_model("gemma3", "exact16-kv8");
    check_model("gemma3", "exact24");
}

/* How much is reused, and what is dropped first. */
static void test_what_is_kept(void **state) {
    (void)state;
    ls_error e = {0};
    stream r[N];
    ls_model *m = stream_model("llama", NULL, NULL, SLOTS, CHUNK);
    requests(r, m);
    ls_session *s = cached(m, BIG, NULL);
    static const uint64_t reused[N] = {0, 100, 128, 63, 64, 0, 128};
    uint64_t before = 0;
    for (int i = 0; i < N; i++) {
        stream_submit(s, &r[i]);
        stream_run(s, &r[i], 1);
        uint64_t now = ls_session_statistics(s).reused_tokens;
        /* A random token may happen to go on as a kept one did. */
        if (now - before < reused[i] || now - before > reused[i] + 1) fail_msg("request %d: %d tokens reused", i, (int)(now - before));
        before = now;
    }
    assert_int_equal(ls_session_timings(s).prefill_tokens + before, 150 + 160 + 150 + 64 + 65 + 70 + 218);
    ls_session_destroy(s);
    /* Two blocks: the prompt of one block that was used last stays, the older one goes, and results do not change. */
    s = cached(m, 2 * block_bytes(m), NULL);
    stream a = {.max_new = 1, .ignore_eos = true}, b = a, c = a;
    stream_append(&a, 1, 70, ls_model_vocab(m));
    stream_append(&b, 2, 70, ls_model_vocab(m));
    stream_append(&c, 3, 70, ls_model_vocab(m));
    stream *const order[] = {&a, &b, &a, &c, &a, &b};
    static const int hit[] = {0, 0, 1, 0, 1, 0};
    for (int i = 0; i < 6; i++) {
        before = ls_session_statistics(s).reused_tokens;
        stream_submit(s, order[i]);
        stream_run(s, order[i], 1);
        assert_int_equal(ls_session_statistics(s).reused_tokens - before >= 64, hit[i]);
    }
    assert_int_equal(ls_session_statistics(s).prefix_evicted, 2);
    assert_int_equal(ls_session_statistics(s).prefix_blocks, 2);
    ls_session_destroy(s);
    assert_error(ls_session_create_with(&s, m, &(ls_session_options){.struct_size = sizeof(ls_session_options), .prefix_cache_bytes = 100}, &e), LS_INVALID_ARGUMENT,
                 "a prefix cache of 100 bytes");
    assert_error(ls_session_create_with(&s, m, &(ls_session_options){.struct_size = sizeof(ls_session_options), .prefix_cache = "x"}, &e), LS_INVALID_ARGUMENT,
                 "needs room");
    ls_model_destroy(m);
    m = stream_model("llama", NULL, "reference", 1, CHUNK);
    assert_error(ls_session_create_with(&s, m, &(ls_session_options){.struct_size = sizeof(ls_session_options), .prefix_cache_bytes = BIG}, &e), LS_UNIMPLEMENTED,
                 "use backend native");
    ls_model_destroy(m);
}

static void feed(ls_executor *x, int slot, const int32_t *token, int n, float *logits) {
    ls_error e = {0};
    int32_t slots[STREAM_TOKENS], last = n - 1;
    for (int i = 0; i < n; i++) slots[i] = slot;
    ls_batch b = {.n_rows = n, .token = token, .slot = slots, .n_out = logits ? 1 : 0, .out_row = &last};
    assert_ok(x->forward(x, &b, logits, &e));
}

/* A slot that shares half a block and goes on writes to its own copy; the other's bits stay. What else entered is part of the key. */
static void test_copy_on_write_and_extras(void **state) {
    (void)state;
    ls_error e = {0};
    stream t = {0};
    size_t got;
    ls_prefix_cache *c;
    ls_model *m = stream_model("llama", NULL, NULL, SLOTS, 200);
    ls_executor *x = m->executor;
    stream_append(&t, 5, 200, m->graph->vocab);
    float *want = calloc((size_t)m->graph->vocab, sizeof *want), *logits = calloc((size_t)m->graph->vocab, sizeof *logits);
    assert_ok(ls_prefix_create(&c, x, BIG, "test", &e));
    ls_prefix_sequence s = {.token = t.prompt, .n = 128};
    feed(x, 0, t.prompt, 128, NULL);
    ls_prefix_insert(c, 0, &s);
    feed(x, 0, t.prompt + 128, 1, want);
    x->truncate(x, 0, 128);
    assert_ok(ls_prefix_attach(c, 1, &s, 100, &got, &e));
    assert_int_equal(got, 100);
    feed(x, 1, t.prompt + 7, 20, NULL); /* other tokens at positions 100 to 119: a copy of the second block */
    feed(x, 0, t.prompt + 128, 1, logits); /* the first slot's keys and values are as they were */
    assert_memory_equal(logits, want, (size_t)m->graph->vocab * sizeof *want);
    x->truncate(x, 0, 0);
    assert_ok(ls_prefix_attach(c, 0, &s, 128, &got, &e)); /* and so are the kept ones */
    assert_int_equal(got, 128);
    feed(x, 0, t.prompt + 128, 1, logits);
    assert_memory_equal(logits, want, (size_t)m->graph->vocab * sizeof *want);
    void *none = NULL;
    assert_error(x->sharing->attach(x, 0, &none, 1, 64, &e), LS_INVALID_ARGUMENT, "not empty");
    assert_error(x->sharing->attach(x, 2, &none, 1, 65, &e), LS_INVALID_ARGUMENT, "65 positions in 1 blocks");
    assert_error(x->sharing->attach(x, 2, &none, 7, ls_model_context(m) + 1, &e), LS_OUT_OF_RANGE, "context");
    ls_prefix_extra image = {.position = 70, .sha256 = {1, 2, 3}}, other = {.position = 70, .sha256 = {1, 2, 4}};
    ls_prefix_sequence with = {.token = t.prompt, .n = 128, .extra = &image, .n_extra = 1}, another = with;
    another.extra = &other;
    assert_ok(ls_prefix_attach(c, 2, &with, 128, &got, &e)); /* the block of the image is not there, not even in part */
    assert_int_equal(got, 64);
    feed(x, 2, t.prompt + 64, 64, NULL);
    ls_prefix_insert(c, 2, &with);
    assert_int_equal(ls_prefix_stats(c).blocks, 3);
    for (int i = 0; i < 3; i++) {
        x->truncate(x, 2, 0);
        assert_ok(ls_prefix_attach(c, 2, i == 0 ? &with : i == 1 ? &another : &s, 128, &got, &e));
        assert_int_equal(got, i == 1 ? 64 : 128);
    }
    for (int i = 0; i < 3; i++) { /* part of the image's block, for a shorter sequence with the same image alone */
        ls_prefix_sequence part = i == 0 ? with : i == 1 ? another : s;
        part.n = 100;
        x->truncate(x, 2, 0);
        assert_ok(ls_prefix_attach(c, 2, &part, 100, &got, &e));
        assert_int_equal(got, i == 1 ? 64 : 100);
    }
    ls_prefix_destroy(c);
    free(want);
    free(logits);
    ls_model_destroy(m);
}

/* ---- On disk ----------------------------------------------------------------------------------------------------------- */

static char folder[64], file[700];

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/lockstep-prefix-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

/* Finds the file of the folder, the only one. */
static void find_file(void) {
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));)
        if (f->d_name[0] != '.') {
            n++;
            snprintf(file, sizeof file, "%s/%s", folder, f->d_name);
        }
    closedir(d);
    assert_int_equal(n, 1);
}

/* In place of the file, what a process leaves that is killed while it writes: the next one that writes deletes it. */
static void leave_half_a_file(void) {
    char half[sizeof file + 32];
    snprintf(half, sizeof half, "%s.tmp.0123456789abcdef", file);
    assert_int_equal(rename(file, half), 0);
}

static int remove_folder(void **state) {
    (void)state;
    unlink(file);
    return rmdir(folder);
}

/* Runs request |i| on a fresh model; *note is set when the file was ignored. */
static uint64_t run_once(const char *name, const char *contract, int i, size_t bytes, const stream *want, bool *note, bool save) {
    ls_error e = {0};
    stream got[N];
    ls_model *m = stream_model(name, contract, NULL, 1, CHUNK);
    requests(got, m);
    ls_session *s = cached(m, bytes, folder);
    *note = ls_session_note(s) != NULL;
    stream_submit(s, &got[i]);
    stream_run(s, &got[i], 1);
    if (want) stream_same(name, want, &got[i]);
    if (save) assert_ok(ls_session_save(s, &e));
    uint64_t reused = ls_session_statistics(s).reused_tokens;
    ls_session_destroy(s);
    ls_model_destroy(m);
    return reused;
}

static void test_file(void **state) {
    (void)state;
    ls_error e = {0};
    stream want[N];
    bool note;
    ls_session *s = NULL;
    ls_model *m = stream_model("llama", NULL, NULL, 1, CHUNK);
    requests(want, m);
    assert_ok(ls_session_create(&s, m, &e));
    for (int i = 0; i < N; i++) stream_submit(s, &want[i]);
    stream_run(s, want, N);
    ls_session_destroy(s);
    size_t two = 2 * block_bytes(m);
    ls_model_destroy(m);
    assert_int_equal(run_once("llama", NULL, 0, BIG, &want[0], &note, true), 0);
    find_file();
    leave_half_a_file();
    assert_int_equal(run_once("llama", NULL, 0, BIG, &want[0], &note, true), 0);
    find_file();
    assert_int_equal(run_once("llama", NULL, 0, BIG, &want[0], &note, true), 128);
    assert_false(note);
    assert_int_equal(run_once("llama", NULL, 6, two, &want[6], &note, false), 128); /* less room than the file has blocks is fine */
    assert_int_equal(run_once("llama", NULL, 6, two / 2, &want[6], &note, false), 64);
    assert_int_equal(run_once("llama", "exact24", 0, BIG, NULL, &note, false), 0); /* another contract, another model: another file */
    assert_int_equal(run_once("qwen2", NULL, 0, BIG, NULL, &note, false), 0);
    assert_false(note);
    find_file();
    FILE *f = fopen(file, "rb");
    assert_non_null(f);
    static uint8_t whole[1 << 22];
    size_t size = fread(whole, 1, sizeof whole, f);
    fclose(f);
    assert_true(size > 1000 && size < sizeof whole);
    for (size_t i = 0; i < 24; i++) { /* a flipped bit anywhere, a short file, a long one */
        size_t at = i < 12 ? i * 6 : size - 1 - (i - 12) * (size / 12), kept = i == 22 ? size - 7 : i == 23 ? 20 : size;
        f = fopen(file, "wb");
        assert_non_null(f);
        whole[at] ^= 16;
        assert_int_equal(fwrite(whole, 1, kept, f), kept);
        if (i == 21) fputc(0, f);
        whole[at] ^= 16;
        fclose(f);
        assert_int_equal(run_once("llama", NULL, 0, BIG, &want[0], &note, false), 0);
        assert_true(note);
    }
    assert_int_equal(run_once("llama", NULL, 0, BIG, &want[0], &note, true), 0); /* replaced by a whole one */
    assert_int_equal(run_once("llama", NULL, 0, BIG, &want[0], &note, false), 128);
    assert_false(note);
    m = stream_model("llama", NULL, NULL, 1, CHUNK);
    chmod(folder, 0777);
    ls_session_options o = {.struct_size = sizeof o, .prefix_cache_bytes = BIG, .prefix_cache = folder};
    assert_error(ls_session_create_with(&s, m, &o, &e), LS_FAILED_PRECONDITION, "writable by everybody");
    chmod(folder, 0700);
    o.prefix_cache = file;
    assert_error(ls_session_create_with(&s, m, &o, &e), LS_INVALID_ARGUMENT, "is not a folder");
    ls_model_destroy(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_model),
        cmocka_unit_test(test_what_is_kept),
        cmocka_unit_test(test_copy_on_write_and_extras),
        cmocka_unit_test_setup_teardown(test_file, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
