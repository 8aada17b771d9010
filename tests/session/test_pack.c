/* Pack files: the same bits and identity as the model they were made from, for every family, contract and level; and refusal of every damaged file.
 *
 * Damage comes in two kinds: a byte changed as a disk would, which checksums find, and a field changed with all checksums made to fit again, as only
 * a program would, which the checks behind them find. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sha256.h"
#include "fixture_models.h"
#include "native/cpu.h"
#include "native/pack.h"
#include "weights/checkpoint.h"
#include "weights/packfile_layout.h"

enum { TOKENS = 6 };

static char pack_path[64];

static int make_folder(void **state) {
    static char folder[] = "/tmp/ls_pack_XXXXXX";
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(pack_path, sizeof pack_path, "%s/model.lspack", folder);
    return 0;
}

static int drop_folder(void **state) {
    (void)state;
    unlink(pack_path);
    *strrchr(pack_path, '/') = 0;
    return rmdir(pack_path); /* fails when a temporary file was left */
}

static const char *fixture_path(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/models/%s", LS_FIXTURES, name);
    return path;
}

static void pack(const char *name, const char *contract) {
    ls_error e = {0};
    ls_pack_options o = {.struct_size = sizeof o, .contract = contract, .threads = 2};
    assert_ok(ls_model_pack(fixture_path(name), pack_path, &o, NULL, &e));
}

/* What a model says: its fingerprint, and its greedy tokens with the digest of their logits. */
typedef struct said {
    char fingerprint[65], sha[65];
    int32_t token[TOKENS];
    size_t n;
} said;

static void listen_to(const char *path, const char *contract, const char *level, int threads, said *s) {
    static const int32_t prompt[] = {3, 1, 4, 1, 5, 9, 2, 6};
    ls_error e = {0};
    ls_model *m = NULL;
    ls_session *session = NULL;
    uint64_t id;
    ls_event event;
    *s = (said){0};
    ls_model_options o = {.struct_size = sizeof o, .contract = contract, .level = level, .threads = threads, .context = 64};
    assert_ok(ls_model_open(&m, path, &o, &e));
    snprintf(s->fingerprint, sizeof s->fingerprint, "%s", ls_model_fingerprint(m));
    assert_ok(ls_session_create(&session, m, &e));
    ls_request r = {.struct_size = sizeof r, .prompt = prompt, .n_prompt = 8, .max_new = TOKENS, .ignore_eos = true, .hash_logits = true};
    assert_ok(ls_session_submit(session, &r, &id, &e));
    while (!ls_session_is_idle(session)) {
        assert_ok(ls_session_step(session, &e));
        while (ls_session_next_event(session, &event)) {
            if (event.finish) memcpy(s->sha, event.logits_sha256, sizeof s->sha);
            else s->token[s->n++] = event.token;
        }
    }
    ls_session_destroy(session);
    ls_model_destroy(m);
}

/* ---- Equality ------------------------------------------------------------------------------------------------------ */

static void check_same(const char *name, const char *contract, const char *level, int threads) {
    said unpacked, packed;
    listen_to(fixture_path(name), contract, level, threads, &unpacked);
    listen_to(pack_path, NULL, level, threads, &packed); /* the contract is the file's */
    if (memcmp(&unpacked, &packed, sizeof packed)) fail_msg("%s, %s: the pack file says something else", name, contract);
}

static void families_say_the_same(void **state) {
    (void)state;
    char names[FIXTURE_MAX][128];
    int n = fixture_names(names);
    assert_true(n > 20);
    for (int i = 0; i < n; i++)
        for (int c = 0; c < 2; c++) {
            pack(names[i], c ? "exact24" : "exact16");
            check_same(names[i], c ? "exact24" : "exact16", NULL, 2);
        }
}

/* One file serves every level and any number of threads, and does not depend on those that made it. */
static void levels_share_a_file(void **state) {
    (void)state;
    ls_error e = {0};
    ls_cpu cpu;
    ls_cpu_detect(&cpu);
    ls_map first = {0}, second = {0};
    pack("llama_mlx", "exact16");
    for (int l = 0; l < LS_LEVEL_COUNT; l++)
        if (cpu.has[l]) check_same("llama_mlx", "exact16", ls_level_name((ls_level)l), l + 1);
    assert_ok(ls_map_open(&first, pack_path, &e));
    assert_ok(ls_model_pack(fixture_path("llama_mlx"), pack_path, &(ls_pack_options){.struct_size = sizeof(ls_pack_options), .threads = 3}, NULL, &e));
    assert_ok(ls_map_open(&second, pack_path, &e));
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    ls_map_close(&first);
    ls_map_close(&second);
}

