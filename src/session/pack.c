/* lockstep pack: which matrices and tensors of a model go into a pack file, and their packing. The file itself is written by src/weights/packfile_write.c. */
#include <stdlib.h>
#include <string.h>

#include "native/pack.h"
#include "session/bundle.h"
#include "text/tokenizer_tables.h"
#include "weights/packfile.h"

/* A model being packed. */
typedef struct packer {
    ls_model *m;
    ls_pool *pool;
    ls_pack_options o;
    ls_pack_matrix *matrices; /* [n] ascending, each once */
    size_t n, cap;
    bool *stored;             /* [tensors] */
    ls_packed packed;         /* the matrix being written */
} packer;

/* ---- What goes in -------------------------------------------------------------------------------------------------- */

static ls_code add_matrix(packer *k, const ls_param *p, ls_error *e) {
    enum { MAX_MATRICES = 1 << 22 };
    size_t bytes = 0;
    if (ls_checkpoint_index(k->m->checkpoint, p->tensor) == SIZE_MAX)
        LS_FAIL(e, LS_UNIMPLEMENTED, "matrix \"%s\" is put together from other tensors, which a pack file cannot hold", p->name);
    LS_TRY(ls_pack_bytes(&bytes, p->tensor, p->rows, k->m->contract, e));
    LS_TRY(ls_grow(&k->matrices, k->n, &k->cap, sizeof *k->matrices, MAX_MATRICES, "matrices", e));
    k->matrices[k->n++] = (ls_pack_matrix){.tensor = p->tensor, .row_begin = p->row_begin, .rows = p->rows, .bytes = bytes};
    return LS_OK;
}

static int by_place(const void *pa, const void *pb) {
    const ls_pack_matrix *a = pa, *b = pb;
    int names = strcmp(a->tensor->name, b->tensor->name);
    if (names) return names;
    if (a->row_begin != b->row_begin) return a->row_begin < b->row_begin ? -1 : 1;
    return (a->rows > b->rows) - (a->rows < b->rows);
}

/* The matrices that the native executor asks for: of products and of experts. */
static ls_code collect_matrices(packer *k, ls_error *e) {
    const ls_graph *g = k->m->graph;
    size_t kept = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ls_node *n = &g->nodes[i];
        if (n->op == LS_OP_LINEAR) LS_TRY(add_matrix(k, n->w[0], e));
        for (int x = 0; n->op == LS_OP_MOE && x < n->moe->experts; x++) {
            LS_TRY(add_matrix(k, &n->moe->gate[x], e));
            LS_TRY(add_matrix(k, &n->moe->up[x], e));
            LS_TRY(add_matrix(k, &n->moe->down[x], e));
        }
    }
    if (k->n) qsort(k->matrices, k->n, sizeof *k->matrices, by_place);
    for (size_t i = 0; i < k->n; i++)
        if (!i || by_place(&k->matrices[i], &k->matrices[i - 1])) k->matrices[kept++] = k->matrices[i];
    k->n = kept;
    return LS_OK;
}

/* An embedding table that the native executor reads from a matrix: packing loses nothing of formats of integers. */
static ls_code is_read_back(const packer *k, const ls_node *n, bool *out, ls_error *e) {
    const ls_param *p = n->w[0];
    *out = false;
    for (size_t i = 0; n->op == LS_OP_EMBED && i < k->n; i++) {
        const ls_pack_matrix *m = &k->matrices[i];
        if (m->tensor != p->tensor || m->row_begin != p->row_begin || m->rows != p->rows) continue;
        ls_packed w;
        LS_TRY(ls_packed_plan(&w, p->tensor, p->rows, k->m->contract, e));
        *out = w.form.quantised;
    }
    return LS_OK;
}

/* Everything that something looked up while the graph was built, except what is read as a matrix only. Parameters that are put together from other
 * tensors are so again when the pack file is opened. */
