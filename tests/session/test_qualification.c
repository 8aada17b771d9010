/* Qualification records: what a combination is, strict reading, claims that must follow from the stages, and how several records
 * of one combination count. */
#include "test.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session/qualification.h"

static char folder[64];

static const ls_engine_identity engine = {.runtime = "pjrt", .platform = "cpu", .version = "1", .library = "plugin.so", .library_sha256 = "00", .compiler = "c",
                                          .flags = "tf32=off", .target = "t", .device = "d"};

static json_t *combination(ls_contract contract, ls_precision precision, const char *device) {
    ls_error e = {0};
    ls_graph g = {.architecture = "llama", .contract = contract};
    ls_engine_identity id = engine;
    ls_xla_options xo = {.precision = precision};
    json_t *out;
    id.device = device;
    assert_ok(ls_qualification_combination(&out, &g, &id, &xo, &e));
    return out;
}

/* |first| NULL: passed. */
static json_t *record(json_t *c, const char *weights, const char *first) {
    bool real = !strcmp(json_string_value(json_object_get(c, "contract")), "float");
    return json_pack("{s:s, s:o, s:{s:s, s:s, s:s, s:s}, s:{s:b, s:s, s:s, s:i, s:i, s:n}, s:{s:b, s:s, s:i, s:i, s:o, s:s?}, s:b}", "schema",
                     LS_QUALIFICATION_SCHEMA, "combination", c, "model", "name", weights, "fingerprint", "f", "weight_schema_sha256", "s", "weights_sha256",
                     weights, "same_input", "passed", 1, "left", "native", "rule", "equality of bits", "nodes", 49, "positions", 26, "first", "tokens",
                     "passed", !first, "reference", "native exact24", "prompts", 4, "compared", 256, "equal_bits",
                     real ? json_null() : json_boolean(!first), "first", first, "qualified", !first);
}

static void store(json_t *r, ls_str *path) {
    ls_error e = {0};
    ls_str own = {0};
    assert_ok(ls_qualification_store(r, folder, path ? path : &own, &e));
    ls_str_deinit(&own);
    json_decref(r);
}

/* Looks for |c|, which it takes over, and checks answer and reason. */
static void expect(json_t *c, bool qualified, const char *part) {
    ls_error e = {0};
    ls_str why = {0};
    bool got = !qualified;
    assert_ok(ls_qualification_find(c, folder, &got, &why, &e));
    if (got != qualified || !strstr(why.data, part)) fail_msg("qualified %d because of \"%s\"; expected %d, \"%s\"", got, why.data, qualified, part);
    ls_str_deinit(&why);
    json_decref(c);
}

static void write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static json_t *exact(void) { return combination(LS_CONTRACT_EXACT16, LS_PRECISION_F32, "d"); }

static void test_combination(void **state) {
    (void)state;
    expect(exact(), false, "there is no record of it");
    store(record(exact(), "small", NULL), NULL);
    expect(exact(), true, "small");
    /* precision is the float contract's; another contract or device is another combination */
    expect(combination(LS_CONTRACT_EXACT16, LS_PRECISION_F16, "d"), true, "small");
    expect(combination(LS_CONTRACT_EXACT24, LS_PRECISION_F32, "d"), false, "no record");
    expect(combination(LS_CONTRACT_EXACT16, LS_PRECISION_F32, "other"), false, "no record");
    store(record(combination(LS_CONTRACT_FLOAT, LS_PRECISION_F32, "d"), "small", NULL), NULL);
    expect(combination(LS_CONTRACT_FLOAT, LS_PRECISION_F32, "d"), true, "small");
    expect(combination(LS_CONTRACT_FLOAT, LS_PRECISION_F16, "d"), false, "no record");
}

/* One model of a family that failed closes it, until that model passes. */
static void test_failures_count(void **state) {
    (void)state;
    store(record(exact(), "small", NULL), NULL);
    store(record(exact(), "large", "prompt 0 alone, token 3: 5, the reference has 6"), NULL);
    expect(exact(), false, "\"large\" failed (record \"");
    store(record(exact(), "large", NULL), NULL);
    expect(exact(), true, "");
}

