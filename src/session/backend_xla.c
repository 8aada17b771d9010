/* Model options to an engine and an XLA executor. */
#include "session/backend_xla.h"

#include <stdlib.h>
#include <string.h>

#include "session/qualification.h"
#include "xla/iree.h"
#include "xla/pjrt.h"

/* ---- Options ------------------------------------------------------------------------------------------------------ */

static bool is_xla(const ls_model_options *o) { return o->backend && !strcmp(o->backend, "xla"); }

static ls_code check_native(const ls_model_options *o, ls_error *e) {
    if (o->shadow && o->backend && strcmp(o->backend, "native"))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "shadow is for backend native; the backend is %s. Leave it out", o->backend);
    const struct {
        const char *name, *value;
    } given[] = {{"engine", o->engine},       {"device", o->device}, {"plugin", o->plugin},  {"gpu-target", o->gpu_target},
                 {"precision", o->precision}, {"quant", o->quant},   {"buckets", o->buckets}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i].value)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "%s \"%.80s\" is for backend xla; the backend is %s. Leave it out or choose backend xla", given[i].name,
                    given[i].value, o->backend ? o->backend : "native");
    return LS_OK;
}

ls_code ls_backend_check_options(const ls_model_options *o, ls_contract contract, ls_error *e) {
    if (!is_xla(o)) return check_native(o, e);
    if (o->level) LS_FAIL(e, LS_INVALID_ARGUMENT, "level \"%.80s\" is for backend native; on xla the compiler chooses instructions. Leave it out", o->level);
    if (o->threads)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "%d threads are for backend native; XLA's CPU compiler takes NPROC from the environment. Leave it out", o->threads);
    if (o->shadow) LS_FAIL(e, LS_INVALID_ARGUMENT, "shadow is for backend native; lockstep verify compares backend xla. Leave it out");
    if (o->pin) LS_FAIL(e, LS_INVALID_ARGUMENT, "pin is for backend native; the plugin has threads of its own. Leave it out");
    if (contract == LS_CONTRACT_FLOAT) return LS_OK;
    const char *name = o->precision ? "precision" : "quant", *value = o->precision ? o->precision : o->quant;
    if (value)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "%s \"%.80s\" is for contract float; %s says itself how numbers are carried. Leave it out", name, value,
                ls_contract_name(contract));
    return LS_OK;
}

/* "256,1024": capacities in ascending order. */
static ls_code parse_buckets(const char *text, ls_xla_options *xo, ls_error *e) {
    for (const char *p = text;;) {
        char *end;
        long v = *p >= '0' && *p <= '9' ? strtol(p, &end, 10) : (end = NULL, 0);
        bool ok = v >= 1 && v <= LS_MAX_CONTEXT && (!*end || *end == ',') && xo->n_buckets < LS_XLA_MAX_BUCKETS &&
                  (!xo->n_buckets || v > xo->bucket[xo->n_buckets - 1]);
        if (!ok)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "buckets \"%.80s\": give up to %d ascending capacities of 1 to %d positions, such as 256,1024", text,
                    LS_XLA_MAX_BUCKETS, LS_MAX_CONTEXT);
        xo->bucket[xo->n_buckets++] = (int)v;
        if (!*end) return LS_OK;
        p = end + 1;
    }
}

ls_code ls_backend_xla_limit(const ls_model_options *o, int *context, ls_error *e) {
    ls_xla_options xo = {0};
    if (!is_xla(o) || !o->buckets) return LS_OK;
    LS_TRY(parse_buckets(o->buckets, &xo, e));
    int largest = xo.bucket[xo.n_buckets - 1];
    if (o->context > largest)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "context of %d positions; the largest bucket holds %d. Add a bucket or lower the context", o->context, largest);
    if (*context > largest) *context = largest;
    return LS_OK;
}

static ls_code xla_options(ls_xla_options *xo, const ls_engine *engine, const ls_graph *g, const ls_model_options *o, ls_error *e) {
    bool real = g->contract == LS_CONTRACT_FLOAT;
    *xo = (ls_xla_options){.precision = real && !engine->traits.cpu ? LS_PRECISION_F16 : LS_PRECISION_F32};
    if (o->precision) LS_TRY(ls_precision_parse(o->precision, &xo->precision, e));
    const char *quant = o->quant ? o->quant : "dense";
    if (strcmp(quant, "dense") && strcmp(quant, "packed")) LS_FAIL(e, LS_INVALID_ARGUMENT, "quant \"%.80s\" is unknown; use dense or packed", quant);
    xo->packed = !strcmp(quant, "packed");
    if (xo->packed) LS_TRY(ls_emit_check_packed(g, e));
    return o->buckets ? parse_buckets(o->buckets, xo, e) : LS_OK;
}

/* ---- Engine --------------------------------------------------------------------------------------------------------- */

