/* What a model is, as JSON: for `lockstep inspect`. */
#include <string.h>

#include "base/sha256.h"
#include "native/kv.h"
#include "session/bundle.h"
#include "weights/packfile.h"

enum { LISTED_UNUSED = 32 };

static void put(json_t *o, const char *key, json_t *v) { json_object_set_new(o, key, v); }

/* Elements of all tensors, stored bytes, and how many tensors have each format. */
static void describe_tensors(const ls_checkpoint *c, json_t *o) {
    int64_t parameters = 0;
    size_t bytes = 0;
    json_t *formats = json_object();
    for (size_t i = 0; i < ls_checkpoint_count(c); i++) {
        const ls_tensor *t = ls_checkpoint_at(c, i);
        const char *name = ls_format_get(t->format)->name;
        int64_t elements = 1;
        for (int d = 0; d < t->rank; d++) elements *= t->shape[d];
        parameters += elements;
        bytes += t->bytes;
        put(formats, name, json_integer(json_integer_value(json_object_get(formats, name)) + 1));
    }
    put(o, "tensors", json_integer((json_int_t)ls_checkpoint_count(c)));
    put(o, "parameters", json_integer(parameters));
    put(o, "weight_bytes", json_integer((json_int_t)bytes));
    put(o, "formats", formats);
}

static void describe_unused(const ls_checkpoint *c, json_t *o) {
    json_t *names = json_array();
    size_t n = 0;
    for (const char *name; (name = ls_checkpoint_unused(c, n)); n++)
        if (n < LISTED_UNUSED) json_array_append_new(names, json_string_nocheck(name));
    put(o, "unused_tensors", json_integer((json_int_t)n));
    put(o, "unused_tensor_names", names);
}

/* Numbers of the operators, and the width of all key and value rows together. */
static int64_t describe_graph(const ls_graph *g, json_t *o) {
    int64_t kv_columns = 0;
    json_t *operators = json_object();
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ls_node *n = &g->nodes[i];
        const char *name = ls_op_name(n->op);
        put(operators, name, json_integer(json_integer_value(json_object_get(operators, name)) + 1));
        if (n->op == LS_OP_ATTENTION) kv_columns += 2 * (int64_t)n->kv_heads * n->head_dim;
    }
    put(o, "architecture", json_string(g->architecture ? g->architecture : "unknown"));
    put(o, "layers", json_integer(g->n_caches));
    put(o, "hidden", json_integer(g->hidden));
    put(o, "vocabulary", json_integer(g->vocab));
    put(o, "max_context", json_integer(g->max_context));
    put(o, "nodes", json_integer((json_int_t)g->n_nodes));
    put(o, "operators", operators);
    return kv_columns;
}

/* Bytes of keys and values when every slot is full: what the native backend keeps under exact contracts, four bytes a number elsewhere. */
static size_t full_cache(const ls_model *m, int64_t kv_columns) {
    const bool native = m->contract != LS_CONTRACT_FLOAT && !strcmp(m->asked, "native");
    ls_kv kv;
    ls_error e;
    if (!native || ls_kv_init(&kv, m->graph, 1, m->context, &e)) return (size_t)kv_columns * 4 * (size_t)m->context * (size_t)m->slots;
    size_t bytes = kv.block_bytes * (size_t)kv.blocks_max * (size_t)m->slots;
    ls_kv_deinit(&kv);
    return bytes;
}

/* Weights and work are measured when there is an executor, and otherwise the stored weights. */
static void describe_memory(const ls_model *m, int64_t kv_columns, json_t *o) {
    json_t *memory = json_object();
    size_t weights = 0, kv = 0, work = 0;
    if (m->executor) m->executor->memory(m->executor, &weights, &kv, &work);
    else weights = (size_t)json_integer_value(json_object_get(o, "weight_bytes"));
    put(memory, "measured", json_boolean(m->executor != NULL));
    put(memory, "context", json_integer(m->context));
    put(memory, "slots", json_integer(m->slots));
    put(memory, "weights_bytes", json_integer((json_int_t)weights));
    put(memory, "kv_bytes", json_integer((json_int_t)full_cache(m, kv_columns)));
    put(memory, "work_bytes", json_integer((json_int_t)work));
    put(o, "memory", memory);
}

