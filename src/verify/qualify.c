/* Both stages of qualification, and the record of what they found. */
#include "verify/qualify.h"

#include <stdio.h>
#include <string.h>

#include "session/qualification.h"
#include "verify/report.h"

enum { CONTROL_DECODE = 2 };

/* ---- Same-input control --------------------------------------------------------------------------------------------------- */

static ls_code copy_option(char *to, size_t size, const char *name, const char *value, ls_error *e) {
    if (value && (size_t)snprintf(to, size, "%s", value) >= size)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "%s \"%.80s\" has more than %zu bytes", name, value, size - 1);
    return LS_OK;
}

/* The judged side, with the precision that serving has. */
static ls_code judged_side(ls_side_spec *s, const ls_model_options *o, const ls_xla_options *xo, bool real, ls_error *e) {
    LS_TRY(ls_side_parse(s, o->engine && !strcmp(o->engine, "iree") ? "xla:iree" : "xla:pjrt", e));
    LS_TRY(copy_option(s->device, sizeof s->device, "device", o->device, e));
    LS_TRY(copy_option(s->plugin, sizeof s->plugin, "plugin", o->plugin, e));
    LS_TRY(copy_option(s->target, sizeof s->target, "gpu-target", o->gpu_target, e));
    s->packed = xo->packed;
    return copy_option(s->precision, sizeof s->precision, "precision", real ? ls_precision_name(xo->precision) : NULL, e);
}

/* Every node on the native executor's inputs (the reference's under float, which native does not run). */
static ls_code same_input(json_t **out, ls_model *m, const ls_qualify_options *o, const ls_xla_options *xo, const ls_qualify_prompt *p, ls_error *e) {
    bool real = m->contract == LS_CONTRACT_FLOAT;
    const char *left = real ? "reference" : "native";
    ls_verify_report r;
    ls_str rule = {0};
    ls_verify_options v = {.prompt = p->ids, .n_prompt = p->n, .decode = CONTROL_DECODE, .same_input = true, .stage = o->stage, .stage_user = o->stage_user};
    LS_TRY(ls_side_parse(&v.left, left, e));
    LS_TRY(judged_side(&v.right, &o->model, xo, real, e));
    LS_TRY(ls_verify_run(&r, m, &v, e));
    ls_verify_totals t = ls_verify_total(&r);
    const char *first = r.first >= 0 ? r.graph->nodes[r.first].name : t.compared < r.graph->n_nodes ? "not every node was compared" : NULL;
    ls_code rc = ls_verify_rule(&r, &rule, e);
    if (!rc) {
        *out = json_pack("{s:b, s:s, s:s, s:I, s:I, s:s?}", "passed", !first, "left", left, "rule", rule.data, "nodes", (json_int_t)t.compared, "positions",
                         (json_int_t)r.n_tokens, "first", first);
        if (!*out) rc = ls_error_set(e, LS_RESOURCE_EXHAUSTED, __FILE__, __LINE__, "no memory for the record");
    }
    ls_str_deinit(&rule);
    ls_verify_report_deinit(&r);
    return rc;
}

/* ---- Record ---------------------------------------------------------------------------------------------------------------- */

static json_t *tokens_json(const ls_qualify_tokens *t) {
    return json_pack("{s:b, s:s, s:i, s:I, s:o, s:s?}", "passed", !t->first[0], "reference", t->reference, "prompts", t->n, "compared", (json_int_t)t->compared,
                     "equal_bits", t->bits_known ? json_boolean(t->bits_equal) : json_null(), "first", t->first[0] ? t->first : NULL);
}

/* Takes over |combination|, |control| and |tokens|. */
static ls_code make_record(json_t **out, const ls_model *m, const char *name, json_t *combination, json_t *control, json_t *tokens, ls_error *e) {
    char schema[65] = "", bytes[65] = "";
    bool qualified = json_is_true(json_object_get(control, "passed")) && json_is_true(json_object_get(tokens, "passed"));
    ls_code rc = ls_checkpoint_schema_sha256(m->checkpoint, schema, e);
    if (!rc) rc = ls_checkpoint_bytes_sha256(m->checkpoint, bytes, e);
    json_t *model = json_pack("{s:s, s:s, s:s, s:s}", "name", name, "fingerprint", m->fingerprint, "weight_schema_sha256", schema, "weights_sha256", bytes);
    *out = json_pack("{s:s, s:o, s:o, s:o, s:o, s:b}", "schema", LS_QUALIFICATION_SCHEMA, "combination", combination, "model", model, "same_input", control,
                     "tokens", tokens, "qualified", qualified);
    if (!rc && !*out) rc = ls_error_set(e, LS_RESOURCE_EXHAUSTED, __FILE__, __LINE__, "no memory for the record");
    if (rc) {
        json_decref(*out);
        *out = NULL;
    }
    return rc;
}

/* The engine is opened once to know its identity and what serving on it uses; each stage opens its own. */
static ls_code combination_of(json_t **out, ls_xla_options *xo, const ls_model *m, const ls_model_options *o, ls_error *e) {
    ls_backend_xla x = {0};
    ls_code rc = ls_backend_xla_open_engine(&x, m->graph, o, e);
    *xo = x.options;
    if (!rc) rc = ls_qualification_combination(out, m->graph, &x.engine->identity, xo, e);
    ls_backend_xla_deinit(&x);
    return rc;
}

static ls_code qualify(json_t **record, const char *path, const ls_qualify_options *o, ls_model *m, ls_qualify_tokens *t, ls_error *e) {
    ls_xla_options xo;
    json_t *combination = NULL, *control = NULL;
    ls_code rc;
    LS_GOTO(combination_of(&combination, &xo, m, &o->model, e));
    LS_GOTO(ls_qualify_prompts(t, m, o->reference, e));
    LS_GOTO(same_input(&control, m, o, &xo, &t->prompt[t->n - 1], e));
    LS_GOTO(ls_qualify_run_tokens(t, path, o, m->contract, m->graph->max_context, e));
    return make_record(record, m, o->name, combination, control, tokens_json(t), e);
out:
    json_decref(combination);
    json_decref(control);
    return rc;
}

ls_code ls_qualify(json_t **record, const char *path, const ls_qualify_options *o, ls_error *e) {
    ls_qualify_tokens *t = NULL;
    ls_model *m = NULL;
    ls_model_options graph = o->model;
    graph.struct_size = sizeof graph;
    graph.parts = LS_LOAD_GRAPH;
    graph.backend = "xla";
    graph.buckets = NULL;
    *record = NULL;
    ls_code rc;
    LS_GOTO(ls_calloc(&t, 1, sizeof *t, "prompts", e));
    LS_GOTO(ls_model_open(&m, path, &graph, e));
    LS_GOTO(qualify(record, path, o, m, t, e));
out:
    ls_model_destroy(m);
    ls_free(t);
    return rc;
}