static ls_code open_engine(ls_engine **out, const ls_model_options *o, ls_error *e) {
    const char *engine = o->engine ? o->engine : "pjrt";
    if (!strcmp(engine, "pjrt")) {
        if (o->gpu_target)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "gpu-target \"%.80s\" is for engine iree; a PJRT plugin compiles for the device it finds. Leave it out",
                    o->gpu_target);
        return ls_pjrt_open(out, &(ls_pjrt_options){.plugin = o->plugin, .device = o->device}, e);
    }
    if (!strcmp(engine, "iree")) {
        if (o->plugin) LS_FAIL(e, LS_INVALID_ARGUMENT, "a PJRT plugin was given with engine iree; leave one of them out");
        return ls_iree_open(out, &(ls_iree_options){.device = o->device, .target = o->gpu_target}, e);
    }
    LS_FAIL(e, LS_INVALID_ARGUMENT, "engine \"%.80s\" is unknown; use pjrt or iree", engine);
}

ls_code ls_backend_xla_open_engine(ls_backend_xla *x, const ls_graph *g, const ls_model_options *o, ls_error *e) {
    LS_TRY(open_engine(&x->engine, o, e));
    return xla_options(&x->options, x->engine, g, o, e);
}

void ls_backend_xla_deinit(ls_backend_xla *x) {
    if (x->engine) x->engine->ops->destroy(x->engine);
    ls_str_deinit(&x->why);
    *x = (ls_backend_xla){0};
}

/* ---- Opening ---------------------------------------------------------------------------------------------------------- */

ls_code ls_backend_xla_qualified(const ls_backend_xla *x, const ls_graph *g, bool *qualified, ls_str *why, ls_error *e) {
    json_t *combination;
    LS_TRY(ls_qualification_combination(&combination, g, &x->engine->identity, &x->options, e));
    ls_code rc = ls_qualification_find(combination, NULL, qualified, why, e);
    json_decref(combination);
    return rc;
}

static ls_code qualify(ls_backend_xla *x, const ls_graph *g, const ls_model_options *o, ls_error *e) {
    ls_code rc = ls_backend_xla_qualified(x, g, &x->qualified, &x->why, e);
    if (rc || x->qualified || o->allow_unqualified) return rc;
    LS_FAIL(e, LS_FAILED_PRECONDITION,
            "%s under %s on %s %s is not qualified: %.300s. Run lockstep qualify on this model with the same options, or allow unqualified results "
            "(--allow-unqualified)",
            g->architecture ? g->architecture : "this family", ls_contract_name(g->contract), x->engine->identity.runtime, x->engine->identity.platform,
            x->why.data);
}

ls_code ls_backend_xla_open(ls_executor **out, ls_backend_xla *x, const ls_graph *g, ls_checkpoint *c, const ls_model_options *o, const ls_executor_options *xo,
                            ls_error *e) {
    LS_TRY(ls_backend_xla_open_engine(x, g, o, e));
    LS_TRY(qualify(x, g, o, e));
    return ls_xla_create(out, g, c, x->engine, &x->options, xo, e);
}

/* ---- Reports ------------------------------------------------------------------------------------------------------------ */

static const char *precision_name(const ls_backend_xla *x, bool real) { return real ? ls_precision_name(x->options.precision) : "by contract"; }
static const char *quant_name(const ls_backend_xla *x, bool real) { return !real ? "by contract" : x->options.packed ? "packed" : "dense"; }

/* An engine under an exact contract gives every engine's bits; should one not, its keys and values stay with it. */
ls_code ls_backend_xla_identity(const ls_backend_xla *x, bool real, ls_str *out, ls_error *e) {
    ls_str engine = {0};
    ls_code rc = ls_engine_identity_text(&x->engine->identity, &engine, e);
    if (!rc)
        rc = ls_str_printf(out, e, "program lockstep %s\nengine %s\nprecision %s\nquant %s\n", LS_VERSION_STRING, engine.data, precision_name(x, real),
                           quant_name(x, real));
    ls_str_deinit(&engine);
    return rc;
}

/* What the engine says about TF32; a processor has none. */
static const char *tf32(const ls_engine *x) {
    if (x->traits.cpu || strstr(x->identity.flags, "tf32=off")) return "off";
    return strstr(x->identity.flags, "tf32=by-operand-precision") ? "by operand precision" : "not stated";
}

static json_t *describe_engine(const ls_engine *x) {
    const ls_engine_identity *id = &x->identity;
    ls_str text = {0};
    json_t *o = NULL;
    if (!ls_engine_identity_text(id, &text, NULL))
        o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "identity", text.data, "runtime", id->runtime, "platform", id->platform, "version",
                      id->version, "library", id->library, "library_sha256", id->library_sha256, "compiler", id->compiler, "flags", id->flags, "target",
                      id->target, "device", id->device);
    ls_str_deinit(&text);
    return o;
}

json_t *ls_backend_xla_describe(const ls_backend_xla *x, const ls_executor *executor, bool real) {
    ls_xla_stats s = executor ? ls_xla_executor_stats(executor) : (ls_xla_stats){0};
    return json_pack("{s:o, s:s, s:s, s:s, s:s, s:b, s:s, s:{s:i, s:i, s:f}}", "engine", describe_engine(x->engine), "precision", precision_name(x, real),
                     "quant", quant_name(x, real), "tf32", tf32(x->engine), "kernel",
                     real ? "unobserved" : "fixed by contract", "qualified", x->qualified, "qualification", x->why.data ? x->why.data : "", "compiling",
                     "programs", s.programs, "cache_hits", s.cache_hits, "seconds", s.compile_seconds);
}
