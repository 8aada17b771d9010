/* Opening a model: checkpoint, tokenizer, template, graph and executor, in this order, each step checked. */
#include "session/bundle.h"

#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "session/session.h"
#include "session/shadow.h"
#include "text/tokenizer_tables.h"
#include "weights/packfile.h"

/* ---- End-of-sequence ids ------------------------------------------------------------------------------------------ */

static ls_code add_eos(const json_t *v, int32_t *eos, size_t *n, ls_error *e) {
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > INT32_MAX)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "eos_token_id must be a token id or a list of token ids");
    if (*n == LS_MAX_EOS) LS_FAIL(e, LS_INVALID_ARGUMENT, "eos_token_id lists more than the allowed %d ids", LS_MAX_EOS);
    eos[(*n)++] = (int32_t)json_integer_value(v);
    return LS_OK;
}

ls_code ls_eos_ids(const json_t *generation, const json_t *config, const ls_tokenizer *t, int32_t *eos, size_t *n, ls_error *e) {
    *n = 0;
    const json_t *v = json_object_get(generation, "eos_token_id");
    if (!v || json_is_null(v)) v = json_object_get(config, "eos_token_id");
    if (v && !json_is_null(v)) {
        if (!json_is_array(v)) return add_eos(v, eos, n, e);
        for (size_t i = 0; i < json_array_size(v); i++) LS_TRY(add_eos(json_array_get(v, i), eos, n, e));
        return LS_OK;
    }
    if (t && ls_tokenizer_eos(t) >= 0) eos[(*n)++] = ls_tokenizer_eos(t);
    return LS_OK;
}

/* ---- Opening ------------------------------------------------------------------------------------------------------ */

ls_code ls_model_need_tokenizer(const ls_model *m, ls_error *e) {
    if (!m->tokenizer)
        LS_FAIL(e, LS_FAILED_PRECONDITION, "the model has no tokenizer files (tokenizer.json or tokenizer.model); give token ids instead of text");
    return LS_OK;
}

ls_code ls_model_need_vision(const ls_model *m, ls_error *e) {
    if (m->vision.graph) return LS_OK;
    if (!m->vision_code) LS_FAIL(e, LS_FAILED_PRECONDITION, "the model does not see: its configuration has no \"vision_config\"");
    if (e) *e = m->vision_error;
    return m->vision_code;
}

static ls_code open_packed_tokenizer(ls_model *m, const ls_packfile *p, ls_error *e) {
    const ls_pack_span *t = &p->section[LS_SECTION_TOKENIZER], *chat = &p->section[LS_SECTION_CHAT_TEMPLATE];
    if (!t->data) return LS_OK;
    ls_code rc = ls_tokenizer_open_tables(&m->tokenizer, t->data, t->size, (const char *)chat->data, chat->size, e);
    return rc ? ls_error_wrap(e, rc, "\"%s\"", p->path) : LS_OK;
}

/* A folder without tokenizer files is still a model for token ids; a broken tokenizer is an error. */
static ls_code open_tokenizer(ls_model *m, const char *folder, ls_error *e) {
    const ls_packfile *pack = ls_checkpoint_pack(m->checkpoint);
    if (pack) return open_packed_tokenizer(m, pack, e);
    const json_t *gguf = ls_checkpoint_gguf_metadata(m->checkpoint);
    if (gguf && !folder) return ls_tokenizer_open_gguf(&m->tokenizer, gguf, e);
    if (!folder) return LS_OK;
    ls_code rc = ls_tokenizer_open_folder(&m->tokenizer, folder, e);
    if (rc == LS_NOT_FOUND && gguf) return ls_tokenizer_open_gguf(&m->tokenizer, gguf, e);
    return rc == LS_NOT_FOUND ? LS_OK : rc;
}

/* A template outside the supported subset does not hinder raw prompts: its error is kept for the first chat. */
static void compile_template(ls_model *m) {
    const char *source = m->tokenizer ? ls_tokenizer_chat_template(m->tokenizer) : NULL;
    if (source) ls_chat_template_compile(&m->chat, source, strlen(source), &m->chat_error);
}

