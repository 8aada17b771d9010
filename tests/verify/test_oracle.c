/* Tests of src/verify/oracle*: the harness and what it refuses, fixtures and references, module texts, planted faults. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "base/sha256.h"
#include "contract/exact.h"
#include "verify/oracle_suite.h"
#include "weights/weights.h"

/* ---- A case whose two sides give what a test wants ------------------------------------------------------------------ */

typedef struct side {
    int rank;
    int64_t dim[2];
    float values[4];
    size_t n;
} side;

static ls_code give(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e) {
    (void)c;
    const side *s = user;
    out->rank = s->rank;
    out->n = s->n;
    memcpy(out->dim, s->dim, sizeof s->dim);
    LS_TRY(ls_calloc(&out->values, 4, sizeof(float), "values", e));
    memcpy(out->values, s->values, sizeof s->values);
    return LS_OK;
}

static const ls_oracle_backend backend = {.runtime = "r", .revision = "1", .patch = "p", .compiler = "c", .flags = {"-f"}, .n_flags = 1, .target = "t",
                                          .device = "d",
                                          .artifact_fingerprint = "0", .precision = "tf32=off", .status = LS_ALGORITHM_OBSERVED, .algorithm = "a"};
static const char float_contract[] = "mlxcel-xla-operator-numeric-v1\0id=x", exact_contract[] = "lockstep-operator-contract-v1\0id=x";
static side left, right;
static float operand[2];

static ls_oracle_case simple(void) {
    left = right = (side){.rank = 2, .dim = {2, 2}, .values = {1, 2, 3, 4}, .n = 4};
    operand[0] = 1;
    operand[1] = 2;
    return (ls_oracle_case){.operation = "op", .claim = LS_CLAIM_CANONICAL_DECOMPOSITION, .contract = float_contract,
                            .contract_len = sizeof float_contract - 1, .reference = backend,
                            .candidate = backend, .n_operands = 1, .operands = {{"x", {LS_DT_F32, 1, {2}}, operand, sizeof operand}}, .run_reference = give,
                                    .run_candidate = give,
                            .reference_user = &left, .candidate_user = &right};
}

static json_t *report_of(const ls_oracle_case *c) {
    ls_error e = {0};
    json_t *r;
    assert_ok(ls_oracle_report(c, &r, &e));
    return r;
}

static json_t *at(json_t *r, const char *a, const char *b) { return b ? json_object_get(json_object_get(r, a), b) : json_object_get(r, a); }

static void test_first_divergence(void **state) {
    (void)state;
    ls_oracle_case c = simple();
    right.values[1] = 2.5f;
    right.values[3] = 0;
    json_t *r = report_of(&c), *first = at(r, "first_divergence", NULL);
    assert_int_equal(json_integer_value(at(first, "flat_index", NULL)), 1);
    assert_int_equal(json_integer_value(json_array_get(at(first, "coordinate", NULL), 0)), 0);
    assert_int_equal(json_integer_value(json_array_get(at(first, "coordinate", NULL), 1)), 1);
    assert_int_equal(json_integer_value(at(first, "reference_bits", NULL)), 0x40000000);
    assert_int_equal(json_integer_value(at(first, "candidate_bits", NULL)), 0x40200000);
    assert_true(json_real_value(at(first, "absolute_error", NULL)) == 0.5 && json_real_value(at(first, "relative_error", NULL)) == 0.25);
    assert_int_equal(json_integer_value(at(r, "comparison", "failures")), 2);
    assert_int_equal(json_integer_value(at(r, "comparison", "elements")), 4);
    assert_true(json_real_value(at(r, "comparison", "max_absolute")) == 4 && json_real_value(at(r, "comparison", "max_relative")) == 1);
    assert_true(fabs(json_real_value(at(r, "comparison", "rms")) - sqrt(16.25 / 4)) < 1e-12);
    assert_false(json_is_true(at(r, "passed", NULL)));
    json_decref(r);
}

