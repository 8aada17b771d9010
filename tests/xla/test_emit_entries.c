/* Entries that the executor does not use, on a PJRT CPU plugin: a prefill whose caches feed decode steps, ragged decoding of
 * sequences of different lengths, embeddings under a mask. Logits equal the native executor's bit for bit under the exact
 * contracts. Models are fixtures cut to their first layers. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "emit_engine.h"
#include "graph/executor.h"
#include "models/model.h"
#include "reference/small_graph.h"

enum { MAX_VOCAB = 256, MAX_TOKENS = 512, SLOTS = 8 };

/* ---- Cut models ------------------------------------------------------------------------------------------------------------- */

typedef struct model {
    const char *name;
    ls_checkpoint *checkpoint;
    ls_graph *graph;
    ls_executor *native;
    size_t plane; /* kv_heads * head_dim of a cache's position */
    int64_t capacity;
    float *embedded; /* [tokens, hidden] of the last native pass */
} model;

static int32_t tokens[MAX_TOKENS], positions[MAX_TOKENS];

/* The weights of |from| with the layers from |layers| on under another name, "model.unused": nothing may be left of layers that the configuration lacks. */
static void write_weights(const char *from, const char *to, int layers) {
    static const char layer[] = "model.layers.";
    ls_error e = {0};
    ls_str s = {0};
    assert_ok(ls_file_read(&s, from, 1 << 24, &e));
    uint64_t header = 0;
    for (int i = 0; i < 8; i++) header |= (uint64_t)(uint8_t)s.data[i] << 8 * i;
    char *end = s.data + 8 + header;
    for (char *p = s.data + 8; (p = memmem(p, (size_t)(end - p), layer, strlen(layer))); p += strlen(layer))
        if (atoi(p + strlen(layer)) >= layers) memcpy(p, "model.unused.", strlen(layer));
    FILE *f = fopen(to, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(s.data, 1, s.len, f), s.len);
    assert_int_equal(fclose(f), 0);
    ls_str_deinit(&s);
}

/* A fixture with its first |layers| layers in |folder|. */
static void write_cut(const char *name, int layers, char folder[40]) {
    char path[300], weights[300];
    json_error_t error;
    snprintf(folder, 40, "/tmp/ls_emit_XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/models/%s/config.json", LS_FIXTURES, name);
    json_t *c = json_load_file(path, 0, &error), *types;
    assert_non_null(c);
    json_object_set_new(c, "num_hidden_layers", json_integer(layers));
    types = json_object_get(c, "layer_types");
    while (types && (int)json_array_size(types) > layers) json_array_remove(types, json_array_size(types) - 1);
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(json_dump_file(c, path, 0), 0);
    json_decref(c);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    snprintf(weights, sizeof weights, "%s/models/%s/model.safetensors", LS_FIXTURES, name);
    write_weights(weights, path, layers);
}

static void keep_embeddings(void *user, const ls_node *n, float *values, int64_t rows, int64_t cols) {
    model *m = user;
    if (n->op == LS_OP_EMBED) memcpy(m->embedded, values, (size_t)(rows * cols) * sizeof *values);
}

