/* The builder: sizes, names, and one function per kind of node. Blocks made of several nodes are in blocks.c. */
#include "models/builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_LAYERS = 1024,
    MAX_HEADS = 4096,
    MAX_HEAD_DIM = 512,
    MAX_WIDTH = 1 << 24,
    MAX_VOCAB = 1 << 24,
    NAME_BYTES = 320
};

/* A size that the configuration must give unless the family knows it. */
static int64_t size(ls_build *b, const char *key, int64_t max, int64_t fallback) {
    if (!fallback && !ls_cfg_has(b, key)) LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT, "config has no \"%s\"", key);
    return ls_cfg_int(b, key, 1, max, fallback);
}

void ls_build_init(ls_build *b, ls_graph *g, ls_checkpoint *c, const json_t *config, const ls_build_options *o,
                   const ls_build_defaults *defaults, ls_error *e) {
    static const ls_build_defaults none;
    const ls_build_defaults *d = defaults ? defaults : &none;
    *b = (ls_build){.g = g,
                    .c = c,
                    .config = config,
                    .context = o->context,
                    .e = e,
                    .root = "model",
                    .embed = "embed_tokens",
                    .list = "layers",
                    .norm = d->norm};
    b->hidden = size(b, "hidden_size", MAX_WIDTH, d->hidden);
    b->vocab = size(b, "vocab_size", MAX_VOCAB, d->vocab);
    b->inter = size(b, "intermediate_size", MAX_WIDTH, d->inter);
    b->layers = (int)size(b, ls_cfg_has(b, "num_layers") ? "num_layers" : "num_hidden_layers", MAX_LAYERS, d->layers);
    b->heads = (int)size(b, "num_attention_heads", MAX_HEADS, d->heads);
    b->kv_heads = (int)ls_cfg_int(b, "num_key_value_heads", 1, MAX_HEADS, d->kv_heads ? d->kv_heads : b->heads);
    bool derived = !d->head_dim && !ls_cfg_has(b, "head_dim");
    b->head_dim = (int)ls_cfg_int(b, "head_dim", 1, MAX_HEAD_DIM,
                                  d->head_dim ? d->head_dim
                                  : b->heads  ? b->hidden / b->heads
                                              : 0);
    b->max_positions = ls_cfg_int(b, "max_position_embeddings", 1, INT32_MAX,
                                  d->max_positions ? d->max_positions : 2048);
    b->eps = (float)ls_cfg_real(b, d->eps_key ? d->eps_key : "rms_norm_eps", d->eps > 0 ? d->eps : 1e-6);
    if (!b->rc && derived && (b->hidden % b->heads || b->head_dim > MAX_HEAD_DIM || b->head_dim < 1))
        LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT, "config \"hidden_size\" %lld does not give %d heads of 1 to %d columns",
                      (long long)b->hidden, b->heads, MAX_HEAD_DIM);
}

/* The layer that the tensor |name| of the list belongs to; -1: it is none of a layer. */
static long layer_of(const char *name, const char *list) {
    size_t n = strlen(list);
    char *end;
    if (strncmp(name, list, n) || name[n] < '0' || name[n] > '9') return -1;
    long layer = strtol(name + n, &end, 10);
    return *end == '.' ? layer : -1;
}

/* A layer beyond the configuration's number would be left out in silence, and the answers would be another model's. Families whose checkpoints hold
 * layers that take no part in the logits have them under names of their own (MiMo's "model.mtp_layers"). */
static void refuse_further_layers(ls_build *b) {
    char list[160];
    snprintf(list, sizeof list, "%s.%s.", b->root, b->list);
    for (size_t i = 0; !b->rc && i < ls_checkpoint_count(b->c); i++) {
        const char *name = ls_checkpoint_at(b->c, i)->name;
        long layer = layer_of(name, list);
        if (layer >= b->layers)
            LS_BUILD_FAIL(b, LS_INVALID_ARGUMENT,
                          "tensor \"%s\" belongs to layer %ld; config \"%s\" %d allows layers 0 to %d: give the configuration that belongs to these weights",
                          name, layer, ls_cfg_has(b, "num_layers") ? "num_layers" : "num_hidden_layers", b->layers, b->layers - 1);
    }
}

ls_code ls_build_finish(ls_build *b) {
    refuse_further_layers(b);
    b->g->hidden = b->hidden;
    b->g->vocab = b->vocab;
    b->g->max_context = b->max_positions;
    return b->rc;
}

void ls_build_scope_layer(ls_build *b, int layer) { ls_build_scope(b, "%s.%s.%d", b->root, b->list, layer); }

void ls_build_scope(ls_build *b, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(b->scope, sizeof b->scope, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof b->scope) LS_BUILD_FAIL(b, LS_INTERNAL, "module name of %d bytes", n);
}

