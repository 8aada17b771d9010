/* The suite: identities, contracts and engine runs of the float probes. */
#include "verify/oracle_suite.h"

#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "contract/manifest.h"

const char *ls_oracle_host_arch(void) {
#if defined(__x86_64__)
    return "x86_64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "another";
#endif
}

/* ---- Identities ---------------------------------------------------------------------------------------------------- */

static ls_code clean(ls_arena *a, const char **out, const char *text, ls_error *e) {
    ls_str s = {0};
    ls_code rc = ls_backend_text_clean(text, &s, e);
    if (!rc) rc = ls_arena_strdup(a, out, s.len ? s.data : "none", SIZE_MAX, e);
    ls_str_deinit(&s);
    return rc;
}

ls_code ls_oracle_candidate(ls_oracle_backend *out, const ls_engine_identity *id, ls_arena *a, ls_error *e) {
    const char *patch;
    LS_TRY(ls_arena_printf(a, &patch, e, "%s-sha256-%s", id->library, id->library_sha256));
    LS_TRY(clean(a, &out->runtime, id->runtime, e));
    LS_TRY(clean(a, &out->revision, id->version, e));
    LS_TRY(clean(a, &out->patch, patch, e));
    LS_TRY(clean(a, &out->compiler, id->compiler, e));
    LS_TRY(clean(a, &out->flags[0], id->flags, e));
    LS_TRY(clean(a, &out->target, id->target, e));
    LS_TRY(clean(a, &out->device, id->device, e));
    out->n_flags = 1;
    return LS_OK;
}

ls_code ls_oracle_fingerprint(const ls_oracle_artifact *a, const ls_oracle_case *c, const ls_engine_identity *id, char hex[17], ls_error *e) {
    ls_str weights = {0}, generation = {0};
    char module[65];
    ls_manifest m;
    ls_code rc = LS_OK;
    for (size_t i = 0; i < c->n_operands; i++) {
        const ls_oracle_tensor *t = &c->operands[i];
        LS_GOTO(ls_weight_schema_add(&weights, i, t->name, ls_dtype_name(t->type.dtype), t->type.dim, t->type.rank, e));
    }
    ls_sha256_hex_of(a->module, a->module_len, module);
    LS_GOTO(ls_engine_identity_text(id, &generation, e));
    LS_GOTO(ls_str_printf(&generation, e, ";mlir_sha256=%s", module));
    ls_artifact_identity identity = {.entry = a->entry, .config = a->config, .generation = generation.data, .operator_contracts = a->contract,
                                     .operator_contracts_len = a->contract_len, .weight_schema = weights.data};
    LS_GOTO(ls_manifest_compute(&m, &identity, a->module, a->module_len, e));
    snprintf(hex, 17, "%016llx", (unsigned long long)ls_manifest_fingerprint(&m));
out:
    ls_str_deinit(&weights);
    ls_str_deinit(&generation);
    return rc;
}

/* "selected-X" becomes "iree-selected-X-unobserved" (the runtime's name; XLA's for PJRT); others are names of written-out algorithms. */
static ls_code algorithm_name(const ls_probe *p, const ls_engine_identity *id, ls_arena *a, const char **out, ls_error *e) {
    if (strncmp(p->candidate, "selected-", 9)) return ls_arena_strdup(a, out, p->candidate, SIZE_MAX, e);
    return ls_arena_printf(a, out, e, "%s-%s-unobserved", strcmp(id->runtime, "pjrt") ? id->runtime : "xla", p->candidate);
}

/* ---- One float probe ------------------------------------------------------------------------------------------------ */

typedef struct engine_run {
    ls_engine *x;
    const ls_str *module;
} engine_run;

static ls_code read_output(ls_engine *x, const ls_buffer *b, const int64_t *dim, int rank, ls_oracle_output *out, ls_error *e) {
    out->rank = rank;
    out->n = 1;
    for (int i = 0; i < rank; i++) {
        out->dim[i] = dim[i];
        out->n *= (size_t)dim[i];
    }
    LS_TRY(ls_calloc(&out->values, out->n, sizeof *out->values, "oracle output", e));
    return x->ops->read(x, b, out->values, out->n * sizeof *out->values, e);
}

/* Output shape: that of "-> tensor<2x3xf32> {" in the module, which the engine's read then has to fit byte for byte. */
static ls_code output_shape(const ls_str *module, int64_t dim[LS_XLA_MAX_RANK], int *rank, ls_error *e) {
    const char *at = strstr(module->data, ") -> tensor<");
    *rank = 0;
    for (at = at ? at + strlen(") -> tensor<") : ""; *at && *at != 'f';) {
        long long v;
        int used;
        if (*rank == LS_XLA_MAX_RANK || sscanf(at, "%lldx%n", &v, &used) != 1) break;
        dim[(*rank)++] = v;
        at += used;
    }
    if (strncmp(at, "f32>", 4)) LS_FAIL(e, LS_INTERNAL, "the oracle's module has no f32 result");
    return LS_OK;
}

