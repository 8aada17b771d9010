/* Sides that run an executor: their text form, graph and identity. verify_file.c has those that are recorded tensors. */
#include "verify/verify_side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla/emit/emit.h"

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

/* Copies |value| to |to| [size]; false when it is empty or too long. */
static bool set_text(char *to, size_t size, const char *value) { return *value && (size_t)snprintf(to, size, "%s", value) < size; }

static bool set_threads(ls_side_spec *s, const char *value) {
    char *end;
    long n = strtol(value, &end, 10);
    s->threads = (int)(n < 0 || n > 1024 ? 0 : n);
    return end != value && !*end && s->threads >= 1;
}

static bool set_modules(ls_side_spec *s, const char *value) {
    s->modules = strcmp(value, "fused") ? LS_MODULES_NODES : LS_MODULES_FUSED;
    return s->modules == LS_MODULES_FUSED || !strcmp(value, "nodes");
}

/* The value of "name=value" when |option| has that name; NULL otherwise. */
static const char *value_of(const char *option, const char *name) {
    size_t n = strlen(name);
    return !strncmp(option, name, n) && option[n] == '=' ? option + n + 1 : NULL;
}

static bool set_xla_option(ls_side_spec *s, const char *option) {
    const char *v;
    ls_precision unused;
    if ((v = value_of(option, "device"))) return set_text(s->device, sizeof s->device, v);
    if ((v = value_of(option, "plugin"))) return set_text(s->plugin, sizeof s->plugin, v);
    if ((v = value_of(option, "target"))) return set_text(s->target, sizeof s->target, v);
    if ((v = value_of(option, "modules"))) return set_modules(s, v);
    if ((v = value_of(option, "quant"))) {
        s->packed = !strcmp(v, "packed");
        return s->packed || !strcmp(v, "dense");
    }
    return (v = value_of(option, "precision")) && !ls_precision_parse(v, &unused, NULL) && set_text(s->precision, sizeof s->precision, v);
}

static ls_code set_option(ls_side_spec *s, const char *option, ls_error *e) {
    static const char *const allowed[] = {
        [LS_SIDE_NATIVE] = "contract=NAME, level=NAME or threads=N (1 to 1024)",
        [LS_SIDE_REFERENCE] = "contract=NAME",
        [LS_SIDE_XLA] = "contract=NAME, device=NAME, plugin=PATH, target=NAME, precision=f32|f16|bf16, quant=dense|packed or modules=fused|nodes",
        [LS_SIDE_FILE] = "no option"};
    const char *v = value_of(option, "contract");
    if (v && s->kind != LS_SIDE_FILE) {
        s->has_contract = true;
        return ls_contract_parse(v, &s->contract, e);
    }
    if (s->kind == LS_SIDE_NATIVE && (v = value_of(option, "level")) && set_text(s->level, sizeof s->level, v)) return LS_OK;
    if (s->kind == LS_SIDE_NATIVE && (v = value_of(option, "threads")) && set_threads(s, v)) return LS_OK;
    if (s->kind == LS_SIDE_XLA && set_xla_option(s, option)) return LS_OK;
    LS_FAIL(e, LS_INVALID_ARGUMENT, "side \"%s\" does not take \"%s\"; it takes %s", s->name, option, allowed[s->kind]);
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
        if (!text[n]) return LS_OK;
        text += n + 1;
    }
}

/* ---- Graph and executor ---------------------------------------------------------------------------------------------------- */

ls_code ls_side_open(ls_side *s, const ls_side_spec *spec, ls_model *m, bool vision, ls_error *e) {
    *s = (ls_side){.spec = spec, .model = m, .contract = spec->has_contract ? spec->contract : spec->f64 ? LS_CONTRACT_FLOAT : m->contract,
                     .graph = vision ? m->vision.graph : m->graph};
    if (spec->f64 && s->contract != LS_CONTRACT_FLOAT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "side \"reference:f64\" evaluates the float contract in f64; it has no %s", ls_contract_name(s->contract));
    if (spec->kind == LS_SIDE_XLA) LS_TRY(ls_side_open_engine(s, e));
    if (s->contract == m->contract) return LS_OK;
    ls_build_options build = {.contract = s->contract, .context = m->context};
    ls_vision tower = {0};
    if (vision) LS_TRY(ls_vision_build(&tower, m->checkpoint, &build, e));
    else LS_TRY(ls_model_build(&s->own, m->checkpoint, &build, e));
    if (vision) s->own = tower.graph;
    s->graph = s->own;
    return LS_OK;
}

void ls_side_close(ls_side *s) {
    ls_graph_destroy(s->own);
    if (s->engine) s->engine->ops->destroy(s->engine);
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
    return ls_side_xla_executor(s, x, g, &own, e);
}

/* ---- Identity ---------------------------------------------------------------------------------------------------------------- */

static ls_code describe_file(const ls_side *s, ls_str *detail, ls_error *e) {
    char sha[65];
    LS_TRY(ls_checkpoint_bytes_sha256(s->file, sha, e));
    return ls_str_printf(detail, e, "%zu tensors, sha256 %s", ls_checkpoint_count(s->file), sha);
}

static ls_code describe_executor(const ls_side *s, const ls_executor *x, const char *compiler, ls_str *detail, ls_error *e) {
    size_t weights = 0, kv = 0, work = 0;
    x->memory(x, &weights, &kv, &work);
    LS_TRY(ls_str_printf(detail, e, "contract version %d", (int)LS_CONTRACT_VERSION));
    if (s->spec->kind == LS_SIDE_XLA) return ls_side_identify_engine(s, x, detail, e);
    LS_TRY(ls_str_printf(detail, e, ", lockstep %s", LS_VERSION_STRING));
    if (compiler) LS_TRY(ls_str_printf(detail, e, ", compiler %s", compiler));
    if (s->spec->f64) LS_TRY(ls_str_append(detail, ", evaluated in f64", SIZE_MAX, e));
    if (s->spec->kind == LS_SIDE_REFERENCE) return LS_OK;
    return ls_str_printf(detail, e, ", level %s, threads %d, %zu bytes of packed weights", x->level, x->threads, weights);
}

ls_code ls_side_identify(const ls_side *s, const ls_executor *x, const char *compiler, ls_verify_identity *id, ls_error *e) {
    ls_str detail = {0};
    snprintf(id->name, sizeof id->name, "%s", s->spec->name);
    bool file = s->spec->kind == LS_SIDE_FILE;
    ls_code rc = file ? describe_file(s, &detail, e) : describe_executor(s, x, compiler, &detail, e);
    if (!rc) snprintf(id->detail, sizeof id->detail, "%s", detail.data);
    ls_str_deinit(&detail);
    if (rc || file) return rc;
    id->contract = ls_contract_name(s->contract);
    return ls_graph_fingerprint(s->fault ? ls_fault_graph(s->fault) : s->graph, id->fingerprint, e);
}
