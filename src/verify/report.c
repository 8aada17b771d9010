/* Lines and JSON of a comparison: see report.h. The HTML page is in html.c. */
#include "verify/report.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "contract/exact.h"

ls_verify_totals ls_verify_total(const ls_verify_report *r) {
    ls_verify_totals t = {.d.first = -1};
    for (size_t i = 0; i < r->graph->n_nodes; i++) {
        const ls_verify_node *n = &r->node[i];
        t.absent += n->absent;
        if (!n->passes) continue;
        t.compared++;
        t.diverged += n->d.first >= 0;
        ls_difference_add(&t.d, &n->d);
    }
    for (size_t i = 0; i < r->n_tokens; i++) {
        const ls_verify_token *k = &r->token[i];
        t.tokens_differ += k->has[0] && k->has[1] && k->top[0] != k->top[1];
    }
    return t;
}

ls_verify_place ls_verify_place_of(const ls_verify_report *r, size_t node) {
    const ls_verify_node *n = &r->node[node];
    ls_verify_place p = {.pass = n->first_pass, .flat = n->d.first, .row = n->d.first / n->cols, .column = n->d.first % n->cols};
    p.position = n->first_position + p.row;
    p.left = r->reference_side ? n->d.candidate : n->d.reference;
    p.right = r->reference_side ? n->d.reference : n->d.candidate;
    return p;
}

ls_code ls_verify_rule(const ls_verify_report *r, ls_str *s, ls_error *e) {
    static const char *const names[] = {[LS_BOUND_BITS] = "equality of bits",
                                        [LS_BOUND_SAME_INPUT] = "bounds of single f32 operators",
                                        [LS_BOUND_ROUNDED] = "bounds of single f32 operators beside f64",
                                        [LS_BOUND_DRIFT] = "bounds of f32 chains, growing with the layer",
                                        [LS_BOUND_COARSE] = "bounds for 16-bit activations on one side only"};
    if (r->has_bound) return ls_str_printf(s, e, "absolute %g, relative %g for every node", r->absolute, r->relative);
    return ls_str_append(s, names[r->bound_kind], SIZE_MAX, e);
}

/* ---- Lines ------------------------------------------------------------------------------------------------------------------ */

static ls_code put_side(const ls_verify_report *r, int side, ls_str *s, ls_error *e) {
    const ls_verify_identity *id = &r->side[side];
    return ls_str_printf(s, e, "%s  %s%s%s (%s)\n", side ? "right" : "left ", id->name, id->contract ? " " : "", id->contract ? id->contract : "", id->detail);
}

static ls_code put_figures(const ls_difference *d, ls_str *s, ls_error *e) {
    return ls_str_printf(s, e,
                         "%" PRId64 " of %" PRId64 " values fail (%" PRId64 " not finite), max abs %.9g, max rel %.9g, rms %.9g, max ulp %" PRIu64 "\n",
                         d->failures, d->elements, d->non_finite, d->max_absolute, d->max_relative, ls_difference_rms(d), d->max_ulp);
}

static ls_code put_first(const ls_verify_report *r, ls_str *s, ls_error *e) {
    size_t node = (size_t)r->first;
    const ls_node *n = &r->graph->nodes[node];
    ls_verify_place p = ls_verify_place_of(r, node);
    const ls_verify_node *v = &r->node[node];
    LS_TRY(ls_str_printf(s, e, "DIVERGED first at %s (%s, node %zu of %zu)\n", n->name, ls_op_name(n->op), node + 1, r->graph->n_nodes));
    LS_TRY(ls_str_printf(s, e, "  pass %d, flat index %" PRId64 " = [%" PRId64 ", %" PRId64 "], %s %" PRId64 "\n", p.pass + 1, p.flat,
                         p.row, p.column, r->n_images ? "row of all images" : "token position", p.position));
    LS_TRY(ls_str_printf(s, e, "  left  %-16.9g 0x%08" PRIx32 "\n  right %-16.9g 0x%08" PRIx32 "\n", (double)p.left, ls_bits(p.left), (double)p.right,
                         ls_bits(p.right)));
    if (!v->bound.bits) LS_TRY(ls_str_printf(s, e, "  bound %.3g + %.3g * |reference|\n", v->bound.absolute, v->bound.relative));
    LS_TRY(ls_str_append(s, "  node: ", SIZE_MAX, e));
    return put_figures(&v->d, s, e);
}

static ls_code put_tokens(const ls_verify_report *r, const ls_verify_totals *t, ls_str *s, ls_error *e) {
    size_t both = 0;
    for (size_t i = 0; i < r->n_tokens; i++) both += r->token[i].has[0] && r->token[i].has[1];
    if (!both) return LS_OK;
    return ls_str_printf(s, e, "tokens: top choice differs at %zu of %zu positions\n", t->tokens_differ, both);
}

