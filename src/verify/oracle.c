/* The micro-oracle's harness: validation, running, comparison, report. */
#include "verify/oracle.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/sha256.h"
#include "contract/exact.h"
#include "contract/operator_contract.h"
#include "verify/compare.h"

static const char *const claims[LS_CLAIM_COUNT] = {"production-mlx", "canonical-decomposition", "mathematical-closeness", "exact-contract"};
static const char *const modes[LS_MODE_COUNT] = {"exact-bits", "absolute-relative", "absolute-relative-or-same-class"};
static const char *const statuses[LS_ALGORITHM_STATUS_COUNT] = {"unobserved", "observed", "fixed-by-contract"};

/* ---- Validation ---------------------------------------------------------------------------------------------------- */

static ls_code check_text(const char *operation, const char *side, const char *field, const char *text, ls_error *e) {
    if (!text || !*text) LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": %s %s is empty", operation, side, field);
    if (strpbrk(text, "\n\r")) LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": %s %s has a line end", operation, side, field);
    return LS_OK;
}

static ls_code check_backend(const ls_oracle_case *c, const char *side, const ls_oracle_backend *b, ls_error *e) {
    const char *const fields[] = {"runtime", "revision", "patch", "compiler", "target", "device", "artifact fingerprint", "precision", "algorithm"};
    const char *const texts[] = {b->runtime, b->revision, b->patch, b->compiler, b->target, b->device, b->artifact_fingerprint, b->precision, b->algorithm};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) LS_TRY(check_text(c->operation, side, fields[i], texts[i], e));
    if (!b->n_flags || b->n_flags > LS_ORACLE_MAX_FLAGS)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": %s has %zu compiler flags; allowed are 1 to %d", c->operation, side, b->n_flags,
                LS_ORACLE_MAX_FLAGS);
    for (size_t i = 0; i < b->n_flags; i++) LS_TRY(check_text(c->operation, side, "compiler flag", b->flags[i], e));
    if (strncmp(b->precision, "tf32=off", 8) && strncmp(b->precision, "tf32=on", 7))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": %s precision \"%s\" must begin with tf32=off or tf32=on", c->operation, side, b->precision);
    if ((unsigned)b->status >= LS_ALGORITHM_STATUS_COUNT) LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": %s algorithm status %d is unknown",
                                                                  c->operation, side, (int)b->status);
    if (b->status == LS_ALGORITHM_FIXED_BY_CONTRACT && c->claim != LS_CLAIM_EXACT_CONTRACT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": only an exact contract fixes the algorithm's result; the claim is %s", c->operation,
                claims[c->claim]);
    return LS_OK;
}

static ls_code check_mode(const ls_oracle_case *c, ls_error *e) {
    const ls_oracle_mode *m = &c->mode;
    if ((unsigned)m->kind >= LS_MODE_COUNT) LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": comparison mode %d is unknown", c->operation, (int)m->kind);
    if (!isfinite(m->absolute) || !isfinite(m->relative) || m->absolute < 0 || m->relative < 0)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": tolerances %g and %g; they must be finite and 0 or more", c->operation, m->absolute, m->relative);
    if (m->kind == LS_MODE_EXACT_BITS && (m->absolute > 0 || m->relative > 0)) LS_FAIL(e, LS_INVALID_ARGUMENT,
                                                                                       "oracle case \"%s\": exact bits take no tolerance", c->operation);
    if (c->claim == LS_CLAIM_EXACT_CONTRACT && m->kind != LS_MODE_EXACT_BITS)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": an exact contract is compared by bits, not with tolerance", c->operation);
    return LS_OK;
}

/* An exact claim needs a text made of exact records. */
static ls_code check_contract(const ls_oracle_case *c, ls_error *e) {
    if (!c->contract || !c->contract_len) LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": the contract text is empty", c->operation);
    if (memchr(c->contract, '\n', c->contract_len) || memchr(c->contract, '\r', c->contract_len))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": the contract text has a line end", c->operation);
    size_t n = strlen(LS_EXACT_OPERATOR_CONTRACT_SCHEMA);
    bool exact = c->contract_len > n && !memcmp(c->contract, LS_EXACT_OPERATOR_CONTRACT_SCHEMA, n + 1);
    if (exact != (c->claim == LS_CLAIM_EXACT_CONTRACT))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": claim %s with %s operator contract", c->operation, claims[c->claim],
                exact ? "an exact" : "a float");
    return LS_OK;
}

