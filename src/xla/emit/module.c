/* Modules: arguments and results of each entry around the lowered nodes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "contract/exact.h"
#include "xla/emit/lower.h"
#include "xla/emit/schedule.h"

/* ---- Names -------------------------------------------------------------------------------------------------------------- */

static const char *const entry_names[LS_ENTRY_COUNT] = {"prefill", "prefill_embeddings", "decode", "decode_ragged", "extend", "extend_embeddings",
                                                           "vision"};
static const char *const precision_names[] = {"f32", "f16", "bf16"};

const char *ls_entry_name(ls_entry e) { return (unsigned)e < LS_ENTRY_COUNT ? entry_names[e] : "unknown"; }
const char *ls_precision_name(ls_precision p) { return (unsigned)p < 3 ? precision_names[p] : "unknown"; }

ls_code ls_entry_parse(const char *name, ls_entry *out, ls_error *e) {
    for (int i = 0; i < LS_ENTRY_COUNT; i++)
        if (!strcmp(name, entry_names[i])) {
            *out = (ls_entry)i;
            return LS_OK;
        }
    if (!strcmp(name, "prefill_embeddings_deepstack") || !strcmp(name, "prefill_embeddings_ple"))
        LS_FAIL(e, LS_UNIMPLEMENTED, "entry \"%s\" is reserved: its arguments are fixed (docs/xla.md), but no family here needs it", name);
    LS_FAIL(e, LS_INVALID_ARGUMENT, "entry \"%.80s\" is unknown; use prefill, prefill_embeddings, decode, decode_ragged, extend, extend_embeddings or vision",
            name);
}

ls_code ls_precision_parse(const char *name, ls_precision *out, ls_error *e) {
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, precision_names[i])) {
            *out = (ls_precision)i;
            return LS_OK;
        }
    LS_FAIL(e, LS_INVALID_ARGUMENT, "precision \"%.80s\" is unknown; use f32, f16 or bf16", name);
}

/* ---- Arguments ------------------------------------------------------------------------------------------------------------ */

static const char *role_name(ls_weight_role r) {
    static const char *const names[] = {"rows", "matrix", "vector", "integers", "scales", "mins", "powers", "cos", "sin", "packed", "packed_scales",
                                        "packed_biases"};
    return names[r];
}

static ls_code make_key(ls_lower *l, ls_emit_weight *w) {
    char type[128] = "";
    size_t n = 0;
    for (int i = 0; i < w->type.rank; i++) n += (size_t)snprintf(type + n, sizeof type - n, "%" PRId64 "x", w->type.dim[i]);
    snprintf(type + n, sizeof type - n, "%s", ls_dtype_name(w->type.dtype));
    uint32_t offset;
    memcpy(&offset, &w->offset, sizeof offset);
    return ls_arena_printf(l->out->arena, &w->key, l->m.e, "%s:%s:%s:%s:+%" PRIx64 ":x%d:rope%d:%08" PRIx32 ":digit%d/%d/%d:%" PRId64 "/%" PRId64, w->name,
                           role_name(w->role), ls_contract_name(w->contract), type, w->param ? (uint64_t)w->param->row_begin : 0, w->n_params, w->rope, offset,
                           w->digit, w->digits, w->digit_bits, w->group, w->sub);
}

ls_val ls_lower_weight(ls_lower *l, ls_emit_weight w) {
    ls_emit_module *o = l->out;
    if (!l->m.rc) l->m.rc = make_key(l, &w);
    if (l->m.rc) return (ls_val){0};
    for (size_t i = 0; i < o->n_weights; i++)
        if (!strcmp(o->weight[i].key, w.key)) return (ls_val){'w', (int)i, w.type};
    l->m.rc = ls_grow(&o->weight, o->n_weights, &o->cap_weights, sizeof *o->weight, 1 << 20, "weight arguments", l->m.e);
    if (l->m.rc) return (ls_val){0};
    o->weight[o->n_weights++] = w;
    return (ls_val){'w', (int)o->n_weights - 1, w.type};
}

enum { MAX_INPUTS = 12 };

static ls_val input(ls_lower *l, ls_tensor_type t) {
    ls_emit_module *o = l->out;
    o->input[o->n_inputs++] = t;
    return (ls_val){'a', (int)o->n_inputs - 1, t};
}

/* ---- The text around the body ------------------------------------------------------------------------------------------------ */