/* Matrices lie in the map: opening allocates none of them. */
static void matrices_are_used_in_place(void **state) {
    (void)state;
    ls_error e = {0};
    ls_checkpoint *c = NULL;
    pack("llama", "exact16");
    assert_ok(ls_checkpoint_open(&c, pack_path, &e));
    const ls_packfile *p = ls_checkpoint_pack(c);
    assert_true(p->n_matrices > 0);
    for (size_t i = 0; i < p->n_matrices; i++) {
        ls_packed w;
        const ls_pack_matrix *m = &p->matrices[i];
        assert_ptr_equal(ls_checkpoint_matrix(c, m->tensor, m->row_begin, m->rows), m);
        assert_ok(ls_packed_map(&w, m->tensor, m->rows, LS_CONTRACT_EXACT16, m->data, m->bytes, &e));
        assert_ptr_equal(w.data, m->data);
        assert_int_equal((uintptr_t)w.data % 64, 0);
        ls_packed_deinit(&w);
        assert_error(ls_packed_map(&w, m->tensor, m->rows, LS_CONTRACT_EXACT24, m->data, m->bytes, &e), LS_DATA_LOSS, "packed bytes");
    }
    assert_null(ls_checkpoint_matrix(c, p->matrices[0].tensor, 1, 1));
    assert_ok(ls_packfile_check(c, NULL, NULL, &e));
    ls_checkpoint_close(c);
}

/* ---- Refusals ------------------------------------------------------------------------------------------------------ */

static ls_code open_with(const char *backend, const char *contract, ls_error *e) {
    ls_model *m = NULL;
    ls_model_options o = {.struct_size = sizeof o, .backend = backend, .contract = contract, .context = 32};
    ls_code rc = ls_model_open(&m, pack_path, &o, e);
    ls_model_destroy(m);
    return rc;
}

static void other_uses_are_refused(void **state) {
    (void)state;
    ls_error e = {0};
    ls_pack_options o = {.struct_size = sizeof o};
    char text[600];
    pack("llama", "exact16");
    assert_error(open_with("reference", NULL, &e), LS_FAILED_PRECONDITION, "backend reference");
    assert_error(open_with("native", "exact24", &e), LS_FAILED_PRECONDITION, "header: packed for contract exact16 version 1, not for exact24");
    assert_error(open_with("reference", "float", &e), LS_FAILED_PRECONDITION, "only in the form of backend native");
    assert_error(ls_model_pack(pack_path, pack_path, &o, NULL, &e), LS_INVALID_ARGUMENT, "is a pack file already");
    o.contract = "float";
    assert_error(ls_model_pack(fixture_path("llama"), pack_path, &o, NULL, &e), LS_UNIMPLEMENTED, "use exact16, exact16-kv8 or exact24");
    o.contract = NULL;
    assert_error(ls_model_pack(fixture_path("llama"), "/tmp", &o, NULL, &e), LS_INVALID_ARGUMENT, "not a regular file");
    assert_error(ls_model_pack(fixture_path("llama"), "/nonexistent/x", &o, NULL, &e), LS_NOT_FOUND, "cannot create");
    snprintf(text, sizeof text, "%s/model.safetensors", fixture_path("llama"));
    assert_error(ls_model_pack(fixture_path("llama"), text, &o, NULL, &e), LS_INVALID_ARGUMENT, "holds the weights");
    ls_model *m = NULL;
    assert_ok(ls_model_open(&m, fixture_path("llama"), &(ls_model_options){.struct_size = sizeof(ls_model_options), .parts = LS_LOAD_GRAPH}, &e));
    assert_error(ls_model_check(m, NULL, NULL, &e), LS_INVALID_ARGUMENT, "no pack file");
    ls_model_destroy(m);
}

static bool always(void *user) {
    (void)user;
    return true;
}

static void an_interrupted_packing_leaves_nothing(void **state) {
    (void)state;
    ls_error e = {0};
    ls_pack_options o = {.struct_size = sizeof o, .cancelled = always};
    unlink(pack_path);
    assert_error(ls_model_pack(fixture_path("llama"), pack_path, &o, NULL, &e), LS_CANCELLED, "interrupted");
    assert_false(ls_file_exists(pack_path)); /* and drop_folder finds no temporary file */
}

static int end_of_killed[2];

static bool say_and_wait(void *user) {
    (void)user;
    if (write(end_of_killed[1], "x", 1) == 1) pause();
    _exit(1);
}

static int temporary_files(void) {
    char folder[64];
    int n = 0;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(pack_path, '/') - pack_path), pack_path);
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *x; (x = readdir(d));) n += strstr(x->d_name, ".tmp.") != NULL;
    closedir(d);
    return n;
}