static ls_code check_operand(const ls_oracle_case *c, const ls_oracle_tensor *t, ls_error *e) {
    size_t bytes;
    LS_TRY(check_text(c->operation, "operand", "name", t->name, e));
    LS_TRY(ls_tensor_type_bytes(&t->type, &bytes, e));
    for (int i = 0; i < t->type.rank; i++)
        if (!t->type.dim[i]) LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": dimension %d of operand \"%s\" is 0", c->operation, i, t->name);
    if (!t->data || bytes != t->bytes)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": operand \"%s\" has %zu bytes; its type needs %zu", c->operation, t->name, t->data ? t->bytes : 0,
                bytes);
    return LS_OK;
}

static ls_code check_case(const ls_oracle_case *c, ls_error *e) {
    if (!c->operation || !*c->operation || strpbrk(c->operation, "\n\r")) LS_FAIL(e, LS_INVALID_ARGUMENT, "the oracle case needs an operation id of one line");
    if ((unsigned)c->claim >= LS_CLAIM_COUNT) LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": claim %d is unknown", c->operation, (int)c->claim);
    LS_TRY(check_mode(c, e));
    LS_TRY(check_contract(c, e));
    LS_TRY(check_backend(c, "reference", &c->reference, e));
    LS_TRY(check_backend(c, "candidate", &c->candidate, e));
    if (strncmp(c->reference.precision, "tf32=off", 8)) LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": TF32 must be off in the reference", c->operation);
    if (!c->n_operands || c->n_operands > LS_ORACLE_MAX_OPERANDS)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": %zu operands; allowed are 1 to %d", c->operation, c->n_operands, LS_ORACLE_MAX_OPERANDS);
    for (size_t i = 0; i < c->n_operands; i++) LS_TRY(check_operand(c, &c->operands[i], e));
    return LS_OK;
}

/* ---- Running and comparing ----------------------------------------------------------------------------------------- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static ls_code run_side(const ls_oracle_case *c, const char *side, ls_oracle_run run, void *user, ls_oracle_output *out, double *seconds, ls_error *e) {
    double begin = now();
    ls_code rc = run(c, user, out, e);
    *seconds = now() - begin;
    if (rc) return ls_error_wrap(e, rc, "oracle case \"%s\", %s", c->operation, side);
    size_t n = 1;
    for (int i = 0; i < out->rank; i++)
        if (out->dim[i] < 1 || !ls_size_mul(n, (size_t)out->dim[i], &n) || n > LS_ORACLE_MAX_ELEMENTS)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": dimension %d of the %s's output is %lld", c->operation, i, side, (long long)out->dim[i]);
    if (!out->values || out->n != n) LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": the %s gave %zu values for a shape of %zu", c->operation, side,
                                             out->n, n);
    return LS_OK;
}

static ls_code check_shapes(const ls_oracle_case *c, const ls_oracle_output *r, const ls_oracle_output *k, ls_error *e) {
    bool same = r->rank == k->rank;
    for (int i = 0; same && i < r->rank; i++) same = r->dim[i] == k->dim[i];
    if (!same) LS_FAIL(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": reference and candidate give different shapes (rank %d and %d)", c->operation, r->rank,
                       k->rank);
    return LS_OK;
}

static bool same_class(float r, float c) { return (isnan(r) && isnan(c)) || (isinf(r) && isinf(c) && signbit(r) == signbit(c)); }

/* Elements that agree by class alone compare as equal zeros in copies of both sides; everything else as it is. */
static ls_code compare(const ls_oracle_mode *m, const ls_oracle_output *r, const ls_oracle_output *c, ls_difference *d, ls_error *e) {
    ls_bound bound = {.bits = m->kind == LS_MODE_EXACT_BITS, .absolute = m->absolute, .relative = m->relative};
    *d = (ls_difference){.first = -1};
    if (m->kind != LS_MODE_CLOSE_OR_SAME_CLASS) {
        ls_compare(d, r->values, c->values, (int64_t)r->n, &bound);
        return LS_OK;
    }
    float *copy;
    LS_TRY(ls_calloc(&copy, r->n * 2, sizeof *copy, "oracle comparison", e));
    for (size_t i = 0; i < r->n; i++) {
        bool same = same_class(r->values[i], c->values[i]);
        copy[i] = same ? 0 : r->values[i];
        copy[r->n + i] = same ? 0 : c->values[i];
    }
    ls_compare(d, copy, copy + r->n, (int64_t)r->n, &bound);
    ls_free(copy);
    return LS_OK;
}