/* Failures of one element with reference |a| and candidate |b|. */
static long long failures(ls_oracle_mode mode, float a, float b, long long *non_finite) {
    ls_oracle_case c = simple();
    c.mode = mode;
    left.values[2] = a;
    right.values[2] = b;
    json_t *r = report_of(&c);
    long long n = json_integer_value(at(r, "comparison", "failures"));
    *non_finite = json_integer_value(at(r, "comparison", "non_finite_failures"));
    if (n && !isfinite(a)) assert_true(json_is_null(at(at(r, "first_divergence", NULL), "reference_value", NULL)));
    json_decref(r);
    return n;
}

static void test_modes(void **state) {
    (void)state;
    const ls_oracle_mode bits = {LS_MODE_EXACT_BITS, 0, 0}, close = {LS_MODE_ABSOLUTE_RELATIVE, 0.25, 0.5}, classes = {LS_MODE_CLOSE_OR_SAME_CLASS, 0.25, 0.5};
    const float other_nan = ls_from_bits(0xFFC00001);
    long long bad;
    assert_int_equal(failures(bits, NAN, NAN, &bad), 0);
    assert_int_equal(failures(bits, NAN, other_nan, &bad), 1);
    assert_int_equal(failures(bits, 0.0f, -0.0f, &bad), 1);
    assert_int_equal(failures(bits, INFINITY, INFINITY, &bad), 0);
    assert_int_equal(failures(close, INFINITY, INFINITY, &bad), 1);
    assert_int_equal(bad, 1);
    assert_int_equal(failures(close, NAN, NAN, &bad), 1);
    assert_int_equal(failures(close, 1, NAN, &bad), 1);
    assert_int_equal(failures(close, 2, 3.25f, &bad), 0); /* |c - r| = 0.25 + 0.5 * 2: not over */
    assert_int_equal(failures(close, 2, 3.2500002f, &bad), 1);
    assert_int_equal(bad, 0);
    assert_int_equal(failures(classes, INFINITY, INFINITY, &bad), 0);
    assert_int_equal(failures(classes, INFINITY, -INFINITY, &bad), 1);
    assert_int_equal(failures(classes, NAN, other_nan, &bad), 0);
    assert_int_equal(failures(classes, NAN, 1, &bad), 1);
    assert_int_equal(failures(classes, 1, NAN, &bad), 1);
    assert_int_equal(failures(classes, 2, 3.2500002f, &bad), 1);
}

/* Who may call a passing report qualified. */
static void test_qualification(void **state) {
    (void)state;
    for (int claim = 0; claim < LS_CLAIM_COUNT; claim++)
        for (int rs = 0; rs < LS_ALGORITHM_STATUS_COUNT; rs++)
            for (int cs = 0; cs < LS_ALGORITHM_STATUS_COUNT; cs++)
                for (int differ = 0; differ < 2; differ++) {
                    ls_oracle_case c = simple();
                    bool exact = claim == LS_CLAIM_EXACT_CONTRACT, fixed = rs == LS_ALGORITHM_FIXED_BY_CONTRACT || cs == LS_ALGORITHM_FIXED_BY_CONTRACT;
                    c.claim = (ls_oracle_claim)claim;
                    c.reference.status = (ls_algorithm_status)rs;
                    c.candidate.status = (ls_algorithm_status)cs;
                    if (exact) c.contract = exact_contract, c.contract_len = sizeof exact_contract - 1;
                    right.values[0] += (float)differ;
                    ls_error e = {0};
                    json_t *r;
                    if (fixed && !exact) {
                        assert_error(ls_oracle_report(&c, &r, &e), LS_INVALID_ARGUMENT, "only an exact contract");
                        continue;
                    }
                    assert_ok(ls_oracle_report(&c, &r, &e));
                    bool mlx = claim == LS_CLAIM_PRODUCTION_MLX && rs == LS_ALGORITHM_OBSERVED && cs == LS_ALGORITHM_OBSERVED;
                    bool want = !differ && (mlx || (exact && rs == LS_ALGORITHM_FIXED_BY_CONTRACT && cs == LS_ALGORITHM_FIXED_BY_CONTRACT));
                    assert_int_equal(json_is_true(at(r, "passed", NULL)), !differ);
                    assert_int_equal(json_is_true(at(r, "production_qualified", NULL)), want);
                    json_decref(r);
                }
}