/* Without a contract asked for, a pack file runs under its own. */
static ls_code take_pack_contract(ls_model *m, const ls_model_options *o, ls_error *e) {
    const ls_packfile *p = ls_checkpoint_pack(m->checkpoint);
    if (!p) return LS_OK;
    if (p->id.contract >= LS_CONTRACT_COUNT || p->id.contract == LS_CONTRACT_FLOAT)
        LS_FAIL(e, LS_FAILED_PRECONDITION, "\"%s\": header: contract number %u is unknown to this lockstep: pack the model again", p->path, p->id.contract);
    if (!o->contract) m->contract = (ls_contract)p->id.contract;
    return LS_OK;
}

/* A pack file belongs to the graph it was made for: the same family, attributes and tensors. */
static ls_code check_pack_graph(const ls_model *m, ls_error *e) {
    const ls_packfile *p = ls_checkpoint_pack(m->checkpoint);
    char own[65], wanted[65];
    ls_graph *g;
    if (!p || (uint32_t)m->contract != p->id.contract) return LS_OK; /* of another contract: backend native refuses it */
    LS_TRY(ls_model_build(&g, m->checkpoint, &(ls_build_options){.contract = m->contract}, e));
    ls_code rc = ls_graph_fingerprint(g, own, e);
    ls_graph_destroy(g);
    ls_sha256_hex(p->id.fingerprint, wanted);
    if (!rc && strcmp(own, wanted))
        LS_FAIL(e, LS_FAILED_PRECONDITION,
                "\"%s\": header: packed for graph %.16s...; this lockstep builds %.16s... from its configuration: pack the model again", p->path,
                wanted, own);
    return rc;
}

/* A tower that cannot be built does not hinder text: its error is kept for the first image. */
static ls_code build_graph(ls_model *m, const ls_model_options *o, ls_error *e) {
    ls_build_options build = {.contract = m->contract, .context = o->context};
    LS_TRY(ls_model_build(&m->graph, m->checkpoint, &build, e));
    m->vision_code = ls_vision_build(&m->vision, m->checkpoint, &build, &m->vision_error);
    int64_t most = m->graph->max_context > 0 && m->graph->max_context < LS_MAX_CONTEXT ? m->graph->max_context : LS_MAX_CONTEXT;
    if (o->context > most) LS_FAIL(e, LS_INVALID_ARGUMENT, "context of %d positions; this model allows at most %lld", o->context, (long long)most);
    m->context = o->context ? o->context : most < LS_DEFAULT_CONTEXT ? (int)most : LS_DEFAULT_CONTEXT;
    LS_TRY(ls_backend_xla_limit(o, &m->context, e));
    LS_TRY(ls_eos_ids(ls_checkpoint_generation_config(m->checkpoint), ls_checkpoint_config(m->checkpoint), m->tokenizer, m->eos, &m->n_eos, e));
    LS_TRY(ls_graph_fingerprint(m->graph, m->fingerprint, e));
    LS_TRY(ls_eyes_open(&m->eyes, &m->vision, &m->vision_error, m->checkpoint, m->tokenizer, m->graph->hidden, e));
    return ls_model_identify(m, e);
}

const char *ls_backend_at(size_t i) {
    static const char *const names[] = {"native", "reference", "xla"};
    return i < sizeof names / sizeof *names ? names[i] : NULL;
}

static ls_code find_backend(const char **out, const ls_model_options *o, ls_error *e) {
    const char *name = o->backend ? o->backend : "native";
    for (size_t i = 0; ls_backend_at(i); i++)
        if (!strcmp(name, ls_backend_at(i))) {
            *out = ls_backend_at(i);
            return LS_OK;
        }
    LS_FAIL(e, LS_INVALID_ARGUMENT, "backend \"%s\" is unknown; use native, reference or xla", name);
}

const char *ls_machine_level(void) { return ls_native_level(); }