/* ---- Report -------------------------------------------------------------------------------------------------------- */

void ls_oracle_tensor_digest(const ls_oracle_tensor *t, char hex[65]) {
    ls_sha256 h;
    uint8_t digest[32];
    ls_sha256_init(&h);
    for (int i = 0; i < t->type.rank; i++) {
        uint8_t le[8];
        for (int b = 0; b < 8; b++) le[b] = (uint8_t)((uint64_t)t->type.dim[i] >> 8 * b);
        ls_sha256_update(&h, le, sizeof le);
    }
    ls_sha256_update(&h, t->data, t->bytes);
    ls_sha256_final(&h, digest);
    ls_sha256_hex(digest, hex);
}

static json_t *shape_json(const int64_t *dim, int rank) {
    json_t *a = json_array();
    for (int i = 0; i < rank; i++) json_array_append_new(a, json_integer(dim[i]));
    return a;
}

static json_t *operands_json(const ls_oracle_case *c) {
    json_t *list = json_array();
    for (size_t i = 0; i < c->n_operands; i++) {
        const ls_oracle_tensor *t = &c->operands[i];
        char hex[65];
        ls_oracle_tensor_digest(t, hex);
        json_array_append_new(list, json_pack("{s:s, s:o, s:s, s:s}", "name", t->name, "shape", shape_json(t->type.dim, t->type.rank), "dtype",
                                              ls_dtype_name(t->type.dtype), "sha256", hex));
    }
    return list;
}

static json_t *backend_json(const ls_oracle_backend *b) {
    json_t *flags = json_array();
    for (size_t i = 0; i < b->n_flags; i++) json_array_append_new(flags, json_string(b->flags[i]));
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s, s:s, s:s, s:s, s:{s:s, s:s}}", "runtime", b->runtime, "revision", b->revision, "patch", b->patch,
                     "compiler", b->compiler,
                     "compiler_flags", flags, "target", b->target, "device", b->device, "artifact_fingerprint", b->artifact_fingerprint, "precision",
                             b->precision, "algorithm",
                     "status", statuses[b->status], "identity", b->algorithm);
}