typedef struct results {
    ls_val *v;
    size_t n;
} results;

/* Index of the result that argument |v| is donated to, or -1. */
typedef struct donation {
    int input, result;
} donation;

static ls_code write_arguments(ls_lower *l, const donation *d, int n_donations, ls_str *s, ls_error *e) {
    const ls_emit_module *o = l->out;
    for (size_t i = 0; i < o->n_weights; i++) {
        LS_TRY(ls_str_printf(s, e, "%s\n      %%w%zu: ", i ? "," : "", i));
        LS_TRY(ls_mlir_type(s, &o->weight[i].type, e));
        if (l->m.named) LS_TRY(ls_str_printf(s, e, " loc(\"%s\")", o->weight[i].name));
    }
    for (size_t i = 0; i < o->n_inputs; i++) {
        LS_TRY(ls_str_printf(s, e, "%s\n      %%a%zu: ", i || o->n_weights ? "," : "", i));
        LS_TRY(ls_mlir_type(s, &o->input[i], e));
        for (int j = 0; j < n_donations; j++)
            if (d[j].input == (int)i) LS_TRY(ls_str_printf(s, e, " {tf.aliasing_output = %d : i32}", d[j].result));
    }
    return LS_OK;
}

static ls_code write_types(const results *r, ls_str *s, ls_error *e) {
    for (size_t i = 0; i < r->n; i++) {
        if (i) LS_TRY(ls_str_append(s, ", ", 2, e));
        LS_TRY(ls_mlir_type(s, &r->v[i].t, e));
    }
    return LS_OK;
}

static ls_code write_text(ls_lower *l, const char *name, const ls_str *body, const results *r, const donation *d, int n_donations, ls_error *e) {
    ls_str *s = &l->out->text;
    LS_TRY(ls_str_printf(s, e, "module @%s {\n  func.func public @main(", name));
    LS_TRY(write_arguments(l, d, n_donations, s, e));
    LS_TRY(ls_str_append(s, ") -> (", 6, e));
    LS_TRY(write_types(r, s, e));
    LS_TRY(ls_str_append(s, ") {\n", 4, e));
    if (body->len) LS_TRY(ls_str_append(s, body->data, body->len, e));
    LS_TRY(ls_str_append(s, "    return ", 11, e));
    for (size_t i = 0; i < r->n; i++) {
        char value[24];
        ls_val_name(&r->v[i], value);
        LS_TRY(ls_str_printf(s, e, "%s%s", i ? ", " : "", value));
    }
    LS_TRY(ls_str_append(s, " : ", 3, e));
    LS_TRY(write_types(r, s, e));
    return ls_str_append(s, "\n  }\n}\n", 7, e);
}

/* Nodes in the graph's order, then the results. */
static ls_code roots_of(const ls_lower *l, const results *r, ls_val **root, size_t *n, ls_error *e) {
    *n = l->g->n_nodes + r->n;
    LS_TRY(ls_arena_alloc(l->out->arena, root, *n, sizeof **root, e));
    memcpy(*root, l->value, l->g->n_nodes * sizeof **root);
    memcpy(*root + l->g->n_nodes, r->v, r->n * sizeof **root);
    return LS_OK;
}

/* Weights by first use in the text. */
static ls_code order_weights(ls_emit_module *o, const ls_schedule *s, ls_error *e) {
    ls_emit_weight *was;
    LS_TRY(ls_arena_alloc(o->arena, &was, o->n_weights + 1, sizeof *was, e));
    if (o->n_weights) memcpy(was, o->weight, o->n_weights * sizeof *was);
    for (size_t i = 0; i < o->n_weights; i++)
        if (s->weight[i] >= 0) o->weight[s->weight[i]] = was[i];
    o->n_weights = (size_t)s->n_weights;
    return LS_OK;
}

static ls_code write_module(ls_lower *l, const char *name, results *r, const donation *d, int n_donations, ls_error *e) {
    ls_schedule s = {.n_results = 0};
    ls_val *root;
    size_t n_roots;
    LS_TRY(roots_of(l, r, &root, &n_roots, e));
    ls_code rc = ls_schedule_body(&s, l->out->arena, &l->m, l->out->n_weights, root, n_roots, e);
    if (!rc) rc = order_weights(l->out, &s, e);
    for (size_t i = 0; !rc && i < r->n; i++) {
        if (r->v[i].kind == 'v') r->v[i].id = s.result[r->v[i].id];
        if (r->v[i].kind == 'w') r->v[i].id = s.weight[r->v[i].id];
    }
    if (!rc) rc = write_text(l, name, &s.text, r, d, n_donations, e);
    ls_str_deinit(&s.text);
    return rc;
}

