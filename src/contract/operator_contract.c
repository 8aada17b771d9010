/* Operator contracts: validation and canonical text. */
#include "contract/operator_contract.h"

#include <stdlib.h>
#include <string.h>

static const char *const numeric_names[LS_NUMERIC_COUNT] = {"f16", "bf16", "f32", "i32", "u8", "u32"};
static const char *const weight_names[LS_WEIGHTS_COUNT] = {"dense", "host-affine-dequantized", "packed-affine-in-graph"};
static const char *const class_names[LS_CLASS_COUNT] = {"affine-q4-dequantize", "dense-matmul", "q4-matmul", "layer-norm", "rms-norm", "residual-add",
                                                        "silu-projection", "gelu-projection", "attention-softmax", "prefix-reduction", "convolution"};
static const char *const checkpoint_names[LS_CKPT_COUNT] = {"f16", "bf16", "f32", "affine-u4", "affine-u8"};
static const char *const rounding_names[LS_ROUND_COUNT] = {"checkpoint-load", "dequantized-weight", "operator-input", "accumulator-result",
                                                           "bias-add", "activation-result", "residual-result", "operator-output"};
static const char *const association_names[LS_ASSOC_COUNT] = {"sequential", "pairwise-tree", "prefix-sequential", "cuda-one-block-scan", "backend-algorithm"};

/* ---- Validation ---------------------------------------------------------------------------------------------------- */

static ls_code check_enum(const char *id, const char *field, int value, int count, ls_error *e) {
    if (value < 0 || value >= count) LS_FAIL(e, LS_INVALID_ARGUMENT, "operator contract \"%s\": %s is %d; allowed are 0 to %d", id, field, value, count - 1);
    return LS_OK;
}

/* Separators inside a part would let two different records share one text. */
static ls_code check_part(const char *id, const char *field, const char *text, ls_error *e) {
    if (!text || !*text) LS_FAIL(e, LS_INVALID_ARGUMENT, "operator contract \"%s\": %s is empty; give a text", id, field);
    if (strpbrk(text, ";\n\r"))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "operator contract \"%s\": %s \"%s\" has a semicolon or line end, which separate records", id, field, text);
    return LS_OK;
}

static ls_code check_affine(const char *id, const ls_affine *a, ls_error *e) {
    if (a->bits != 4 && a->bits != 8) LS_FAIL(e, LS_INVALID_ARGUMENT, "operator contract \"%s\": affine bits are %d; allowed are 4 and 8", id, a->bits);
    if (a->group <= 0) LS_FAIL(e, LS_INVALID_ARGUMENT, "operator contract \"%s\": affine group is %d; it must be positive", id, a->group);
    if (a->carrier != LS_NUMERIC_U32) LS_FAIL(e, LS_INVALID_ARGUMENT, "operator contract \"%s\": the affine carrier must be u32", id);
    if (a->metadata != LS_NUMERIC_F16 && a->metadata != LS_NUMERIC_BF16)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "operator contract \"%s\": affine metadata must be f16 or bf16", id);
    return LS_OK;
}

/* A packed checkpoint cannot run dense, and only it has something to dequantise. */
static ls_code check_weights(const ls_operator_contract *c, ls_error *e) {
    int bits = c->checkpoint == LS_CKPT_AFFINE_U4 ? 4 : c->checkpoint == LS_CKPT_AFFINE_U8 ? 8 : 0;
    const char *checkpoint = checkpoint_names[c->checkpoint];
    if (!bits) {
        if (c->affine) LS_FAIL(e, LS_INVALID_ARGUMENT, "operator contract \"%s\": a %s checkpoint has no affine descriptor", c->id, checkpoint);
        if (c->weights != LS_WEIGHTS_DENSE)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "operator contract \"%s\": weights are %s; a %s checkpoint runs dense", c->id, weight_names[c->weights],
                    checkpoint);
        return LS_OK;
    }
    if (!c->affine) LS_FAIL(e, LS_INVALID_ARGUMENT, "operator contract \"%s\": a %s checkpoint needs an affine descriptor", c->id, checkpoint);
    LS_TRY(check_affine(c->id, c->affine, e));
    if (c->affine->bits != bits)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "operator contract \"%s\": %d affine bits for a %s checkpoint; they must be equal", c->id, c->affine->bits, checkpoint);
    if (c->weights == LS_WEIGHTS_DENSE)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "operator contract \"%s\": weights are dense; a %s checkpoint runs host-affine-dequantized or packed-affine-in-graph",
                c->id,
                checkpoint);
    return LS_OK;
}