static ls_code run_on_engine(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e) {
    engine_run *r = user;
    ls_engine *x = r->x;
    ls_program *program = NULL;
    ls_buffer *args[LS_ORACLE_MAX_OPERANDS] = {0}, *result = NULL;
    int64_t dim[LS_XLA_MAX_RANK];
    int rank;
    ls_code rc = LS_OK;
    LS_GOTO(output_shape(r->module, dim, &rank, e));
    LS_GOTO(x->ops->compile(x, &program, r->module->data, r->module->len, NULL, NULL, e));
    for (size_t i = 0; i < c->n_operands; i++) LS_GOTO(x->ops->upload(x, &args[i], &c->operands[i].type, c->operands[i].data, e));
    LS_GOTO(x->ops->execute(x, program, args, c->n_operands, &result, 1, e));
    rc = read_output(x, result, dim, rank, out, e);
out:
    for (size_t i = 0; i < c->n_operands; i++) x->ops->free_buffer(x, args[i]);
    x->ops->free_buffer(x, result);
    x->ops->free_program(x, program);
    return rc;
}

static ls_code fill_reference(const ls_probe *p, ls_oracle_backend *b, ls_arena *a, ls_error *e) {
    *b = (ls_oracle_backend){.runtime = "lockstep-canonical-decomposition", .revision = LS_VERSION_STRING, .compiler = "c17-f32", .flags = {p->reference},
                             .n_flags = 1,
                             .target = ls_oracle_host_arch(), .device = "host-cpu", .precision = "tf32=off; f32 operations, contraction off",
                             .status = LS_ALGORITHM_OBSERVED, .algorithm = p->reference};
    LS_TRY(ls_arena_printf(a, &b->patch, e, "%s-v1", p->key));
    return ls_arena_printf(a, &b->artifact_fingerprint, e, "lockstep-%s-v1", p->key);
}

typedef struct float_texts {
    ls_str module, contract, config, name, entry;
    char fingerprint[17];
} float_texts;

static void texts_deinit(float_texts *t) {
    ls_str_deinit(&t->module);
    ls_str_deinit(&t->contract);
    ls_str_deinit(&t->config);
    ls_str_deinit(&t->name);
    ls_str_deinit(&t->entry);
}

/* Everything of a case but who runs it. */
static ls_code fill_case(const ls_probe *p, ls_engine *x, ls_oracle_case *c, float_texts *t, ls_arena *a, ls_error *e) {
    const char *algorithm;
    c->claim = LS_CLAIM_CANONICAL_DECOMPOSITION;
    c->mode = p->mode;
    LS_TRY(p->fixture(p, c, a, e));
    LS_TRY(ls_probe_module(p, c, &t->module, e));
    LS_TRY(ls_str_printf(&t->name, e, "micro-oracle.%s.f32", p->key));
    LS_TRY(ls_str_printf(&t->entry, e, "numeric_%s.main", p->entry));
    LS_TRY(ls_probe_config(p, &t->config, e));
    LS_TRY(algorithm_name(p, &x->identity, a, &algorithm, e));
    LS_TRY(ls_oracle_candidate(&c->candidate, &x->identity, a, e));
    const ls_operator_backend backend = {"canonical-decomposition-v1", c->candidate.patch, c->candidate.compiler, x->identity.platform, algorithm};
    LS_TRY(ls_probe_contract(p, &backend, &t->contract, e));
    c->operation = t->name.data;
    c->contract = t->contract.data;
    c->contract_len = t->contract.len;
    const ls_oracle_artifact artifact = {t->entry.data, t->config.data, t->contract.data, t->contract.len, t->module.data, t->module.len};
    LS_TRY(ls_oracle_fingerprint(&artifact, c, &x->identity, t->fingerprint, e));
    c->candidate.artifact_fingerprint = t->fingerprint;
    bool tf32 = strstr(x->identity.flags, "tf32=on") != NULL;
    c->candidate.precision = tf32 ? "tf32=on; contractions ask for precision HIGHEST" : "tf32=off; contractions ask for precision HIGHEST";
    c->candidate.status = LS_ALGORITHM_UNOBSERVED;
    LS_TRY(ls_arena_printf(a, &c->candidate.algorithm, e, "%s: the engine does not tell which kernel its compiler chose", algorithm));
    return fill_reference(p, &c->reference, a, e);
}

ls_code ls_oracle_float_report(const ls_probe *p, ls_engine *x, json_t **report, ls_error *e) {
    ls_arena *a = NULL;
    float_texts t = {0};
    ls_oracle_case c = {0};
    engine_run run = {x, &t.module};
    ls_code rc = LS_OK;
    *report = NULL;
    LS_GOTO(ls_arena_create(&a, e));
    LS_GOTO(fill_case(p, x, &c, &t, a, e));
    c.run_reference = p->run;
    c.reference_user = (void *)(uintptr_t)p;
    c.run_candidate = run_on_engine;
    c.candidate_user = &run;
    rc = ls_oracle_report(&c, report, e);
out:
    texts_deinit(&t);
    ls_arena_destroy(a);
    return rc;
}

/* ---- The suite ------------------------------------------------------------------------------------------------------ */

static size_t n_float(const ls_oracle_target *t) {
    size_t n = 0;
    while (t->engine && ls_probe_at(n)) n++;
    return n;
}

size_t ls_oracle_count(const ls_oracle_target *t) { return n_float(t) + (t->create ? ls_oracle_graph_count() : 0); }

void ls_oracle_name(const ls_oracle_target *t, size_t i, char name[96]) {
    if (i < n_float(t)) snprintf(name, 96, "micro-oracle.%s.f32", ls_probe_at(i)->key);
    else ls_oracle_graph_name(i - n_float(t), name);
}

ls_code ls_oracle_run_probe(const ls_oracle_target *t, size_t i, json_t **report, ls_error *e) {
    if (i < n_float(t)) return ls_oracle_float_report(ls_probe_at(i), t->engine, report, e);
    return ls_oracle_graph_report(i - n_float(t), t, report, e);
}