static ls_code keep_result_types(ls_emit_module *o, const results *r, ls_error *e) {
    LS_TRY(ls_arena_alloc(o->arena, &o->result, r->n, sizeof *o->result, e));
    for (size_t i = 0; i < r->n; i++) o->result[i] = r->v[i].t;
    o->n_results = r->n;
    return LS_OK;
}

/* ---- Inputs of each entry ------------------------------------------------------------------------------------------------------ */

static bool is_extend(ls_entry e) { return e == LS_ENTRY_EXTEND || e == LS_ENTRY_EXTEND_EMBEDDINGS; }

static ls_tensor_type int_scalar(void) { return (ls_tensor_type){.dtype = LS_DT_I32}; }

/* The attention nodes' common cache shape; UNIMPLEMENTED when layers differ. */
static ls_code cache_shape(const ls_graph *g, int64_t *kv, int64_t *d, ls_error *e) {
    *kv = *d = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ls_node *n = &g->nodes[i];
        if (n->op != LS_OP_ATTENTION) continue;
        if (*d && (*kv != n->kv_heads || *d != n->head_dim))
            LS_FAIL(e, LS_UNIMPLEMENTED, "node \"%s\" keeps %d heads of %d columns, earlier layers %lld of %lld; the XLA backend stacks equal layers only",
                    n->name, n->kv_heads,
                    n->head_dim, (long long)*kv, (long long)*d);
        *kv = n->kv_heads;
        *d = n->head_dim;
    }
    if (!*d) LS_FAIL(e, LS_UNIMPLEMENTED, "the graph has no attention; there is nothing to cache");
    return LS_OK;
}

static int64_t rounded_keys(int64_t n) { return (n + LS_EXACT_KEY_RANGE - 1) / LS_EXACT_KEY_RANGE * LS_EXACT_KEY_RANGE; }

/* i32 [Bq, T] from the first place of each sequence, i32 [Bq]. */
static ls_val places(ls_lower *l, ls_val first) {
    ls_tensor_type t = LS_TYPE(LS_DT_I32, l->sequences, l->rows);
    return ls_m_binary(&l->m, "add", LS_BROADCAST(&l->m, first, t, 0), ls_m_iota(&l->m, t, 1));
}

static void vision_inputs(ls_lower *l) {
    l->sequences = 1;
    l->rows = l->whole = l->g->image_rows;
    l->keys = rounded_keys(l->whole);
    l->embeddings = input(l, LS_TYPE(LS_DT_F32, l->rows, l->g->input_cols));
}

static void prefill_inputs(ls_lower *l) {
    const ls_emit_options *o = l->o;
    ls_mlir *m = &l->m;
    l->sequences = 1;
    l->rows = o->rows;
    l->keys = rounded_keys(o->rows);
    if (o->entry == LS_ENTRY_PREFILL) l->token = input(l, LS_TYPE(LS_DT_I32, o->rows));
    else l->embeddings = input(l, LS_TYPE(LS_DT_F32, o->rows, l->g->hidden));
    l->position = input(l, LS_TYPE(LS_DT_I32, o->rows));
    ls_val real_len = input(l, int_scalar());
    if (o->entry == LS_ENTRY_PREFILL_EMBEDDINGS) l->bias = input(l, LS_TYPE(LS_DT_F32, o->rows, o->rows));
    l->index = places(l, ls_m_int(m, LS_TYPE(LS_DT_I32, 1), 0));
    l->out_row = LS_RESHAPE(m, ls_m_with_int(m, "subtract", real_len, 1), 1);
}

static void decode_inputs(ls_lower *l, int64_t kv, int64_t d) {
    const ls_emit_options *o = l->o;
    ls_mlir *m = &l->m;
    bool ragged = o->entry == LS_ENTRY_DECODE_RAGGED;
    int64_t b = ragged ? o->rows : 1, layers = l->g->n_caches;
    ls_tensor_type id = ragged ? LS_TYPE(LS_DT_I32, b) : int_scalar();
    l->sequences = b;
    l->rows = 1;
    l->keys = o->capacity;
    l->token = LS_RESHAPE(m, input(l, id), b);
    l->position = LS_RESHAPE(m, input(l, id), b);
    l->index = places(l, LS_RESHAPE(m, input(l, id), b));
    ls_tensor_type cache = ragged ? LS_TYPE(LS_DT_F32, b, layers, o->capacity, kv, d) : LS_TYPE(LS_DT_F32, layers, o->capacity, kv, d);
    l->kcache = LS_RESHAPE(m, input(l, cache), b, layers, o->capacity, kv, d);
    l->vcache = LS_RESHAPE(m, input(l, cache), b, layers, o->capacity, kv, d);
}

