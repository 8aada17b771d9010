/* verify: checks what is asked, opens both sides, runs the comparison. See verify.h. */
#include "verify/verify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "verify/verify_pass.h"

enum { PROBES_MIN = 2, PROBES_MAX = 256 };

/* ---- Sides ------------------------------------------------------------------------------------------------------------------ */

static ls_code check_options(const ls_verify_options *o, ls_error *e) {
    bool right_file = o->right.kind == LS_SIDE_FILE, left_file = o->left.kind == LS_SIDE_FILE;
    if (left_file && right_file) LS_FAIL(e, LS_INVALID_ARGUMENT, "both sides are files; one must be an executor: native, reference, xla:pjrt or xla:iree");
    if (o->same_input && o->bisect)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "same input judges every node alone and bisection looks for where values first part; choose one");
    if (o->same_input && (right_file ? o->left.f64 : o->right.f64))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "reference:f64 keeps its own f64 values and cannot be fed; put it on the left, or use reference");
    if (o->negative && right_file)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "a negative control plants its fault in the right side, which is a file; put the file on the left");
    if (o->chunk < 0 || o->chunk > LS_MAX_CHUNK) LS_FAIL(e, LS_INVALID_ARGUMENT, "chunk of %d rows; allowed are 1 to %d", o->chunk, LS_MAX_CHUNK);
    if (o->decode < -1) LS_FAIL(e, LS_INVALID_ARGUMENT, "%d tokens after the prompt; allowed are 0 or more", o->decode);
    if (o->probes && !o->bisect) LS_FAIL(e, LS_INVALID_ARGUMENT, "%d probes are of bisection, which is not asked for; add it or leave them out", o->probes);
    if (o->probes && (o->probes < PROBES_MIN || o->probes > PROBES_MAX))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "%d probes; allowed are %d to %d", o->probes, PROBES_MIN, PROBES_MAX);
    if (o->has_bound && !(o->absolute >= 0 && o->relative >= 0 && isfinite(o->absolute) && isfinite(o->relative)))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "bounds %g and %g; both must be finite and 0 or more", o->absolute, o->relative);
    return LS_OK;
}

/* Two graphs of one model are node for node the same. */
static ls_code check_graph(const ls_graph *g, const ls_side *s, ls_error *e) {
    if (s->graph->n_nodes != g->n_nodes)
        LS_FAIL(e, LS_INTERNAL, "side \"%s\": its graph has %zu nodes, the other %zu", s->spec->name, s->graph->n_nodes, g->n_nodes);
    for (size_t i = 0; i < g->n_nodes; i++)
        if (strcmp(g->nodes[i].name, s->graph->nodes[i].name) || g->nodes[i].cols != s->graph->nodes[i].cols)
            LS_FAIL(e, LS_INTERNAL, "side \"%s\": node %zu is \"%s\", on the other side \"%s\"", s->spec->name, i, s->graph->nodes[i].name, g->nodes[i].name);
    return LS_OK;
}

static ls_code open_sides(ls_comparison *c, ls_model *m, ls_error *e) {
    const ls_side_spec *spec[2] = {&c->o->left, &c->o->right};
    for (int s = 0; s < 2; s++) {
        if (spec[s]->kind == LS_SIDE_FILE) {
            c->file = s;
            LS_TRY(ls_side_open_file(&c->side[s], spec[s], c->graph, e));
            continue;
        }
        LS_TRY(ls_side_open(&c->side[s], spec[s], m, c->vision, e));
        LS_TRY(check_graph(c->graph, &c->side[s], e));
    }
    c->fed = c->file == 1 ? 0 : 1;
    c->side[c->fed].fed = c->o->same_input;
    c->r->reference_side = c->file == 1;
    if (c->file >= 0) c->r->n_unknown = c->side[c->file].n_unknown;
    if (!c->o->negative) return LS_OK;
    const ls_fault_prompt prompt = {.embedding = c->o->embedding, .block = c->o->block, .n = c->o->n_prompt};
    LS_TRY(ls_fault_create(&c->fault, c->side[1].graph, &prompt, c->o->negative, e));
    c->side[1].fault = c->fault;
    snprintf(c->r->negative, sizeof c->r->negative, "%s", c->o->negative);
    return LS_OK;
}

/* ---- Bounds ------------------------------------------------------------------------------------------------------------------- */