/* A report that was changed to claim more than it holds. */
static void test_claims_are_checked(void **state) {
    (void)state;
    ls_error e = {0};
    ls_oracle_case c = simple();
    json_t *r = report_of(&c);
    assert_ok(ls_oracle_check_report(r, &e));
    json_object_set_new(r, "production_qualified", json_true());
    assert_error(ls_oracle_check_report(r, &e), LS_FAILED_PRECONDITION, "claims production qualification");
    json_object_set_new(r, "claim", json_string("exact-contract"));
    assert_error(ls_oracle_check_report(r, &e), LS_FAILED_PRECONDITION, "claims production qualification");
    json_object_set_new(r, "claim", json_string("production-mlx"));
    assert_ok(ls_oracle_check_report(r, &e));
    json_object_set_new(json_object_get(r, "comparison"), "failures", json_integer(1));
    assert_error(ls_oracle_check_report(r, &e), LS_FAILED_PRECONDITION, "claims to pass");
    json_object_set_new(r, "passed", json_false());
    assert_error(ls_oracle_check_report(r, &e), LS_FAILED_PRECONDITION, "claims production qualification");
    json_object_set_new(json_object_get(r, "comparison"), "elements", json_integer(0));
    assert_error(ls_oracle_check_report(r, &e), LS_FAILED_PRECONDITION, "no element");
    json_object_del(r, "claim");
    assert_error(ls_oracle_check_report(r, &e), LS_FAILED_PRECONDITION, "lacks fields");
    json_decref(r);
}

static void test_digests(void **state) {
    (void)state;
    ls_oracle_case c = simple();
    json_t *a = report_of(&c);
    operand[1] = 3;
    json_t *b = report_of(&c);
    const char *x = json_string_value(at(json_array_get(at(a, "operands", NULL), 0), "sha256", NULL));
    const char *y = json_string_value(at(json_array_get(at(b, "operands", NULL), 0), "sha256", NULL));
    assert_string_not_equal(x, y);
    assert_string_equal(json_string_value(at(a, "operator_contract_sha256", NULL)), json_string_value(at(b, "operator_contract_sha256", NULL)));
    char want[65]; /* dimensions as LE u64, then the bits as LE u32 */
    static const uint8_t bytes[] = {2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3F, 0, 0, 0x40, 0x40};
    ls_sha256_hex_of(bytes, sizeof bytes, want);
    assert_string_equal(y, want);
    ls_sha256_hex_of(float_contract, sizeof float_contract - 1, want);
    assert_string_equal(json_string_value(at(a, "operator_contract_sha256", NULL)), want);
    assert_int_equal(json_string_length(at(a, "operator_contract_identity", NULL)), sizeof float_contract - 1); /* with its NUL */
    json_decref(a);
    json_decref(b);
}

#define REFUSED(change, part)                                                            \
    do {                                                                                 \
        ls_oracle_case c = simple();                                                     \
        ls_error e = {0};                                                                \
        json_t *r;                                                                       \
        change;                                                                          \
        assert_error(ls_oracle_report(&c, &r, &e), LS_INVALID_ARGUMENT, part);           \
        assert_null(r);                                                                  \
    } while (0)

