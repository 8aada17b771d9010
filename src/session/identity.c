/* The identity of a model that sees: the canonical text of everything its answers depend on beside weights and tokenizer files. Floats
 * enter as the hexadecimal bits of their f64 or f32. A model that takes no images keeps its graph's fingerprint. */
#include <inttypes.h>
#include <string.h>

#include "base/bits.h"
#include "base/sha256.h"
#include "session/bundle.h"

/* Version of the meaning of ls_prepared_prefill's rows, positions and blocks. */
static const char prepared_abi[] = "lockstep-prepared-1";

static ls_code add_newlines(const ls_model *m, ls_str *s, ls_error *e) {
    ls_token_ids ids = {0};
    ls_code rc = ls_tokenizer_encode(m->tokenizer, "\n\n", 2, 0, &ids, e);
    if (!rc) rc = ls_str_append(s, "newline ids", SIZE_MAX, e);
    for (size_t i = 0; !rc && i < ids.n; i++) rc = ls_str_printf(s, e, " %" PRId32, ids.ids[i]);
    ls_free(ids.ids);
    return rc ? rc : ls_str_append(s, "\n", 1, e);
}

/* Windows and rotary bases as configured; what they became is in the graph as well. */
static ls_code add_layers(const ls_model *m, ls_str *s, ls_error *e) {
    const json_t *config = ls_checkpoint_config(m->checkpoint), *text = json_object_get(config, "text_config");
    static const char *const keys[] = {"rope_theta", "rope_local_base_freq"};
    if (!json_is_object(text)) text = config;
    for (size_t i = 0; i < 2; i++) {
        const json_t *v = json_object_get(text, keys[i]);
        if (json_is_number(v)) LS_TRY(ls_str_printf(s, e, "%s 0x%016" PRIx64 "\n", keys[i], ls_bits64(json_number_value(v))));
        else LS_TRY(ls_str_printf(s, e, "%s default\n", keys[i]));
    }
    for (size_t i = 0; i < m->graph->n_nodes; i++) {
        const ls_node *n = &m->graph->nodes[i];
        if (n->op == LS_OP_EMBED) LS_TRY(ls_str_printf(s, e, "text rows times 0x%08" PRIx32 " once, image rows as projected\n", ls_bits(n->scale)));
        if (n->op == LS_OP_ATTENTION) LS_TRY(ls_str_printf(s, e, "attention %d window %d\n", n->layer, n->window));
    }
    return LS_OK;
}

static ls_code add_all(const ls_model *m, ls_str *s, ls_error *e) {
    const ls_eyes *x = &m->eyes;
    char tower[65];
    LS_TRY(ls_graph_fingerprint(x->vision->graph, tower, e));
    LS_TRY(ls_str_printf(s, e, "lockstep model identity 1\nsequences %s\ncontract %s/%d\ntext graph %s\nvision graph %s\n", m->slots > 1 ? "ragged" : "single",
                         ls_contract_name(m->contract), (int)LS_CONTRACT_VERSION, m->fingerprint, tower));
    LS_TRY(ls_str_printf(s, e, "prepared prefill %s\nmask causal with image blocks, additive value 0x%08" PRIx32 "\n", prepared_abi, ls_bits(-1e30f)));
    LS_TRY(add_layers(m, s, e));
    LS_TRY(add_newlines(m, s, e));
    LS_TRY(ls_str_printf(s, e, "image id %d\npad id %d\nboi id %d\neoi id %d\ntokens per image %d\nimage %d patch %d channels %d\n",
                         (int)x->tokens.image, (int)x->pad, (int)x->tokens.boi, (int)x->tokens.eoi, (int)x->tokens.count, x->vision->image.image_size,
                         x->vision->image.patch_size, x->vision->image.channels));
    return ls_image_processor_text(&x->processor, s, e);
}

ls_code ls_model_identify(ls_model *m, ls_error *e) {
    ls_str s = {0};
    memcpy(m->identity, m->fingerprint, sizeof m->identity);
    if (!m->eyes.vision) return LS_OK;
    ls_code rc = add_all(m, &s, e);
    if (!rc) ls_sha256_hex_of(s.data, s.len, m->identity);
    ls_str_deinit(&s);
    return rc;
}
