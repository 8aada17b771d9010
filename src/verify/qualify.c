/* Both stages of qualification, and the record of what they found. */
#include "verify/qualify.h"

#include <stdio.h>
#include <string.h>

#include "session/qualification.h"
#include "verify/report.h"
#include "verify/verify_image.h"

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

static ls_code control_json(json_t **out, const char *left, const ls_str *rule, size_t nodes, size_t positions, const char *first, ls_error *e) {
    *out = json_pack("{s:b, s:s, s:s, s:I, s:I, s:s?}", "passed", !first, "left", left, "rule", rule->data, "nodes", (json_int_t)nodes, "positions",
                     (json_int_t)positions, "first", first);
    if (!*out) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "no memory for the record");
    return LS_OK;
}

/* The first node that differs, or what else keeps |r| from passing; NULL: it passes. */
static const char *first_of(const ls_verify_report *r, size_t compared) {
    return r->first >= 0 ? r->graph->nodes[r->first].name : compared < r->graph->n_nodes ? "not every node was compared" : NULL;
}

static ls_code control_ids(json_t **out, ls_model *m, const ls_verify_options *v, const char *left, ls_error *e) {
    ls_verify_report r;
    ls_str rule = {0};
    LS_TRY(ls_verify_run(&r, m, v, e));
    ls_verify_totals t = ls_verify_total(&r);
    ls_code rc = ls_verify_rule(&r, &rule, e);
    if (!rc) rc = control_json(out, left, &rule, t.compared, r.n_tokens, first_of(&r, t.compared), e);
    ls_str_deinit(&rule);
    ls_verify_report_deinit(&r);
    return rc;
}

/* The tower, and when that is equal the text model on the rows of its images. */
static ls_code control_pictures(json_t **out, ls_model *m, const ls_verify_options *v, const ls_prepare_options *seen, const char *left, ls_error *e) {
    ls_verify_image_report r;
    ls_str rule = {0};
    LS_TRY(ls_verify_image_run(&r, m, v, seen, e));
    ls_verify_totals vision = ls_verify_total(&r.vision), text = {0};
    const char *first = first_of(&r.vision, vision.compared);
    if (!first) {
        text = ls_verify_total(&r.text);
        first = first_of(&r.text, text.compared);
    }
    ls_code rc = ls_verify_rule(&r.vision, &rule, e);
    if (!rc) rc = control_json(out, left, &rule, vision.compared + text.compared, r.vision.n_tokens + r.text.n_tokens, first, e);
    ls_str_deinit(&rule);
    ls_verify_image_report_deinit(&r);
    return rc;
}

/* Every node on the native executor's inputs (the reference's under float, which native does not run). */
static ls_code same_input(json_t **out, ls_model *m, const ls_qualify_options *o, const ls_xla_options *xo, const ls_qualify_prompt *p, ls_error *e) {
    bool real = m->contract == LS_CONTRACT_FLOAT;
    const char *left = real ? "reference" : "native";
    ls_verify_options v = {.decode = CONTROL_DECODE, .same_input = true, .stage = o->stage, .stage_user = o->stage_user};
    LS_TRY(ls_side_parse(&v.left, left, e));
    LS_TRY(judged_side(&v.right, &o->model, xo, real, e));
    if (p->seen) return control_pictures(out, m, &v, p->seen, left, e);
    v.prompt = p->ids;
    v.n_prompt = p->n;
    return control_ids(out, m, &v, left, e);
}

/* ---- Record ---------------------------------------------------------------------------------------------------------------- */

static json_t *tokens_json(const ls_qualify_tokens *t) {
    return json_pack("{s:b, s:s, s:i, s:I, s:o, s:s?}", "passed", !t->first[0], "reference", t->reference, "prompts", t->n, "compared", (json_int_t)t->compared,
                     "equal_bits", t->bits_known ? json_boolean(t->bits_equal) : json_null(), "first", t->first[0] ? t->first : NULL);
}

/* Takes over |combination|, |control| and |tokens|. |fingerprint|: of what was judged. */
static ls_code make_record(json_t **out, const ls_model *m, const char *name, const char *fingerprint, json_t *combination, json_t *control,
                           json_t *tokens, ls_error *e) {
    char schema[65] = "", bytes[65] = "";
    bool qualified = json_is_true(json_object_get(control, "passed")) && json_is_true(json_object_get(tokens, "passed"));
    ls_code rc = ls_checkpoint_schema_sha256(m->checkpoint, schema, e);
    if (!rc) rc = ls_checkpoint_bytes_sha256(m->checkpoint, bytes, e);
    json_t *model = json_pack("{s:s, s:s, s:s, s:s}", "name", name, "fingerprint", fingerprint, "weight_schema_sha256", schema, "weights_sha256", bytes);
    *out = json_pack("{s:s, s:o, s:o, s:o, s:o, s:b}", "schema", LS_QUALIFICATION_SCHEMA, "combination", combination, "model", model, "same_input", control,
                     "tokens", tokens, "qualified", qualified);
    if (!rc && !*out) rc = ls_error_set(e, LS_RESOURCE_EXHAUSTED, __FILE__, __LINE__, "no memory for the record");
    if (rc) {
        json_decref(*out);
        *out = NULL;
    }
    return rc;
}

/* Of |judged|, the text model's graph or the tower's. The engine is opened once to know its identity and what serving on it uses; each
 * stage opens its own. */
static ls_code combination_of(json_t **out, ls_xla_options *xo, const ls_model *m, const ls_graph *judged, const ls_model_options *o, ls_error *e) {
    ls_backend_xla x = {0};
    ls_code rc = ls_backend_xla_open_engine(&x, m->graph, o, e);
    *xo = x.options;
    if (!rc) rc = ls_qualification_combination(out, judged, &x.engine->identity, xo, e);
    ls_backend_xla_deinit(&x);
    return rc;
}

static ls_code qualify(json_t **record, const char *path, const ls_qualify_options *o, ls_model *m, bool vision, ls_qualify_tokens *t, ls_error *e) {
    ls_xla_options xo;
    json_t *combination = NULL, *control = NULL;
    ls_code rc;
    if (vision && ls_model_no_vision(m)) return LS_OK;
    LS_GOTO(combination_of(&combination, &xo, m, vision ? m->vision.graph : m->graph, &o->model, e));
    if (vision) ls_qualify_picture_prompts(t, m);
    else LS_GOTO(ls_qualify_prompts(t, m, o->reference, e));
    LS_GOTO(same_input(&control, m, o, &xo, &t->prompt[t->n - 1], e));
    LS_GOTO(ls_qualify_run_tokens(t, path, o, m->contract, m->graph->max_context, e));
    return make_record(record, m, o->name, vision ? m->identity : m->fingerprint, combination, control, tokens_json(t), e);
out:
    json_decref(combination);
    json_decref(control);
    return rc;
}

static ls_code open_and_qualify(json_t **record, const char *path, const ls_qualify_options *o, bool vision, ls_error *e) {
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
    LS_GOTO(qualify(record, path, o, m, vision, t, e));
out:
    ls_model_destroy(m);
    ls_free(t);
    return rc;
}

ls_code ls_qualify(json_t **record, const char *path, const ls_qualify_options *o, ls_error *e) { return open_and_qualify(record, path, o, false, e); }

ls_code ls_qualify_vision(json_t **record, const char *path, const ls_qualify_options *o, ls_error *e) { return open_and_qualify(record, path, o, true, e); }
