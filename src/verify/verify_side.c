/* Sides that run an executor: their text form, graph and identity. verify_file.c has those that are recorded tensors. */
#include "verify/verify_side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Text form ----------------------------------------------------------------------------------------------------------- */

static ls_code set_name(ls_side_spec *s, const char *name, ls_error *e) {
    static const struct {
        const char *name;
        ls_side_kind kind;
        bool f64;
    } known[] = {{"native", LS_SIDE_NATIVE, false}, {"reference", LS_SIDE_REFERENCE, false}, {"reference:f64", LS_SIDE_REFERENCE, true},
                 {"xla:pjrt", LS_SIDE_XLA, false},  {"xla:iree", LS_SIDE_XLA, false}};
    static const char ending[] = ".safetensors";
    size_t len = strlen(name), end = sizeof ending - 1;
    snprintf(s->name, sizeof s->name, "%s", name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) {
            s->kind = known[i].kind;
            s->f64 = known[i].f64;
            return LS_OK;
        }
    if (len <= end || strcmp(name + len - end, ending))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "side \"%s\" is unknown; use native, reference, reference:f64, xla:pjrt, xla:iree or a .safetensors file", name);
    s->kind = LS_SIDE_FILE;
    return LS_OK;
}

static ls_code set_option(ls_side_spec *s, const char *option, ls_error *e) {
    char *end;
    if (!strncmp(option, "contract=", 9)) {
        s->has_contract = true;
        return ls_contract_parse(option + 9, &s->contract, e);
    }
    if (!strncmp(option, "level=", 6) && option[6] && strlen(option + 6) < sizeof s->level) {
        snprintf(s->level, sizeof s->level, "%s", option + 6);
        return LS_OK;
    }
    if (!strncmp(option, "threads=", 8)) {
        long n = strtol(option + 8, &end, 10);
        if (end != option + 8 && !*end && n >= 1 && n <= 1024) {
            s->threads = (int)n;
            return LS_OK;
        }
    }
    LS_FAIL(e, LS_INVALID_ARGUMENT, "side \"%s\": option \"%s\" is unknown; use contract=NAME, level=NAME or threads=N (1 to 1024)", s->name, option);
}

ls_code ls_side_parse(ls_side_spec *s, const char *text, ls_error *e) {
    char part[LS_SIDE_BYTES];
    *s = (ls_side_spec){0};
    for (bool first = true;; first = false) {
        size_t n = strcspn(text, ",");
        if (n >= sizeof part) LS_FAIL(e, LS_INVALID_ARGUMENT, "a side's name or option has %zu bytes; allowed are %zu", n, sizeof part - 1);
        memcpy(part, text, n);
        part[n] = '\0';
        LS_TRY(first ? set_name(s, part, e) : set_option(s, part, e));
        if (!first && s->kind == LS_SIDE_FILE) LS_FAIL(e, LS_INVALID_ARGUMENT, "side \"%s\" is a file and takes no option \"%s\"", s->name, part);
        if (!text[n]) return LS_OK;
        text += n + 1;
    }
}

/* ---- Graph and executor ---------------------------------------------------------------------------------------------------- */

ls_code ls_side_open(ls_side *s, const ls_side_spec *spec, ls_model *m, ls_error *e) {
    *s = (ls_side){.spec = spec, .model = m, .contract = spec->has_contract ? spec->contract : spec->f64 ? LS_CONTRACT_FLOAT : m->contract, .graph = m->graph};
    if (spec->f64 && s->contract != LS_CONTRACT_FLOAT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "side \"reference:f64\" evaluates the float contract in f64; it has no %s", ls_contract_name(s->contract));
    if (s->contract == m->contract) return LS_OK;
    ls_build_options build = {.contract = s->contract, .context = m->context};
    LS_TRY(ls_model_build(&s->own, m->checkpoint, &build, e));
    s->graph = s->own;
    return LS_OK;
}

void ls_side_close(ls_side *s) {
    ls_graph_destroy(s->own);
    ls_checkpoint_close(s->file);
    ls_free(s->tensor);
    ls_free(s->ids);
    *s = (ls_side){0};
}

ls_code ls_side_executor(const ls_side *s, ls_executor **x, const ls_executor_options *o, ls_error *e) {
    ls_executor_options own = *o;
    if (s->spec->level[0]) own.level = s->spec->level;
    if (s->spec->threads) own.threads = s->spec->threads;
    own.f64 = s->spec->f64;
    const ls_graph *g = s->fault ? ls_fault_graph(s->fault) : s->graph;
    if (s->spec->kind == LS_SIDE_NATIVE) return ls_native_create(x, g, s->model->checkpoint, &own, e);
    if (s->spec->kind == LS_SIDE_REFERENCE) return ls_reference_create(x, g, &own, e);
    LS_FAIL(e, LS_UNIMPLEMENTED, "side \"%s\" is not in this build; use native, reference or a .safetensors file", s->spec->name);
}

/* ---- Identity ---------------------------------------------------------------------------------------------------------------- */

static ls_code identify_file(const ls_side *s, ls_verify_identity *id, ls_error *e) {
    char sha[65];
    LS_TRY(ls_checkpoint_bytes_sha256(s->file, sha, e));
    snprintf(id->detail, sizeof id->detail, "%zu tensors, sha256 %s", ls_checkpoint_count(s->file), sha);
    return LS_OK;
}

ls_code ls_side_identify(const ls_side *s, const ls_executor *x, ls_verify_identity *id, ls_error *e) {
    snprintf(id->name, sizeof id->name, "%s", s->spec->name);
    if (s->spec->kind == LS_SIDE_FILE) return identify_file(s, id, e);
    id->contract = ls_contract_name(s->contract);
    LS_TRY(ls_graph_fingerprint(s->fault ? ls_fault_graph(s->fault) : s->graph, id->fingerprint, e));
    size_t weights = 0, kv = 0, work = 0;
    x->memory(x, &weights, &kv, &work);
    int n = snprintf(id->detail, sizeof id->detail, "contract version %d", (int)LS_CONTRACT_VERSION);
    if (s->spec->kind == LS_SIDE_NATIVE)
        n += snprintf(id->detail + n, sizeof id->detail - (size_t)n, ", level %s", s->spec->level[0] ? s->spec->level : ls_native_level());
    if (s->spec->f64) n += snprintf(id->detail + n, sizeof id->detail - (size_t)n, ", evaluated in f64");
    snprintf(id->detail + n, sizeof id->detail - (size_t)n, ", %zu bytes of packed weights", weights);
    return LS_OK;
}