static ls_code collect_tensors(packer *k, ls_error *e) {
    const ls_checkpoint *c = k->m->checkpoint;
    size_t n = ls_checkpoint_count(c), at = 0;
    LS_TRY(ls_calloc(&k->stored, n, sizeof *k->stored, "tensors", e));
    for (size_t i = 0; i < n; i++) k->stored[i] = true;
    const char *unused = ls_checkpoint_unused(c, at);
    for (size_t i = 0; i < n && unused; i++) /* both in name order */
        if (!strcmp(ls_checkpoint_at(c, i)->name, unused)) {
            k->stored[i] = false;
            unused = ls_checkpoint_unused(c, ++at);
        }
    for (size_t i = 0; i < k->n; i++) k->stored[ls_checkpoint_index(c, k->matrices[i].tensor)] = false;
    for (size_t i = 0; i < k->m->graph->n_nodes; i++) {
        const ls_node *node = &k->m->graph->nodes[i];
        bool read_back;
        LS_TRY(is_read_back(k, node, &read_back, e));
        for (int w = node->op == LS_OP_LINEAR || read_back ? 1 : 0; w < 2; w++) {
            size_t index = node->w[w] ? ls_checkpoint_index(c, node->w[w]->tensor) : SIZE_MAX;
            if (index != SIZE_MAX) k->stored[index] = true;
        }
    }
    return LS_OK;
}

/* What the native executor checks when it loads a checkpoint, it need not check in a pack file. */
static ls_code check_tensors(const packer *k, ls_error *e) {
    const ls_checkpoint *c = k->m->checkpoint;
    for (size_t i = 0; i < ls_checkpoint_count(c); i++)
        if (k->stored[i]) LS_TRY(ls_tensor_check_weight(ls_checkpoint_at(c, i), e));
    return LS_OK;
}

/* ---- Writing ------------------------------------------------------------------------------------------------------- */

static ls_code give_matrix(void *user, size_t i, const uint8_t **data, ls_error *e) {
    packer *k = user;
    const ls_pack_matrix *m = &k->matrices[i];
    if (k->o.cancelled && k->o.cancelled(k->o.cancelled_user)) LS_FAIL(e, LS_CANCELLED, "packing was interrupted");
    ls_packed_deinit(&k->packed);
    if (!i || m->tensor != m[-1].tensor) LS_TRY(ls_tensor_check_weight(m->tensor, e));
    LS_TRY(ls_pack(&k->packed, m->tensor, m->row_begin, m->rows, k->m->contract, k->m->checkpoint, k->pool, NULL, e));
    *data = k->packed.data;
    return LS_OK;
}

