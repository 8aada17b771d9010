/* The HTML page of a comparison: one file without scripts or references, readable offline in any browser. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "contract/exact.h"
#include "verify/html_style.h"
#include "verify/report.h"

enum { BINS = 9 }; /* decades of the largest absolute difference: up to 1e-8, ..., from 1 on */

/* Where the page is written, with the first failure kept. */
typedef struct page {
    const ls_verify_report *r;
    ls_str *s;
    ls_error *e;
    ls_code rc;
} page;

#define PUT(p, ...)                                                          \
    do {                                                                     \
        if (!(p)->rc) (p)->rc = ls_str_printf((p)->s, (p)->e, __VA_ARGS__); \
    } while (0)

static void put(page *p, const char *text) {
    if (!p->rc) p->rc = ls_str_append(p->s, text, SIZE_MAX, p->e);
}

/* Text for content and attributes. Bytes that are no UTF-8, and control characters, become U+FFFD. */
static void escape(page *p, const char *text, size_t len) {
    for (size_t i = 0; i < len && !p->rc;) {
        int n = ls_utf8_decode(text + i, len - i, NULL);
        char c = text[i];
        const char *instead = !n || (unsigned char)c < 32 || c == 127 ? "\xef\xbf\xbd" : c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : NULL;
        if (c == '"') instead = "&quot;";
        if (c == '\n') instead = "\\n";
        p->rc = instead ? ls_str_append(p->s, instead, SIZE_MAX, p->e) : ls_str_append(p->s, text + i, (size_t)n, p->e);
        i += n ? (size_t)n : 1;
    }
}

static void row(page *p, const char *name, const char *value) {
    PUT(p, "<tr><th scope=\"row\">%s</th><td>", name);
    escape(p, value, strlen(value));
    put(p, "</td></tr>\n");
}

/* ---- Verdict and identity ----------------------------------------------------------------------------------------------------- */

static void verdict(page *p) {
    const ls_verify_report *r = p->r;
    ls_verify_totals t = ls_verify_total(r);
    if (r->first < 0) {
        put(p, "<div class=\"verdict equal\"><p><strong>= Equal</strong> in all that was compared.</p>");
        if (r->negative[0]) put(p, "<p><strong>The planted fault was not seen: this comparison does not detect it.</strong></p>");
    } else {
        const ls_node *n = &r->graph->nodes[r->first];
        ls_verify_place at = ls_verify_place_of(r, (size_t)r->first);
        put(p, "<div class=\"verdict diverged\"><p><strong>✕ Diverged</strong> first at <code>");
        escape(p, n->name, strlen(n->name));
        PUT(p, "</code> (%s, node %d of %zu), pass %d, flat index %" PRId64 " = [%" PRId64 ", %" PRId64 "], %s %" PRId64 ".</p>",
            ls_op_name(n->op), r->first + 1,
            r->graph->n_nodes, at.pass + 1, at.flat, at.row, at.column, r->n_images ? "row of all images" : "token position", at.position);
        PUT(p, "<p>left <code>%.9g (0x%08" PRIx32 ")</code>, right <code>%.9g (0x%08" PRIx32 ")</code></p>", (double)at.left, ls_bits(at.left),
            (double)at.right,
            ls_bits(at.right));
    }
    PUT(p, "<p>%zu of %zu nodes compared, %zu diverged; ", t.compared, r->graph->n_nodes, t.diverged);
    if (r->n_images) PUT(p, "%zu images.</p></div>\n", r->n_images);
    else
        PUT(p, "%zu prompt and %zu decoded tokens; top choice differs at %zu positions.</p></div>\n", r->n_prompt, r->n_tokens - r->n_prompt,
            t.tokens_differ);
}

static void identity_side(page *p, int side) {
    const ls_verify_identity *id = &p->r->side[side];
    row(p, side ? "Right side" : "Left side", id->name);
    if (id->contract) row(p, "Contract", id->contract);
    if (id->fingerprint[0]) row(p, "Graph SHA-256", id->fingerprint);
    row(p, "Detail", id->detail);
}

static void identity(page *p, const char *path) {
    const ls_verify_report *r = p->r;
    ls_str rule = {0};
    put(p, "<h2 id=\"identity\">Identity</h2>\n<div class=\"scroll\"><table>\n");
    row(p, "Model", path);
    row(p, "Architecture", r->graph->architecture ? r->graph->architecture : "unknown");
    row(p, "Weight schema SHA-256", r->model_sha256);
    identity_side(p, 0);
    identity_side(p, 1);
    if (!p->rc) p->rc = ls_verify_rule(r, &rule, p->e);
    if (!p->rc) row(p, "Rule", rule.data);
    row(p, "Mode", r->bisected ? "bisect" : r->same_input ? "same input" : "plain");
    if (r->negative[0]) row(p, "Fault planted in the right side", r->negative);
    row(p, "lockstep", LS_VERSION_STRING);
    put(p, "</table></div>\n");
    ls_str_deinit(&rule);
}