static void embedding_inputs(ls_lower *l) {
    l->embeddings = input(l, LS_TYPE(LS_DT_F32, l->rows, l->g->hidden));
    l->given = input(l, LS_TYPE(LS_DT_I32, l->rows));
}

static void block_inputs(ls_lower *l) {
    l->begin = input(l, LS_TYPE(LS_DT_I32, l->rows));
    l->end = input(l, LS_TYPE(LS_DT_I32, l->rows));
}

static void extend_inputs(ls_lower *l, int64_t kv, int64_t d) {
    const ls_emit_options *o = l->o;
    ls_mlir *m = &l->m;
    l->sequences = 1;
    l->rows = o->rows;
    l->keys = o->capacity;
    l->token = input(l, LS_TYPE(LS_DT_I32, o->rows));
    l->slot = input(l, int_scalar());
    l->index = places(l, LS_RESHAPE(m, input(l, int_scalar()), 1));
    l->position = LS_RESHAPE(m, l->index, o->rows);
    l->out_row = input(l, LS_TYPE(LS_DT_I32, o->out_rows));
    if (o->entry == LS_ENTRY_EXTEND_EMBEDDINGS) {
        embedding_inputs(l);
        block_inputs(l);
    }
    ls_tensor_type cache = LS_TYPE(LS_DT_F32, o->sequences, l->g->n_caches, o->capacity, kv, d);
    l->kcache = input(l, cache);
    l->vcache = input(l, cache);
}

/* ---- Results ---------------------------------------------------------------------------------------------------------------------- */

/* The lowest index of the largest value of each row: i32 [rows]. */
static ls_val argmax(ls_lower *l, ls_val x) {
    ls_mlir *m = &l->m;
    ls_val max = ls_m_along_last(m, ls_m_reduce(m, "maximum", x, 1), x.t);
    ls_tensor_type t = LS_TYPE(LS_DT_I32, x.t.dim[0], x.t.dim[1]);
    ls_val place = ls_m_select(m, ls_m_compare(m, "EQ", x, max), ls_m_iota(m, t, 1), ls_m_int(m, t, INT32_MAX));
    ls_val lowest = ls_m_reduce(m, "maximum", ls_m_unary(m, "stablehlo.negate", place), 1);
    return ls_m_unary(m, "stablehlo.negate", lowest);
}

static ls_val logits_result(ls_lower *l) {
    ls_val y = l->value[l->g->n_nodes - 1];
    ls_entry e = l->o->entry;
    if (l->o->argmax) y = argmax(l, y);
    if (e == LS_ENTRY_DECODE_RAGGED || e == LS_ENTRY_VISION || is_extend(e)) return y;
    return ls_m_reshape(&l->m, y, y.t.rank - 1, y.t.dim + 1); /* the one row */
}

/* A prefill's caches: its rows, then zeros up to the capacity, layer after layer. */
static ls_val stacked(ls_lower *l, const ls_val *layer) {
    ls_mlir *m = &l->m;
    int n = l->g->n_caches;
    ls_val *all = NULL;
    if (!m->rc) m->rc = ls_arena_alloc(l->out->arena, &all, (size_t)n, sizeof *all, m->e);
    for (int i = 0; i < n && !m->rc; i++) all[i] = ls_m_pad_end(m, layer[i], 1, l->o->capacity - l->rows);
    return m->rc ? (ls_val){0} : ls_m_concat(m, all, n, 0);
}

static void cache_results(ls_lower *l, ls_val out[2]) {
    ls_mlir *m = &l->m;
    if (!l->kcache.kind) {
        out[0] = stacked(l, l->layer_k);
        out[1] = stacked(l, l->layer_v);
        return;
    }
    out[0] = l->kcache;
    out[1] = l->vcache;
    if (l->o->entry == LS_ENTRY_DECODE)
        for (int i = 0; i < 2; i++) out[i] = ls_m_reshape(m, out[i], 4, out[i].t.dim + 1);
}

