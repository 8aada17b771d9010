/* Emitted modules on a PJRT CPU plugin: see emit_engine.h. */
#include "test.h"

#include "emit_engine.h"

#include <stdlib.h>

#include "base/sha256.h"
#include "cpu_engine.h"

enum { MAX_PROGRAMS = 1024 };

struct emit_program {
    ls_program *program; /* of the table below */
    ls_emit_module m;
    ls_buffer **weight; /* [n_weights] */
};

static struct {
    char sha[65];
    ls_program *program;
} compiled[MAX_PROGRAMS];
static int n_compiled;

void emit_engine_open(void) { cpu_engine_open(NULL); }

void emit_engine_close(void) {
    for (int i = 0; i < n_compiled; i++) cpu_engine->ops->free_program(cpu_engine, compiled[i].program);
    n_compiled = 0;
    cpu_engine_close(NULL);
}

static ls_program *program_of(const ls_str *text) {
    ls_error e = {0};
    char sha[65];
    ls_sha256_hex_of(text->data, text->len, sha);
    for (int i = 0; i < n_compiled; i++)
        if (!strcmp(compiled[i].sha, sha)) return compiled[i].program;
    assert_true(n_compiled < MAX_PROGRAMS);
    memcpy(compiled[n_compiled].sha, sha, sizeof sha);
    assert_ok(cpu_engine->ops->compile(cpu_engine, &compiled[n_compiled].program, text->data, text->len, NULL, NULL, &e));
    return compiled[n_compiled++].program;
}

emit_program *emit_load(ls_emit_module *m, const ls_graph *g) {
    ls_error e = {0};
    emit_program *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->m = *m;
    p->program = program_of(&m->text);
    p->weight = calloc(m->n_weights + 1, sizeof(ls_buffer *));
    assert_non_null(p->weight);
    for (size_t i = 0; i < m->n_weights; i++) {
        void *data;
        assert_ok(ls_emit_weight_data(&m->weight[i], g, &data, &e));
        assert_ok(cpu_engine->ops->upload(cpu_engine, &p->weight[i], &m->weight[i].type, data, &e));
        ls_free(data);
    }
    return p;
}

void emit_unload(emit_program *p) {
    for (size_t i = 0; i < p->m.n_weights; i++) cpu_engine->ops->free_buffer(cpu_engine, p->weight[i]);
    ls_emit_module_deinit(&p->m);
    free(p->weight);
    free(p);
}

void emit_run(const emit_program *p, const void *const *in, void *const *out) {
    enum { MOST = 512 };
    ls_buffer *args[MOST], *results[MOST];
    ls_error e = {0};
    size_t w = p->m.n_weights, n = w + p->m.n_inputs, bytes;
    assert_true(n <= MOST && p->m.n_results <= MOST);
    for (size_t i = 0; i < w; i++) args[i] = p->weight[i];
    for (size_t i = w; i < n; i++) assert_ok(cpu_engine->ops->upload(cpu_engine, &args[i], &p->m.input[i - w], in[i - w], &e));
    assert_ok(cpu_engine->ops->execute(cpu_engine, p->program, args, n, results, p->m.n_results, &e));
    for (size_t i = 0; i < p->m.n_results; i++) {
        assert_ok(ls_tensor_type_bytes(&p->m.result[i], &bytes, &e));
        if (out[i]) assert_ok(cpu_engine->ops->read(cpu_engine, results[i], out[i], bytes, &e));
        cpu_engine->ops->free_buffer(cpu_engine, results[i]);
    }
    for (size_t i = w; i < n; i++) cpu_engine->ops->free_buffer(cpu_engine, args[i]);
}

static size_t count_of(const ls_tensor_type *t) {
    size_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= (size_t)t->dim[i];
    return n;
}

size_t emit_input_count(const emit_program *p, size_t i) { return count_of(&p->m.input[i]); }
size_t emit_result_count(const emit_program *p, size_t i) { return count_of(&p->m.result[i]); }