/* "<scope>.<name>" in |out|; false after an error. */
static bool full_name(ls_build *b, char out[NAME_BYTES], const char *name) {
    int n = snprintf(out, NAME_BYTES, "%s%s%s", b->scope, *b->scope ? "." : "", name);
    if (n < 0 || n >= NAME_BYTES) LS_BUILD_FAIL(b, LS_INTERNAL, "node name of %d bytes", n);
    return !b->rc;
}

static int64_t cols(const ls_build *b, int x) { return b->g->nodes[x].cols; }

int ls_build_embed(ls_build *b, float scale) {
    char name[NAME_BYTES];
    const ls_param *table = NULL;
    int out = 0;
    ls_build_scope(b, "%s", b->root);
    if (!full_name(b, name, b->embed)) return 0;
    b->rc = ls_graph_param(b->g, &table, b->c, b->vocab, b->hidden, b->e, "%s.weight", name);
    if (!b->rc) b->rc = ls_add_embed(b->g, &out, table, scale, name, b->e);
    return out;
}

int ls_build_linear(ls_build *b, int x, int64_t rows, ls_bias bias, const char *relative) {
    char name[NAME_BYTES];
    const ls_param *w = NULL, *v = NULL;
    int out = 0;
    if (!full_name(b, name, relative)) return 0;
    b->rc = ls_graph_param(b->g, &w, b->c, rows, cols(b, x), b->e, "%s.weight", name);
    if (!b->rc && bias == LS_BIAS_REQUIRED) b->rc = ls_graph_param(b->g, &v, b->c, 1, rows, b->e, "%s.bias", name);
    if (!b->rc && bias == LS_BIAS_IF_STORED)
        b->rc = ls_graph_param_optional(b->g, &v, b->c, 1, rows, b->e, "%s.bias", name);
    if (!b->rc) b->rc = ls_add_linear(b->g, &out, x, w, v, name, b->e);
    return out;
}

int ls_build_norm_groups(ls_build *b, int x, int64_t group, int64_t weights, const char *relative) {
    char name[NAME_BYTES];
    const ls_param *w = NULL, *v = NULL;
    int out = 0;
    if (!full_name(b, name, relative)) return 0;
    b->rc = ls_graph_param(b->g, &w, b->c, 1, weights, b->e, "%s.weight", name);
    if (!b->rc && b->norm == LS_NORM_LAYER) b->rc = ls_graph_param(b->g, &v, b->c, 1, weights, b->e, "%s.bias", name);
    if (b->rc) return 0;
    if (b->norm == LS_NORM_RMS || b->norm == LS_NORM_RMS_PLUS_ONE)
        b->rc = ls_add_rms_norm(b->g, &out, x, w, b->eps, b->norm == LS_NORM_RMS_PLUS_ONE ? 1.0f : 0.0f, group, name,
                                b->e);
    else b->rc = ls_add_layer_norm(b->g, &out, x, w, v, b->eps, group, name, b->e);
    return out;
}

int ls_build_norm(ls_build *b, int x, const char *name) {
    return b->rc ? 0 : ls_build_norm_groups(b, x, cols(b, x), cols(b, x), name);
}

int ls_build_input(ls_build *b, int64_t columns, const char *relative) {
    char name[NAME_BYTES];
    int out = 0;
    if (full_name(b, name, relative)) b->rc = ls_add_input(b->g, &out, columns, name, b->e);
    return out;
}

int ls_build_position(ls_build *b, int x, int64_t rows, const char *relative) {
    char name[NAME_BYTES];
    const ls_param *table = NULL;
    int out = 0;
    if (!full_name(b, name, relative)) return 0;
    b->rc = ls_graph_param(b->g, &table, b->c, rows, cols(b, x), b->e, "%s.weight", name);
    if (!b->rc) b->rc = ls_add_position(b->g, &out, x, table, name, b->e);
    return out;
}

int ls_build_avg_pool(ls_build *b, int x, int grid, int pool, const char *relative) {
    char name[NAME_BYTES];
    int out = 0;
    if (full_name(b, name, relative)) b->rc = ls_add_avg_pool(b->g, &out, x, grid, pool, name, b->e);
    return out;
}

int ls_build_linear_layout(ls_build *b, int x, int64_t rows, ls_layout layout, int64_t channels, const char *weight, const char *bias, const char *relative) {
    char name[NAME_BYTES];
    const ls_param *w = NULL, *v = NULL;
    int out = 0;
    if (!full_name(b, name, relative)) return 0;
    b->rc = ls_graph_param_layout(b->g, &w, b->c, rows, cols(b, x), layout, channels, b->e, "%s.%s", b->scope, weight);
    if (!b->rc && bias) b->rc = ls_graph_param(b->g, &v, b->c, 1, rows, b->e, "%s.%s", b->scope, bias);
    if (!b->rc) b->rc = ls_add_linear(b->g, &out, x, w, v, name, b->e);
    return out;
}