/* ---- Making a module ------------------------------------------------------------------------------------------------------------- */

/* One image for a graph that pools, and no image for any other. */
static ls_code check_vision(const ls_graph *g, const ls_emit_options *o, ls_error *e) {
    if (!g->image_rows) LS_FAIL(e, LS_INVALID_ARGUMENT, "entry vision is for a vision tower; this graph takes tokens");
    if (o->entry != LS_ENTRY_VISION) LS_FAIL(e, LS_INVALID_ARGUMENT, "entry %s is for tokens; a vision tower has the entry vision", ls_entry_name(o->entry));
    if (o->rows < 1 || o->rows > g->image_rows || o->out_rows < 1 || o->out_rows > g->image_out || o->argmax)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "vision of %lld rows to %lld; an image has %lld patches for %lld, and there is no argmax", (long long)o->rows,
                (long long)o->out_rows, (long long)g->image_rows, (long long)g->image_out);
    return LS_OK;
}

static ls_code check_sizes(const ls_emit_options *o, ls_error *e) {
    if (o->capacity < LS_EXACT_KEY_RANGE || o->capacity % LS_EXACT_KEY_RANGE || o->capacity > LS_MAX_CONTEXT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "capacity of %lld positions; it must be a multiple of %d up to %d", (long long)o->capacity, LS_EXACT_KEY_RANGE,
                LS_MAX_CONTEXT);
    if (o->entry != LS_ENTRY_DECODE && (o->rows < 1 || o->rows > LS_MAX_CHUNK))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "%lld rows; allowed are 1 to %d", (long long)o->rows, LS_MAX_CHUNK);
    if (o->entry != LS_ENTRY_DECODE && o->entry != LS_ENTRY_DECODE_RAGGED && o->rows > o->capacity)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "%lld rows do not fit a capacity of %lld positions; raise the capacity", (long long)o->rows, (long long)o->capacity);
    if (is_extend(o->entry) && (o->sequences < 1 || o->sequences > LS_MAX_SLOTS || o->out_rows < 1 || o->out_rows > o->rows || o->argmax))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "extend of %lld sequences with %lld rows of logits; allowed are 1 to %d sequences, 1 to %lld rows, no argmax",
                (long long)o->sequences,
                (long long)o->out_rows, LS_MAX_SLOTS, (long long)o->rows);
    return LS_OK;
}

static ls_code check_options(const ls_graph *g, const ls_emit_options *o, ls_error *e) {
    if (g->image_rows || o->entry == LS_ENTRY_VISION) LS_TRY(check_vision(g, o, e));
    else LS_TRY(check_sizes(o, e));
    if (g->contract != LS_CONTRACT_FLOAT && (o->precision != LS_PRECISION_F32 || o->packed))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "precision and packed weights belong to the float contract; %s decides both itself", ls_contract_name(g->contract));
    return LS_OK;
}

static ls_code begin(ls_lower *l, ls_emit_module *out, const ls_graph *g, const ls_emit_options *o, ls_error *e) {
    *out = (ls_emit_module){0};
    *l = (ls_lower){.m = {.e = e}, .g = g, .o = o, .out = out};
    LS_TRY(ls_arena_create(&out->arena, e));
    LS_TRY(ls_arena_alloc(out->arena, &l->value, g->n_nodes, sizeof *l->value, e));
    LS_TRY(ls_arena_alloc(out->arena, &l->layer_k, (size_t)g->n_caches + 1, sizeof *l->layer_k, e));
    LS_TRY(ls_arena_alloc(out->arena, &l->layer_v, (size_t)g->n_caches + 1, sizeof *l->layer_v, e));
    return ls_arena_alloc(out->arena, &out->input, MAX_INPUTS, sizeof *out->input, e);
}

/* Logits, caches, then captured nodes. */
static ls_code finish(ls_lower *l, ls_error *e) {
    size_t captured = 0;
    for (size_t i = 0; l->o->capture && i < l->g->n_nodes; i++) captured += l->o->capture[i];
    results r = {0};
    LS_TRY(ls_arena_alloc(l->out->arena, &r.v, captured + 3, sizeof *r.v, e));
    l->m.loc = "results";
    r.v[r.n++] = logits_result(l);
    if (!l->whole) {
        cache_results(l, r.v + 1);
        r.n += 2;
    }
    for (size_t i = 0; l->o->capture && i < l->g->n_nodes; i++)
        if (l->o->capture[i]) r.v[r.n++] = l->value[i];
    if (l->m.rc) return l->m.rc;
    int n = (int)l->out->n_inputs;
    donation d[2] = {{n - 2, 1}, {n - 1, 2}};
    LS_TRY(write_module(l, ls_entry_name(l->o->entry), &r, d, l->kcache.kind ? 2 : 0, e));
    return keep_result_types(l->out, &r, e);
}