static ls_code choose_bounds(ls_comparison *c, ls_error *e) {
    ls_verify_report *r = c->r;
    bool coarse[2], exact = c->file < 0 && c->side[0].contract == c->side[1].contract && c->side[0].contract != LS_CONTRACT_FLOAT;
    for (int s = 0; s < 2; s++) coarse[s] = s != c->file && c->side[s].contract != LS_CONTRACT_FLOAT && !ls_contract_is_wide(c->side[s].contract);
    r->bound_kind = exact                    ? LS_BOUND_BITS
                    : coarse[0] != coarse[1] ? LS_BOUND_COARSE
                    : c->o->same_input       ? (c->o->left.f64 || c->o->right.f64 ? LS_BOUND_ROUNDED : LS_BOUND_SAME_INPUT)
                                             : LS_BOUND_DRIFT;
    if (exact && c->o->has_bound)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "both sides compute %s, which promises equal bits; it takes no tolerance", ls_contract_name(c->side[0].contract));
    r->has_bound = c->o->has_bound;
    r->absolute = c->o->absolute;
    r->relative = c->o->relative;
    return LS_OK;
}

/* ---- Tokens --------------------------------------------------------------------------------------------------------------------- */

/* Tokens after the prompt for which a file has both the id and a row in every tensor. */
static int recorded_decode(const ls_comparison *c) {
    const ls_side *f = &c->side[c->file];
    int64_t n = (int64_t)f->n_greedy;
    for (size_t i = 0; i < c->graph->n_nodes; i++)
        if (f->tensor[i] && f->tensor[i]->shape[0] - (int64_t)c->n_prompt < n) n = f->tensor[i]->shape[0] - (int64_t)c->n_prompt;
    return n < 0 ? 0 : (int)n;
}

static ls_code take_file_tokens(ls_comparison *c, const int32_t **prompt, ls_error *e) {
    const ls_side *f = &c->side[c->file];
    const ls_verify_options *o = c->o;
    if (!f->n_prompt && !o->n_prompt) LS_FAIL(e, LS_NOT_FOUND, "\"%s\" has no prompt_ids; give the token ids it was made with", f->spec->name);
    if (f->n_prompt && o->n_prompt && (f->n_prompt != o->n_prompt || memcmp(f->ids, o->prompt, f->n_prompt * sizeof *f->ids)))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "the prompt differs from the prompt_ids of \"%s\"; leave it out, or give the same %zu ids", f->spec->name, f->n_prompt);
    *prompt = f->n_prompt ? f->ids : o->prompt;
    c->n_prompt = f->n_prompt ? f->n_prompt : o->n_prompt;
    c->given_ids = true;
    if (o->decode < 0) c->decode = recorded_decode(c);
    if ((size_t)c->decode > f->n_greedy)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "%d tokens after the prompt; \"%s\" has %zu greedy_ids", c->decode, f->spec->name, f->n_greedy);
    return ls_side_check_rows(f, c->graph, (int64_t)c->n_prompt + c->decode, e);
}

static ls_code take_tokens(ls_comparison *c, ls_model *m, ls_error *e) {
    const ls_verify_options *o = c->o;
    const int32_t *prompt = o->prompt;
    c->n_prompt = o->n_prompt;
    c->decode = o->decode < 0 ? 0 : o->decode;
    if (c->file >= 0) LS_TRY(take_file_tokens(c, &prompt, e));
    if (!c->n_prompt) LS_FAIL(e, LS_INVALID_ARGUMENT, "the prompt has no tokens");
    if ((o->embedding || o->block) && c->n_prompt != o->n_prompt)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "the prompt with images must be given, not taken from a file");
    if (c->n_prompt > LS_VERIFY_MAX_TOKENS || c->decode > LS_VERIFY_MAX_TOKENS - (int)c->n_prompt)
        LS_FAIL(e, LS_OUT_OF_RANGE, "prompt of %zu tokens and %d after it; at most %d are compared", c->n_prompt, c->decode, LS_VERIFY_MAX_TOKENS);
    if (c->n_prompt > (size_t)m->context || c->decode > m->context - (int)c->n_prompt)
        LS_FAIL(e, LS_OUT_OF_RANGE, "prompt of %zu tokens and %d after it do not fit the context of %d", c->n_prompt, c->decode, m->context);
    size_t n = c->n_prompt + (size_t)c->decode;
    LS_TRY(ls_calloc(&c->ids, n, sizeof *c->ids, "token ids", e));
    LS_TRY(ls_calloc(&c->r->token, n, sizeof *c->r->token, "token ids", e));
    memcpy(c->ids, prompt, c->n_prompt * sizeof *c->ids);
    if (c->given_ids && c->decode) memcpy(c->ids + c->n_prompt, c->side[c->file].ids + c->side[c->file].n_prompt, (size_t)c->decode * sizeof *c->ids);
    for (size_t i = 0; i < n; i++) c->r->token[i].id = c->ids[i];
    c->chunk = o->chunk ? o->chunk : LS_VERIFY_DEFAULT_CHUNK;
    if ((size_t)c->chunk > c->n_prompt) c->chunk = (int)c->n_prompt;
    for (size_t i = 0; o->block && i < c->n_prompt; i++)
        if (o->block[i].end - o->block[i].begin > c->chunk) c->chunk = o->block[i].end - o->block[i].begin;
    c->passes = c->decode;
    for (int64_t at = 0; at < (int64_t)c->n_prompt; at += ls_verify_piece(c, at)) c->passes++;
    c->r->n_tokens = n;
    c->r->n_prompt = c->n_prompt;
    c->r->chunk = c->chunk;
    c->r->passes = c->passes;
    return LS_OK;
}