static void test_refusals(void **state) {
    (void)state;
    REFUSED(c.operation = "", "needs an operation id");
    REFUSED(c.operation = "a\nb", "needs an operation id");
    REFUSED(c.claim = LS_CLAIM_COUNT, "claim 4");
    REFUSED(c.mode.kind = LS_MODE_COUNT, "mode 3");
    REFUSED((c.mode = (ls_oracle_mode){LS_MODE_ABSOLUTE_RELATIVE, NAN, 0}), "must be finite");
    REFUSED((c.mode = (ls_oracle_mode){LS_MODE_ABSOLUTE_RELATIVE, 0, -1}), "0 or more");
    REFUSED((c.mode = (ls_oracle_mode){LS_MODE_ABSOLUTE_RELATIVE, INFINITY, 0}), "must be finite");
    REFUSED((c.mode = (ls_oracle_mode){LS_MODE_EXACT_BITS, 1e-6, 0}), "exact bits take no tolerance");
    REFUSED(c.contract_len = 0, "contract text is empty");
    REFUSED((c.contract = "a\nb", c.contract_len = 3), "has a line end");
    REFUSED((c.contract = exact_contract, c.contract_len = sizeof exact_contract - 1), "with an exact operator contract");
    REFUSED(c.claim = LS_CLAIM_EXACT_CONTRACT, "with a float operator contract");
    REFUSED((c.claim = LS_CLAIM_EXACT_CONTRACT, c.mode.kind = LS_MODE_ABSOLUTE_RELATIVE), "compared by bits");
    REFUSED(c.candidate.algorithm = "", "candidate algorithm is empty");
    REFUSED(c.reference.device = NULL, "reference device is empty");
    REFUSED(c.candidate.revision = "a\rb", "revision has a line end");
    REFUSED(c.candidate.n_flags = 0, "0 compiler flags");
    REFUSED(c.candidate.flags[0] = "", "compiler flag is empty");
    REFUSED(c.candidate.precision = "f32", "must begin with tf32=off or tf32=on");
    REFUSED(c.reference.precision = "tf32=on", "must be off in the reference");
    REFUSED(c.n_operands = 0, "0 operands");
    REFUSED(c.operands[0].type.dim[0] = 0, "dimension 0 of operand \"x\" is 0");
    REFUSED(c.operands[0].bytes = 7, "has 7 bytes");
    REFUSED(c.operands[0].data = NULL, "its type needs 8");
    REFUSED(right.dim[1] = 0, "dimension 1 of the candidate's output is 0");
    REFUSED(right.n = 3, "gave 3 values for a shape of 4");
    REFUSED((right.rank = 1, right.dim[0] = 4), "different shapes");
    REFUSED((left.dim[0] = 4, left.dim[1] = 1), "different shapes");
    ls_oracle_case c = simple();
    ls_error e = {0};
    json_t *r;
    c.operands[0].type = (ls_tensor_type){LS_DT_F32, 2, {INT64_MAX, 8}};
    assert_error(ls_oracle_report(&c, &r, &e), LS_RESOURCE_EXHAUSTED, "bytes");
}

/* ---- Fixtures and references ---------------------------------------------------------------------------------------- */

static const ls_probe *probe(const char *key) {
    for (size_t i = 0; ls_probe_at(i); i++)
        if (!strcmp(ls_probe_at(i)->key, key)) return ls_probe_at(i);
    fail_msg("no probe %s", key);
    return NULL;
}

typedef struct prepared {
    ls_arena *a;
    ls_oracle_case c;
    ls_oracle_output out;
    ls_str module;
} prepared;

static prepared prepare(const ls_probe *p) {
    ls_error e = {0};
    prepared r = {0};
    assert_ok(ls_arena_create(&r.a, &e));
    assert_ok(p->fixture(p, &r.c, r.a, &e));
    assert_ok(p->run(&r.c, (void *)(uintptr_t)p, &r.out, &e));
    assert_ok(ls_probe_module(p, &r.c, &r.module, &e));
    return r;
}

static void discard(prepared *r) {
    ls_free(r->out.values);
    ls_str_deinit(&r->module);
    ls_arena_destroy(r->a);
}