/* A packing that is killed cannot delete what it wrote; the next one to the same file does, but not while the other lives. */
static void what_a_killed_packing_left_is_deleted(void **state) {
    (void)state;
    ls_pack_options o = {.struct_size = sizeof o, .threads = 1, .cancelled = say_and_wait};
    char byte;
    assert_int_equal(pipe(end_of_killed), 0);
    pid_t child = fork();
    if (!child) {
        ls_model_pack(fixture_path("llama"), pack_path, &o, NULL, NULL);
        _exit(1);
    }
    assert_int_equal(read(end_of_killed[0], &byte, 1), 1);
    assert_int_equal(temporary_files(), 1);
    pack("llama", "exact16");
    assert_int_equal(temporary_files(), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(temporary_files(), 1);
    pack("llama", "exact16");
    assert_int_equal(temporary_files(), 0);
    close(end_of_killed[0]);
    close(end_of_killed[1]);
}

/* ---- Damage -------------------------------------------------------------------------------------------------------- */

/* A file in memory, aligned as a map is, that is changed and parsed. */
typedef struct image {
    uint8_t *data;
    size_t size;
} image;

static image load(void) {
    ls_error e = {0};
    ls_map map;
    image f;
    assert_ok(ls_map_open(&map, pack_path, &e));
    f.size = map.size;
    f.data = aligned_alloc(4096, (map.size + 4095) & ~(size_t)4095);
    assert_non_null(f.data);
    memcpy(f.data, map.data, map.size);
    ls_map_close(&map);
    return f;
}

static ls_code parse(const image *f, size_t size, ls_error *e) {
    ls_checkpoint *c;
    LS_TRY(ls_checkpoint_create(&c, e));
    ls_code rc = ls_packfile_parse(c, f->data, size, "file", e);
    ls_checkpoint_close(c);
    return rc;
}

static uint8_t *entry(const image *f, int section) { return f->data + LS_PACK_HEADER + section * LS_PACK_ENTRY; }

static uint64_t offset_of(const image *f, int section) { return ls_load_u64(entry(f, section) + LS_AT_OFFSET); }
static uint64_t bytes_of(const image *f, int section) { return ls_load_u64(entry(f, section) + LS_AT_BYTES); }

static void store(uint8_t *p, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(v >> 8 * i);
}

/* Makes all checksums that opening verifies fit what is there. */
static void reseal(image *f) {
    uint32_t n = ls_load_u32(f->data + LS_AT_SECTIONS);
    for (uint32_t i = 0; i < n && i < LS_SECTION_COUNT; i++) {
        uint64_t offset = offset_of(f, (int)i), bytes = bytes_of(f, (int)i);
        if (offset <= f->size && bytes <= f->size - offset) ls_sha256_of(f->data + offset, bytes, entry(f, (int)i) + LS_AT_SHA256);
    }
    ls_packfile_header_sha256(f->data, n, f->data + LS_AT_DIGEST);
}

/* The fixture has no tokenizer: sections config, generation_config, tensors, matrices, tensor_data, packed_weights. */
enum { S_CONFIG, S_GENERATION, S_TENSORS, S_MATRICES, S_DATA, S_WEIGHTS, S_COUNT };

static void damage_is_found(void **state) {
    (void)state;
    ls_error e = {0};
    pack("llama", "exact16");
    image f = load();
    assert_ok(parse(&f, f.size, &e));
    size_t head = LS_PACK_HEADER + S_COUNT * LS_PACK_ENTRY;
    for (size_t i = 0; i < f.size; i = i < head ? i + 1 : i + 13) { /* every byte of the header, and bytes of every section */
        bool large = i >= offset_of(&f, S_DATA), padding = i >= head && !large;
        for (int s = 0; s < S_DATA; s++) padding = padding && (i < offset_of(&f, s) || i >= offset_of(&f, s) + bytes_of(&f, s));
        f.data[i] ^= 0x10;
        ls_code rc = parse(&f, f.size, &e);
        f.data[i] ^= 0x10;
        if (large || padding) continue;
        if (!rc) fail_msg("byte %zu changed and the file opens", i);
        if (i >= head) assert_non_null(strstr(e.text, "section "));
    }
    for (size_t n = 0; n < f.size; n += n < head ? 1 : f.size / 97) {
        if (!parse(&f, n, &e)) fail_msg("%zu of %zu bytes open", n, f.size);
    }
    assert_error(parse(&f, f.size - 1, &e), LS_DATA_LOSS, "it is truncated");
    free(f.data);
}

/* |bytes| bytes at |at| become |value|, checksums fit; the file must be refused with |part| in the message. */
static void forge(const image *good, size_t at, uint64_t value, int bytes, ls_code want, const char *part) {
    ls_error e = {0};
    image f = {aligned_alloc(4096, (good->size + 4095) & ~(size_t)4095), good->size};
    memcpy(f.data, good->data, f.size);
    store(f.data + at, value, bytes);
    reseal(&f);
    assert_error(parse(&f, f.size, &e), want, part);
    free(f.data);
}

static void forgeries_are_refused(void **state) {
    (void)state;
    pack("llama", "exact16");
    image f = load();
    size_t table = LS_PACK_HEADER, end = offset_of(&f, S_WEIGHTS) + bytes_of(&f, S_WEIGHTS);
    size_t offset = table + LS_AT_OFFSET, bytes = table + LS_AT_BYTES, step = LS_PACK_ENTRY;
    forge(&f, 0, 'X', 1, LS_INVALID_ARGUMENT, "does not begin");
    forge(&f, LS_AT_FORMAT, 2, 4, LS_FAILED_PRECONDITION, "pack format 2");
    forge(&f, LS_AT_SECTIONS, 0, 4, LS_DATA_LOSS, "0 sections");
    forge(&f, LS_AT_SECTIONS, 5, 4, LS_DATA_LOSS, "after the last section");
    forge(&f, LS_AT_SIZE, f.size + 1, 8, LS_DATA_LOSS, "truncated");
    forge(&f, LS_AT_SCHEMA, 0, 4, LS_DATA_LOSS, "section tensors: weight schema");
    forge(&f, table, 2, 4, LS_DATA_LOSS, "ascending");
    forge(&f, table + 5 * step, 7, 4, LS_DATA_LOSS, "ascending");
    forge(&f, table + 5 * step, 9, 4, LS_DATA_LOSS, "section packed_weights is missing");
    forge(&f, table + 5 * step, 10, 4, LS_DATA_LOSS, "allowed are 1 to 9");
    forge(&f, offset + S_WEIGHTS * step, offset_of(&f, S_WEIGHTS) + 64, 8, LS_DATA_LOSS, "section packed_weights begins at byte");
    forge(&f, offset + S_TENSORS * step, offset_of(&f, S_GENERATION), 8, LS_DATA_LOSS, "section tensors overlaps");
    forge(&f, offset + S_TENSORS * step, 0, 8, LS_DATA_LOSS, "section tensors overlaps");
    forge(&f, offset + S_WEIGHTS * step, offset_of(&f, S_WEIGHTS) + 4096, 8, LS_DATA_LOSS, "section packed_weights");
    forge(&f, offset + S_CONFIG * step, UINT64_MAX - 4095, 8, LS_DATA_LOSS, "section config");
    forge(&f, bytes + S_WEIGHTS * step, UINT64_MAX, 8, LS_DATA_LOSS, "section packed_weights has");
    forge(&f, bytes + S_WEIGHTS * step, end, 8, LS_DATA_LOSS, "section packed_weights has");
    forge(&f, bytes + S_CONFIG * step, 0, 8, LS_DATA_LOSS, "section config has 0 bytes");
    forge(&f, bytes + S_CONFIG * step, 3, 8, LS_INVALID_ARGUMENT, "section config");
    size_t tensors = offset_of(&f, S_TENSORS), matrices = offset_of(&f, S_MATRICES);
    forge(&f, tensors, 1u << 30, 4, LS_DATA_LOSS, "section tensors: 1073741824 tensors");
    forge(&f, tensors, 3, 4, LS_DATA_LOSS, "section tensor");
    forge(&f, tensors + 4, UINT32_MAX, 4, LS_DATA_LOSS, "section tensors: a name has");
    forge(&f, tensors + 8, 1, 1, LS_DATA_LOSS, "not printable");
    forge(&f, matrices, 1, 4, LS_DATA_LOSS, "section matrices: 1 matrices do not fit it");
    forge(&f, matrices + 4, 1u << 31, 4, LS_DATA_LOSS, "section matrices: tensor 2147483648");
    forge(&f, matrices + 8, UINT64_MAX, 8, LS_DATA_LOSS, "rows that it does not have");
    forge(&f, matrices + 16, UINT64_MAX, 8, LS_DATA_LOSS, "rows that it does not have");
    forge(&f, matrices + 24, UINT64_MAX - 63, 8, LS_DATA_LOSS, "does not fit section packed_weights");
    forge(&f, matrices + 24, 64, 8, LS_DATA_LOSS, "section packed_weights");
    free(f.data);
}

static void write_image(const image *f) {
    FILE *out = fopen(pack_path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(f->data, 1, f->size, out), f->size);
    fclose(out);
}

/* Versions that the header binds are checked by those whom they concern. */
static void other_versions_are_refused(void **state) {
    (void)state;
    static const struct {
        int at;
        uint32_t value;
        const char *part;
    } cases[] = {{LS_AT_LAYOUT, LS_PACK_LAYOUT + 1, "header: weights in layout"}, {LS_AT_CONTRACT_VERSION, 2, "exact16 version 2"},
                 {LS_AT_CONTRACT, 7, "contract number 7"}, {LS_AT_CONTRACT, LS_CONTRACT_EXACT24, "header: packed for graph"},
                 {LS_AT_FINGERPRINT, 1, "header: packed for graph"}};
    pack("llama", "exact16");
    image f = load();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_error e = {0};
        uint32_t before = ls_load_u32(f.data + cases[i].at);
        store(f.data + cases[i].at, cases[i].value, 4);
        reseal(&f);
        write_image(&f);
        assert_error(open_with(NULL, NULL, &e), LS_FAILED_PRECONDITION, cases[i].part);
        if (cases[i].at == LS_AT_LAYOUT) { /* opens where no weights are computed with; a check says so all the same */
            ls_model *m = NULL;
            assert_ok(ls_model_open(&m, pack_path, &(ls_model_options){.struct_size = sizeof(ls_model_options), .parts = LS_LOAD_GRAPH}, &e));
            assert_error(ls_model_check(m, NULL, NULL, &e), LS_FAILED_PRECONDITION, cases[i].part);
            ls_model_destroy(m);
        }
        store(f.data + cases[i].at, before, 4);
    }
    free(f.data);
}