/* One pass an image. */
static ls_code take_images(ls_comparison *c, ls_error *e) {
    const ls_verify_options *o = c->o;
    if (o->n_prompt || o->decode > 0) LS_FAIL(e, LS_INVALID_ARGUMENT, "the vision tower is compared on images alone; leave out the prompt and -n");
    if (o->n_images > LS_MAX_SLOTS) LS_FAIL(e, LS_INVALID_ARGUMENT, "%zu images; at most %d are compared", o->n_images, LS_MAX_SLOTS);
    c->chunk = (int)c->graph->image_rows;
    c->passes = (int)o->n_images;
    c->r->n_images = o->n_images;
    c->r->chunk = c->chunk;
    c->r->passes = c->passes;
    return c->file < 0 ? LS_OK : ls_side_check_rows(&c->side[c->file], c->graph, c->passes, e);
}

/* ---- All of it ------------------------------------------------------------------------------------------------------------------ */

static ls_code compare(ls_comparison *c, ls_model *m, ls_error *e) {
    ls_verify_report *r = c->r;
    LS_TRY(check_options(c->o, e));
    LS_TRY(open_sides(c, m, e));
    LS_TRY(choose_bounds(c, e));
    if (c->vision) LS_TRY(take_images(c, e));
    else LS_TRY(take_tokens(c, m, e));
    LS_TRY(ls_calloc(&r->node, c->graph->n_nodes, sizeof *r->node, "node reports", e));
    for (size_t i = 0; i < c->graph->n_nodes; i++) r->node[i].d.first = -1;
    LS_TRY(ls_checkpoint_schema_sha256(m->checkpoint, r->model_sha256, e));
    if (c->o->bisect) return ls_verify_bisect(c, c->o->probes ? c->o->probes : LS_VERIFY_DEFAULT_PROBES, e);
    r->rounds = 1;
    LS_TRY(ls_verify_passes(c, NULL, &r->first, e));
    /* Every bit of every node was compared: equal means that the fault changed none. */
    bool unseen = c->fault && r->first < 0 && r->bound_kind == LS_BOUND_BITS;
    return unseen ? ls_fault_unseen(c->fault, e) : LS_OK;
}

ls_code ls_verify_run(ls_verify_report *r, ls_model *m, const ls_verify_options *o, ls_error *e) {
    *r = (ls_verify_report){.graph = m->graph, .first = -1, .same_input = o->same_input};
    if (!m->graph) LS_FAIL(e, LS_FAILED_PRECONDITION, "the model was opened without its graph; open it with LS_LOAD_GRAPH");
    if (o->image) LS_TRY(ls_model_need_vision(m, e));
    if (o->image) r->graph = m->vision.graph;
    ls_comparison c = {.o = o, .file = -1, .graph = r->graph, .r = r, .vision = o->image ? &m->vision : NULL};
    ls_code rc = compare(&c, m, e);
    ls_fault_destroy(c.fault);
    for (int s = 0; s < 2; s++) ls_side_close(&c.side[s]);
    ls_free(c.ids);
    if (rc) ls_verify_report_deinit(r);
    return rc;
}

void ls_verify_report_deinit(ls_verify_report *r) {
    ls_free(r->node);
    ls_free(r->token);
    *r = (ls_verify_report){.first = -1};
}