/* ---- Heat map ------------------------------------------------------------------------------------------------------------------- */

static int bin_of(double difference) {
    int decade = (int)floor(log10(difference));
    return decade < -8 ? 0 : decade > 0 ? BINS - 1 : decade + 8;
}

static void tooltip(page *p, size_t i) {
    const ls_verify_node *v = &p->r->node[i];
    const ls_node *n = &p->r->graph->nodes[i];
    put(p, " title=\"");
    escape(p, n->name, strlen(n->name));
    PUT(p, "&#10;%s", ls_op_name(n->op));
    if (!v->passes) put(p, v->absent ? "&#10;not in the file" : "&#10;not compared");
    else
        PUT(p, "&#10;%" PRId64 " of %" PRId64 " values fail&#10;max abs %.6g&#10;max rel %.6g&#10;rms %.6g&#10;max ulp %" PRIu64, v->d.failures,
            v->d.elements, v->d.max_absolute,
            v->d.max_relative, ls_difference_rms(&v->d), v->d.max_ulp);
    put(p, "\"");
}

/* The number in a cell is the decimal exponent of the largest absolute difference. */
static void cell(page *p, size_t i) {
    const ls_verify_node *v = &p->r->node[i];
    bool fails = v->d.first >= 0, any = v->d.max_absolute > 0;
    const char *marks = (int)i == p->r->first ? " f first" : fails ? " f" : "";
    if (!v->passes) put(p, "<td class=\"s\"");
    else if (!any) PUT(p, "<td class=\"e%s\"", marks);
    else PUT(p, "<td class=\"k%d%s\"", bin_of(v->d.max_absolute), marks);
    tooltip(p, i);
    if (!v->passes) put(p, ">·</td>");
    else if (!any) PUT(p, ">%s</td>", fails ? "✕" : "=");
    else PUT(p, ">%s%d</td>", fails ? "✕" : "", (int)floor(log10(v->d.max_absolute)));
}

static const char *rest_of(const page *p, size_t i) {
    const char *rest;
    ls_node_layer(&p->r->graph->nodes[i], &rest);
    return rest;
}

static int layer_of(const page *p, size_t i) { return ls_node_layer(&p->r->graph->nodes[i], NULL); }

static bool is_first_of_kind(const page *p, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (layer_of(p, k) >= 0 && !strcmp(rest_of(p, k), rest_of(p, i))) return false;
    return true;
}

static void map_row(page *p, size_t i, int layers) {
    put(p, "<tr><th scope=\"row\">");
    escape(p, rest_of(p, i), strlen(rest_of(p, i)));
    put(p, "</th>");
    for (int l = 0; l < layers; l++) {
        size_t k = 0, n = p->r->graph->n_nodes;
        while (k < n && (layer_of(p, k) != l || strcmp(rest_of(p, k), rest_of(p, i)))) k++;
        if (k < n) cell(p, k);
        else put(p, "<td class=\"x\"></td>");
    }
    put(p, "</tr>\n");
}

static void legend(page *p) {
    put(p, "<table class=\"map legend\"><tr><td class=\"e\">= 0</td>");
    for (int i = 0; i < BINS; i++) PUT(p, "<td class=\"k%d\">%s%d</td>", i, i == 0 ? "≤ 1e" : i == BINS - 1 ? "≥ 1e" : "1e", i - 8);
    put(p, "<td class=\"s\">·</td><td class=\"e f\">✕</td></tr></table>\n<p>Colour and number: decimal exponent of the largest absolute difference. "
           "Hatched: not compared. Outlined with ✕: outside the rule; thick: the first. Hover for figures.</p>\n");
}

static void heat_map(page *p) {
    const ls_graph *g = p->r->graph;
    int layers = 0;
    put(p, "<h2 id=\"map\">Difference by layer and operator</h2>\n");
    legend(p);
    put(p, "<div class=\"scroll\"><table class=\"map\">\n");
    for (size_t i = 0; i < g->n_nodes; i++)
        if (layer_of(p, i) >= layers) layers = layer_of(p, i) + 1;
    put(p, "<tr><th></th>");
    for (int l = 0; l < layers; l++) PUT(p, "<th scope=\"col\">%d</th>", l);
    put(p, "</tr>\n");
    for (size_t i = 0; i < g->n_nodes; i++)
        if (layer_of(p, i) >= 0 && is_first_of_kind(p, i)) map_row(p, i, layers);
    put(p, "</table></div>\n<p>Outside the layers:</p>\n<table class=\"map\">\n");
    for (size_t i = 0; i < g->n_nodes; i++) {
        if (layer_of(p, i) >= 0) continue;
        put(p, "<tr><th scope=\"row\">");
        escape(p, g->nodes[i].name, strlen(g->nodes[i].name));
        put(p, "</th>");
        cell(p, i);
        put(p, "</tr>\n");
    }
    put(p, "</table>\n");
}

