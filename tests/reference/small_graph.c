/* Small graphs for operator tests: see small_graph.h. */
#include "small_graph.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PARAMS = 64, MAX_NUMBERS = 1 << 16 };

static struct {
    ls_tensor tensor;
    ls_param param;
} pool[MAX_PARAMS];
static float numbers[MAX_NUMBERS];
static size_t n_params, n_numbers;
static uint64_t seed;

float small_random(void) {
    uint64_t z = (seed += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (float)(int32_t)((z ^ z >> 31) >> 40) * 0x1p-23f - 1.0f;
}

const ls_param *small_param(const char *name, int64_t rows, int64_t cols, const float *values) {
    size_t count = (size_t)(rows * cols);
    if (n_params == MAX_PARAMS || count > MAX_NUMBERS - n_numbers) abort();
    float *data = numbers + n_numbers;
    for (size_t i = 0; i < count; i++) data[i] = values ? values[i] : small_random();
    n_numbers += count;
    ls_tensor *t = &pool[n_params].tensor;
    *t = (ls_tensor){.name = name,
                     .dtype = "F32",
                     .format = LS_F32,
                     .rank = 2,
                     .shape = {rows, cols},
                     .data = data,
                     .bytes = count * sizeof *data};
    pool[n_params].param = (ls_param){.name = name, .tensor = t, .rows = rows, .cols = cols};
    return &pool[n_params++].param;
}

const float *small_numbers(const ls_param *p) { return p->tensor->data; }

ls_code small_begin(small_graph *s, ls_contract contract, int64_t cols, const float *table, ls_error *e) {
    *s = (small_graph){0};
    n_params = n_numbers = 0;
    seed = 7;
    LS_TRY(ls_graph_create(&s->g, contract, e));
    const ls_param *p = small_param("table", SMALL_VOCAB, cols, table);
    s->table = small_numbers(p);
    return ls_add_embed(s->g, &s->value, p, 1.0f, "x", e);
}

static void keep_output(void *user, const ls_node *node, float *values, int64_t rows, int64_t cols) {
    small_graph *s = user;
    if (s->n_outputs == SMALL_MAX_NODES) abort();
    small_output *o = &s->outputs[s->n_outputs++];
    size_t bytes = (size_t)(rows * cols) * sizeof(float);
    *o = (small_output){.node = node, .rows = rows, .cols = cols, .values = malloc(bytes + 1)};
    if (!o->values) abort();
    memcpy(o->values, values, bytes);
}

static void forget_outputs(small_graph *s) {
    for (int i = 0; i < s->n_outputs; i++) free(s->outputs[i].values);
    s->n_outputs = 0;
}

ls_executor_options small_options(bool f64) {
    return (ls_executor_options){.max_seqs = 4, .context = 256, .max_rows = SMALL_MAX_ROWS, .f64 = f64};
}

ls_code small_end(small_graph *s, int value, const ls_executor_options *o, ls_error *e) {
    const ls_param *head = small_param("head", SMALL_VOCAB, s->g->nodes[value].cols, NULL);
    LS_TRY(ls_add_select_rows(s->g, &value, value, "selected", e));
    LS_TRY(ls_add_linear(s->g, &value, value, head, NULL, "logits", e));
    s->g->vocab = SMALL_VOCAB;
    ls_executor_options options = o ? *o : small_options(false);
    options.observer = keep_output;
    options.observer_user = s;
    return ls_reference_create(&s->x, s->g, &options, e);
}

void small_destroy(small_graph *s) {
    if (s->x) s->x->destroy(s->x);
    ls_graph_destroy(s->g);
    forget_outputs(s);
    *s = (small_graph){0};
}

ls_code small_batch(small_graph *s, const ls_batch *b, float *logits, ls_error *e) {
    forget_outputs(s);
    return s->x->forward(s->x, b, logits, e);
}

ls_code small_pass(small_graph *s, const int32_t *tokens, int n, int slot, float *logits, ls_error *e) {
    int32_t slots[SMALL_MAX_ROWS], rows[SMALL_MAX_ROWS];
    for (int i = 0; i < n; i++) {
        slots[i] = slot;
        rows[i] = i;
    }
    ls_batch b = {.n_rows = n, .token = tokens, .slot = slots, .n_out = logits ? n : 0, .out_row = rows};
    return small_batch(s, &b, logits, e);
}

const float *small_output_of(const small_graph *s, const char *name) {
    for (int i = 0; i < s->n_outputs; i++)
        if (!strcmp(s->outputs[i].node->name, name)) return s->outputs[i].values;
    return NULL;
}
