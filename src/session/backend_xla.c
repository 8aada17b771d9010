/* Model options to an engine and an XLA executor. Nothing falls back silently. */
#include "session/backend_xla.h"

#include <stdlib.h>
#include <string.h>

#include "xla/iree.h"
#include "xla/pjrt.h"

ls_code ls_backend_xla_engine(ls_engine **out, const ls_model_options *o, ls_error *e) {
    const char *engine = o->engine ? o->engine : "pjrt";
    if (!strcmp(engine, "pjrt")) {
        ls_pjrt_options p = {.plugin = o->plugin, .device = o->device};
        return ls_pjrt_open(out, &p, e);
    }
    if (!strcmp(engine, "iree")) {
        if (o->plugin) LS_FAIL(e, LS_INVALID_ARGUMENT, "a PJRT plugin was given with engine iree; leave one of them out");
        ls_iree_options i = {.device = o->device, .target = o->gpu_target};
        return ls_iree_open(out, &i, e);
    }
    LS_FAIL(e, LS_INVALID_ARGUMENT, "engine \"%.80s\" is unknown; use pjrt or iree", engine);
}

/* "256,1024": capacities in ascending order. */
static ls_code parse_buckets(const char *text, ls_xla_options *xo, ls_error *e) {
    for (const char *p = text; *p;) {
        char *end;
        long v = strtol(p, &end, 10);
        if (end == p || v < 1 || v > LS_MAX_CONTEXT || (*end && *end != ',') || xo->n_buckets == LS_XLA_MAX_BUCKETS)
            LS_FAIL(e, LS_INVALID_ARGUMENT, "buckets \"%.80s\": give up to %d ascending capacities of 1 to %d positions, such as 256,1024", text, LS_XLA_MAX_BUCKETS, LS_MAX_CONTEXT);
        xo->bucket[xo->n_buckets++] = (int)v;
        p = *end ? end + 1 : end;
    }
    return LS_OK;
}

static ls_code xla_options(ls_xla_options *xo, const ls_engine *engine, const ls_graph *g, const ls_model_options *o, ls_error *e) {
    bool real = g->contract == LS_CONTRACT_FLOAT;
    *xo = (ls_xla_options){.precision = real && !engine->traits.cpu ? LS_PRECISION_F16 : LS_PRECISION_F32};
    if (o->precision) LS_TRY(ls_precision_parse(o->precision, &xo->precision, e));
    const char *quant = o->quant ? o->quant : "dense";
    if (strcmp(quant, "dense") && strcmp(quant, "packed")) LS_FAIL(e, LS_INVALID_ARGUMENT, "quant \"%.80s\" is unknown; use dense or packed", quant);
    xo->packed = !strcmp(quant, "packed");
    return o->buckets ? parse_buckets(o->buckets, xo, e) : LS_OK;
}

ls_code ls_backend_xla_open(ls_executor **out, ls_engine **engine, const ls_graph *g, ls_checkpoint *c, const ls_model_options *o, const ls_executor_options *x,
                            ls_error *e) {
    ls_xla_options xo;
    LS_TRY(ls_backend_xla_engine(engine, o, e));
    LS_TRY(xla_options(&xo, *engine, g, o, e));
    return ls_xla_create(out, g, c, *engine, &xo, x, e);
}
