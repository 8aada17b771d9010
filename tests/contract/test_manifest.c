/* Tests of src/contract/manifest: the digest chain against independent sums, strict parsing, verification order, downgrade. */
#include "test.h"

#include "base/sha256.h"
#include "contract/manifest.h"

static const char operators[] = "mlxcel-xla-operator-numeric-v1\0id=a"; /* with the NUL that separates records */

static ls_artifact_identity identity(int version) {
    return (ls_artifact_identity){.family = LS_MANIFEST_MLXCEL, .entry = "prefill.main", .config = "hidden=64", .generation = "compiler=x",
                                  .weight_schema = "0:w:F32:[2, 3]\n",
                                  .dtype_contract = version == 2 ? "mlxcel-xla-numeric-dtype-v1;weights=dense" : NULL,
                                  .operator_contracts = version == 3 ? operators : NULL, .operator_contracts_len = sizeof operators - 1};
}

static ls_manifest manifest(int version) {
    ls_error e = {0};
    ls_manifest m;
    ls_artifact_identity id = identity(version);
    assert_ok(ls_manifest_compute(&m, &id, "binary", 6, &e));
    return m;
}

static void test_schema_follows_content(void **state) {
    (void)state;
    const char *want[] = {"mlxcel-xla-aux-artifact-v1", "mlxcel-xla-aux-artifact-v2-numeric-dtype", "mlxcel-xla-aux-artifact-v3-operator-numeric"};
    const char *ours[] = {"lockstep-artifact-v1", "lockstep-artifact-v2-numeric-dtype", "lockstep-artifact-v3-operator-numeric"};
    for (int v = 1; v <= 3; v++) {
        ls_manifest m = manifest(v);
        assert_string_equal(ls_manifest_schema(&m), want[v - 1]);
        m.family = LS_MANIFEST_LOCKSTEP;
        assert_string_equal(ls_manifest_schema(&m), ours[v - 1]);
    }
    ls_error e = {0};
    ls_artifact_identity both = identity(3);
    both.dtype_contract = "x";
    ls_manifest m;
    assert_ok(ls_manifest_compute(&m, &both, "", 0, &e));
    assert_int_equal(m.version, 3);
    assert_true(m.sha[LS_MF_DTYPE_CONTRACT][0] && m.sha[LS_MF_OPERATOR_CONTRACT][0]);
}

/* The chain, assembled by hand: schema, then NUL and hex digest of each present field in order. */
static void test_chain(void **state) {
    (void)state;
    static const ls_manifest_field order[] = {LS_MF_ENTRY, LS_MF_CONFIG, LS_MF_DTYPE_CONTRACT, LS_MF_OPERATOR_CONTRACT, LS_MF_WEIGHT_SCHEMA, LS_MF_GENERATION,
                                              LS_MF_BINARY};
    for (int v = 1; v <= 3; v++) {
        ls_error e = {0};
        ls_manifest m = manifest(v);
        ls_str s = {0};
        char hex[65];
        assert_ok(ls_str_append(&s, ls_manifest_schema(&m), SIZE_MAX, &e));
        for (size_t i = 0; i < 7; i++) {
            if (!m.sha[order[i]][0]) continue;
            assert_ok(ls_str_append(&s, "", 1, &e));
            assert_ok(ls_str_append(&s, m.sha[order[i]], 64, &e));
        }
        ls_sha256_hex_of(s.data, s.len, hex);
        assert_string_equal(m.sha[LS_MF_ARTIFACT], hex);
        ls_str_deinit(&s);
    }
    ls_manifest m = manifest(3);
    char hex[65];
    ls_sha256_hex_of("prefill.main", 12, hex);
    assert_string_equal(m.sha[LS_MF_ENTRY], hex);
    ls_sha256_hex_of(operators, sizeof operators - 1, hex);
    assert_string_equal(m.sha[LS_MF_OPERATOR_CONTRACT], hex);
    ls_sha256_hex_of("binary", 6, hex);
    assert_string_equal(m.sha[LS_MF_BINARY], hex);
    assert_string_equal(m.sha[LS_MF_DTYPE_CONTRACT], "");
}