static ls_code check_float(const ls_operator_contract *c, ls_error *e) {
    const struct {
        const char *field;
        int value, count;
    } enums[] = {{"class", (int)c->op_class, LS_CLASS_COUNT}, {"checkpoint", (int)c->checkpoint, LS_CKPT_COUNT}, {"input", (int)c->input, LS_NUMERIC_COUNT},
                 {"acc", (int)c->acc, LS_NUMERIC_COUNT}, {"result", (int)c->result, LS_NUMERIC_COUNT}, {"association", (int)c->association, LS_ASSOC_COUNT},
                 {"weights", (int)c->weights, LS_WEIGHTS_COUNT}};
    for (size_t i = 0; i < sizeof enums / sizeof *enums; i++) LS_TRY(check_enum(c->id, enums[i].field, enums[i].value, enums[i].count, e));
    if (!c->rounding || c->rounding >> LS_ROUND_COUNT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "operator contract \"%s\": the rounding set is 0x%x; it needs at least one of %d known boundaries", c->id,
                (unsigned)c->rounding,
                LS_ROUND_COUNT);
    LS_TRY(check_weights(c, e));
    LS_TRY(check_part(c->id, "framework", c->backend.framework, e));
    LS_TRY(check_part(c->id, "patch", c->backend.patch, e));
    LS_TRY(check_part(c->id, "compiler", c->backend.compiler, e));
    LS_TRY(check_part(c->id, "target", c->backend.target, e));
    return check_part(c->id, "algorithm", c->backend.algorithm, e);
}

ls_code ls_operator_contract_check(const ls_operator_contract *c, ls_error *e) {
    LS_TRY(check_part(c->id ? c->id : "", "id", c->id, e));
    LS_TRY(check_enum(c->id, "contract", (int)c->contract, LS_CONTRACT_COUNT, e));
    return c->contract == LS_CONTRACT_FLOAT ? check_float(c, e) : check_part(c->id, "operator", c->op, e);
}

/* ---- Text ---------------------------------------------------------------------------------------------------------- */

static ls_code add_affine(const ls_affine *a, ls_str *out, ls_error *e) {
    if (!a) return ls_str_append(out, "none", SIZE_MAX, e);
    return ls_str_printf(out, e, "bits=%d,group=%d,carrier=%s,metadata=%s,lanes=%s,evaluation=%s", a->bits, a->group, numeric_names[a->carrier],
                         numeric_names[a->metadata], a->most_significant_first ? "most-significant-first" : "least-significant-first",
                         a->fused ? "fused-multiply-add" : "separate-multiply-then-add");
}

static ls_code add_float(const ls_operator_contract *c, ls_str *out, ls_error *e) {
    const ls_operator_backend *b = &c->backend;
    LS_TRY(ls_str_printf(out, e, "id=%s;class=%s;checkpoint=%s;input=%s;acc=%s;result=%s;round=", c->id, class_names[c->op_class],
                         checkpoint_names[c->checkpoint],
                         numeric_names[c->input], numeric_names[c->acc], numeric_names[c->result]));
    const char *comma = "";
    for (int i = 0; i < LS_ROUND_COUNT; i++) {
        if (!(c->rounding >> i & 1)) continue;
        LS_TRY(ls_str_printf(out, e, "%s%s", comma, rounding_names[i]));
        comma = ",";
    }
    LS_TRY(ls_str_printf(out, e, ";association=%s;weights=%s;dequant=", association_names[c->association], weight_names[c->weights]));
    LS_TRY(add_affine(c->affine, out, e));
    return ls_str_printf(out, e, ";framework=%s;patch=%s;compiler=%s;target=%s;algorithm=%s", b->framework, b->patch, b->compiler, b->target, b->algorithm);
}