static ls_code emit(ls_lower *l, ls_error *e) {
    int64_t kv = 0, d = 0;
    if (!l->g->image_rows) LS_TRY(cache_shape(l->g, &kv, &d, e));
    l->m.named = true;
    l->m.loc = "inputs";
    if (l->o->entry == LS_ENTRY_VISION) vision_inputs(l);
    else if (is_extend(l->o->entry)) extend_inputs(l, kv, d);
    else if (l->o->entry == LS_ENTRY_DECODE || l->o->entry == LS_ENTRY_DECODE_RAGGED) decode_inputs(l, kv, d);
    else prefill_inputs(l);
    for (size_t i = 0; i < l->g->n_nodes && !l->m.rc; i++) ls_lower_node(l, (int)i);
    if (l->m.rc) return l->m.rc;
    return finish(l, e);
}

ls_code ls_emit_entry(ls_emit_module *out, const ls_graph *g, const ls_emit_options *o, ls_error *e) {
    ls_lower l;
    LS_TRY(check_options(g, o, e));
    if (o->packed) LS_TRY(ls_emit_check_packed(g, e));
    ls_code rc = begin(&l, out, g, o, e);
    if (!rc) rc = emit(&l, e);
    ls_mlir_deinit(&l.m);
    if (rc) ls_emit_module_deinit(out);
    return rc;
}

/* ---- One node ---------------------------------------------------------------------------------------------------------------------- */

static int64_t rows_of(const ls_graph *g, int node, const ls_emit_options *o) { return g->nodes[node].selected ? o->out_rows : o->rows; }

/* Rows of a piece of an image, and all rows for what looks at them all. */
static void image_node_inputs(ls_lower *l, const ls_node *n) {
    const ls_emit_options *o = l->o;
    l->sequences = 1;
    l->rows = n->op == LS_OP_AVG_POOL ? l->g->image_rows : o->rows;
    l->whole = l->g->image_rows;
    l->keys = rounded_keys(l->whole);
    if (n->op == LS_OP_INPUT) l->embeddings = input(l, LS_TYPE(LS_DT_F32, o->rows, n->cols));
    for (int i = 0; i < n->n_in; i++) {
        const ls_node *from = &l->g->nodes[n->in[i]];
        bool all = n->op == LS_OP_AVG_POOL || (n->op == LS_OP_ATTENTION && i);
        l->operand[i] = input(l, LS_TYPE(LS_DT_F32, all ? l->whole : from->selected ? o->out_rows : o->rows, from->cols));
    }
    if (n->op == LS_OP_ADD_POSITION || (n->op == LS_OP_ATTENTION && !n->bidirectional)) l->position = input(l, LS_TYPE(LS_DT_I32, o->rows));
}

static void node_inputs(ls_lower *l, const ls_node *n) {
    const ls_emit_options *o = l->o;
    ls_mlir *m = &l->m;
    l->sequences = 1;
    l->rows = o->rows;
    l->keys = o->capacity;
    for (int i = 0; i < n->n_in; i++)
        if (!l->value[n->in[i]].kind) l->value[n->in[i]] = input(l, LS_TYPE(LS_DT_F32, rows_of(l->g, n->in[i], o), l->g->nodes[n->in[i]].cols));
    bool given = o->entry == LS_ENTRY_EXTEND_EMBEDDINGS;
    if (n->op == LS_OP_EMBED) l->token = input(l, LS_TYPE(LS_DT_I32, o->rows));
    if (n->op == LS_OP_EMBED && given) embedding_inputs(l);
    if (n->op == LS_OP_ROPE) l->position = input(l, LS_TYPE(LS_DT_I32, o->rows));
    if (n->op == LS_OP_SELECT_ROWS) l->out_row = input(l, LS_TYPE(LS_DT_I32, o->out_rows));
    if (n->op != LS_OP_ATTENTION) return;
    l->slot = input(l, int_scalar());
    l->index = places(l, LS_RESHAPE(m, input(l, int_scalar()), 1));
    if (given) block_inputs(l);
    ls_tensor_type cache = LS_TYPE(LS_DT_F32, o->sequences, 1, o->capacity, n->kv_heads, n->head_dim);
    l->kcache = input(l, cache);
    l->vcache = input(l, cache);
}

