/* Tests of src/contract/operator_contract: canonical texts, and every rule of a record. */
#include "test.h"

#include "base/sha256.h"
#include "contract/operator_contract.h"

static const ls_affine q4 = {.bits = 4, .group = 8, .carrier = LS_NUMERIC_U32, .metadata = LS_NUMERIC_F16};

static ls_operator_contract residual(void) {
    return (ls_operator_contract){.id = "micro-oracle.residual-add.f32", .contract = LS_CONTRACT_FLOAT, .op_class = LS_CLASS_RESIDUAL_ADD,
                                  .checkpoint = LS_CKPT_F32,
                                  .input = LS_NUMERIC_F32, .acc = LS_NUMERIC_F32, .result = LS_NUMERIC_F32,
                                  .rounding = 1u << LS_ROUND_OPERATOR_INPUT | 1u << LS_ROUND_RESIDUAL_RESULT | 1u << LS_ROUND_OPERATOR_OUTPUT,
                                  .backend = {"canonical-decomposition-v1", "libiree-runtime-sha256-00", "IREE 3.12", "local-task",
                                              "iree-selected-residual-add-unobserved"}};
}

static ls_operator_contract dequantize(void) {
    ls_operator_contract c = residual();
    c.id = "micro-oracle.affine-q4-dequant.f32";
    c.op_class = LS_CLASS_AFFINE_Q4_DEQUANTIZE;
    c.checkpoint = LS_CKPT_AFFINE_U4;
    c.input = LS_NUMERIC_U32;
    c.weights = LS_WEIGHTS_PACKED_AFFINE;
    c.affine = &q4;
    return c;
}

static void expect_text(const ls_operator_contract *c, const char *want) {
    ls_error e = {0};
    ls_str s = {0};
    assert_ok(ls_operator_contract_text(c, &s, &e));
    assert_string_equal(s.data, want);
    ls_str_deinit(&s);
}

static void test_record_text(void **state) {
    (void)state;
    ls_operator_contract c = residual();
    expect_text(&c, "id=micro-oracle.residual-add.f32;class=residual-add;checkpoint=f32;input=f32;acc=f32;result=f32;"
                    "round=operator-input,residual-result,operator-output;association=sequential;weights=dense;dequant=none;"
                    "framework=canonical-decomposition-v1;patch=libiree-runtime-sha256-00;compiler=IREE 3.12;target=local-task;"
                    "algorithm=iree-selected-residual-add-unobserved");
    c = dequantize();
    c.rounding = 1u << LS_ROUND_OPERATOR_OUTPUT | 1u << LS_ROUND_CHECKPOINT_LOAD | 1u << LS_ROUND_DEQUANTIZED_WEIGHT;
    expect_text(&c, "id=micro-oracle.affine-q4-dequant.f32;class=affine-q4-dequantize;checkpoint=affine-u4;input=u32;acc=f32;result=f32;"
                    "round=checkpoint-load,dequantized-weight,operator-output;association=sequential;weights=packed-affine-in-graph;"
                    "dequant=bits=4,group=8,carrier=u32,metadata=f16,lanes=least-significant-first,evaluation=separate-multiply-then-add;"
                    "framework=canonical-decomposition-v1;patch=libiree-runtime-sha256-00;compiler=IREE 3.12;target=local-task;"
                    "algorithm=iree-selected-residual-add-unobserved");
    c = (ls_operator_contract){.id = "norm", .contract = LS_CONTRACT_EXACT24, .op = "rms_norm"};
    expect_text(&c, "id=norm;operator=rms_norm;contract=exact24;version=1");
}

static void set_digest(const ls_operator_contract *c, size_t n, char hex[65]) {
    ls_error e = {0};
    ls_str s = {0};
    assert_ok(ls_operator_contracts_text(c, n, &s, &e));
    ls_sha256_hex_of(s.data, s.len, hex);
    ls_str_deinit(&s);
}

static void test_order_does_not_matter(void **state) {
    (void)state;
    ls_operator_contract ab[] = {residual(), dequantize()}, ba[] = {dequantize(), residual()};
    char x[65], y[65];
    set_digest(ab, 2, x);
    set_digest(ba, 2, y);
    assert_string_equal(x, y);
}