ls_code ls_operator_contract_text(const ls_operator_contract *c, ls_str *out, ls_error *e) {
    LS_TRY(ls_operator_contract_check(c, e));
    if (c->contract == LS_CONTRACT_FLOAT) return add_float(c, out, e);
    return ls_str_printf(out, e, "id=%s;operator=%s;contract=%s;version=%d", c->id, c->op, ls_contract_name(c->contract), LS_CONTRACT_VERSION);
}

static int by_id(const void *a, const void *b) {
    const ls_operator_contract *const *x = a, *const *y = b;
    return strcmp((*x)->id, (*y)->id); /* compares as unsigned bytes */
}

ls_code ls_operator_contracts_text(const ls_operator_contract *records, size_t n, ls_str *out, ls_error *e) {
    if (!n) LS_FAIL(e, LS_INVALID_ARGUMENT, "the set of operator contracts is empty; give at least one record");
    const char *schema = LS_OPERATOR_CONTRACT_SCHEMA;
    const ls_operator_contract **sorted;
    LS_TRY(ls_calloc(&sorted, n, sizeof *sorted, "operator contracts", e));
    ls_code rc = LS_OK;
    for (size_t i = 0; i < n; i++) {
        LS_GOTO(ls_operator_contract_check(&records[i], e));
        if (records[i].contract != LS_CONTRACT_FLOAT) schema = LS_EXACT_OPERATOR_CONTRACT_SCHEMA;
        sorted[i] = &records[i];
    }
    qsort(sorted, n, sizeof *sorted, by_id);
    LS_GOTO(ls_str_append(out, schema, SIZE_MAX, e));
    for (size_t i = 0; i < n; i++) {
        if (i && !strcmp(sorted[i - 1]->id, sorted[i]->id)) LS_FAIL_GOTO(e, LS_INVALID_ARGUMENT, "operator contract \"%s\" is in the set twice", sorted[i]->id);
        LS_GOTO(ls_str_append(out, "", 1, e));
        LS_GOTO(ls_operator_contract_text(sorted[i], out, e));
    }
out:
    ls_free(sorted);
    return rc;
}

ls_code ls_dtype_contract_text(const ls_dtype_contract *c, ls_str *out, ls_error *e) {
    const ls_numeric types[] = {c->dot_in, c->dot_acc, c->dot_out, c->reduce, c->carrier};
    LS_TRY(check_enum("dtype", "weights", (int)c->weights, LS_WEIGHTS_COUNT, e));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) LS_TRY(check_enum("dtype", "type", (int)types[i], LS_NUMERIC_COUNT, e));
    return ls_str_printf(out, e, LS_DTYPE_CONTRACT_SCHEMA ";weights=%s;dot-in=%s;dot-acc=%s;dot-out=%s;reduce=%s;carrier=%s", weight_names[c->weights],
                         numeric_names[c->dot_in], numeric_names[c->dot_acc], numeric_names[c->dot_out], numeric_names[c->reduce], numeric_names[c->carrier]);
}

ls_code ls_backend_text_clean(const char *text, ls_str *out, ls_error *e) {
    bool space = false, any = false;
    for (const char *p = text; *p; p++) {
        if (strchr(" \t\n\r\v\f", *p)) {
            space = any;
            continue;
        }
        if (space) LS_TRY(ls_str_append(out, " ", 1, e));
        LS_TRY(ls_str_append(out, *p == ';' ? "," : p, 1, e));
        space = false;
        any = true;
    }
    return LS_OK;
}