static void test_unreadable_records(void **state) {
    (void)state;
    static const char *const broken[] = {"", "{", "{}", "[]", "{\"schema\": \"lockstep-qualification-v1\"}"};
    ls_str path = {0};
    struct stat st;
    store(record(exact(), "small", NULL), &path);
    assert_int_equal(stat(path.data, &st), 0);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        write_file(path.data, broken[i]);
        expect(exact(), false, path.data);
    }
    store(record(exact(), "small", NULL), NULL); /* qualifying again replaces it */
    expect(exact(), true, "small");
    json_t *other = record(combination(LS_CONTRACT_EXACT24, LS_PRECISION_F32, "d"), "small", NULL);
    assert_int_equal(json_dump_file(other, path.data, 0), 0);
    json_decref(other);
    expect(exact(), false, "is about another combination");
    unlink(path.data);
    assert_int_equal(mkfifo(path.data, 0600), 0); /* nobody writes: reading must not wait */
    expect(exact(), false, "is not a regular file");
    ls_str_deinit(&path);
}

/* 4096 models of one combination count; with one more nobody knows whether one failed. */
static void test_too_many_records(void **state) {
    (void)state;
    ls_str path = {0};
    char name[400];
    store(record(combination(LS_CONTRACT_EXACT16, LS_PRECISION_F32, "many"), "a", NULL), &path);
    size_t stem = path.len - strlen(".qualified.json") - 32;
    for (int i = 0; i < LS_QUALIFICATION_MAX_RECORDS; i++) {
        snprintf(name, sizeof name, "%.*s%032d.qualified.json", (int)stem, path.data, i);
        if (i + 1 == LS_QUALIFICATION_MAX_RECORDS) expect(combination(LS_CONTRACT_EXACT16, LS_PRECISION_F32, "many"), true, "a");
        assert_int_equal(link(path.data, name), 0);
    }
    expect(combination(LS_CONTRACT_EXACT16, LS_PRECISION_F32, "many"), false, "holds more than 4096 records of it; delete");
    ls_str_deinit(&path);
}

static void check_refused(json_t *r, const char *part) {
    ls_error e = {0};
    ls_str path = {0};
    assert_error(ls_qualification_store(r, folder, &path, &e), LS_INVALID_ARGUMENT, part);
    ls_str_deinit(&path);
    json_decref(r);
}

static void test_claims(void **state) {
    (void)state;
    json_t *r = record(exact(), "small", "a token");
    json_object_set_new(r, "qualified", json_true());
    check_refused(r, "claims what its stages do not say");
    r = record(exact(), "small", NULL);
    json_object_set_new(json_object_get(r, "same_input"), "first", json_string("node"));
    check_refused(r, "claims what its stages do not say");
    /* a stage that saw nothing, and bits that speak against the stage */
    static const char *const seen[][2] = {{"same_input", "nodes"}, {"same_input", "positions"}, {"tokens", "prompts"}, {"tokens", "compared"}};
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        r = record(exact(), "small", NULL);
        json_object_set_new(json_object_get(r, seen[i][0]), seen[i][1], json_integer(0));
        check_refused(r, "claims what its stages do not say");
    }
    json_t *bits[] = {json_false(), json_null(), json_string("yes")};
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        r = record(exact(), "small", NULL);
        json_object_set_new(json_object_get(r, "tokens"), "equal_bits", bits[i]);
        check_refused(r, "claims what its stages do not say");
    }
    r = record(combination(LS_CONTRACT_FLOAT, LS_PRECISION_F32, "d"), "small", NULL);
    json_object_set_new(json_object_get(r, "tokens"), "equal_bits", json_true());
    check_refused(r, "claims what its stages do not say");
    r = record(exact(), "small", NULL);
    json_object_set_new(r, "note", json_string("x"));
    check_refused(r, "no qualification record");
    r = record(exact(), "small", NULL);
    json_object_del(json_object_get(r, "tokens"), "compared");
    check_refused(r, "compared");
    r = record(exact(), "small", NULL);
    json_object_set_new(r, "schema", json_string("lockstep-qualification-v2"));
    check_refused(r, "this program reads lockstep-qualification-v1");
}

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/lockstep-records-XXXXXX");
    return !mkdtemp(folder);
}

static int remove_folder(void **state) {
    (void)state;
    DIR *d = opendir(folder);
    for (const struct dirent *entry; d && (entry = readdir(d));) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.') continue;
        assert_null(strstr(entry->d_name, ".lock")); /* nothing is left behind */
        unlink(path);
    }
    if (d) closedir(d);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_combination, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_failures_count, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_unreadable_records, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_too_many_records, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_claims, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