/* Changed weights give other numbers, which ls_packfile_check finds; they never make the executor read outside or stop. */
static void damaged_weights_only_give_other_numbers(void **state) {
    (void)state;
    static const char *const names[] = {"llama", "llama_mlx", "mixtral"};
    for (int round = 0; round < 12; round++) {
        ls_error e = {0};
        ls_checkpoint *c = NULL;
        said s;
        uint64_t random = (uint64_t)round + 1;
        pack(names[round % 3], round % 2 ? "exact24" : "exact16");
        image f = load();
        size_t begin = offset_of(&f, S_WEIGHTS);
        for (size_t i = begin; i < f.size; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            if (round < 6) f.data[i] = round < 3 ? (uint8_t)(random >> 56) : 0xFF;
            else if (!(random >> 58)) f.data[i] ^= (uint8_t)(1 << (random >> 40 & 7));
        }
        write_image(&f);
        free(f.data);
        assert_ok(ls_checkpoint_open(&c, pack_path, &e));
        assert_error(ls_packfile_check(c, NULL, NULL, &e), LS_DATA_LOSS, "section packed_weights");
        ls_checkpoint_close(c);
        listen_to(pack_path, NULL, round % 4 ? NULL : "c", 2, &s);
    }
}

/* A byte between sections is found by the check, and one in a stored tensor by the check or already by opening. */
static void the_check_reads_every_byte(void **state) {
    (void)state;
    ls_error e = {0};
    pack("llama", "exact16");
    image f = load();
    size_t places[] = {offset_of(&f, S_CONFIG) - 1, offset_of(&f, S_WEIGHTS) - 1, offset_of(&f, S_WEIGHTS), f.size - 1, offset_of(&f, S_DATA)};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        ls_checkpoint *c = NULL;
        f.data[places[i]] ^= 1;
        write_image(&f);
        ls_code rc = ls_checkpoint_open(&c, pack_path, &e);
        if (!rc) rc = ls_packfile_check(c, NULL, NULL, &e);
        if (rc != LS_DATA_LOSS) fail_msg("byte %zu: %s", places[i], ls_code_name(rc));
        ls_checkpoint_close(c);
        f.data[places[i]] ^= 1;
    }
    free(f.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(families_say_the_same), cmocka_unit_test(levels_share_a_file),
                                       cmocka_unit_test(matrices_are_used_in_place), cmocka_unit_test(other_uses_are_refused),
                                       cmocka_unit_test(an_interrupted_packing_leaves_nothing),
                                       cmocka_unit_test(what_a_killed_packing_left_is_deleted), cmocka_unit_test(damage_is_found),
                                       cmocka_unit_test(forgeries_are_refused), cmocka_unit_test(other_versions_are_refused),
                                       cmocka_unit_test(damaged_weights_only_give_other_numbers), cmocka_unit_test(the_check_reads_every_byte)};
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
