/* Running exact probes: the reference executor and the judged one on the same graph and tokens, compared by bits. */
#include "verify/oracle_graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const ls_contract contracts[] = {LS_CONTRACT_EXACT16, LS_CONTRACT_EXACT24};
enum { N_CONTRACTS = sizeof contracts / sizeof *contracts };

size_t ls_oracle_graph_count(void) {
    size_t n = 0;
    while (ls_exact_probe_at(n)) n++;
    return n * N_CONTRACTS;
}

void ls_oracle_graph_name(size_t i, char name[96]) {
    snprintf(name, 96, "exact-oracle.%s.%s", ls_exact_probe_at(i / N_CONTRACTS)->key, ls_contract_name(contracts[i % N_CONTRACTS]));
}

/* ---- The graph ------------------------------------------------------------------------------------------------------ */

/* Executors with static caches want one: an attention over the first columns, whose result nothing reads. */
static ls_code add_cache(ls_exact_build *b, ls_error *e) {
    enum { D = 16 };
    const ls_attention_spec spec = {.heads = 1, .kv_heads = 1, .head_dim = D, .scale = 0.25f};
    int q, k, v, unused;
    LS_TRY(ls_add_slice(b->g, &q, b->x, 0, D, "cache.q", e));
    LS_TRY(ls_add_slice(b->g, &k, b->x, D, D, "cache.k", e));
    LS_TRY(ls_add_slice(b->g, &v, b->x, 2 * D, D, "cache.v", e));
    return ls_add_attention(b->g, &unused, q, k, v, &spec, "cache", e);
}

/* The fixture's rows as the value b->x: values beyond what a weight may be are products of three. */
static ls_code add_fixture(ls_exact_build *b, int64_t cols, ls_error *e) {
    const ls_param *table;
    int both, x, y;
    LS_TRY(ls_exact_fixture(b, &table, cols, e));
    LS_TRY(ls_add_embed(b->g, &both, table, 1.0f, "table", e));
    LS_TRY(ls_add_slice(b->g, &x, both, 0, cols, "table.x", e));
    LS_TRY(ls_add_slice(b->g, &y, both, cols, cols, "table.y", e));
    LS_TRY(ls_add_mul(b->g, &x, x, y, "table.xy", e));
    return ls_add_mul(b->g, &b->x, x, y, "table.xyy", e);
}

static ls_code add_embedding(ls_exact_build *b, const ls_exact_probe *p, ls_error *e) {
    const ls_param *table;
    LS_TRY(ls_exact_table(b, &table, p->format, p->cols, e));
    return ls_add_embed(b->g, &b->x, table, p->table_scale > 0 ? p->table_scale : 1.0f, "embed", e);
}

/* The fixture's values as rows from outside, infinities left out: those are refused. */
static ls_code make_rows(ls_exact_build *b, ls_error *e) {
    const ls_param *table;
    int64_t cols = b->probe->cols, n = (int64_t)b->probe->grid * b->probe->grid;
    LS_TRY(ls_exact_fixture(b, &table, cols, e));
    LS_TRY(ls_arena_alloc(b->a, &b->rows, (size_t)(n * cols), sizeof *b->rows, e));
    for (int64_t i = 0; i < n * cols; i++) {
        const float *row = (const float *)table->tensor->data + i / cols % LS_EXACT_VOCAB * 2 * cols;
        float value = row[i % cols] * row[cols + i % cols] * row[cols + i % cols];
        b->rows[i] = isfinite(value) ? value : 1.0f;
    }
    return LS_OK;
}

static ls_code build_image(ls_exact_build *b, ls_contract contract, ls_error *e) {
    const ls_exact_probe *p = b->probe;
    LS_TRY(ls_graph_create(&b->g, contract, e));
    LS_TRY(make_rows(b, e));
    LS_TRY(ls_add_input(b->g, &b->x, p->cols, "rows", e));
    int value = b->x;
    LS_TRY(p->add(b, &value, e));
    LS_TRY(ls_add_avg_pool(b->g, &value, value, p->grid, p->pool ? p->pool : 1, "pool", e));
    b->g->hidden = p->cols;
    b->g->vocab = b->g->nodes[value].cols;
    b->g->max_context = b->g->image_rows;
    b->g->architecture = "oracle";
    return LS_OK;
}