/* Schema id, then a NUL and the text of each record, sorted by id. */
static void test_set_text(void **state) {
    (void)state;
    ls_error e = {0};
    ls_str s = {0}, a = {0}, b = {0};
    ls_operator_contract c[] = {residual(), dequantize()};
    assert_ok(ls_operator_contracts_text(c, 2, &s, &e));
    assert_ok(ls_operator_contract_text(&c[1], &a, &e));
    assert_ok(ls_operator_contract_text(&c[0], &b, &e));
    size_t schema = strlen(LS_OPERATOR_CONTRACT_SCHEMA);
    assert_int_equal(s.len, schema + 1 + a.len + 1 + b.len);
    assert_string_equal(s.data, "mlxcel-xla-operator-numeric-v1");
    assert_string_equal(s.data + schema + 1, a.data);
    assert_string_equal(s.data + schema + 1 + a.len + 1, b.data);
    ls_operator_contract mixed[] = {residual(), {.id = "a", .contract = LS_CONTRACT_EXACT16, .op = "linear"}};
    ls_str_clear(&s);
    assert_ok(ls_operator_contracts_text(mixed, 2, &s, &e));
    assert_string_equal(s.data, "lockstep-operator-contract-v1");
    ls_str_deinit(&s);
    ls_str_deinit(&a);
    ls_str_deinit(&b);
}

/* Each field, changed alone, changes the digest. */
static void test_every_field_matters(void **state) {
    (void)state;
    enum { FIELDS = 20 };
    static const ls_affine other[] = {{4, 16, LS_NUMERIC_U32, LS_NUMERIC_F16, false, false}, {4, 8, LS_NUMERIC_U32, LS_NUMERIC_BF16, false, false},
                                      {4, 8, LS_NUMERIC_U32, LS_NUMERIC_F16, true, false}, {4, 8, LS_NUMERIC_U32, LS_NUMERIC_F16, false, true}};
    static const ls_affine q8 = {.bits = 8, .group = 8, .carrier = LS_NUMERIC_U32, .metadata = LS_NUMERIC_F16};
    char hex[FIELDS][65];
    for (int i = 0; i < FIELDS; i++) {
        ls_operator_contract c = dequantize();
        if (i == 1) c.id = "x";
        if (i == 2) c.op_class = LS_CLASS_Q4_MATMUL;
        if (i == 3) c.checkpoint = LS_CKPT_AFFINE_U8, c.affine = &q8;
        if (i == 4) c.input = LS_NUMERIC_F16;
        if (i == 5) c.acc = LS_NUMERIC_BF16;
        if (i == 6) c.result = LS_NUMERIC_I32;
        if (i == 7) c.rounding |= 1u << LS_ROUND_BIAS_ADD;
        if (i == 8) c.association = LS_ASSOC_PAIRWISE_TREE;
        if (i == 9) c.weights = LS_WEIGHTS_HOST_AFFINE;
        if (i >= 10 && i < 14) c.affine = &other[i - 10];
        if (i == 14) c.backend.framework = "x";
        if (i == 15) c.backend.patch = "x";
        if (i == 16) c.backend.compiler = "x";
        if (i == 17) c.backend.target = "x";
        if (i == 18) c.backend.algorithm = "x";
        if (i == 19) c = (ls_operator_contract){.id = c.id, .contract = LS_CONTRACT_EXACT16, .op = "linear"};
        set_digest(&c, 1, hex[i]);
        for (int j = 0; j < i; j++) assert_string_not_equal(hex[i], hex[j]);
    }
}

#define REFUSED(change, part)                                                        \
    do {                                                                             \
        ls_operator_contract c = dequantize(), r = residual();                       \
        ls_affine a = q4;                                                            \
        (void)a;                                                                     \
        ls_operator_contract *p = &c, *d = &r;                                       \
        (void)p;                                                                     \
        (void)d;                                                                     \
        c.affine = &a;                                                               \
        change;                                                                      \
        ls_operator_contract both[] = {c, r};                                        \
        ls_str s = {0};                                                              \
        ls_error e = {0};                                                            \
        assert_error(ls_operator_contracts_text(both, 2, &s, &e), LS_INVALID_ARGUMENT, part); \
        ls_str_deinit(&s);                                                           \
    } while (0)