static void expect_values(const char *key, const float *want, size_t n) {
    prepared r = prepare(probe(key));
    for (size_t i = 0; i < n; i++)
        if (ls_bits(r.out.values[i]) != ls_bits(want[i])) fail_msg("%s: value %zu is %g, want %g", key, i, (double)r.out.values[i], (double)want[i]);
    discard(&r);
}

static void test_fixtures(void **state) {
    (void)state;
    static const float q4[] = {-1, -.5f, 0, .5f, 1, 1.5f, 2, 2.5f, -12, -11}, dense[] = {-.5f, -6.5f, -3, 18.125f}, residual[] = {.5f, -1, 5.75f, -.5f, -1, 6,
            .625f, 3.875f};
    expect_values("affine-q4-dequant", q4, 10);
    expect_values("dense-matmul", dense, 4);
    expect_values("residual-add", residual, 8);
    prepared r = prepare(probe("affine-q4-dequant"));
    const uint32_t *words = r.c.operands[0].data;
    assert_int_equal(words[0], 0x76543210);
    assert_int_equal(words[1], 0x89abcdef);
    discard(&r);
}

/* Nine operators and 340 outputs of mlxcel's suite come first, in its order. */
static void test_suite_shape(void **state) {
    (void)state;
    static const char *const keys[] = {"affine-q4-dequant", "dense-matmul", "residual-add", "rms-norm", "attention-softmax", "layer-norm", "silu-projection",
                                       "gelu-projection", "cuda-prefix-sum"};
    size_t total = 0, n = 0;
    for (; ls_probe_at(n); n++) {
        prepared r = prepare(ls_probe_at(n));
        assert_int_equal(ls_probe_at(n)->lockstep, n >= 9);
        if (n < 9) {
            assert_string_equal(ls_probe_at(n)->key, keys[n]);
            total += r.out.n;
        }
        discard(&r);
    }
    assert_int_equal(total, 340);
    assert_int_equal(n, 21);
}

static void test_softmax(void **state) {
    (void)state;
    prepared r = prepare(probe("attention-softmax"));
    for (int row = 0; row < 2; row++) {
        float sum = 0;
        for (int i = 0; i < 4; i++) sum += r.out.values[row * 4 + i];
        assert_true(fabsf(sum - 1) <= 0x1p-23f);
    }
    discard(&r);
    r = prepare(probe("softmax-edges"));
    const float *y = r.out.values;
    assert_true(y[1] == 0 && y[3] == 0 && y[5] == 0 && y[6] == 0); /* masked by -1e30, by -infinity */
    for (int i = 8; i < 16; i++) assert_true(y[i] == 0.25f);       /* masked whole, finite: uniform */
    for (int i = 16; i < 28; i++) assert_true(isnan(y[i]));        /* masked whole by -infinity; a NaN; an infinity */
    assert_true(y[30] == 0 && y[28] > 0.4f);
    discard(&r);
}

/* The hierarchy differs from a running sum, a tree from both, and none of them lets a -0.0 out of the scan. */
static void test_associations_show(void **state) {
    (void)state;
    prepared r = prepare(probe("cuda-prefix-sum"));
    const float *x = r.c.operands[1].data;
    int differ = 0;
    for (int row = 0; row < 2; row++) {
        float naive = 0;
        for (int i = 0; i < 130; i++) differ += (naive += x[row * 130 + i]) != r.out.values[row * 130 + i];
    }
    assert_int_equal(differ, 212);
    discard(&r);
    static const char *const scans[] = {"cuda-prefix-sum-1", "cuda-prefix-sum-128", "cuda-prefix-sum-129", "cuda-prefix-sum-4096"};
    for (int k = 0; k < 4; k++) {
        r = prepare(probe(scans[k]));
        for (size_t i = 0; i < r.out.n; i++) assert_int_not_equal(ls_bits(r.out.values[i]), 0x80000000);
        discard(&r);
    }
    r = prepare(probe("pairwise-tree-sum"));
    float naive = 0;
    for (int i = 0; i < 130; i++) naive += ((const float *)r.c.operands[1].data)[i];
    assert_true(r.out.values[0] != naive && r.out.values[1] == -r.out.values[0]);
    discard(&r);
}