ls_code ls_verify_text(const ls_verify_report *r, ls_str *s, ls_error *e) {
    ls_verify_totals t = ls_verify_total(r);
    for (int side = 0; side < 2; side++) LS_TRY(put_side(r, side, s, e));
    LS_TRY(ls_str_append(s, "rule   ", SIZE_MAX, e));
    LS_TRY(ls_verify_rule(r, s, e));
    LS_TRY(ls_str_printf(s, e, "%s\n", r->same_input ? "; every node gets the other side's inputs" : ""));
    if (r->negative[0]) LS_TRY(ls_str_printf(s, e, "fault  %s, planted in the right side\n", r->negative));
    if (r->first >= 0) LS_TRY(put_first(r, s, e));
    else LS_TRY(ls_str_printf(s, e, "%s in all that was compared\n", !r->has_bound && r->bound_kind == LS_BOUND_BITS ? "EQUAL" : "EQUAL within the bounds"));
    LS_TRY(ls_str_printf(s, e, "nodes: %zu of %zu compared over ", t.compared, r->graph->n_nodes));
    if (r->n_images) LS_TRY(ls_str_printf(s, e, "%zu images", r->n_images));
    else LS_TRY(ls_str_printf(s, e, "%zu prompt and %zu decoded tokens", r->n_prompt, r->n_tokens - r->n_prompt));
    LS_TRY(ls_str_printf(s, e, " (%d passes), %zu diverged\n", r->passes, t.diverged));
    LS_TRY(ls_str_append(s, "all:   ", SIZE_MAX, e));
    LS_TRY(put_figures(&t.d, s, e));
    if (r->bisected) LS_TRY(ls_str_printf(s, e, "bisection: %d runs, at most %d nodes observed in one\n", r->rounds, r->most_observed));
    if (!r->n_images) LS_TRY(put_tokens(r, &t, s, e));
    if (r->n_unknown) LS_TRY(ls_str_printf(s, e, "the file has %zu tensors that are no nodes of this model\n", r->n_unknown));
    if (t.absent) LS_TRY(ls_str_printf(s, e, "not in the file, so not compared: %zu nodes\n", t.absent));
    for (size_t i = 0; t.absent && i < r->graph->n_nodes; i++)
        if (r->node[i].absent) LS_TRY(ls_str_printf(s, e, "  %s\n", r->graph->nodes[i].name));
    if (r->negative[0] && r->first < 0) LS_TRY(ls_str_printf(s, e, "The fault was NOT seen: this comparison does not detect it.\n"));
    return LS_OK;
}

/* ---- JSON --------------------------------------------------------------------------------------------------------------------- */