static void describe_contracts(const ls_model *m, json_t *o) {
    json_t *contracts = json_array();
    const ls_packfile *pack = ls_checkpoint_pack(m->checkpoint); /* runs under its own only */
    for (int c = 0; c < LS_CONTRACT_COUNT; c++)
        if (!pack || pack->id.contract == (uint32_t)c) json_array_append_new(contracts, json_string(ls_contract_name((ls_contract)c)));
    put(o, "contract", json_string(ls_contract_name(m->contract)));
    put(o, "contract_version", json_integer(LS_CONTRACT_VERSION));
    put(o, "contracts", contracts);
    put(o, "fingerprint", json_string(m->fingerprint));
    if (m->backend) put(o, "backend", json_string(m->backend));
    if (m->executor && m->executor->level) put(o, "native", json_pack("{s:s, s:i}", "level", m->executor->level, "threads", m->executor->threads));
    if (m->xla.engine) put(o, "xla", ls_backend_xla_describe(&m->xla, m->executor, m->contract == LS_CONTRACT_FLOAT));
}

static json_t *hex_of(const uint8_t digest[32]) {
    char hex[65];
    ls_sha256_hex(digest, hex);
    return json_string(hex);
}

static json_t *describe_pack(const ls_packfile *p) {
    json_t *o = json_object(), *sections = json_object();
    put(o, "format", json_integer(LS_PACK_FORMAT));
    put(o, "layout", json_integer(p->id.layout));
    put(o, "bytes", json_integer((json_int_t)p->file.size));
    put(o, "contract", json_string(ls_contract_name((ls_contract)p->id.contract)));
    put(o, "contract_version", json_integer(p->id.contract_version));
    put(o, "fingerprint", hex_of(p->id.fingerprint));
    put(o, "weight_schema_sha256", hex_of(p->id.schema));
    put(o, "weights_sha256", hex_of(p->id.weights));
    put(o, "matrices", json_integer((json_int_t)p->n_matrices));
    for (int s = 0; s < LS_SECTION_COUNT; s++)
        if (p->section[s].data) put(sections, ls_section_name((ls_section)s), json_integer((json_int_t)p->section[s].size));
    put(o, "section_bytes", sections);
    return o;
}

static void describe_text(const ls_model *m, json_t *o) {
    json_t *eos = json_array();
    for (size_t i = 0; i < m->n_eos; i++) json_array_append_new(eos, json_integer(m->eos[i]));
    put(o, "eos_token_ids", eos);
    put(o, "tokenizer_size", m->tokenizer ? json_integer((json_int_t)ls_tokenizer_size(m->tokenizer)) : json_null());
    put(o, "chat_template", m->chat ? json_true() : m->chat_error.code ? json_string_nocheck(m->chat_error.text) : json_false());
}

/* Whether it sees, and with what; or why it does not. */
static void describe_vision(const ls_model *m, json_t *o) {
    const ls_eyes *x = &m->eyes;
    const char *why = ls_model_no_vision(m);
    put(o, "identity", json_string(m->identity));
    if (why) put(o, "vision", x->why.code ? json_pack("{s:b, s:s}", "available", 0, "reason", why) : json_null());
    else
        put(o, "vision", json_pack("{s:b, s:i, s:i, s:i, s:I}", "available", 1, "image_size", x->vision->image.image_size, "patch_size",
                                   x->vision->image.patch_size, "tokens_per_image", (int)x->tokens.count, "nodes", (json_int_t)x->vision->graph->n_nodes));
}

static int append(const char *bytes, size_t n, void *user) { return ls_str_append(user, bytes, n, NULL) ? -1 : 0; }

ls_code ls_model_describe(const ls_model *m, char **json, ls_error *e) {
    if (!m->graph) LS_FAIL(e, LS_FAILED_PRECONDITION, "the model was opened without its graph; open it with LS_LOAD_GRAPH");
    json_t *o = json_object();
    int64_t kv_columns = describe_graph(m->graph, o);
    describe_tensors(m->checkpoint, o);
    describe_memory(m, kv_columns, o);
    describe_contracts(m, o);
    describe_text(m, o);
    describe_vision(m, o);
    describe_unused(m->checkpoint, o);
    if (ls_checkpoint_pack(m->checkpoint)) put(o, "pack", describe_pack(ls_checkpoint_pack(m->checkpoint)));
    ls_str text = {0};
    int failed = json_dump_callback(o, append, &text, JSON_INDENT(2));
    json_decref(o);
    if (failed) {
        ls_str_deinit(&text);
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "the description does not fit memory");
    }
    *json = text.data;
    return LS_OK;
}