static void test_fingerprint(void **state) {
    (void)state;
    ls_manifest m = {.version = 1};
    memset(m.sha[LS_MF_ARTIFACT], '0', 64);
    assert_int_equal(ls_manifest_fingerprint(&m), 1);
    memcpy(m.sha[LS_MF_ARTIFACT], "fedcba9876543210f", 17);
    assert_true(ls_manifest_fingerprint(&m) == 0xfedcba9876543210u);
}

static void test_weight_schema(void **state) {
    (void)state;
    ls_error e = {0};
    ls_str s = {0};
    assert_ok(ls_weight_schema_add(&s, 0, "embed", "F32", (int64_t[]){2, 3}, 2, &e));
    assert_ok(ls_weight_schema_add(&s, 1, "norm", "F16", (int64_t[]){3}, 1, &e));
    assert_ok(ls_weight_schema_add(&s, 2, "scale", "F32", NULL, 0, &e));
    assert_string_equal(s.data, "0:embed:F32:[2, 3]\n1:norm:F16:[3]\n2:scale:F32:[]\n");
    ls_str_deinit(&s);
}

static void test_round_trip(void **state) {
    (void)state;
    for (int v = 1; v <= 3; v++) {
        ls_error e = {0};
        ls_str s = {0};
        ls_manifest m = manifest(v), back;
        assert_ok(ls_manifest_write(&m, &s, &e));
        assert_ok(ls_manifest_parse(&back, s.data, s.len, "m", &e));
        assert_memory_equal(&m, &back, sizeof m);
        assert_ok(ls_manifest_verify(&back, &m, "m", &e));
        const char *last = s.data; /* keys in the stated order */
        static const char *const keys[] = {"\"schema\"", "entry_", "config_", "numeric_dtype", "operator_numeric", "weight_schema", "generation", "vmfb",
                                           "artifact_"};
        for (size_t i = 0; i < 9; i++) {
            const char *at = strstr(s.data, keys[i]);
            if ((i == 3 && v != 2) || (i == 4 && v != 3)) continue;
            assert_non_null(at);
            assert_true(at > last);
            last = at;
        }
        ls_str_deinit(&s);
    }
}

/* The text of a version |v| manifest with the first |from| replaced by |to|. */
static char *edited(int v, const char *from, const char *to) {
    ls_error e = {0};
    ls_str s = {0}, out = {0};
    ls_manifest m = manifest(v);
    assert_ok(ls_manifest_write(&m, &s, &e));
    const char *at = strstr(s.data, from);
    assert_non_null(at);
    assert_ok(ls_str_append(&out, s.data, (size_t)(at - s.data), &e));
    assert_ok(ls_str_append(&out, to, SIZE_MAX, &e));
    assert_ok(ls_str_append(&out, at + strlen(from), SIZE_MAX, &e));
    ls_str_deinit(&s);
    return out.data;
}

static void refuse(int v, const char *from, const char *to, const char *part) {
    ls_error e = {0};
    ls_manifest m;
    char *text = edited(v, from, to);
    assert_error(ls_manifest_parse(&m, text, strlen(text), "file.aux.json", &e), LS_INVALID_ARGUMENT, part);
    assert_non_null(strstr(e.text, "file.aux.json"));
    ls_free(text);
}