static void bytes_of(const char *hex, uint8_t digest[32]) {
    for (int i = 0; i < 32; i++) {
        const char pair[3] = {hex[2 * i], hex[2 * i + 1], 0};
        digest[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
}

static ls_code identify(const packer *k, ls_pack_identity *id, ls_error *e) {
    const ls_checkpoint *c = k->m->checkpoint;
    char hex[65];
    *id = (ls_pack_identity){.layout = LS_PACK_LAYOUT, .contract = (uint32_t)k->m->contract, .contract_version = LS_CONTRACT_VERSION};
    bytes_of(k->m->fingerprint, id->fingerprint);
    LS_TRY(ls_checkpoint_schema_sha256(c, hex, e));
    bytes_of(hex, id->schema);
    LS_TRY(ls_checkpoint_bytes_sha256(c, hex, e));
    bytes_of(hex, id->weights);
    for (size_t i = 0; i < ls_checkpoint_count(c); i++) ls_checkpoint_forget(k->m->checkpoint, ls_checkpoint_at(c, i));
    return LS_OK;
}

static int append(const char *bytes, size_t n, void *user) { return ls_str_append(user, bytes, n, NULL) ? -1 : 0; }

/* The settings of the image processor as text, when the model sees; |out| stays empty when it does not. */
static ls_code write_processor(const packer *k, ls_str *out, ls_error *e) {
    json_t *files;
    if (!k->m->eyes.vision) return LS_OK;
    LS_TRY(ls_image_processor_files(&files, ls_checkpoint_folder(k->m->checkpoint), e));
    int failed = json_dump_callback(files, append, out, JSON_COMPACT);
    json_decref(files);
    if (failed) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "section %s: out of memory", ls_section_name(LS_SECTION_IMAGES));
    return LS_OK;
}

static ls_code write_file(packer *k, const char *output, ls_error *e) {
    const ls_tokenizer *t = k->m->tokenizer;
    const char *chat = t ? ls_tokenizer_chat_template(t) : NULL;
    ls_str tables = {0}, processor = {0};
    ls_pack_source s = {.checkpoint = k->m->checkpoint, .stored = k->stored, .matrices = k->matrices, .n_matrices = k->n, .matrix = give_matrix, .user = k,
                        .progress = k->o.progress, .progress_user = k->o.progress_user};
    ls_code rc = LS_OK;
    if (t) LS_GOTO(ls_tokenizer_write_tables(t, &tables, e));
    LS_GOTO(write_processor(k, &processor, e));
    LS_GOTO(identify(k, &s.id, e));
    s.image_processor = (ls_pack_span){(const uint8_t *)processor.data, processor.len};
    s.tokenizer = (ls_pack_span){(const uint8_t *)tables.data, tables.len};
    if (chat && *chat) s.chat_template = (ls_pack_span){(const uint8_t *)chat, strlen(chat)};
    rc = ls_packfile_write(output, &s, e);
out:
    ls_str_deinit(&tables);
    ls_str_deinit(&processor);
    return rc;
}

static ls_code pack(packer *k, const char *output, ls_error *e) {
    if (k->m->contract == LS_CONTRACT_FLOAT)
        LS_FAIL(e, LS_UNIMPLEMENTED, "contract float is not run by backend native, so nothing is packed for it; use exact16, exact16-kv8 or exact24");
    if (ls_checkpoint_pack(k->m->checkpoint)) LS_FAIL(e, LS_INVALID_ARGUMENT, "the model is a pack file already; give the model that it was made from");
    LS_TRY(collect_matrices(k, e));
    LS_TRY(collect_tensors(k, e));
    LS_TRY(check_tensors(k, e));
    LS_TRY(ls_pool_create(&k->pool, k->o.threads, false, 0, e));
    return write_file(k, output, e);
}

/* The new file, opened as any user will open it. */
static ls_code describe(const char *output, char **json, ls_error *e) {
    ls_model *m = NULL;
    LS_TRY(ls_model_open(&m, output, &(ls_model_options){.struct_size = sizeof(ls_model_options), .parts = LS_LOAD_GRAPH}, e));
    ls_code rc = json ? ls_model_describe(m, json, e) : LS_OK;
    ls_model_destroy(m);
    return rc;
}

ls_code ls_model_pack(const char *path, const char *output, const ls_pack_options *given, char **json, ls_error *e) {
    packer k = {0};
    if (given && !given->struct_size) LS_FAIL(e, LS_INVALID_ARGUMENT, "struct_size of the pack options is 0; set it to sizeof(ls_pack_options)");
    if (given) memcpy(&k.o, given, given->struct_size < sizeof k.o ? given->struct_size : sizeof k.o);
    if (!output || !*output) LS_FAIL(e, LS_INVALID_ARGUMENT, "name a file to write");
    LS_TRY(ls_model_open(&k.m, path, &(ls_model_options){.struct_size = sizeof(ls_model_options), .parts = LS_LOAD_GRAPH, .contract = k.o.contract}, e));
    ls_code rc = pack(&k, output, e);
    ls_packed_deinit(&k.packed);
    ls_pool_destroy(k.pool);
    ls_free(k.matrices);
    ls_free(k.stored);
    ls_model_destroy(k.m);
    return rc ? rc : describe(output, json, e);
}

ls_code ls_model_check(const ls_model *m, void (*progress)(void *user, double fraction), void *progress_user, ls_error *e) {
    LS_TRY(ls_packfile_check(m->checkpoint, progress, progress_user, e));
    return ls_pack_check_layout(ls_checkpoint_pack(m->checkpoint), e);
}