/* Rows of one pass: a chunk, a token of every slot, or the tokens of an image, which stay together. */
static int pass_rows(const ls_model *m) {
    int rows = m->chunk > m->slots ? m->chunk : m->slots, image = m->eyes.vision ? m->eyes.tokens.count : 0;
    return rows > image ? rows : image;
}

static ls_code create_executor(ls_model *m, const ls_model_options *o, ls_error *e) {
    ls_executor_options x = {.max_seqs = m->slots, .context = m->context, .max_rows = pass_rows(m), .threads = o->threads, .pin = o->pin,
                             .level = o->level, .progress = o->progress, .progress_user = o->progress_user};
    if (!strcmp(m->asked, "xla")) LS_TRY(ls_graph_need_tensors(m->graph, "backend xla", e)); /* before any device work */
    m->backend = m->asked;
    if (!strcmp(m->asked, "xla")) return ls_backend_xla_open(&m->executor, &m->xla, m->graph, m->checkpoint, o, &x, e);
    if (!strcmp(m->asked, "reference")) return ls_reference_create(&m->executor, m->graph, &x, e);
    if (o->shadow) return ls_shadow_create(&m->executor, m->graph, m->graph, m->checkpoint, &x, e);
    return ls_native_create(&m->executor, m->graph, m->checkpoint, &x, e);
}

static ls_code check_options(const ls_model_options *o, ls_error *e) {
    if (o->slots < 0 || o->slots > LS_MAX_SLOTS) LS_FAIL(e, LS_INVALID_ARGUMENT, "%d slots; allowed are 1 to %d", o->slots, LS_MAX_SLOTS);
    if (o->chunk < 0 || o->chunk > LS_MAX_CHUNK) LS_FAIL(e, LS_INVALID_ARGUMENT, "chunk of %d rows; allowed are 1 to %d", o->chunk, LS_MAX_CHUNK);
    if (o->context < 0 || o->context > LS_MAX_CONTEXT)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "context of %d positions; allowed are 1 to %d", o->context, LS_MAX_CONTEXT);
    if (o->threads < 0 || o->threads > 1024) LS_FAIL(e, LS_INVALID_ARGUMENT, "%d threads; allowed are 1 to 1024", o->threads);
    return LS_OK;
}

static ls_code open_parts(ls_model *m, const char *path, const ls_model_options *o, ls_error *e) {
    LS_TRY(check_options(o, e));
    LS_TRY(find_backend(&m->asked, o, e));
    LS_TRY(ls_contract_parse(o->contract ? o->contract : "exact16", &m->contract, e));
    LS_TRY(ls_backend_check_options(o, m->contract, e));
    m->slots = o->slots ? o->slots : 1;
    m->chunk = o->chunk ? o->chunk : LS_DEFAULT_CHUNK;
    m->threads = o->threads;
    m->pin = o->pin;
    m->allow_unqualified = o->allow_unqualified;
    snprintf(m->level, sizeof m->level, "%s", o->level ? o->level : "");
    if (o->parts == LS_LOAD_TOKENIZER && ls_is_folder(path)) {
        ls_code rc = ls_tokenizer_open_folder(&m->tokenizer, path, e);
        if (!rc) compile_template(m);
        if (rc != LS_NOT_FOUND) return rc; /* otherwise it may be in a .gguf of the folder */
    }
    LS_TRY(ls_checkpoint_open(&m->checkpoint, path, e));
    LS_TRY(take_pack_contract(m, o, e));
    LS_TRY(open_tokenizer(m, ls_checkpoint_folder(m->checkpoint), e));
    ls_checkpoint_drop_metadata(m->checkpoint);
    ls_give_back_memory(); /* the parsed vocabulary: as much again as the tokenizer */
    compile_template(m);
    if (o->parts == LS_LOAD_TOKENIZER) return ls_model_need_tokenizer(m, e);
    LS_TRY(build_graph(m, o, e));
    LS_TRY(check_pack_graph(m, e));
    if (o->parts == LS_LOAD_GRAPH) return LS_OK;
    LS_TRY(create_executor(m, o, e));
    ls_give_back_memory(); /* what packing worked with */
    return LS_OK;
}