/* A sum kept in bf16 would show: its last bit at 16384 is worth 64. */
static void test_convolution_fixture(void **state) {
    (void)state;
    static const char *const keys[] = {"convolution", "convolution-bf16"};
    for (int k = 0; k < 2; k++) {
        prepared r = prepare(probe(keys[k]));
        static const float factor[] = {1, -1, 2};
        assert_int_equal(r.out.n, 24);
        for (int i = 0; i < 24; i += 2) assert_true(r.out.values[i] == factor[i / 8]);
        assert_true(r.out.values[1] == 2 && ls_bf16_to_f32(ls_f32_to_bf16(16384.0f + 1.0f)) == 16384.0f);
        discard(&r);
    }
}

/* ---- Module texts ---------------------------------------------------------------------------------------------------- */

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n++;
    return n;
}

static void test_module_texts(void **state) {
    (void)state;
    prepared r = prepare(probe("dense-matmul"));
    assert_int_equal(count(r.module.data, "convert"), 0);
    assert_int_equal(count(r.module.data, "contracting_dims = [1] x [1]"), 1);
    assert_int_equal(count(r.module.data, "module @numeric_dense_matmul {"), 1);
    discard(&r);
    r = prepare(probe("residual-add"));
    assert_int_equal(count(r.module.data, "stablehlo.add"), 1);
    discard(&r);
    r = prepare(probe("layer-norm"));
    assert_int_equal(count(r.module.data, "applies stablehlo.add across dimensions = [1]"), 2);
    discard(&r);
    r = prepare(probe("silu-projection"));
    assert_true(strstr(r.module.data, "dot_general") < strstr(r.module.data, "exponential"));
    assert_int_equal(count(r.module.data, "stablehlo.divide"), 1);
    assert_int_equal(count(r.module.data, "stablehlo.multiply"), 1); /* by the reciprocal */
    discard(&r);
    r = prepare(probe("gelu-projection"));
    assert_true(strstr(r.module.data, "dot_general") < strstr(r.module.data, "tanh"));
    assert_int_equal(count(r.module.data, "0x3D372713"), 1);
    assert_int_equal(count(r.module.data, "erf"), 0);
    discard(&r);
    r = prepare(probe("gelu-erf-projection"));
    assert_int_equal(count(r.module.data, "chlo.erf"), 1);
    assert_int_equal(count(r.module.data, "tanh"), 0);
    discard(&r);
    r = prepare(probe("cuda-prefix-sum"));
    assert_int_equal(count(r.module.data, "stablehlo.add "), 17);
    assert_int_equal(count(r.module.data, "stablehlo.concatenate"), 3);
    assert_int_equal(count(r.module.data, "reduce"), 0);
    discard(&r);
    r = prepare(probe("xor-row-sum"));
    assert_int_equal(count(r.module.data, "stablehlo.add "), 9);
    assert_int_equal(count(r.module.data, "reduce"), 0);
    discard(&r);
    r = prepare(probe("affine-q4-dequant"));
    assert_int_equal(count(r.module.data, "shift_right_logical"), 1);
    assert_true(strstr(r.module.data, "stablehlo.and") < strstr(r.module.data, "stablehlo.add "));
    discard(&r);
}

