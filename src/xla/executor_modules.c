/* Modules of the XLA executor: emitted, compiled and given their weights once. */
#include <string.h>

#include "base/sha256.h"
#include "xla/executor_internal.h"

/* ---- Weights -------------------------------------------------------------------------------------------------------------- */

static ls_code upload_weight(ls_xla *x, const ls_emit_weight *w, ls_buffer **out, ls_error *e) {
    for (size_t i = 0; i < x->n_weights; i++)
        if (!strcmp(x->weight[i].key, w->key)) {
            *out = x->weight[i].buffer;
            return LS_OK;
        }
    LS_TRY(ls_grow(&x->weight, x->n_weights, &x->cap_weights, sizeof *x->weight, 1 << 20, "device weights", e));
    for (int i = 0; i < w->n_params; i++)
        LS_TRY((w->contract == LS_CONTRACT_FLOAT ? ls_tensor_check_finite : ls_tensor_check_weight)(w->param[i].tensor, e));
    ls_xla_weight *slot = &x->weight[x->n_weights];
    size_t len = strlen(w->key) + 1, bytes;
    void *data = NULL;
    LS_TRY(ls_tensor_type_bytes(&w->type, &bytes, e));
    LS_TRY(ls_calloc(&slot->key, len, 1, "weight key", e));
    memcpy(slot->key, w->key, len);
    ls_code rc = ls_emit_weight_data(w, x->g, &data, e);
    if (!rc) rc = x->engine->ops->upload(x->engine, &slot->buffer, &w->type, data, e);
    ls_free(data);
    if (rc) {
        ls_free(slot->key);
        return ls_error_wrap(e, rc, "weight \"%s\"", w->name);
    }
    x->weight_bytes += bytes;
    for (int i = 0; i < w->n_params; i++) ls_checkpoint_forget(x->c, w->param[i].tensor);
    *out = slot->buffer;
    x->n_weights++;
    return LS_OK;
}

static ls_code upload_weights(ls_xla *x, ls_xla_module *m, const ls_emit_module *em, ls_error *e) {
    LS_TRY(ls_calloc(&m->weight, em->n_weights, sizeof(ls_buffer *), "weight arguments", e));
    m->n_weights = em->n_weights;
    for (size_t i = 0; i < em->n_weights; i++) {
        LS_TRY(upload_weight(x, &em->weight[i], &m->weight[i], e));
        if (x->o.progress && !x->alone) x->o.progress(x->o.progress_user, (double)(i + 1) / (double)em->n_weights);
    }
    return LS_OK;
}

/* ---- Programs ------------------------------------------------------------------------------------------------------------- */

static void hash_text(const ls_str *text, char hex[65]) {
    ls_sha256 h;
    uint8_t digest[32];
    ls_sha256_init(&h);
    ls_sha256_update(&h, text->data, text->len);
    ls_sha256_final(&h, digest);
    ls_sha256_hex(digest, hex);
}

static ls_code get_program(ls_xla *x, const ls_str *text, ls_program **out, ls_error *e) {
    ls_xla_program p = {.program = NULL};
    ls_compile_info info = {0};
    hash_text(text, p.text_sha);
    for (size_t i = 0; i < x->n_programs; i++)
        if (!strcmp(x->program[i].text_sha, p.text_sha)) {
            *out = x->program[i].program;
            return LS_OK;
        }
    LS_TRY(ls_grow(&x->program, x->n_programs, &x->cap_programs, sizeof *x->program, 1 << 20, "programs", e));
    LS_TRY(x->engine->ops->compile(x->engine, &p.program, text->data, text->len, NULL, &info, e));
    x->program[x->n_programs++] = p;
    x->stats.programs++;
    x->stats.cache_hits += info.cache_hit;
    x->stats.compile_seconds += info.seconds;
    *out = p.program;
    return LS_OK;
}

/* ---- Modules ---------------------------------------------------------------------------------------------------------------- */

void ls_xla_free_module(ls_xla_module *m) {
    if (!m) return;
    ls_free(m->weight);
    ls_free(m->result);
    ls_free(m);
}

static ls_code fill_module(ls_xla *x, ls_xla_module *m, ls_error *e) {
    ls_emit_options o = {.entry = m->entry, .rows = m->rows, .capacity = m->capacity, .sequences = x->sequences, .out_rows = m->out_rows, .carrier = x->carrier,
                         .precision = x->xo.precision, .packed = x->xo.packed};
    if (m->node == LS_XLA_WHOLE && x->o.observer) o.capture = x->observed;
    ls_emit_module em;
    if (m->node == LS_XLA_WHOLE) LS_TRY(ls_emit_entry(&em, x->g, &o, e));
    else if (m->node >= 0) LS_TRY(ls_emit_node_module(&em, x->g, m->node, &o, e));
    else LS_TRY(ls_emit_block_module(&em, x->g, m->node == LS_XLA_WRITE_BLOCK, &o, e));
    ls_code rc = ls_calloc(&m->result, em.n_results, sizeof *m->result, "results", e);
    if (!rc) memcpy(m->result, em.result, em.n_results * sizeof *m->result);
    m->n_results = em.n_results;
    if (!rc) rc = get_program(x, &em.text, &m->program, e);
    if (!rc) rc = upload_weights(x, m, &em, e);
    ls_emit_module_deinit(&em);
    return rc;
}

ls_code ls_xla_get(ls_xla *x, ls_xla_module **out, ls_entry entry, int node, int64_t rows, int64_t out_rows, ls_error *e) {
    for (size_t i = 0; i < x->n_modules; i++) {
        ls_xla_module *m = x->module[i];
        if (m->entry != entry || m->node != node || m->rows != rows || m->out_rows != out_rows || m->capacity != x->capacity) continue;
        *out = m;
        return LS_OK;
    }
    ls_xla_module *m;
    LS_TRY(ls_grow(&x->module, x->n_modules, &x->cap_modules, sizeof *x->module, 1 << 20, "modules", e));
    LS_TRY(ls_calloc(&m, 1, sizeof *m, "module", e));
    *m = (ls_xla_module){.entry = entry, .node = node, .rows = rows, .out_rows = out_rows, .capacity = x->capacity};
    ls_code rc = fill_module(x, m, e);
    if (rc) {
        ls_xla_free_module(m);
        return rc;
    }
    x->module[x->n_modules++] = m;
    *out = m;
    return LS_OK;
}

/* ---- Running ------------------------------------------------------------------------------------------------------------------ */

ls_code ls_xla_run(ls_xla *x, const ls_xla_module *m, ls_buffer *const *inputs, size_t n_inputs, ls_buffer **results, ls_error *e) {
    ls_buffer **args;
    size_t n = m->n_weights + n_inputs;
    LS_TRY(ls_calloc(&args, n, sizeof *args, "arguments", e));
    memcpy(args, m->weight, m->n_weights * sizeof *args);
    memcpy(args + m->n_weights, inputs, n_inputs * sizeof *args);
    ls_code rc = x->engine->ops->execute(x->engine, m->program, args, n, results, m->n_results, e);
    ls_free(args);
    return rc;
}

ls_code ls_xla_upload_i32(ls_xla *x, ls_buffer **out, const int32_t *v, int64_t n, ls_error *e) {
    ls_tensor_type t = {.dtype = LS_DT_I32, .rank = n ? 1 : 0, .dim = {n}};
    return x->engine->ops->upload(x->engine, out, &t, v, e);
}

void ls_xla_free_buffers(ls_xla *x, ls_buffer **b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        x->engine->ops->free_buffer(x->engine, b[i]);
        b[i] = NULL;
    }
}
