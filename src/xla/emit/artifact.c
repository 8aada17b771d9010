/* The identity of an emitted module, and its publication: see artifact.h. */
#include "xla/emit/artifact.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/sha256.h"
#include "contract/operator_contract.h"
#include "lockstep.h"

typedef struct texts {
    ls_str config, contracts, dtypes, weights, generation;
} texts;

static ls_code add_config(texts *t, const ls_graph *g, const ls_emit_options *o, ls_error *e) {
    static const char *const carriers[] = {"f32", "f64", "i8"};
    char fingerprint[65];
    LS_TRY(ls_graph_fingerprint(g, fingerprint, e));
    LS_TRY(ls_str_printf(&t->config, e, "graph=%s;contract=%s;rows=%" PRId64 ";capacity=%" PRId64 ";sequences=%" PRId64 ";out-rows=%" PRId64, fingerprint,
                         ls_contract_name(g->contract), o->rows, o->capacity, o->sequences, o->out_rows));
    LS_TRY(ls_str_printf(&t->config, e, ";argmax=%d;carrier=%s;precision=%s;packed=%d;capture=", o->argmax, carriers[o->carrier],
                         ls_precision_name(o->precision), o->packed));
    for (size_t i = 0; o->capture && i < g->n_nodes; i++)
        if (o->capture[i]) LS_TRY(ls_str_printf(&t->config, e, "%zu,", i));
    return LS_OK;
}

/* One record for each operator that occurs. */
static ls_code add_operators(texts *t, const ls_graph *g, ls_error *e) {
    ls_operator_contract record[LS_OP_COUNT];
    bool seen[LS_OP_COUNT] = {false};
    size_t n = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        ls_op op = g->nodes[i].op;
        if (!seen[op]) record[n++] = (ls_operator_contract){.id = ls_op_name(op), .contract = g->contract, .op = ls_op_name(op)};
        seen[op] = true;
    }
    return ls_operator_contracts_text(record, n, &t->contracts, e);
}

/* How the weights of products are held: "dense" says that none of them is quantised in the checkpoint. */
static ls_weight_execution weight_execution(const ls_emit_module *m) {
    ls_weight_execution form = LS_WEIGHTS_DENSE;
    for (size_t i = 0; i < m->n_weights; i++) {
        if (m->weight[i].role == LS_W_PACKED) return LS_WEIGHTS_PACKED_AFFINE;
        bool quantised = m->weight[i].role == LS_W_MATRIX && ls_tensor_group(m->weight[i].param->tensor);
        if (quantised) form = LS_WEIGHTS_HOST_AFFINE;
    }
    return form;
}

/* Records of float operators would name a compiler and its kernels, which a text has not met yet. */
static ls_code add_dtypes(texts *t, const ls_emit_module *m, const ls_emit_options *o, ls_error *e) {
    static const ls_numeric operand[] = {LS_NUMERIC_F32, LS_NUMERIC_F16, LS_NUMERIC_BF16};
    const ls_dtype_contract c = {.weights = weight_execution(m), .dot_in = operand[o->precision], .dot_acc = LS_NUMERIC_F32, .dot_out = LS_NUMERIC_F32,
                                 .reduce = LS_NUMERIC_F32, .carrier = LS_NUMERIC_F32};
    return ls_dtype_contract_text(&c, &t->dtypes, e);
}

static ls_code add_texts(texts *t, const ls_emit_module *m, const ls_graph *g, const ls_emit_options *o, ls_error *e) {
    char sha[65];
    LS_TRY(add_config(t, g, o, e));
    LS_TRY(g->contract == LS_CONTRACT_FLOAT ? add_dtypes(t, m, o, e) : add_operators(t, g, e));
    for (size_t i = 0; i < m->n_weights; i++) {
        const ls_tensor_type *type = &m->weight[i].type;
        LS_TRY(ls_weight_schema_add(&t->weights, i, m->weight[i].key, ls_dtype_name(type->dtype), type->dim, type->rank, e));
    }
    ls_sha256_hex_of(m->text.data, m->text.len, sha);
    return ls_str_printf(&t->generation, e, "emitter=lockstep %s;mlir_sha256=%s", LS_VERSION_STRING, sha);
}

static ls_code produce(void *user, const char *path, ls_error *e) {
    const ls_str *text = user;
    FILE *f = fopen(path, "wx");
    if (!f) LS_FAIL(e, LS_PERMISSION_DENIED, "cannot write \"%s\": %s", path, strerror(errno));
    bool ok = fwrite(text->data, 1, text->len, f) == text->len;
    if (fclose(f) || !ok) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "writing \"%s\" failed; is the disk full?", path);
    return LS_OK;
}

/* Publishing replaces the name by a rename, which must not happen to /dev/null or to a link to something else. */
static ls_code check_regular(const char *path, ls_error *e) {
    struct stat st;
    if (!lstat(path, &st) && !S_ISREG(st.st_mode))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "\"%s\" is no regular file, so no manifest can stand for it; name a file, or write to standard output", path);
    return LS_OK;
}

ls_code ls_emit_publish(const char *path, const ls_emit_module *m, const ls_graph *g, const ls_emit_options *o, ls_published *out, ls_error *e) {
    texts t = {.config = {0}};
    ls_str text = m->text;
    ls_code rc = LS_OK;
    LS_GOTO(check_regular(path, e));
    LS_GOTO(add_texts(&t, m, g, o, e));
    const ls_publish p = {.path = path, .produce = produce, .user = &text, .wait_ms = -1,
                          .identity = {.entry = ls_entry_name(o->entry), .config = t.config.data, .generation = t.generation.data,
                                       .dtype_contract = t.dtypes.data,
                                       .operator_contracts = t.contracts.data, .operator_contracts_len = t.contracts.len,
                                       .weight_schema = t.weights.data ? t.weights.data : ""}};
    rc = ls_artifact_publish(&p, out, e);
out:
    ls_str_deinit(&t.config);
    ls_str_deinit(&t.contracts);
    ls_str_deinit(&t.dtypes);
    ls_str_deinit(&t.weights);
    ls_str_deinit(&t.generation);
    return rc;
}