ls_code ls_model_open(ls_model **out, const char *path, const ls_model_options *given, ls_error *e) {
    ls_model_options o = {0};
    if (given && !given->struct_size) LS_FAIL(e, LS_INVALID_ARGUMENT, "struct_size of the model options is 0; set it to sizeof(ls_model_options)");
    if (given) memcpy(&o, given, given->struct_size < sizeof o ? given->struct_size : sizeof o);
    ls_model *m;
    LS_TRY(ls_calloc(&m, 1, sizeof *m, "model", e));
    ls_code rc = open_parts(m, path, &o, e);
    if (rc) {
        ls_model_destroy(m);
        return rc;
    }
    *out = m;
    return LS_OK;
}

void ls_model_destroy(ls_model *m) {
    if (!m) return;
    ls_eyes_deinit(&m->eyes);
    if (m->executor) m->executor->destroy(m->executor);
    ls_backend_xla_deinit(&m->xla);
    ls_graph_destroy(m->graph);
    ls_vision_deinit(&m->vision);
    ls_chat_template_free(m->chat);
    ls_tokenizer_close(m->tokenizer);
    ls_checkpoint_close(m->checkpoint);
    ls_free(m);
}

/* ---- Questions ------------------------------------------------------------------------------------------------------ */

int ls_model_context(const ls_model *m) { return m->context; }
int64_t ls_model_vocab(const ls_model *m) { return m->graph ? m->graph->vocab : 0; }
const char *ls_model_contract(const ls_model *m) { return ls_contract_name(m->contract); }
const char *ls_model_fingerprint(const ls_model *m) { return m->fingerprint; }
const char *ls_model_identity(const ls_model *m) { return m->identity; }
const char *ls_model_unqualified(const ls_model *m) { return m->xla.engine && !m->xla.qualified ? m->xla.why.data : NULL; }
bool ls_model_has_chat_template(const ls_model *m) { return m->chat != NULL; }
void ls_buffer_free(void *p) { ls_free(p); }

/* All that the keys and values of a block depend on beside the tokens. A cache in memory dies with the model, so the weights, which take
 * time to hash, count only on disk. */
static ls_code prefix_identity(ls_model *m, bool on_disk, ls_str *out, ls_error *e) {
    char weights[65] = "of this process";
    if (on_disk) {
        LS_TRY(ls_checkpoint_bytes_sha256(m->checkpoint, weights, e));
        ls_checkpoint_forget_files(m->checkpoint);
    }
    LS_TRY(ls_str_printf(out, e, "lockstep prefix cache 1\nlayout %s\ncontract %s/%d\ngraph %s\nweights %s\n",
                         m->executor->sharing ? m->executor->sharing->layout : "none", ls_contract_name(m->contract), (int)LS_CONTRACT_VERSION,
                         m->fingerprint, weights));
    return m->xla.engine ? ls_backend_xla_identity(&m->xla, m->contract == LS_CONTRACT_FLOAT, out, e) : LS_OK;
}

/* Equal ids must be equal tokens. Without tokenizers nobody can tell but by the number of logits. */
static ls_code same_vocabulary(const ls_model *m, const ls_model *draft, ls_error *e) {
    const ls_tokenizer *a = m->tokenizer, *b = draft->tokenizer;
    if (!a || !b) {
        if (m->graph->vocab != draft->graph->vocab)
            LS_FAIL(e, LS_INVALID_ARGUMENT,
                    "the draft model has %lld logits, the model %lld: their vocabularies differ; use a draft model with the same tokenizer",
                    (long long)draft->graph->vocab, (long long)m->graph->vocab);
        return LS_OK;
    }
    if (ls_tokenizer_size(a) != ls_tokenizer_size(b))
        LS_FAIL(e, LS_INVALID_ARGUMENT, "the draft model has %zu tokens, the model %zu: their vocabularies differ; use a draft model with the same tokenizer",
                ls_tokenizer_size(b), ls_tokenizer_size(a));
    for (size_t i = 0; i < ls_tokenizer_size(a); i++) {
        size_t na = 0, nb = 0;
        const char *ta = ls_tokenizer_token(a, (int32_t)i, &na), *tb = ls_tokenizer_token(b, (int32_t)i, &nb);
        if (!ta == !tb && (!ta || (na == nb && !memcmp(ta, tb, na)))) continue;
        LS_FAIL(e, LS_INVALID_ARGUMENT,
                "token %zu is \"%.*s\" in the draft model and \"%.*s\" in the model: their vocabularies differ; use a draft model with the same tokenizer",
                i, (int)(nb < 60 ? nb : 60), tb ? tb : "", (int)(na < 60 ? na : 60), ta ? ta : "");
    }
    return LS_OK;
}

