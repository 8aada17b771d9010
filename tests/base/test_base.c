/* src/base: sizes, arena, strings, UTF-8, JSON reads, SHA-256 against published vectors, temporary files. */
#include "test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/sha256.h"
#include "base/sha256_blocks.h"
#include "base/temporary.h"

static void sizes_are_checked(void **state) {
    (void)state;
    size_t r;
    assert_true(ls_size_mul(3, 5, &r) && r == 15);
    assert_false(ls_size_mul(SIZE_MAX / 2, 3, &r));
    assert_false(ls_size_add(SIZE_MAX, 1, &r));
    ls_error e = {0};
    void *p;
    assert_error(ls_calloc(&p, SIZE_MAX / 2, 4, "thing", &e), LS_RESOURCE_EXHAUSTED, "thing");
}

static void arena_keeps_strings(void **state) {
    (void)state;
    ls_error e = {0};
    ls_arena *a;
    assert_ok(ls_arena_create(&a, &e));
    const char *s[1000];
    for (int i = 0; i < 1000; i++) assert_ok(ls_arena_printf(a, &s[i], &e, "layer %d %0*d", i, i % 300, 7));
    char want[400];
    for (int i = 0; i < 1000; i++) {
        snprintf(want, sizeof want, "layer %d %0*d", i, i % 300, 7);
        assert_string_equal(s[i], want);
    }
    ls_arena_destroy(a);
}

static void text_has_a_ceiling(void **state) {
    (void)state;
    ls_error e = {0};
    ls_str s = {.max = 100};
    for (int i = 0; i < 9; i++) assert_ok(ls_str_append(&s, "0123456789", 10, &e));
    assert_error(ls_str_append(&s, "0123456789", 10, &e), LS_RESOURCE_EXHAUSTED, "limit of 100");
    assert_int_equal(s.len, 90);
    ls_str_deinit(&s);
}

static void utf8_round_trips(void **state) {
    (void)state;
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        char b[4];
        uint32_t back = 0;
        int n = ls_utf8_encode(c, b);
        if (c >= 0xD800 && c < 0xE000) {
            assert_int_equal(n, 0);
            continue;
        }
        assert_int_equal(ls_utf8_decode(b, (size_t)n, &back), n);
        assert_int_equal(back, c);
        assert_int_equal(ls_utf8_decode(b, (size_t)n - 1, &back), 0);
    }
    assert_int_equal(ls_utf8_decode("\xC0\x80", 2, NULL), 0);
    assert_int_equal(ls_utf8_decode("\xED\xA0\x80", 3, NULL), 0);
    assert_int_equal(ls_utf8_decode("\xF4\x90\x80\x80", 4, NULL), 0);
}

static void json_reads_are_typed(void **state) {
    (void)state;
    ls_error e = {0};
    json_t *j;
    const char *text = "{\"n\": 4.0, \"x\": \"a\", \"none\": null}";
    assert_ok(ls_json_parse(&j, text, strlen(text), "config", &e));
    int64_t n = 7;
    assert_ok(ls_json_get_int(j, "n", 0, 10, &n, &e));
    assert_int_equal(n, 4);
    assert_ok(ls_json_get_int(j, "none", 0, 10, &n, &e));
    assert_int_equal(n, 4);
    assert_error(ls_json_get_int(j, "x", 0, 10, &n, &e), LS_INVALID_ARGUMENT, "\"x\"");
    assert_error(ls_json_get_int(j, "n", 5, 10, &n, &e), LS_OUT_OF_RANGE, "allowed are 5 to 10");
    json_decref(j);
    assert_error(ls_json_parse(&j, "{\"a\":1,\"a\":2}", 13, "config", &e), LS_INVALID_ARGUMENT, "duplicate");
}

/* Vectors: FIPS 180-4 examples (NIST CSRC), "abc", empty, the 448-bit message and a million 'a'. */
static void sha256_matches_published_vectors(void **state) {
    (void)state;
    static const struct { const char *text, *hex; int repeat; } v[] = {
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", 1},
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 1},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1", 1},
        {"a", "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", 1000000}};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        ls_sha256 h;
        uint8_t d[32];
        char hex[65];
        ls_sha256_init(&h);
        for (int k = 0; k < v[i].repeat; k++) ls_sha256_update(&h, v[i].text, strlen(v[i].text));
        ls_sha256_final(&h, d);
        ls_sha256_hex(d, hex);
        assert_string_equal(hex, v[i].hex);
    }
}

static void sha256_instructions_give_the_same_state(void **state) {
    (void)state;
    ls_sha256_blocks_fn *fast = ls_sha256_blocks_x86(); /* NULL on other processors: then there is one function only */
    uint8_t data[64 * 5];
    uint64_t random = 1;
    for (int round = 0; round < 64; round++) {
        uint32_t a[8], b[8];
        for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)((random = random * 6364136223846793005u + 1442695040888963407u) >> 56);
        memcpy(a, data, sizeof a);
        memcpy(b, data, sizeof b);
        ls_sha256_blocks_c(a, data, (size_t)round % 6);
        (fast ? fast : ls_sha256_blocks_c)(b, data, (size_t)round % 6);
        assert_memory_equal(a, b, sizeof a);
    }
}

/* A file that nobody locks, as a killed process leaves it, or as a user names one. */
static void leave(const char *folder, const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
}

static bool take_away(const char *folder, const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return !remove(path);
}

static void temporary_files_are_published_or_swept(void **state) {
    (void)state;
    ls_error e = {0};
    ls_temporary t, other;
    char folder[] = "/tmp/ls_base_XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model", folder);
    leave(folder, "model.tmp.0123456789abcdef");
    leave(folder, "model2.tmp.0123456789abcdef");
    leave(folder, "model.tmp.my own backup is");
    leave(folder, "model.tmp.0123456789ABCDEF");
    assert_ok(ls_temporary_open(&t, path, 0644, &e));
    assert_ok(ls_temporary_open(&other, path, 0644, &e));
    ls_temporary_sweep(path); /* neither what is being written, nor what belongs to another file or has a name of its own */
    assert_int_equal(write(t.fd, "whole", 5), 5);
    assert_ok(ls_temporary_publish(&t, &e));
    ls_temporary_drop(&t);
    ls_temporary_drop(&other);
    assert_false(take_away(folder, "model.tmp.0123456789abcdef"));
    assert_true(take_away(folder, "model.tmp.my own backup is"));
    assert_true(take_away(folder, "model.tmp.0123456789ABCDEF"));
    ls_temporary_sweep_folder(folder);
    assert_false(take_away(folder, "model2.tmp.0123456789abcdef"));
    assert_true(take_away(folder, "model"));
    assert_ok(ls_temporary_open(&t, path, 0644, &e));
    assert_int_equal(mkdir(path, 0700), 0);
    leave(path, "inside");
    assert_error(ls_temporary_publish(&t, &e), LS_UNKNOWN, "cannot rename");
    assert_true(take_away(path, "inside"));
    assert_true(take_away(folder, "model"));
    assert_int_equal(rmdir(folder), 0); /* nothing else was left */
    assert_error(ls_temporary_open(&t, path, 0644, &e), LS_NOT_FOUND, "cannot create");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_are_checked), cmocka_unit_test(arena_keeps_strings),
        cmocka_unit_test(text_has_a_ceiling), cmocka_unit_test(utf8_round_trips), cmocka_unit_test(json_reads_are_typed),
        cmocka_unit_test(sha256_matches_published_vectors), cmocka_unit_test(sha256_instructions_give_the_same_state),
        cmocka_unit_test(temporary_files_are_published_or_swept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
