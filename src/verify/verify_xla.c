/* Sides that run on a device compiler: the engine, the executor over it, and what both are. */
#include "verify/verify_side.h"
#include "xla/executor.h"
#include "xla/iree.h"
#include "xla/pjrt.h"

#include <string.h>

static const char *or_null(const char *text) { return *text ? text : NULL; }

ls_code ls_side_open_engine(ls_side *s, ls_error *e) {
    const ls_side_spec *spec = s->spec;
    bool pjrt = !strcmp(spec->name, "xla:pjrt");
    if (pjrt && spec->target[0])
        LS_FAIL(e, LS_INVALID_ARGUMENT, "target \"%s\" is for xla:iree; a PJRT plugin compiles for the device it finds. Leave it out", spec->target);
    if (pjrt) return ls_pjrt_open(&s->engine, &(ls_pjrt_options){.plugin = or_null(spec->plugin), .device = or_null(spec->device)}, e);
    return ls_iree_open(&s->engine, &(ls_iree_options){.device = or_null(spec->device), .target = or_null(spec->target), .compiler = or_null(spec->plugin)}, e);
}

/* Fused modules show what serving computes, so they are what a plain comparison judges. */
static bool is_fused(const ls_side *s) {
    if (s->spec->modules == LS_MODULES_AUTO) return !s->fed && !s->fault;
    return s->spec->modules == LS_MODULES_FUSED;
}

ls_code ls_side_xla_executor(const ls_side *s, ls_executor **x, const ls_graph *g, const ls_executor_options *o, ls_error *e) {
    ls_xla_options xo = {.precision = LS_PRECISION_F32, .packed = s->spec->packed, .observe_fused = is_fused(s)};
    if (xo.observe_fused && (s->fed || s->fault))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "modules=fused shows values but takes none; leave it out with --same-input and --negative");
    if (s->spec->precision[0]) LS_TRY(ls_precision_parse(s->spec->precision, &xo.precision, e));
    return ls_xla_create(x, g, s->model->checkpoint, s->engine, &xo, o, e);
}

ls_code ls_side_identify_engine(const ls_side *s, const ls_executor *x, ls_str *detail, ls_error *e) {
    LS_TRY(ls_str_printf(detail, e, ", %s modules, ", ls_xla_runs_nodes(x) ? "single-node" : "fused"));
    if (s->contract == LS_CONTRACT_FLOAT)
        LS_TRY(ls_str_printf(detail, e, "precision %s, %s weights, ", s->spec->precision[0] ? s->spec->precision : "f32",
                             s->spec->packed ? "packed" : "dense"));
    return ls_engine_identity_text(&s->engine->identity, detail, e);
}