static ls_code drafter_of(ls_drafter_config *out, const ls_model *m, ls_model *draft, ls_error *e) {
    if (!draft->executor) LS_FAIL(e, LS_FAILED_PRECONDITION, "the draft model was opened without an executor; open it with LS_LOAD_ALL");
    if (draft == m || draft->session_in_use) LS_FAIL(e, LS_FAILED_PRECONDITION, "the draft model is in use; open it a second time");
    if (draft->slots < m->slots)
        LS_FAIL(e, LS_FAILED_PRECONDITION, "the draft model has %d slots, the model %d; open it with as many", draft->slots, m->slots);
    LS_TRY(same_vocabulary(m, draft, e));
    int64_t own = draft->graph->vocab, used = own < m->graph->vocab ? own : m->graph->vocab;
    *out = (ls_drafter_config){.executor = draft->executor, .vocab = own, .vocab_used = used, .context = draft->context, .slots = m->slots,
                               .max_rows = draft->chunk > draft->slots ? draft->chunk : draft->slots, .in_use = &draft->session_in_use};
    return LS_OK;
}

ls_code ls_session_create_with(ls_session **out, ls_model *m, const ls_session_options *given, ls_error *e) {
    ls_session_options o = {0};
    if (given && !given->struct_size) LS_FAIL(e, LS_INVALID_ARGUMENT, "struct_size of the session options is 0; set it to sizeof(ls_session_options)");
    if (given) memcpy(&o, given, given->struct_size < sizeof o ? given->struct_size : sizeof o);
    if (!m->executor) LS_FAIL(e, LS_FAILED_PRECONDITION, "the model was opened without an executor; open it with LS_LOAD_ALL");
    if (o.prefix_cache && !o.prefix_cache_bytes) LS_FAIL(e, LS_INVALID_ARGUMENT, "a prefix cache in a folder needs room; set prefix_cache_bytes");
    if (o.guesses && !o.lookup && !o.draft) LS_FAIL(e, LS_INVALID_ARGUMENT, "%d guesses by nobody; set lookup or draft", o.guesses);
    ls_drafter_config drafter;
    if (o.draft) LS_TRY(drafter_of(&drafter, m, o.draft, e));
    ls_str identity = {0};
    ls_code rc = o.prefix_cache_bytes ? prefix_identity(m, o.prefix_cache != NULL, &identity, e) : LS_OK;
    ls_session_config c = {.executor = m->executor, .vocab = m->graph->vocab, .context = m->context, .slots = m->slots, .chunk = m->chunk,
                           .eos = m->eos, .n_eos = m->n_eos, .in_use = &m->session_in_use, .prefix_bytes = o.prefix_cache_bytes,
                           .prefix_folder = o.prefix_cache, .hidden = m->eyes.vision ? m->graph->hidden : 0,
                           .max_rows = pass_rows(m), .identity = identity.data, .lookup = o.lookup, .drafter = o.draft ? &drafter : NULL,
                           .guesses = !o.lookup && !o.draft ? 0 : o.guesses ? o.guesses : LS_DEFAULT_GUESSES};
    if (!rc) rc = ls_session_create_on(out, &c, e);
    ls_str_deinit(&identity);
    return rc;
}

ls_code ls_session_create(ls_session **out, ls_model *m, ls_error *e) { return ls_session_create_with(out, m, NULL, e); }