static ls_code emit_node(ls_lower *l, int node, ls_error *e) {
    const ls_node *n = &l->g->nodes[node];
    if (l->g->image_rows) image_node_inputs(l, n);
    else node_inputs(l, n);
    ls_lower_node(l, node);
    if (l->m.rc) return l->m.rc;
    ls_val v[3] = {l->value[node], l->kcache, l->vcache};
    results r = {v, l->kcache.kind ? 3 : 1};
    int inputs = (int)l->out->n_inputs;
    donation d[2] = {{inputs - 2, 1}, {inputs - 1, 2}};
    LS_TRY(write_module(l, "node", &r, d, l->kcache.kind ? 2 : 0, e));
    return keep_result_types(l->out, &r, e);
}

ls_code ls_emit_node_module(ls_emit_module *out, const ls_graph *g, int node, const ls_emit_options *o, ls_error *e) {
    ls_lower l;
    LS_TRY(check_options(g, o, e));
    ls_code rc = begin(&l, out, g, o, e);
    if (!rc) rc = emit_node(&l, node, e);
    ls_mlir_deinit(&l.m);
    if (rc) ls_emit_module_deinit(out);
    return rc;
}

/* ---- A block of the caches ------------------------------------------------------------------------------------------------------- */

/* The places of the block as they are in |cache|, or |cache| with those of |block| [2, L, S, kv, d], whose half |i| is this cache's. */
static ls_val copied(ls_lower *l, ls_val cache, ls_val block, int64_t i, const ls_val start[5]) {
    ls_mlir *m = &l->m;
    const int64_t size[] = {1, cache.t.dim[1], l->o->rows, cache.t.dim[3], cache.t.dim[4]};
    if (!block.kind) return ls_m_dynamic_slice(m, cache, start, size);
    return ls_m_dynamic_update(m, cache, ls_m_slice(m, block, 0, i, i + 1), start);
}

static ls_code emit_block(ls_lower *l, bool write, ls_error *e) {
    int64_t kv = 0, d = 0, layers = l->g->n_caches;
    const ls_emit_options *o = l->o;
    LS_TRY(cache_shape(l->g, &kv, &d, e));
    ls_tensor_type cache = LS_TYPE(LS_DT_F32, o->sequences, layers, o->capacity, kv, d);
    ls_val slot = input(l, int_scalar()), place = input(l, int_scalar()), block = {0}, zero = ls_m_int(&l->m, int_scalar(), 0);
    if (write) block = input(l, LS_TYPE(LS_DT_F32, 2, layers, o->rows, kv, d));
    const ls_val start[] = {slot, zero, place, zero, zero};
    ls_val k = input(l, cache), v = input(l, cache);
    ls_val part[2] = {copied(l, k, block, 0, start), copied(l, v, block, 1, start)};
    if (!write) part[0] = ls_m_concat(&l->m, part, 2, 0);
    if (l->m.rc) return l->m.rc;
    results r = {part, write ? 2 : 1};
    donation given[2] = {{3, 0}, {4, 1}};
    LS_TRY(write_module(l, write ? "write_block" : "read_block", &r, given, write ? 2 : 0, e));
    return keep_result_types(l->out, &r, e);
}

ls_code ls_emit_block_module(ls_emit_module *out, const ls_graph *g, bool write, const ls_emit_options *o, ls_error *e) {
    ls_lower l;
    const ls_emit_options shape = {.entry = LS_ENTRY_EXTEND, .rows = o->rows, .capacity = o->capacity, .sequences = o->sequences, .out_rows = 1};
    LS_TRY(check_options(g, &shape, e));
    ls_code rc = begin(&l, out, g, &shape, e);
    if (!rc) rc = emit_block(&l, write, e);
    ls_mlir_deinit(&l.m);
    if (rc) ls_emit_module_deinit(out);
    return rc;
}

void ls_emit_module_deinit(ls_emit_module *m) {
    ls_str_deinit(&m->text);
    ls_free(m->weight);
    ls_arena_destroy(m->arena);
    *m = (ls_emit_module){0};
}