static json_t *real_or_null(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *bits_of(float x) {
    char text[11];
    snprintf(text, sizeof text, "0x%08" PRIx32, ls_bits(x));
    return json_string(text);
}

static void put(json_t *o, const char *key, json_t *v) { json_object_set_new(o, key, v); }

static void put_difference(json_t *o, const ls_difference *d) {
    put(o, "elements", json_integer(d->elements));
    put(o, "failures", json_integer(d->failures));
    put(o, "non_finite_failures", json_integer(d->non_finite));
    put(o, "max_absolute", json_real(d->max_absolute));
    put(o, "max_relative", json_real(d->max_relative));
    put(o, "rms", json_real(ls_difference_rms(d)));
    put(o, "max_ulp", json_integer((json_int_t)d->max_ulp));
}

static json_t *side_json(const ls_verify_identity *id) {
    json_t *o = json_object();
    put(o, "name", json_string_nocheck(id->name));
    put(o, "contract", id->contract ? json_string(id->contract) : json_null());
    put(o, "fingerprint", id->fingerprint[0] ? json_string(id->fingerprint) : json_null());
    put(o, "detail", json_string_nocheck(id->detail));
    return o;
}

static json_t *bound_json(const ls_bound *b) {
    if (b->bits) return json_pack("{s:s}", "kind", "exact-bits");
    return json_pack("{s:s, s:f, s:f}", "kind", "absolute-relative", "absolute", b->absolute, "relative", b->relative);
}

static json_t *rule_json(const ls_verify_report *r) {
    static const char *const names[] = {[LS_BOUND_BITS] = "exact-bits", [LS_BOUND_SAME_INPUT] = "same-input", [LS_BOUND_ROUNDED] = "same-input-f64",
                                        [LS_BOUND_DRIFT] = "drift", [LS_BOUND_COARSE] = "coarse"};
    if (!r->has_bound) return json_pack("{s:s}", "kind", names[r->bound_kind]);
    return json_pack("{s:s, s:f, s:f}", "kind", "given", "absolute", r->absolute, "relative", r->relative);
}

static json_t *first_json(const ls_verify_report *r) {
    if (r->first < 0) return json_null();
    const ls_node *n = &r->graph->nodes[r->first];
    ls_verify_place p = ls_verify_place_of(r, (size_t)r->first);
    const ls_difference *d = &r->node[r->first].d;
    bool finite = isfinite(p.left) && isfinite(p.right);
    double error = fabs((double)d->candidate - (double)d->reference);
    json_t *o = json_pack("{s:s, s:s, s:i, s:i, s:I, s:I, s:[I, I]}", "node", n->name, "operator", ls_op_name(n->op), "index", r->first, "pass",
                          p.pass, "position",
                          (json_int_t)p.position, "flat_index", (json_int_t)p.flat, "coordinate", (json_int_t)p.row, (json_int_t)p.column);
    put(o, "left_value", real_or_null((double)p.left));
    put(o, "right_value", real_or_null((double)p.right));
    put(o, "left_bits", bits_of(p.left));
    put(o, "right_bits", bits_of(p.right));
    put(o, "absolute_error", finite ? json_real(error) : json_null());
    put(o, "relative_error", finite ? json_real(error / fmax(fabs((double)d->reference), (double)FLT_MIN)) : json_null());
    put(o, "ulp", finite ? json_integer((json_int_t)ls_ulp_distance(p.left, p.right)) : json_null());
    return o;
}

static json_t *nodes_json(const ls_verify_report *r) {
    json_t *a = json_array();
    for (size_t i = 0; i < r->graph->n_nodes; i++) {
        const ls_verify_node *v = &r->node[i];
        const ls_node *n = &r->graph->nodes[i];
        json_t *o = json_pack("{s:s, s:s, s:i, s:b, s:b}", "node", n->name, "operator", ls_op_name(n->op), "layer", ls_node_layer(n, NULL),
                              "compared", v->passes > 0, "diverged",
                              v->d.first >= 0);
        if (v->passes) {
            put(o, "bound", bound_json(&v->bound));
            put_difference(o, &v->d);
        }
        json_array_append_new(a, o);
    }
    return a;
}

static json_t *text_of(const ls_model *m, int32_t id) {
    char *text = NULL;
    size_t n = 0;
    if (!m->tokenizer || ls_model_decode(m, &id, 1, false, &text, &n, NULL)) return json_null();
    json_t *s = json_stringn(text, n);
    ls_buffer_free(text);
    return s ? s : json_null();
}

static json_t *tokens_json(const ls_verify_report *r, const ls_model *m) {
    static const char *const top[] = {"left_top", "right_top"}, *const logit[] = {"left_logit", "right_logit"};
    json_t *a = json_array();
    for (size_t i = 0; i < r->n_tokens; i++) {
        const ls_verify_token *t = &r->token[i];
        json_t *o = json_pack("{s:I, s:i, s:o, s:b}", "position", (json_int_t)i, "id", (int)t->id, "text", text_of(m, t->id), "decoded", i >= r->n_prompt);
        for (int s = 0; s < 2; s++) {
            put(o, top[s], t->has[s] ? json_integer(t->top[s]) : json_null());
            put(o, logit[s], t->has[s] ? real_or_null((double)t->logit[s]) : json_null());
        }
        json_array_append_new(a, o);
    }
    return a;
}

static json_t *absent_json(const ls_verify_report *r) {
    json_t *a = json_array();
    for (size_t i = 0; i < r->graph->n_nodes; i++)
        if (r->node[i].absent) json_array_append_new(a, json_string(r->graph->nodes[i].name));
    return a;
}

json_t *ls_verify_json(const ls_verify_report *r, const ls_model *m, const char *path) {
    ls_verify_totals t = ls_verify_total(r);
    json_t *o = json_object();
    put(o, "schema", json_string("lockstep-verify-v1"));
    put(o, "result", json_string(r->first >= 0 ? "diverged" : "equal"));
    put(o, "mode", json_string(r->bisected ? "bisect" : r->same_input ? "same-input" : "plain"));
    put(o, "negative", r->negative[0] ? json_string_nocheck(r->negative) : json_null());
    put(o, "model", json_string_nocheck(path));
    put(o, "architecture", json_string(r->graph->architecture ? r->graph->architecture : "unknown"));
    put(o, "weight_schema_sha256", json_string(r->model_sha256));
    put(o, "left", side_json(&r->side[0]));
    put(o, "right", side_json(&r->side[1]));
    put(o, "reference_side", json_string(r->reference_side ? "right" : "left"));
    put(o, "rule", rule_json(r));
    put(o, "prompt_tokens", json_integer((json_int_t)r->n_prompt));
    put(o, "decoded_tokens", json_integer((json_int_t)(r->n_tokens - r->n_prompt)));
    if (r->n_images) put(o, "images", json_integer((json_int_t)r->n_images));
    put(o, "chunk", json_integer(r->chunk));
    put(o, "passes", json_integer(r->passes));
    put(o, "runs", json_integer(r->rounds));
    put(o, "most_observed", r->bisected ? json_integer(r->most_observed) : json_null());
    put(o, "nodes_total", json_integer((json_int_t)r->graph->n_nodes));
    put(o, "nodes_compared", json_integer((json_int_t)t.compared));
    put(o, "nodes_diverged", json_integer((json_int_t)t.diverged));
    put(o, "nodes_absent", absent_json(r));
    put(o, "unknown_tensors", json_integer((json_int_t)r->n_unknown));
    json_t *all = json_object();
    put_difference(all, &t.d);
    put(o, "comparison", all);
    put(o, "first_divergence", first_json(r));
    put(o, "tokens_differ", json_integer((json_int_t)t.tokens_differ));
    put(o, "nodes", nodes_json(r));
    put(o, "tokens", tokens_json(r, m));
    return o;
}