/* ---- Tables ----------------------------------------------------------------------------------------------------------------------- */

static void token_text(page *p, const ls_model *m, int32_t id) {
    char *text = NULL;
    size_t n = 0;
    put(p, "<td class=\"t\"><code>");
    if (m->tokenizer && !ls_model_decode(m, &id, 1, false, &text, &n, NULL)) escape(p, text, n);
    ls_buffer_free(text);
    put(p, "</code></td>");
}

static void token_choice(page *p, const ls_model *m, const ls_verify_token *t, int side) {
    if (!t->has[side]) {
        put(p, "<td></td><td></td><td></td>");
        return;
    }
    PUT(p, "<td class=\"n\">%d</td>", (int)t->top[side]);
    token_text(p, m, t->top[side]);
    PUT(p, "<td class=\"n\">%.9g</td>", (double)t->logit[side]);
}

static void token_table(page *p, const ls_model *m) {
    put(p,
        "<h2 id=\"tokens\">Tokens</h2>\n<p>After each token, the choice with the largest logit on each side.</p>\n"
        "<div class=\"scroll\"><table>\n<tr><th>position</th><th>id</th>"
           "<th>text</th><th></th><th>left top</th><th>text</th><th>logit</th><th>right top</th><th>text</th><th>logit</th></tr>\n");
    for (size_t i = 0; i < p->r->n_tokens; i++) {
        const ls_verify_token *t = &p->r->token[i];
        bool differs = t->has[0] && t->has[1] && t->top[0] != t->top[1];
        PUT(p, "<tr%s><td class=\"n\">%zu</td><td class=\"n\">%d</td>", differs ? " class=\"differs\"" : "", i, (int)t->id);
        token_text(p, m, t->id);
        PUT(p, "<td>%s%s</td>", i < p->r->n_prompt ? "prompt" : "decoded", differs ? ", differs" : "");
        token_choice(p, m, t, 0);
        token_choice(p, m, t, 1);
        put(p, "</tr>\n");
    }
    put(p, "</table></div>\n");
}

static void node_table(page *p) {
    put(p,
        "<h2 id=\"nodes\">Nodes</h2>\n<details><summary>All figures</summary><div class=\"scroll\"><table>\n"
        "<tr><th>node</th><th>operator</th><th>values</th><th>fail</th>"
           "<th>max abs</th><th>max rel</th><th>rms</th><th>max ulp</th></tr>\n");
    for (size_t i = 0; i < p->r->graph->n_nodes; i++) {
        const ls_verify_node *v = &p->r->node[i];
        const ls_node *n = &p->r->graph->nodes[i];
        put(p, "<tr><td><code>");
        escape(p, n->name, strlen(n->name));
        PUT(p, "</code></td><td>%s</td>", ls_op_name(n->op));
        if (!v->passes) PUT(p, "<td colspan=\"6\">%s</td></tr>\n", v->absent ? "not in the file" : "not compared");
        else
            PUT(p,
                "<td class=\"n\">%" PRId64 "</td><td class=\"n\">%" PRId64 "</td><td class=\"n\">%.6g</td><td class=\"n\">%.6g</td>"
                "<td class=\"n\">%.6g</td><td class=\"n\">%" PRIu64 "</td></tr>\n", v->d.elements, v->d.failures, v->d.max_absolute, v->d.max_relative,
                ls_difference_rms(&v->d), v->d.max_ulp);
    }
    put(p, "</table></div></details>\n");
}

ls_code ls_verify_html(const ls_verify_report *r, const ls_model *m, const char *path, ls_str *s, ls_error *e) {
    page p = {.r = r, .s = s, .e = e};
    put(&p,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>lockstep verify: ");
    escape(&p, path, strlen(path));
    PUT(&p, "</title>\n<style>%s</style>\n</head>\n<body>\n<h1>lockstep verify</h1>\n", html_style);
    verdict(&p);
    heat_map(&p);
    if (!r->n_images) token_table(&p, m);
    identity(&p, path);
    node_table(&p);
    put(&p, "</body>\n</html>\n");
    return p.rc;
}