static ls_code build(ls_exact_build *b, ls_contract contract, ls_error *e) {
    const ls_exact_probe *p = b->probe;
    if (p->grid) return build_image(b, contract, e);
    LS_TRY(ls_graph_create(&b->g, contract, e));
    if (!strcmp(p->op, "embed")) LS_TRY(add_embedding(b, p, e));
    else LS_TRY(add_fixture(b, p->cols, e));
    if (strcmp(p->op, "attention")) LS_TRY(add_cache(b, e));
    int value = b->x;
    LS_TRY(p->add(b, &value, e));
    LS_TRY(ls_add_select_rows(b->g, &value, value, "logits", e));
    b->g->hidden = p->cols;
    b->g->vocab = b->g->nodes[value].cols;
    b->g->max_context = LS_EXACT_VOCAB;
    b->g->architecture = "oracle";
    return LS_OK;
}

/* ---- One side ------------------------------------------------------------------------------------------------------- */

typedef struct side {
    const ls_exact_probe *probe;
    const ls_graph *g;
    ls_oracle_create create;
    void *user;
    const float *rows; /* of the image */
} side;

static int first_rows(const ls_exact_probe *p) { return p->grid ? p->grid * p->grid : p->rows ? p->rows : LS_EXACT_ROWS; }
static int single_rows(const ls_exact_probe *p) { return p->grid ? 0 : LS_EXACT_SINGLE_ROWS; }

static ls_code create_reference(void *user, ls_executor **out, const ls_graph *g, const ls_executor_options *o, ls_error *e) {
    (void)user;
    return ls_reference_create(out, g, o, e);
}

/* One pass of rows [begin, begin + n) of the token sequence; every |step|-th row's logits. */
static ls_code pass(const side *s, ls_executor *x, int begin, int n, int step, float *logits, int *n_out, ls_error *e) {
    int32_t token[LS_EXACT_LONG_ROWS], slot[LS_EXACT_LONG_ROWS] = {0}, out_row[LS_EXACT_LONG_ROWS];
    *n_out = 0;
    for (int i = 0; i < n; i++) token[i] = (int32_t)((begin + i) % s->g->vocab);
    for (int i = 0; i < n; i += step) out_row[(*n_out)++] = i;
    const ls_batch batch = {.n_rows = n, .token = token, .slot = slot, .n_out = *n_out, .out_row = out_row};
    return x->forward(x, &batch, logits, e);
}

/* One pass of an image. */
static ls_code run_image(const side *s, ls_oracle_output *out, ls_error *e) {
    int rows = first_rows(s->probe);
    const ls_executor_options o = {.max_seqs = 1, .context = rows, .max_rows = rows};
    ls_executor *x = NULL;
    int32_t *slot = NULL;
    const float **row = NULL;
    out->rank = 2;
    out->dim[0] = s->g->image_out;
    out->dim[1] = s->g->vocab;
    out->n = (size_t)(s->g->image_out * s->g->vocab);
    ls_code rc;
    LS_GOTO(ls_calloc(&out->values, out->n, sizeof *out->values, "oracle output", e));
    LS_GOTO(ls_calloc(&slot, (size_t)rows, sizeof *slot, "oracle rows", e));
    LS_GOTO(ls_calloc(&row, (size_t)rows, sizeof(const float *), "oracle rows", e));
    for (int i = 0; i < rows; i++) row[i] = s->rows + (int64_t)i * s->g->input_cols;
    LS_GOTO(s->create(s->user, &x, s->g, &o, e));
    const ls_batch batch = {.n_rows = rows, .slot = slot, .n_out = (int)s->g->image_out, .embedding = row};
    rc = x->forward(x, &batch, out->values, e);
out:
    if (x) x->destroy(x);
    ls_free(slot);
    ls_free(row);
    return rc;
}

/* A first pass of many rows, then passes of one: prefill and decode. */
static ls_code run_side(const ls_oracle_case *c, void *user, ls_oracle_output *out, ls_error *e) {
    (void)c;
    const side *s = user;
    if (s->probe->grid) return run_image(s, out, e);
    int rows = first_rows(s->probe), step = s->probe->every_other ? 2 : 1, done, total = 0;
    int64_t cols = s->g->vocab;
    const ls_executor_options o = {.max_seqs = 1, .context = LS_EXACT_VOCAB, .max_rows = rows};
    ls_executor *x = NULL;
    ls_code rc = LS_OK;
    LS_GOTO(ls_calloc(&out->values, (size_t)(rows + LS_EXACT_SINGLE_ROWS) * (size_t)cols, sizeof *out->values, "oracle output", e));
    LS_GOTO(s->create(s->user, &x, s->g, &o, e));
    LS_GOTO(pass(s, x, 0, rows, step, out->values, &total, e));
    for (int i = 0; i < LS_EXACT_SINGLE_ROWS; i++) {
        LS_GOTO(pass(s, x, rows + i, 1, 1, out->values + total * cols, &done, e));
        total += done;
    }
    out->rank = 2;
    out->dim[0] = total;
    out->dim[1] = cols;
    out->n = (size_t)(total * cols);
out:
    if (x) x->destroy(x);
    return rc;
}