/* Sizes that an operator does not take. */
static void test_module_refusals(void **state) {
    (void)state;
    const struct {
        const char *key;
        ls_probe_size size;
        const char *part;
    } cases[] = {{"dense-matmul", {.rows = 0, .cols = 3, .out = 2}, "0 rows"}, {"dense-matmul", {.rows = 1, .cols = 3}, "0 outputs"},
                 {"layer-norm", {.rows = 2, .cols = 4, .eps = 0}, "epsilon is 0"}, {"rms-norm", {.rows = 2, .cols = 4, .eps = -1}, "epsilon is -1"},
                 {"rms-norm", {.rows = 2, .cols = 4, .eps = INFINITY}, "epsilon is inf"}, {"layer-norm", {.rows = 1, .cols = (1 << 24) + 1, .eps = 1e-5f},
                         "16777217 columns"},
                 {"cuda-prefix-sum", {.rows = 1, .cols = 4097}, "width 4097"}, {"cuda-prefix-sum", {.rows = 1, .cols = 0}, "width 0"}, {"xor-row-sum",
                         {.rows = 1, .cols = 129}, "129"},
                 {"pairwise-tree-sum", {.rows = 1, .cols = 1}, "1 columns"}, {"attention-softmax", {.rows = 1}, "0 columns"},
                 {"affine-q4-dequant", {.out = 2, .cols = 12, .bits = 4, .group = 8}, "12 columns"}, {"affine-q4-dequant", {.out = 2, .cols = 24, .bits = 4,
                         .group = 12}, "groups of 12"},
                 {"affine-q4-dequant", {.out = 2, .cols = 16, .bits = 3, .group = 8}, "3 bits"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_probe p = *probe(cases[i].key);
        prepared r = prepare(&p);
        ls_error e = {0};
        ls_str text = {0};
        p.size = cases[i].size;
        assert_error(ls_probe_module(&p, &r.c, &text, &e), LS_INVALID_ARGUMENT, cases[i].part);
        ls_str_deinit(&text);
        discard(&r);
    }
}

static void test_probe_contracts(void **state) {
    (void)state;
    const ls_operator_backend b = {"canonical-decomposition-v1", "libiree-runtime-sha256-00", "IREE 3.12", "local-task",
                                   "explicit-mlx-cuda-one-block-contiguous-scan-v1"};
    ls_error e = {0};
    ls_str s = {0};
    assert_ok(ls_probe_contract(probe("cuda-prefix-sum"), &b, &s, &e));
    assert_string_equal(s.data + strlen(s.data) + 1,
                        "id=micro-oracle.cuda-prefix-sum.f32;class=prefix-reduction;checkpoint=f32;input=f32;acc=f32;result=f32;round=operator-input,accumulator-result,operator-output;"
                        "association=cuda-one-block-scan;weights=dense;dequant=none;framework=canonical-decomposition-v1;patch=libiree-runtime-sha256-00;compiler=IREE 3.12;"
                        "target=local-task;algorithm=explicit-mlx-cuda-one-block-contiguous-scan-v1");
    ls_str_clear(&s);
    assert_ok(ls_probe_contract(probe("affine-q4-dequant"), &b, &s, &e));
    assert_non_null(strstr(s.data + strlen(s.data) + 1,
                           ";input=u32;acc=f32;result=f32;round=checkpoint-load,dequantized-weight,operator-output;association=sequential;"
                                                        "weights=packed-affine-in-graph;dequant=bits=4,group=8,carrier=u32,metadata=f16,lanes=least-significant-first,"
                                                        "evaluation=separate-multiply-then-add;"));
    for (size_t i = 0; ls_probe_at(i); i++) {
        ls_str_clear(&s);
        assert_ok(ls_probe_contract(ls_probe_at(i), &b, &s, &e));
        assert_string_equal(s.data, "mlxcel-xla-operator-numeric-v1");
        ls_str_clear(&s);
        assert_ok(ls_probe_config(ls_probe_at(i), &s, &e));
        assert_non_null(strstr(s.data, "dtype="));
    }
    ls_str_deinit(&s);
}

/* ---- Exact probes ---------------------------------------------------------------------------------------------------- */

static ls_code create_native(void *user, ls_executor **out, const ls_graph *g, const ls_executor_options *o, ls_error *e) {
    ls_executor_options level = *o;
    level.level = user;
    level.threads = 2;
    return ls_native_create(out, g, NULL, &level, e);
}

static const ls_engine_identity identity = {"native", "cpu", "1", "lockstep", "00", "c17", "-O2", "this", "host"};

static void test_exact_probes_on_native(void **state) {
    (void)state;
    static char portable[] = "c";
    for (int k = 0; k < 2; k++) {
        const ls_oracle_target t = {.create = create_native, .create_user = k ? portable : NULL, .identity = &identity};
        assert_int_equal(ls_oracle_count(&t), ls_oracle_graph_count());
        for (size_t i = 0; i < ls_oracle_count(&t); i++) {
            ls_error e = {0};
            json_t *r;
            char name[96];
            ls_oracle_name(&t, i, name);
            assert_ok(ls_oracle_run_probe(&t, i, &r, &e));
            if (!json_is_true(at(r, "passed", NULL)) || !json_is_true(at(r, "production_qualified", NULL))) fail_msg("%s", name);
            assert_string_equal(json_string_value(at(r, "operation", NULL)), name);
            assert_string_equal(json_string_value(at(r, "claim", NULL)), "exact-contract");
            json_decref(r);
        }
    }
}

/* An executor that is the reference but for one bit of one logit in its second pass. */
static ls_code (*real_forward)(ls_executor *x, const ls_batch *b, float *logits, ls_error *e);

static ls_code faulty_forward(ls_executor *x, const ls_batch *b, float *logits, ls_error *e) {
    LS_TRY(real_forward(x, b, logits, e));
    if (b->n_rows == 1) logits[3] = ls_from_bits(ls_bits(logits[3]) ^ 1);
    return LS_OK;
}

static ls_code create_faulty(void *user, ls_executor **out, const ls_graph *g, const ls_executor_options *o, ls_error *e) {
    (void)user;
    LS_TRY(ls_reference_create(out, g, o, e));
    real_forward = (*out)->forward;
    (*out)->forward = faulty_forward;
    return LS_OK;
}

static ls_code create_nothing(void *user, ls_executor **out, const ls_graph *g, const ls_executor_options *o, ls_error *e) {
    (void)user, (void)out, (void)g, (void)o;
    LS_FAIL(e, LS_UNAVAILABLE, "no device today");
}

static void test_planted_fault(void **state) {
    (void)state;
    ls_error e = {0};
    json_t *r;
    ls_oracle_target t = {.create = create_faulty, .identity = &identity};
    assert_ok(ls_oracle_run_probe(&t, 0, &r, &e)); /* 24 rows of 64, then single rows */
    assert_false(json_is_true(at(r, "passed", NULL)));
    assert_false(json_is_true(at(r, "production_qualified", NULL)));
    assert_int_equal(json_integer_value(at(r, "comparison", "failures")), 4);
    assert_int_equal(json_integer_value(at(at(r, "first_divergence", NULL), "flat_index", NULL)), 24 * 64 + 3);
    json_decref(r);
    t.create = create_nothing;
    assert_error(ls_oracle_run_probe(&t, 0, &r, &e), LS_UNAVAILABLE, "exact-oracle.embed.exact16\", candidate: no device today");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_divergence), cmocka_unit_test(test_modes), cmocka_unit_test(test_qualification), cmocka_unit_test(test_claims_are_checked),
        cmocka_unit_test(test_digests), cmocka_unit_test(test_refusals), cmocka_unit_test(test_fixtures), cmocka_unit_test(test_suite_shape),
                cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_associations_show), cmocka_unit_test(test_convolution_fixture), cmocka_unit_test(test_module_texts),
                cmocka_unit_test(test_module_refusals),
        cmocka_unit_test(test_probe_contracts), cmocka_unit_test(test_exact_probes_on_native), cmocka_unit_test(test_planted_fault)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