static void test_strict_parsing(void **state) {
    (void)state;
    refuse(1, "{", "{\n  \"extra\": 1,", "\"extra\" is unknown");
    refuse(1, "{", "{\n  \"schema\": \"mlxcel-xla-aux-artifact-v1\",", "duplicate");
    refuse(2, "{", "{\n  \"operator_numeric_contract_sha256\": null,", "is null");
    refuse(1, "{", "{\n  \"numeric_dtype_contract_sha256\": null,", "is null");
    refuse(1, "\"entry_sha256\"", "\"entry_sha257\"", "entry_sha257");
    refuse(1, "aux-artifact-v1", "aux-artifact-v2-numeric-dtype", "numeric_dtype_contract_sha256\" is missing");
    refuse(1, "aux-artifact-v1", "aux-artifact-v3-operator-numeric", "operator_numeric_contract_sha256\" is missing");
    refuse(2, "aux-artifact-v2-numeric-dtype", "aux-artifact-v1", "does not belong");
    refuse(3, "aux-artifact-v3-operator-numeric", "aux-artifact-v1", "does not belong");
    refuse(1, "aux-artifact-v1", "aux-artifact-v1x", "is unknown");
    refuse(1, "aux-artifact-v1", "aux-artifact-v0", "is unknown");
    refuse(1, "aux-artifact-v1", "aux-artifact-v4-more", "a newer program");
    refuse(1, "aux-artifact-v1", "aux-artifact-v1\\u0000", "no field \"schema\"");
    refuse(1, "\"mlxcel-xla-aux-artifact-v1\"", "7", "no field \"schema\"");
    refuse(1, "}", "} {}", "end of file");
    refuse(1, "}", "", "line");
    ls_manifest m = manifest(1);
    refuse(1, m.sha[LS_MF_ENTRY], "abc", "entry_sha256\" is no SHA-256");
    char upper[65];
    memcpy(upper, m.sha[LS_MF_CONFIG], 65);
    for (int i = 0; i < 64; i++)
        if (upper[i] >= 'a') upper[i] = (char)(upper[i] - 32);
    refuse(1, m.sha[LS_MF_CONFIG], upper, "config_sha256\" is no SHA-256");
    ls_error e = {0};
    assert_error(ls_manifest_parse(&m, "[]", 2, "list", &e), LS_INVALID_ARGUMENT, "\"schema\"");
    assert_error(ls_manifest_parse(&m, "", 0, "nothing", &e), LS_INVALID_ARGUMENT, "nothing");
}

/* With every field from |i| on wrong, field |i| is the one named. */
static void test_first_failing_field(void **state) {
    (void)state;
    static const ls_manifest_field order[] = {LS_MF_DTYPE_CONTRACT, LS_MF_OPERATOR_CONTRACT, LS_MF_ENTRY, LS_MF_CONFIG, LS_MF_WEIGHT_SCHEMA,
                                              LS_MF_GENERATION, LS_MF_BINARY, LS_MF_ARTIFACT};
    static const char *const names[] = {"numeric_dtype_contract_sha256", "operator_numeric_contract_sha256", "entry_sha256", "config_sha256", "weight_schema_sha256",
                                        "generation_sha256", "vmfb_sha256", "artifact_sha256"};
    ls_error e = {0};
    ls_manifest wanted = manifest(3);
    for (size_t i = 0; i < 8; i++) {
        ls_manifest found = wanted;
        for (size_t j = i; j < 8; j++) found.sha[order[j]][0] = found.sha[order[j]][0] == 'x' ? 'y' : 'x';
        assert_error(ls_manifest_verify(&found, &wanted, "m", &e), LS_FAILED_PRECONDITION, names[i]);
    }
    ls_manifest found = manifest(2);
    assert_error(ls_manifest_verify(&found, &wanted, "m", &e), LS_FAILED_PRECONDITION, "schema is \"mlxcel-xla-aux-artifact-v2-numeric-dtype\"");
    found = wanted;
    found.family = LS_MANIFEST_LOCKSTEP;
    assert_error(ls_manifest_verify(&found, &wanted, "m", &e), LS_FAILED_PRECONDITION, "schema");
    found = wanted;
    strcpy(found.sha[LS_MF_DTYPE_CONTRACT], wanted.sha[LS_MF_ENTRY]);
    assert_error(ls_manifest_verify(&found, &wanted, "m", &e), LS_FAILED_PRECONDITION, "needed is absent");
}