/* JSON has no NaN and no infinity. */
static json_t *finite_or_null(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static json_t *divergence_json(const ls_difference *d, const int64_t *dim, int rank) {
    if (d->first < 0) return json_null();
    json_t *at = json_array();
    int64_t rest = d->first;
    for (int i = rank - 1; i >= 0; i--) {
        json_array_insert_new(at, 0, json_integer(rest % dim[i]));
        rest /= dim[i];
    }
    double r = d->reference, c = d->candidate, absolute = fabs(c - r);
    return json_pack("{s:I, s:o, s:o, s:o, s:I, s:I, s:o, s:o}", "flat_index", (json_int_t)d->first, "coordinate", at, "reference_value", finite_or_null(r),
                     "candidate_value",
                     finite_or_null(c), "reference_bits", (json_int_t)ls_bits(d->reference), "candidate_bits", (json_int_t)ls_bits(d->candidate),
                             "absolute_error",
                     finite_or_null(absolute), "relative_error", finite_or_null(absolute / fmax(fabs(r), 0x1p-126)));
}

static json_t *comparison_json(const ls_oracle_mode *m, const ls_difference *d) {
    json_t *mode = m->kind == LS_MODE_EXACT_BITS ? json_pack("{s:s}", "kind", modes[m->kind])
                                                 : json_pack("{s:s, s:f, s:f}", "kind", modes[m->kind], "absolute", m->absolute, "relative", m->relative);
    return json_pack("{s:o, s:I, s:I, s:I, s:f, s:f, s:f}", "mode", mode, "elements", (json_int_t)d->elements, "failures", (json_int_t)d->failures,
                     "non_finite_failures",
                     (json_int_t)d->non_finite, "max_absolute", d->max_absolute, "max_relative", d->max_relative, "rms", ls_difference_rms(d));
}

/* A kernel counts as known when it was observed, or when the contract makes every kernel give the same bits. */
static bool qualifies(bool passed, const char *claim, const char *mode, const char *reference, const char *candidate) {
    const char *observed = statuses[LS_ALGORITHM_OBSERVED], *fixed = statuses[LS_ALGORITHM_FIXED_BY_CONTRACT];
    if (!passed) return false;
    if (!strcmp(claim, claims[LS_CLAIM_PRODUCTION_MLX])) return !strcmp(reference, observed) && !strcmp(candidate, observed);
    if (strcmp(claim, claims[LS_CLAIM_EXACT_CONTRACT]) || strcmp(mode, modes[LS_MODE_EXACT_BITS])) return false;
    return !strcmp(reference, fixed) && !strcmp(candidate, fixed);
}

static json_t *report_json(const ls_oracle_case *c, const ls_oracle_output *r, const ls_difference *d, double reference_seconds, double candidate_seconds) {
    char contract[65];
    bool passed = !d->failures;
    bool qualified = qualifies(passed, claims[c->claim], modes[c->mode.kind], statuses[c->reference.status], statuses[c->candidate.status]);
    ls_sha256_hex_of(c->contract, c->contract_len, contract);
    return json_pack("{s:s, s:s, s:s, s:o, s:s%, s:s, s:o, s:o, s:o, s:o, s:o, s:{s:f, s:f}, s:b, s:b}", "schema", LS_ORACLE_SCHEMA, "operation", c->operation,
                     "claim",
                     claims[c->claim], "operands", operands_json(c), "operator_contract_identity", c->contract, c->contract_len, "operator_contract_sha256",
                             contract,
                     "reference_backend", backend_json(&c->reference), "candidate_backend", backend_json(&c->candidate), "output_shape", shape_json(r->dim,
                             r->rank), "comparison",
                     comparison_json(&c->mode, d), "first_divergence", divergence_json(d, r->dim, r->rank), "timing", "reference_seconds", reference_seconds,
                     "candidate_seconds", candidate_seconds, "passed", passed, "production_qualified", qualified);
}

ls_code ls_oracle_report(const ls_oracle_case *c, json_t **out, ls_error *e) {
    ls_oracle_output reference = {0}, candidate = {0};
    ls_difference d;
    double reference_seconds, candidate_seconds;
    ls_code rc = LS_OK;
    *out = NULL;
    LS_GOTO(check_case(c, e));
    LS_GOTO(run_side(c, "reference", c->run_reference, c->reference_user, &reference, &reference_seconds, e));
    LS_GOTO(run_side(c, "candidate", c->run_candidate, c->candidate_user, &candidate, &candidate_seconds, e));
    LS_GOTO(check_shapes(c, &reference, &candidate, e));
    LS_GOTO(compare(&c->mode, &reference, &candidate, &d, e));
    *out = report_json(c, &reference, &d, reference_seconds, candidate_seconds);
    if (!*out) LS_FAIL_GOTO(e, LS_INVALID_ARGUMENT, "oracle case \"%s\": the report cannot be written as JSON; texts must be valid UTF-8", c->operation);
    rc = ls_oracle_check_report(*out, e);
out:
    ls_free(reference.values);
    ls_free(candidate.values);
    return rc;
}

ls_code ls_oracle_check_report(const json_t *report, ls_error *e) {
    const char *operation = NULL, *claim = NULL, *mode = NULL, *reference = NULL, *candidate = NULL;
    json_int_t elements = 0, failures = -1;
    int passed = 0, qualified = 0;
    if (json_unpack((json_t *)(uintptr_t)report, "{s:s, s:s, s:{s:I, s:I, s:{s:s}}, s:{s:{s:s}}, s:{s:{s:s}}, s:b, s:b}", "operation", &operation, "claim",
                    &claim, "comparison", "elements",
                    &elements, "failures", &failures, "mode", "kind", &mode, "reference_backend", "algorithm", "status", &reference, "candidate_backend",
                            "algorithm", "status",
                    &candidate, "passed", &passed, "production_qualified", &qualified))
        LS_FAIL(e, LS_FAILED_PRECONDITION, "the oracle report lacks fields that its judgement needs");
    if (elements < 1) LS_FAIL(e, LS_FAILED_PRECONDITION, "oracle report \"%s\" compared no element", operation);
    if (passed && failures) LS_FAIL(e, LS_FAILED_PRECONDITION, "oracle report \"%s\" claims to pass with %lld failures", operation, (long long)failures);
    if (qualified && !qualifies(!failures, claim, mode, reference, candidate))
        LS_FAIL(e, LS_FAILED_PRECONDITION,
                "oracle report \"%s\" claims production qualification, which claim %s in mode %s with algorithms %s and %s does not allow", operation,
                claim, mode, reference, candidate);
    return LS_OK;
}