static void model_open(model *m, const char *name, int layers, ls_contract contract, int64_t capacity) {
    ls_error e = {0};
    char folder[40], path[80];
    *m = (model){.name = name, .capacity = capacity};
    write_cut(name, layers, folder);
    assert_ok(ls_checkpoint_open(&m->checkpoint, folder, &e));
    assert_ok(ls_model_build(&m->graph, m->checkpoint, &(ls_build_options){.contract = contract, .context = capacity}, &e));
    assert_int_equal(m->graph->n_caches, layers);
    assert_true(m->graph->vocab <= MAX_VOCAB);
    for (size_t i = 0; i < m->graph->n_nodes; i++)
        if (m->graph->nodes[i].op == LS_OP_ATTENTION) m->plane = (size_t)(m->graph->nodes[i].kv_heads * m->graph->nodes[i].head_dim);
    m->embedded = calloc(MAX_TOKENS * (size_t)m->graph->hidden, sizeof *m->embedded);
    assert_non_null(m->embedded);
    ls_executor_options o = {.max_seqs = SLOTS, .context = (int)capacity, .max_rows = (int)capacity, .threads = 1, .observer = keep_embeddings, .observer_user = m};
    if (contract == LS_CONTRACT_FLOAT) assert_ok(ls_reference_create(&m->native, m->graph, &o, &e));
    else assert_ok(ls_native_create(&m->native, m->graph, m->checkpoint, &o, &e));
    snprintf(path, sizeof path, "%s/config.json", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    unlink(path);
    rmdir(folder);
    for (int i = 0; i < MAX_TOKENS; i++) {
        tokens[i] = (int32_t)((i * 37 + i * i * 5 + 11) % m->graph->vocab);
        positions[i] = i;
    }
}

static void model_close(model *m) {
    m->native->destroy(m->native);
    ls_graph_destroy(m->graph);
    ls_checkpoint_close(m->checkpoint);
    free(m->embedded);
}

/* The native logits after |n| more tokens of |slot|. */
static void native_logits(model *m, int slot, const int32_t *token, int n, float *logits) {
    ls_error e = {0};
    int32_t slots[MAX_TOKENS], last = n - 1;
    for (int i = 0; i < n; i++) slots[i] = slot;
    ls_batch b = {.n_rows = n, .token = token, .slot = slots, .n_out = 1, .out_row = &last};
    assert_ok(m->native->forward(m->native, &b, logits, &e));
}

static emit_program *load(const model *m, ls_entry entry, int64_t rows, ls_emit_options o) {
    ls_error e = {0};
    ls_emit_module em;
    o.entry = entry;
    o.rows = rows;
    o.capacity = m->capacity;
    if (!o.sequences) o.sequences = 1;
    if (!o.out_rows) o.out_rows = 1;
    assert_ok(ls_emit_entry(&em, m->graph, &o, &e));
    return emit_load(&em, m->graph);
}

/* ---- Comparing ---------------------------------------------------------------------------------------------------------------- */

/* Equal bits, or under float, where each module is compiled to its own order of sums, near. */
static bool same_number(const model *m, float a, float b) {
    if (m->graph->contract != LS_CONTRACT_FLOAT) return !memcmp(&a, &b, sizeof a);
    return fabsf(a - b) <= 2e-5f + 2e-5f * fabsf(b);
}

static void same_logits(const model *m, const char *what, int step, const float *got, const float *want) {
    size_t bad = 0, first = 0;
    for (size_t i = 0; i < (size_t)m->graph->vocab; i++)
        if (!same_number(m, got[i], want[i]) && !bad++) first = i;
    if (bad)
        fail_msg("%s %s, %s, step %d: %zu logits differ, the first is %zu: got %a, want %a", m->name, ls_contract_name(m->graph->contract), what, step, bad, first,
                 (double)got[first], (double)want[first]);
}

static int32_t largest(const model *m, const float *logits) {
    int32_t best = 0;
    for (int32_t i = 1; i < m->graph->vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Caches f32 [L, C, plane] of one sequence. */
typedef struct caches {
    float *k, *v;
    size_t n;
} caches;

static caches caches_of(const model *m, int sequences) {
    caches c = {.n = (size_t)sequences * (size_t)m->graph->n_caches * (size_t)m->capacity * m->plane};
    c.k = calloc(c.n, sizeof *c.k);
    c.v = calloc(c.n, sizeof *c.v);
    assert_true(c.k && c.v);
    return c;
}

static void caches_free(caches *c) {
    free(c->k);
    free(c->v);
}

/* Does position |at| of |layer| hold the same in both? */
static bool same_position(const model *m, const caches *a, const caches *b, int layer, int at) {
    size_t from = ((size_t)layer * (size_t)m->capacity + (size_t)at) * m->plane, bytes = m->plane * sizeof(float);
    return !memcmp(a->k + from, b->k + from, bytes) && !memcmp(a->v + from, b->v + from, bytes);
}

static void same_positions(const model *m, const caches *a, const caches *b, int n) {
    for (int l = 0; l < m->graph->n_caches; l++)
        for (int i = 0; i < n; i++)
            if (!same_position(m, a, b, l, i)) fail_msg("%s: caches of layer %d differ at position %d", m->name, l, i);
}

/* ---- Prefill, then decode ------------------------------------------------------------------------------------------------------ */

static void run_prefill(const emit_program *p, const int32_t *token, int32_t n, float *logits, caches *c) {
    emit_run(p, (const void *const[]){token, positions, &n}, (void *const[]){logits, c->k, c->v});
}

static void run_decode(const emit_program *p, int32_t token, int32_t at, float *logits, caches *c) {
    emit_run(p, (const void *const[]){&token, &at, &at, c->k, c->v}, (void *const[]){logits, c->k, c->v});
}

/* A prompt of |n| padded to |rows|, then |steps| tokens one at a time; all again as one prompt. */
static void prefill_and_decode(const char *name, int layers, ls_contract contract, ls_carrier carrier, int rows, int n, int steps, int64_t capacity) {
    model m;
    float got[MAX_VOCAB], want[MAX_VOCAB];
    model_open(&m, name, layers, contract, capacity);
    emit_program *prefill = load(&m, LS_ENTRY_PREFILL, rows, (ls_emit_options){.carrier = carrier});
    emit_program *decode = load(&m, LS_ENTRY_DECODE, 1, (ls_emit_options){.carrier = carrier});
    caches c = caches_of(&m, 1), whole = caches_of(&m, 1);
    native_logits(&m, 0, tokens, n, want);
    run_prefill(prefill, tokens, n, got, &c);
    same_logits(&m, "prefill", 0, got, want);
    for (int i = 0; i < steps; i++) {
        tokens[n + i] = largest(&m, want);
        native_logits(&m, 0, tokens + n + i, 1, want);
        run_decode(decode, tokens[n + i], n + i, got, &c);
        same_logits(&m, "decode", i, got, want);
    }
    if (n + steps <= rows) {
        run_prefill(prefill, tokens, n + steps, got, &whole);
        same_logits(&m, "prefill of all", steps, got, want);
        same_positions(&m, &c, &whole, n + steps);
    }
    run_prefill(prefill, tokens, 1, got, &whole); /* one real row */
    native_logits(&m, 1, tokens, 1, want);
    same_logits(&m, "prefill of one token", 0, got, want);
    caches_free(&c);
    caches_free(&whole);
    emit_unload(prefill);
    emit_unload(decode);
    model_close(&m);
}

/* The window of gemma3 and gemma2 is 6, shorter than the prompt. Compiling takes most of the time, so layers and carriers are few. */
static void families(void **state) {
    (void)state;
    static const struct {
        const char *name;
        ls_carrier carrier;
    } cases[] = {{"gemma3", LS_CARRIER_F32}, {"qwen2_moe", LS_CARRIER_I8}, {"stablelm", LS_CARRIER_F64}, {"gemma2", LS_CARRIER_F32}};
    prefill_and_decode("llama", 2, LS_CONTRACT_EXACT16, LS_CARRIER_F32, 16, 11, 5, 256);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        prefill_and_decode(cases[i].name, 1, LS_CONTRACT_EXACT16, cases[i].carrier, 16, 11, 5, 256);
        prefill_and_decode(cases[i].name, 1, LS_CONTRACT_EXACT24, cases[i].carrier, 16, 11, 5, 256);
    }
}

static void carriers(void **state) {
    (void)state;
    prefill_and_decode("llama", 1, LS_CONTRACT_EXACT24, LS_CARRIER_F64, 16, 11, 3, 256);
    prefill_and_decode("llama", 1, LS_CONTRACT_EXACT24, LS_CARRIER_I8, 16, 11, 3, 256);
}

/* One row, all rows of the capacity, and keys in two ranges. */
static void sizes(void **state) {
    (void)state;
    prefill_and_decode("llama", 1, LS_CONTRACT_EXACT16, LS_CARRIER_F32, 1, 1, 4, 256);
    prefill_and_decode("llama", 1, LS_CONTRACT_EXACT16, LS_CARRIER_F32, 256, 250, 6, 256);
    prefill_and_decode("llama", 1, LS_CONTRACT_EXACT24, LS_CARRIER_F32, 300, 290, 10, 512);
}

/* ---- Ragged decoding -------------------------------------------------------------------------------------------------------------- */

static void ragged(const char *name, int layers, ls_contract contract, int sequences) {
    static const int lengths[SLOTS] = {1, 9, 16, 3, 7, 12, 2, 15};
    enum { ROWS = 16, STEPS = 4 };
    model m;
    float got[SLOTS * MAX_VOCAB], want[SLOTS][MAX_VOCAB];
    int32_t token[SLOTS], at[SLOTS];
    model_open(&m, name, layers, contract, 256);
    size_t vocab = (size_t)m.graph->vocab;
    emit_program *prefill = load(&m, LS_ENTRY_PREFILL, ROWS, (ls_emit_options){0}), *decode = load(&m, LS_ENTRY_DECODE_RAGGED, sequences, (ls_emit_options){0});
    caches all = caches_of(&m, sequences), one = caches_of(&m, 1);
    for (int b = 0; b < sequences; b++) {
        native_logits(&m, b, tokens + b, lengths[b], want[b]);
        run_prefill(prefill, tokens + b, lengths[b], got, &one);
        same_logits(&m, "prefill of a sequence", b, got, want[b]);
        memcpy(all.k + (size_t)b * one.n, one.k, one.n * sizeof *one.k);
        memcpy(all.v + (size_t)b * one.n, one.v, one.n * sizeof *one.v);
        at[b] = lengths[b];
    }
    for (int step = 0; step < STEPS; step++) {
        for (int b = 0; b < sequences; b++) {
            token[b] = largest(&m, want[b]);
            native_logits(&m, b, &token[b], 1, want[b]);
        }
        emit_run(decode, (const void *const[]){token, at, at, all.k, all.v}, (void *const[]){got, all.k, all.v});
        for (int b = 0; b < sequences; b++) {
            same_logits(&m, "ragged decode", step * 100 + b, got + (size_t)b * vocab, want[b]);
            at[b]++;
        }
    }
    caches_free(&all);
    caches_free(&one);
    emit_unload(prefill);
    emit_unload(decode);
    model_close(&m);
}

static void ragged_sequences(void **state) {
    (void)state;
    ragged("llama", 1, LS_CONTRACT_EXACT16, 4);
    ragged("gemma3", 1, LS_CONTRACT_EXACT24, 8);
    ragged("qwen2_moe", 1, LS_CONTRACT_EXACT16, 8);
    ragged("stablelm", 1, LS_CONTRACT_EXACT24, 4);
}

/* Rows appended to one of 16 sequences, the last slot; two chunks, then a row. */
static void extend(void **state) {
    (void)state;
    enum { ROWS = 8, SEQUENCES = 16 };
    model m;
    ls_error e = {0};
    model_open(&m, "llama", 1, LS_CONTRACT_EXACT16, 256);
    size_t vocab = (size_t)m.graph->vocab;
    float got[ROWS * MAX_VOCAB], want[ROWS * MAX_VOCAB];
    emit_program *p = load(&m, LS_ENTRY_EXTEND, ROWS, (ls_emit_options){.sequences = SEQUENCES, .out_rows = ROWS});
    caches all = caches_of(&m, SEQUENCES);
    int32_t slot = SEQUENCES - 1, at = 0, rows[ROWS], slots[ROWS] = {0};
    for (int i = 0; i < ROWS; i++) rows[i] = i;
    for (; at < 3 * ROWS; at += ROWS) {
        ls_batch b = {.n_rows = ROWS, .token = tokens + at, .slot = slots, .n_out = ROWS, .out_row = rows};
        assert_ok(m.native->forward(m.native, &b, want, &e));
        emit_run(p, (const void *const[]){tokens + at, &slot, &at, rows, all.k, all.v}, (void *const[]){got, all.k, all.v});
        for (int i = 0; i < ROWS; i++) same_logits(&m, "extend", at + i, got + (size_t)i * vocab, want + (size_t)i * vocab);
    }
    for (size_t i = 0; i < all.n / SEQUENCES * (SEQUENCES - 1); i++)
        if (all.k[i] != 0 || all.v[i] != 0) fail_msg("another sequence's cache changed");
    caches_free(&all);
    emit_unload(p);
    model_close(&m);
}

/* ---- Embeddings ---------------------------------------------------------------------------------------------------------------------- */

enum { E_ROWS = 12, E_REAL = 10, BLOCK_FROM = 2, BLOCK_TO = 7 };

typedef struct embedding_run {
    model m;
    emit_program *prefill, *embeddings;
    float bias[E_ROWS * E_ROWS];
} embedding_run;

static void causal(float *bias) {
    for (int i = 0; i < E_ROWS; i++)
        for (int j = 0; j < E_ROWS; j++) bias[i * E_ROWS + j] = j <= i ? 0 : -1e30f;
}

/* Rows of the block [2, 7) see each other as well. */
static void bidirectional(float *bias) {
    causal(bias);
    for (int i = BLOCK_FROM; i < BLOCK_TO; i++)
        for (int j = BLOCK_FROM; j < BLOCK_TO; j++) bias[i * E_ROWS + j] = 0;
}

static void embeddings_begin(embedding_run *r, const char *name, int layers, ls_contract contract) {
    float logits[MAX_VOCAB];
    model_open(&r->m, name, layers, contract, 256);
    native_logits(&r->m, 0, tokens, E_ROWS, logits); /* fills |embedded| */
    r->prefill = load(&r->m, LS_ENTRY_PREFILL, E_ROWS, (ls_emit_options){0});
    r->embeddings = load(&r->m, LS_ENTRY_PREFILL_EMBEDDINGS, E_ROWS, (ls_emit_options){0});
}

static void embeddings_end(embedding_run *r) {
    emit_unload(r->prefill);
    emit_unload(r->embeddings);
    model_close(&r->m);
}

static void run_embeddings(const embedding_run *r, int32_t n, float *logits, caches *c) {
    emit_run(r->embeddings, (const void *const[]){r->m.embedded, positions, &n, r->bias}, (void *const[]){logits, c->k, c->v});
}

/* A causal mask gives what the tokens give. */
static void causal_embeddings(const char *name, int layers, ls_contract contract) {
    embedding_run r;
    float got[MAX_VOCAB], want[MAX_VOCAB];
    embeddings_begin(&r, name, layers, contract);
    caches a = caches_of(&r.m, 1), b = caches_of(&r.m, 1);
    causal(r.bias);
    for (int32_t n = 1; n <= E_ROWS; n += 4) {
        run_prefill(r.prefill, tokens, n, want, &a);
        run_embeddings(&r, n, got, &b);
        same_logits(&r.m, "embeddings under a causal mask", n, got, want);
        if (contract != LS_CONTRACT_FLOAT) same_positions(&r.m, &a, &b, n);
    }
    caches_free(&a);
    caches_free(&b);
    embeddings_end(&r);
}

static void embeddings_and_tokens(void **state) {
    (void)state;
    causal_embeddings("llama", 2, LS_CONTRACT_EXACT16);
    causal_embeddings("gemma3", 1, LS_CONTRACT_EXACT24);
    causal_embeddings("gemma2", 1, LS_CONTRACT_FLOAT);
}

/* One layer's row sees a set of keys in any order: a row of the block moved to the block's end, by tokens with its own position,
 * sees under the causal order what the mask let it see. */
static void block_as_moved_rows(ls_contract contract) {
    embedding_run r;
    float got[MAX_VOCAB], want[MAX_VOCAB];
    int32_t moved[E_ROWS], place[E_ROWS];
    embeddings_begin(&r, "llama", 1, contract);
    caches c = caches_of(&r.m, 1);
    bidirectional(r.bias);
    for (int32_t row = BLOCK_FROM; row < BLOCK_TO; row++) {
        int32_t n = BLOCK_TO, real = row + 1;
        for (int i = 0, at = 0; i < E_ROWS; i++)
            if (i != row) {
                if (at == BLOCK_TO - 1) at++;
                place[at++] = i;
            }
        place[BLOCK_TO - 1] = row;
        for (int i = 0; i < E_ROWS; i++) moved[i] = tokens[place[i]];
        emit_run(r.prefill, (const void *const[]){moved, place, &n}, (void *const[]){want, NULL, NULL});
        run_embeddings(&r, real, got, &c);
        same_logits(&r.m, "a row that sees its block", row, got, want);
    }
    caches_free(&c);
    embeddings_end(&r);
}

static void block_sees_itself(void **state) {
    (void)state;
    block_as_moved_rows(LS_CONTRACT_EXACT16);
    block_as_moved_rows(LS_CONTRACT_EXACT24);
}

/* With two layers: the first layer's keys do not depend on the mask, the second's change for the rows that see more than before. */
static void block_changes_its_rows(void **state) {
    (void)state;
    embedding_run r;
    float logits[MAX_VOCAB];
    embeddings_begin(&r, "llama", 2, LS_CONTRACT_EXACT16);
    caches a = caches_of(&r.m, 1), b = caches_of(&r.m, 1);
    causal(r.bias);
    run_embeddings(&r, E_REAL, logits, &a);
    bidirectional(r.bias);
    run_embeddings(&r, E_REAL, logits, &b);
    for (int i = 0; i < E_REAL; i++) {
        bool sees_more = i >= BLOCK_FROM && i < BLOCK_TO - 1;
        if (!same_position(&r.m, &a, &b, 0, i)) fail_msg("the first layer changed at row %d", i);
        if (same_position(&r.m, &a, &b, 1, i) == sees_more) fail_msg("row %d of the second layer %s", i, sees_more ? "did not change" : "changed");
    }
    caches_free(&a);
    caches_free(&b);
    embeddings_end(&r);
}

/* A row that sees nothing (and a pass where all rows do) gives finite numbers and leaves the other rows as they are. */
static void masked_rows(ls_contract contract) {
    embedding_run r;
    float before[MAX_VOCAB], after[MAX_VOCAB];
    embeddings_begin(&r, "llama", 1, contract);
    caches c = caches_of(&r.m, 1);
    causal(r.bias);
    run_embeddings(&r, E_REAL, before, &c);
    for (int j = 0; j < E_ROWS; j++) r.bias[3 * E_ROWS + j] = -1e30f;
    run_embeddings(&r, E_REAL, after, &c);
    same_logits(&r.m, "beside a row that sees nothing", 0, after, before);
    for (int j = 0; j < E_ROWS * E_ROWS; j++) r.bias[j] = -1e30f;
    for (int32_t n = 1; n <= E_REAL; n += 3) {
        run_embeddings(&r, n, after, &c);
        for (int64_t i = 0; i < r.m.graph->vocab; i++)
            if (!isfinite(after[i])) fail_msg("%s: logit %lld of a row that sees nothing is %g", ls_contract_name(contract), (long long)i, (double)after[i]);
    }
    caches_free(&c);
    embeddings_end(&r);
}

static void rows_that_see_nothing(void **state) {
    (void)state;
    masked_rows(LS_CONTRACT_EXACT16);
    masked_rows(LS_CONTRACT_EXACT24);
    masked_rows(LS_CONTRACT_FLOAT);
}

/* ---- The largest logit ---------------------------------------------------------------------------------------------------------------- */

/* A graph of one attention whose head has |vocab| rows of |head| [vocab, 8]. */
static emit_program *load_head(small_graph *s, ls_contract contract, int64_t vocab, const float *head, ls_entry entry, int64_t rows) {
    static float ones[SMALL_VOCAB * 8];
    ls_error e = {0};
    ls_emit_module m;
    int y;
    for (int i = 0; i < SMALL_VOCAB * 8; i++) ones[i] = 1;
    assert_ok(small_begin(s, contract, 8, ones, &e));
    assert_ok(ls_add_attention(s->g, &y, s->value, s->value, s->value, &(ls_attention_spec){.heads = 1, .kv_heads = 1, .head_dim = 8, .scale = 1}, "attention", &e));
    assert_ok(ls_add_select_rows(s->g, &y, y, "selected", &e));
    assert_ok(ls_add_linear(s->g, &y, y, small_param("head", vocab, 8, head), NULL, "logits", &e));
    s->g->vocab = vocab;
    ls_emit_options o = {.entry = entry, .rows = rows, .capacity = 256, .argmax = true};
    assert_ok(ls_emit_entry(&m, s->g, &o, &e));
    return emit_load(&m, s->g);
}

/* |want| is the token of every sequence, by a single and by a ragged step. */
static void check_argmax(ls_contract contract, int64_t vocab, const float *head, int32_t want) {
    enum { SEQUENCES = 4 };
    small_graph s;
    static float cache[SEQUENCES * 256 * 8];
    int32_t token[SEQUENCES] = {1, 2, 3, 4}, at[SEQUENCES] = {0, 1, 2, 3}, got[SEQUENCES];
    emit_program *p = load_head(&s, contract, vocab, head, LS_ENTRY_DECODE, 1);
    emit_run(p, (const void *const[]){token, at, at, cache, cache}, (void *const[]){got, NULL, NULL});
    assert_int_equal(got[0], want);
    emit_unload(p);
    small_destroy(&s);
    p = load_head(&s, contract, vocab, head, LS_ENTRY_DECODE_RAGGED, SEQUENCES);
    emit_run(p, (const void *const[]){token, at, at, cache, cache}, (void *const[]){got, NULL, NULL});
    for (int i = 0; i < SEQUENCES; i++) assert_int_equal(got[i], want);
    emit_unload(p);
    small_destroy(&s);
}

static void lowest_index_of_the_largest(void **state) {
    (void)state;
    static const ls_contract all[] = {LS_CONTRACT_EXACT16, LS_CONTRACT_FLOAT};
    static float head[20 * 8];
    for (int c = 0; c < 2; c++) {
        memset(head, 0, sizeof head);
        check_argmax(all[c], 20, head, 0);
        check_argmax(all[c], 1, head, 0);
        for (int i = 0; i < 8; i++) head[13 * 8 + i] = head[6 * 8 + i] = head[19 * 8 + i] = 0.5f;
        check_argmax(all[c], 20, head, 6);
        for (int i = 0; i < 20 * 8; i++) head[i] = -1 - (float)(i / 8 == 4 ? 0 : 1); /* all negative */
        check_argmax(all[c], 20, head, 4);
    }
}

/* ---- Packed weights ----------------------------------------------------------------------------------------------------------------------- */

/* Packed and dense modules of the MLX fixture: near in float's terms, and the same token. */
static void packed_near_dense(void **state) {
    (void)state;
    model m;
    float dense[MAX_VOCAB], packed[MAX_VOCAB];
    model_open(&m, "llama_mlx", 2, LS_CONTRACT_FLOAT, 256);
    emit_program *p[2] = {load(&m, LS_ENTRY_PREFILL, 8, (ls_emit_options){0}), load(&m, LS_ENTRY_PREFILL, 8, (ls_emit_options){.packed = true})};
    caches c = caches_of(&m, 1);
    run_prefill(p[0], tokens, 7, dense, &c);
    run_prefill(p[1], tokens, 7, packed, &c);
    same_logits(&m, "packed weights", 0, packed, dense);
    assert_int_equal(largest(&m, dense), largest(&m, packed));
    caches_free(&c);
    emit_unload(p[0]);
    emit_unload(p[1]);
    model_close(&m);
}

static int open_engine(void **state) {
    (void)state;
    emit_engine_open();
    return 0;
}

static int close_engine(void **state) {
    (void)state;
    emit_engine_close();
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families),          cmocka_unit_test(carriers),
        cmocka_unit_test(sizes),             cmocka_unit_test(ragged_sequences),
        cmocka_unit_test(extend),            cmocka_unit_test(embeddings_and_tokens),
        cmocka_unit_test(block_sees_itself), cmocka_unit_test(block_changes_its_rows),
        cmocka_unit_test(rows_that_see_nothing), cmocka_unit_test(lowest_index_of_the_largest),
        cmocka_unit_test(packed_near_dense),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