/* ---- The report ----------------------------------------------------------------------------------------------------- */

typedef struct graph_texts {
    ls_str contract, graph, config;
    char name[96], fingerprint[17], graph_sha[65];
} graph_texts;

static ls_code fill_contract(const ls_exact_probe *p, ls_contract contract, graph_texts *t, ls_oracle_case *c, ls_error *e) {
    const ls_operator_contract record = {.id = t->name, .contract = contract, .op = p->op};
    LS_TRY(ls_operator_contracts_text(&record, 1, &t->contract, e));
    c->claim = LS_CLAIM_EXACT_CONTRACT;
    c->operation = t->name;
    c->contract = t->contract.data;
    c->contract_len = t->contract.len;
    return LS_OK;
}

static ls_code fill_backends(const ls_exact_probe *p, ls_contract contract, const ls_oracle_target *target, graph_texts *t, ls_oracle_case *c, ls_arena *a,
                             ls_error *e) {
    const char *fixed;
    LS_TRY(ls_arena_printf(a, &fixed, e, "%s version %d: every kernel gives these bits", ls_contract_name(contract), LS_CONTRACT_VERSION));
    c->reference = (ls_oracle_backend){.runtime = "lockstep-reference", .revision = LS_VERSION_STRING, .compiler = "c17", .flags = {"-ffp-contract=off"},
                                       .n_flags = 1,
                                       .target = ls_oracle_host_arch(), .device = "host-cpu"};
    LS_TRY(ls_oracle_candidate(&c->candidate, target->identity, a, e));
    LS_TRY(ls_arena_printf(a, &c->reference.patch, e, "contracts-version-%d", LS_CONTRACT_VERSION));
    LS_TRY(ls_arena_printf(a, &c->reference.artifact_fingerprint, e, "graph-%s", t->graph_sha));
    LS_TRY(ls_str_printf(&t->config, e, "graph=%s;rows=%d;single-rows=%d", t->graph_sha, first_rows(p), single_rows(p)));
    const ls_oracle_artifact artifact = {t->name, t->config.data, t->contract.data, t->contract.len, t->graph.data, t->graph.len};
    LS_TRY(ls_oracle_fingerprint(&artifact, c, target->identity, t->fingerprint, e));
    c->candidate.artifact_fingerprint = t->fingerprint;
    for (int i = 0; i < 2; i++) {
        ls_oracle_backend *b = i ? &c->candidate : &c->reference;
        b->precision = "tf32=off; integers and the float steps of the contract";
        b->status = LS_ALGORITHM_FIXED_BY_CONTRACT;
        b->algorithm = fixed;
    }
    return LS_OK;
}

ls_code ls_oracle_graph_report(size_t i, const ls_oracle_target *target, json_t **report, ls_error *e) {
    const ls_exact_probe *p = ls_exact_probe_at(i / N_CONTRACTS);
    ls_contract contract = contracts[i % N_CONTRACTS];
    ls_oracle_case c = {0};
    graph_texts t = {0};
    ls_exact_build b = {.probe = p, .c = &c, .seed = 7};
    side reference = {.probe = p, .create = create_reference}, candidate = {.probe = p, .create = target->create, .user = target->create_user};
    ls_code rc = LS_OK;
    *report = NULL;
    ls_oracle_graph_name(i, t.name);
    LS_GOTO(ls_arena_create(&b.a, e));
    LS_GOTO(build(&b, contract, e));
    LS_GOTO(ls_graph_serialize(b.g, &t.graph, e));
    LS_GOTO(ls_graph_fingerprint(b.g, t.graph_sha, e));
    LS_GOTO(fill_contract(p, contract, &t, &c, e));
    LS_GOTO(fill_backends(p, contract, target, &t, &c, b.a, e));
    reference.g = candidate.g = b.g;
    reference.rows = candidate.rows = b.rows;
    c.run_reference = c.run_candidate = run_side;
    c.reference_user = &reference;
    c.candidate_user = &candidate;
    rc = ls_oracle_report(&c, report, e);
out:
    ls_graph_destroy(b.g);
    ls_str_deinit(&t.contract);
    ls_str_deinit(&t.graph);
    ls_str_deinit(&t.config);
    ls_arena_destroy(b.a);
    return rc;
}