/* Each text of the identity changes its own digest and the artifact's, no other. */
static void test_every_text_matters(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        ls_error e = {0};
        ls_artifact_identity id = identity(3);
        static const ls_manifest_field field[] = {LS_MF_ENTRY, LS_MF_CONFIG, LS_MF_OPERATOR_CONTRACT, LS_MF_WEIGHT_SCHEMA, LS_MF_GENERATION, LS_MF_BINARY};
        if (i == 0) id.entry = "decode.main";
        if (i == 1) id.config = "hidden=65";
        if (i == 2) id.operator_contracts_len--;
        if (i == 3) id.weight_schema = "0:w:F32:[3, 2]\n";
        if (i == 4) id.generation = "compiler=y";
        ls_manifest m, base = manifest(3);
        assert_ok(ls_manifest_compute(&m, &id, i == 5 ? "binary2" : "binary", i == 5 ? 7 : 6, &e));
        for (int f = 0; f < LS_MF_COUNT; f++) assert_int_equal(!strcmp(m.sha[f], base.sha[f]), (ls_manifest_field)f != field[i] && f != LS_MF_ARTIFACT);
    }
}

static void test_empty_texts(void **state) {
    (void)state;
    ls_error e = {0};
    ls_manifest m;
    ls_artifact_identity id = identity(1);
    id.entry = "";
    assert_error(ls_manifest_compute(&m, &id, "", 0, &e), LS_INVALID_ARGUMENT, "entry");
    id = identity(1);
    id.config = NULL;
    assert_error(ls_manifest_compute(&m, &id, "", 0, &e), LS_INVALID_ARGUMENT, "configuration");
    id = identity(1);
    id.generation = "";
    assert_error(ls_manifest_compute(&m, &id, "", 0, &e), LS_INVALID_ARGUMENT, "generation");
}

static ls_code may_replace(char *text, int wanted, ls_error *e) {
    ls_manifest w = manifest(wanted);
    ls_code rc = ls_manifest_may_replace(text, strlen(text), "old", &w, e);
    ls_free(text);
    return rc;
}

static void test_downgrade(void **state) {
    (void)state;
    ls_error e = {0};
    ls_manifest m = manifest(1);
    for (int old = 1; old <= 3; old++)
        for (int wanted = 1; wanted <= 3; wanted++) {
            char *text = edited(old, "{", "{");
            if (old <= wanted) assert_ok(may_replace(text, wanted, &e));
            else assert_error(may_replace(text, wanted, &e), LS_FAILED_PRECONDITION, "must not replace");
        }
    assert_error(may_replace(edited(1, "aux-artifact-v1", "aux-artifact-v4-x"), 3, &e), LS_FAILED_PRECONDITION, "newer program");
    assert_error(may_replace(edited(1, "aux-artifact-v1", "aux-artifact-v40"), 3, &e), LS_FAILED_PRECONDITION, "newer program");
    assert_error(may_replace(edited(1, "mlxcel-xla-aux-artifact-v1", "lockstep-artifact-v1"), 1, &e), LS_FAILED_PRECONDITION, "does not follow");
    assert_error(may_replace(edited(1, "aux-artifact-v1", "other"), 3, &e), LS_FAILED_PRECONDITION, "Nothing was deleted");
    assert_error(may_replace(edited(1, "}", ""), 3, &e), LS_FAILED_PRECONDITION, "Nothing was deleted");
    assert_error(may_replace(edited(1, m.sha[LS_MF_ENTRY], m.sha[LS_MF_CONFIG]), 1, &e), LS_FAILED_PRECONDITION, "does not follow");
    ls_manifest ours = manifest(1);
    ls_str s = {0};
    ls_artifact_identity id = identity(1);
    id.family = LS_MANIFEST_LOCKSTEP;
    assert_ok(ls_manifest_compute(&ours, &id, "", 0, &e));
    assert_ok(ls_manifest_write(&ours, &s, &e));
    assert_error(may_replace(s.data, 3, &e), LS_FAILED_PRECONDITION, "lockstep-artifact-v1");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_schema_follows_content), cmocka_unit_test(test_chain), cmocka_unit_test(test_fingerprint),
                                       cmocka_unit_test(test_weight_schema), cmocka_unit_test(test_round_trip), cmocka_unit_test(test_strict_parsing),
                                       cmocka_unit_test(test_first_failing_field), cmocka_unit_test(test_every_text_matters),
                                               cmocka_unit_test(test_empty_texts),
                                       cmocka_unit_test(test_downgrade)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