static void test_refusals(void **state) {
    (void)state;
    REFUSED(p->id = NULL, "id is empty");
    REFUSED(p->id = "", "id is empty");
    REFUSED(p->id = "a;b", "semicolon");
    REFUSED(p->id = "a\nb", "line end");
    REFUSED(p->id = "a\rb", "line end");
    REFUSED(p->id = d->id, "in the set twice");
    REFUSED(p->op_class = LS_CLASS_COUNT, "class is 11");
    REFUSED(p->checkpoint = LS_CKPT_COUNT, "checkpoint is 5");
    REFUSED(p->input = LS_NUMERIC_COUNT, "input is 6");
    REFUSED(p->acc = LS_NUMERIC_COUNT, "acc is 6");
    REFUSED(p->result = LS_NUMERIC_COUNT, "result is 6");
    REFUSED(p->association = LS_ASSOC_COUNT, "association is 5");
    REFUSED(p->weights = LS_WEIGHTS_COUNT, "weights is 3");
    REFUSED(p->contract = LS_CONTRACT_COUNT, "contract is 4");
    REFUSED(p->rounding = 0, "at least one");
    REFUSED(p->rounding = 1u << LS_ROUND_COUNT, "rounding set is 0x100");
    REFUSED(a.bits = 3, "affine bits are 3");
    REFUSED(a.bits = 8, "they must be equal");
    REFUSED(a.group = 0, "affine group is 0");
    REFUSED(a.carrier = LS_NUMERIC_I32, "carrier must be u32");
    REFUSED(a.metadata = LS_NUMERIC_F32, "f16 or bf16");
    REFUSED(p->affine = NULL, "needs an affine descriptor");
    REFUSED(p->weights = LS_WEIGHTS_DENSE, "weights are dense");
    REFUSED(d->affine = &q4, "has no affine descriptor");
    REFUSED(d->weights = LS_WEIGHTS_PACKED_AFFINE, "runs dense");
    REFUSED(p->backend.framework = "", "framework is empty");
    REFUSED(p->backend.patch = NULL, "patch is empty");
    REFUSED(p->backend.compiler = "a;b", "compiler \"a;b\"");
    REFUSED(p->backend.target = "\n", "target");
    REFUSED(p->backend.algorithm = "a\rb", "algorithm");
    REFUSED(p->contract = LS_CONTRACT_EXACT16, "operator is empty");
    ls_error e = {0};
    ls_str s = {0};
    assert_error(ls_operator_contracts_text(NULL, 0, &s, &e), LS_INVALID_ARGUMENT, "is empty");
}

static void test_dtype_contract(void **state) {
    (void)state;
    ls_error e = {0};
    ls_str s = {0};
    ls_dtype_contract c = {LS_WEIGHTS_PACKED_AFFINE, LS_NUMERIC_F16, LS_NUMERIC_F32, LS_NUMERIC_BF16, LS_NUMERIC_F32, LS_NUMERIC_U32};
    assert_ok(ls_dtype_contract_text(&c, &s, &e));
    assert_string_equal(s.data, "mlxcel-xla-numeric-dtype-v1;weights=packed-affine-in-graph;dot-in=f16;dot-acc=f32;dot-out=bf16;reduce=f32;carrier=u32");
    c.reduce = LS_NUMERIC_COUNT;
    assert_error(ls_dtype_contract_text(&c, &s, &e), LS_INVALID_ARGUMENT, "type is 6");
    c = (ls_dtype_contract){.weights = LS_WEIGHTS_COUNT};
    assert_error(ls_dtype_contract_text(&c, &s, &e), LS_INVALID_ARGUMENT, "weights is 3");
    ls_str_deinit(&s);
}

static void test_backend_text(void **state) {
    (void)state;
    ls_error e = {0};
    ls_str s = {0};
    assert_ok(ls_backend_text_clean("  IREE (https://iree.dev):\n  IREE compiler; version 3.12\t LLVM \n", &s, &e));
    assert_string_equal(s.data, "IREE (https://iree.dev): IREE compiler, version 3.12 LLVM");
    ls_str_deinit(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_record_text), cmocka_unit_test(test_order_does_not_matter), cmocka_unit_test(test_set_text),
                                       cmocka_unit_test(test_every_field_matters), cmocka_unit_test(test_refusals), cmocka_unit_test(test_dtype_contract),
                                       cmocka_unit_test(test_backend_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