/* The nodes without weights: a name, then one call. */
int ls_build_add(ls_build *b, int x, int y, const char *relative) {
    char name[NAME_BYTES];
    int out = 0;
    if (full_name(b, name, relative)) b->rc = ls_add_add(b->g, &out, x, y, name, b->e);
    return out;
}

int ls_build_mul(ls_build *b, int x, int y, const char *relative) {
    char name[NAME_BYTES];
    int out = 0;
    if (full_name(b, name, relative)) b->rc = ls_add_mul(b->g, &out, x, y, name, b->e);
    return out;
}

int ls_build_scale(ls_build *b, int x, float factor, const char *relative) {
    char name[NAME_BYTES];
    int out = 0;
    if (full_name(b, name, relative)) b->rc = ls_add_scale(b->g, &out, x, factor, name, b->e);
    return out;
}

int ls_build_slice(ls_build *b, int x, int64_t begin, int64_t count, const char *relative) {
    char name[NAME_BYTES];
    int out = 0;
    if (full_name(b, name, relative)) b->rc = ls_add_slice(b->g, &out, x, begin, count, name, b->e);
    return out;
}

int ls_build_act(ls_build *b, int x, ls_act act, const char *relative) {
    char name[NAME_BYTES];
    int out = 0;
    if (full_name(b, name, relative)) b->rc = ls_add_activation(b->g, &out, x, act, name, b->e);
    return out;
}

int ls_build_glu(ls_build *b, int gate, int up, ls_act act, const char *relative) {
    char name[NAME_BYTES];
    int out = 0;
    if (full_name(b, name, relative)) b->rc = ls_add_glu(b->g, &out, gate, up, act, name, b->e);
    return out;
}

int ls_build_clamp(ls_build *b, int x, float limit, const char *relative) {
    char name[NAME_BYTES];
    int out = 0;
    if (full_name(b, name, relative)) b->rc = ls_add_clamp(b->g, &out, x, limit, name, b->e);
    return out;
}

int ls_build_softcap(ls_build *b, int x, float cap, const char *relative) {
    char name[NAME_BYTES];
    int out = 0;
    if (full_name(b, name, relative)) b->rc = ls_add_softcap(b->g, &out, x, cap, name, b->e);
    return out;
}

int ls_build_rotate(ls_build *b, int x, int heads, int rope, const char *relative) {
    char name[NAME_BYTES];
    int out = 0;
    if (full_name(b, name, relative)) b->rc = ls_add_rope(b->g, &out, x, heads, b->head_dim, rope, name, b->e);
    return out;
}

int ls_build_attend(ls_build *b, int q, int k, int v, const ls_attention_spec *spec, const char *relative) {
    char name[NAME_BYTES];
    int out = 0;
    if (full_name(b, name, relative)) b->rc = ls_add_attention(b->g, &out, q, k, v, spec, name, b->e);
    return out;
}

int ls_build_last_norm(ls_build *b, int x, const char *norm) {
    int out = 0;
    if (!b->rc) b->rc = ls_add_select_rows(b->g, &out, x, "select_rows", b->e);
    ls_build_scope(b, "%s", b->root);
    return ls_build_norm(b, out, norm);
}

/* A config that does not say whether the head is tied has a head exactly when the checkpoint has one. */
int ls_build_logits(ls_build *b, int x) {
    char name[NAME_BYTES];
    const ls_param *w = NULL;
    int out = 0;
    ls_build_scope(b, "%s", b->outer);
    bool tied = ls_cfg_bool(b, "tie_word_embeddings", false);
    if (!full_name(b, name, "lm_head")) return 0;
    if (!tied) b->rc = ls_graph_param_optional(b->g, &w, b->c, b->vocab, b->hidden, b->e, "%s.weight", name);
    if (!b->rc && !w && !tied && ls_cfg_has(b, "tie_word_embeddings"))
        LS_BUILD_FAIL(b, LS_NOT_FOUND, "tensor \"%s.weight\" is missing, and config \"tie_word_embeddings\" is false",
                      name);
    if (!b->rc && !w)
        b->rc = ls_graph_param(b->g, &w, b->c, b->vocab, b->hidden, b->e, "%s.%s.weight", b->root, b->embed);
    if (!b->rc) b->rc = ls_add_linear(b->g, &out, x, w, NULL, name, b->e);
    return out;
}

int ls_build_head(ls_build *b, int x) { return ls_build_logits(b, ls_build_last_norm(b, x, "norm")); }
