/* GGUF metadata as a Hugging Face config.json and generation_config.json. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/gguf_arch.h"

/* What the translation reads and writes. */
typedef struct translation {
    const ls_checkpoint *c;
    const ls_gguf_arch *arch;
    json_t *config;
    int64_t layers, hidden, heads, head_dim;
} translation;

/* ---- Reading metadata ------------------------------------------------------------------------------------------ */

/* "<arch>.<key>", or NULL when absent. */
static const json_t *meta(const translation *x, const char *key) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", x->arch->name, key);
    return json_object_get(x->c->metadata, full);
}

static ls_code meta_int(const translation *x, const char *key, int64_t *out, ls_error *e) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", x->arch->name, key);
    return ls_json_get_int(x->c->metadata, full, 0, INT32_MAX, out, e);
}

/* The f32 that |v| was stored as, as the shortest decimal that gives it back: 9.99999975e-06 becomes 1e-05, the number
 * that the model's authors wrote. */
static double shortest(double v) {
    char text[40];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if ((float)strtod(text, NULL) == (float)v) return strtod(text, NULL);
    }
    return v;
}

static ls_code meta_real(const translation *x, const char *key, double *out, bool *present, ls_error *e) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", x->arch->name, key);
    const json_t *v = json_object_get(x->c->metadata, full);
    *present = v && !json_is_null(v);
    LS_TRY(ls_json_get_real(x->c->metadata, full, out, e));
    if (*present) *out = shortest(*out);
    return LS_OK;
}

/* ---- Writing the config ---------------------------------------------------------------------------------------- */

/* Takes over |v|. */
static ls_code put(json_t *o, const char *key, json_t *v, ls_error *e) {
    if (json_object_set_new(o, key, v)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "config key \"%s\": out of memory", key);
    return LS_OK;
}

static ls_code put_int(json_t *o, const char *key, int64_t v, ls_error *e) { return put(o, key, json_integer(v), e); }
static ls_code put_bool(json_t *o, const char *key, bool v, ls_error *e) { return put(o, key, json_boolean(v), e); }

static bool has_tensor(const translation *x, const char *name) { return ls_checkpoint_entry(x->c, name) != NULL; }

/* A count that some converters store per layer: only equal values are a Hugging Face config. */
static ls_code meta_uniform(const translation *x, const char *key, int64_t *out, ls_error *e) {
    const json_t *v = meta(x, key);
    if (!json_is_array(v)) return meta_int(x, key, out, e);
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)v, i, item) {
        json_int_t n = json_is_integer(item) ? json_integer_value(item) : -1;
        if (n < 0 || n > INT32_MAX || (i && n != *out))
            LS_FAIL(e, LS_UNIMPLEMENTED, "key \"%s.%s\" differs between layers; only equal layers are supported",
                    x->arch->name, key);
        *out = n;
    }
    return LS_OK;
}

static ls_code need(const translation *x, const char *key, int64_t v, ls_error *e) {
    if (v < 1) LS_FAIL(e, LS_INVALID_ARGUMENT, "GGUF key \"%s.%s\" is missing or not positive", x->arch->name, key);
    return LS_OK;
}

static ls_code put_identity(const translation *x, ls_error *e) {
    bool moe =
        !strcmp(x->arch->name, "llama") && meta(x, "expert_count") && json_integer_value(meta(x, "expert_count")) > 0;
    json_t *list = json_array();
    if (!list || json_array_append_new(list, json_string(moe ? "MixtralForCausalLM" : x->arch->class_name))) {
        json_decref(list);
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "config: out of memory");
    }
    LS_TRY(put(x->config, "architectures", list, e));
    LS_TRY(put(x->config, "model_type", json_string(moe ? "mixtral" : x->arch->model_type), e));
    if (x->arch->flags & LS_GGUF_PERMUTED) LS_TRY(put_bool(x->config, "rope_interleaved", true, e));
    if (x->arch->flags & LS_GGUF_NORM_HAS_ONE) LS_TRY(put_bool(x->config, "norm_weight_has_one", true, e));
    bool gelu = x->arch->flags & LS_GGUF_GELU_TANH;
    bool gemma = x->arch->flags & LS_GGUF_NORM_HAS_ONE;
    LS_TRY(put(x->config, "hidden_act", json_string(gelu ? "gelu_pytorch_tanh" : "silu"), e));
    return gemma ? put(x->config, "hidden_activation", json_string("gelu_pytorch_tanh"), e) : LS_OK;
}

static ls_code put_sizes(translation *x, ls_error *e) {
    int64_t kv = 0, inner = 0, context = 0;
    LS_TRY(meta_int(x, "block_count", &x->layers, e));
    LS_TRY(need(x, "block_count", x->layers, e));
    LS_TRY(meta_int(x, "embedding_length", &x->hidden, e));
    LS_TRY(need(x, "embedding_length", x->hidden, e));
    LS_TRY(meta_uniform(x, "attention.head_count", &x->heads, e));
    LS_TRY(need(x, "attention.head_count", x->heads, e));
    kv = x->heads;
    LS_TRY(meta_uniform(x, "attention.head_count_kv", &kv, e));
    LS_TRY(meta_uniform(x, "feed_forward_length", &inner, e));
    LS_TRY(meta_int(x, "context_length", &context, e));
    x->head_dim = x->hidden / x->heads;
    LS_TRY(meta_int(x, "attention.key_length", &x->head_dim, e));
    int64_t value_dim = x->head_dim;
    LS_TRY(meta_int(x, "attention.value_length", &value_dim, e));
    if (value_dim != x->head_dim)
        LS_FAIL(e, LS_UNIMPLEMENTED, "keys of %lld and values of %lld columns a head; only equal sizes are supported",
                (long long)x->head_dim, (long long)value_dim);
    LS_TRY(need(x, "attention.key_length", x->head_dim, e));
    LS_TRY(put_int(x->config, "num_hidden_layers", x->layers, e));
    LS_TRY(put_int(x->config, "hidden_size", x->hidden, e));
    LS_TRY(put_int(x->config, "num_attention_heads", x->heads, e));
    LS_TRY(put_int(x->config, "num_key_value_heads", kv, e));
    LS_TRY(put_int(x->config, "head_dim", x->head_dim, e));
    if (inner) LS_TRY(put_int(x->config, "intermediate_size", inner, e));
    if (!strcmp(x->arch->name, "exaone")) LS_TRY(put_int(x->config, "num_layers", x->layers, e));
    return context ? put_int(x->config, "max_position_embeddings", context, e) : LS_OK;
}

static ls_code put_vocabulary(const translation *x, ls_error *e) {
    bool exaone = !strcmp(x->arch->name, "exaone");
    const ls_entry *embed = ls_checkpoint_entry(x->c, exaone ? "transformer.wte.weight" : "model.embed_tokens.weight");
    int64_t n = (int64_t)json_array_size(json_object_get(x->c->metadata, "tokenizer.ggml.tokens"));
    LS_TRY(meta_int(x, "vocab_size", &n, e));
    if (embed && embed->t.rank == 2) n = embed->t.shape[0];
    if (n) LS_TRY(put_int(x->config, "vocab_size", n, e));
    return put_bool(x->config, "tie_word_embeddings", !has_tensor(x, "lm_head.weight"), e);
}

/* One metadata number under one or two config names. */
typedef struct real_key {
    const char *arch; /* NULL: every architecture */
    const char *from, *to;
} real_key;

static ls_code put_reals(const translation *x, ls_error *e) {
    static const real_key keys[] = {
        {NULL, "attention.layer_norm_rms_epsilon", "rms_norm_eps"},
        {NULL, "attention.layer_norm_epsilon", "layer_norm_eps"},
        {"starcoder2", "attention.layer_norm_epsilon", "norm_epsilon"},
        {"exaone", "attention.layer_norm_rms_epsilon", "layer_norm_epsilon"},
        {NULL, "rope.freq_base", "rope_theta"},
        {NULL, "attn_logit_softcapping", "attn_logit_softcapping"},
        {NULL, "final_logit_softcapping", "final_logit_softcapping"},
        {"gemma3", "rope.freq_base_swa", "rope_local_base_freq"},
        {"granite", "embedding_scale", "embedding_multiplier"},
        {"granite", "residual_scale", "residual_multiplier"},
        {"granite", "attention.scale", "attention_multiplier"},
        {"granite", "logit_scale", "logits_scaling"},
        {"minicpm", "embedding_scale", "scale_emb"},
        {"command-r", "logit_scale", "logit_scale"},
        {"cohere2", "logit_scale", "logit_scale"},
        {NULL, "attention.clamp_kqv", "clip_qkv"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        double v = 0;
        bool present = false;
        if (keys[i].arch && strcmp(keys[i].arch, x->arch->name)) continue;
        LS_TRY(meta_real(x, keys[i].from, &v, &present, e));
        if (present) LS_TRY(put(x->config, keys[i].to, json_real(v), e));
    }
    return json_object_get(x->config, "rope_theta") ? LS_OK : put(x->config, "rope_theta", json_real(10000.0), e);
}

static ls_code put_biases(const translation *x, ls_error *e) {
    bool qkv = has_tensor(x, "model.layers.0.self_attn.q_proj.bias"),
         out = has_tensor(x, "model.layers.0.self_attn.o_proj.bias");
    bool mlp = has_tensor(x, "model.layers.0.mlp.up_proj.bias");
    LS_TRY(put_bool(x->config, "attention_bias", qkv, e));
    LS_TRY(put_bool(x->config, "attention_out_bias", out, e));
    LS_TRY(put_bool(x->config, "mlp_bias", mlp, e));
    if (!strcmp(x->arch->name, "stablelm")) LS_TRY(put_bool(x->config, "use_qkv_bias", qkv, e));
    if (!strcmp(x->arch->name, "starcoder2")) LS_TRY(put_bool(x->config, "use_bias", qkv, e));
    return LS_OK;
}

/* ---- Rotary embedding ------------------------------------------------------------------------------------------ */

/* An F32 tensor of one axis as a JSON array. It becomes part of the config, so it counts as consumed. */
static ls_code tensor_list(ls_entry *entry, json_t **out, ls_error *e) {
    const ls_tensor *t = &entry->t;
    if (t->format != LS_F32 || t->rank != 1 || t->shape[0] > 4096)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%s\" must be F32 with one axis of at most 4096", t->name);
    LS_TRY(ls_tensor_check_finite(t, e));
    json_t *list = json_array();
    for (int64_t i = 0; i < t->shape[0] && list; i++) {
        double v = shortest(ls_load_float(LS_F32, (const uint8_t *)t->data + i * 4));
        if (json_array_append_new(list, json_real(v))) {
            json_decref(list);
            list = NULL;
        }
    }
    if (!list) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "tensor \"%s\": out of memory", t->name);
    entry->used = true;
    *out = list;
    return LS_OK;
}

static ls_code put_factors(const translation *x, json_t *scaling, const char *tensor, const char *key, ls_error *e) {
    ls_entry *entry = ls_checkpoint_entry(x->c, tensor);
    json_t *list = NULL;
    if (!entry) return LS_OK;
    LS_TRY(tensor_list(entry, &list, e));
    return put(scaling, key, list, e);
}

static ls_code copy_scaling(const translation *x, json_t *scaling, const char *from, const char *to, ls_error *e) {
    char key[64];
    double v = 0;
    bool present = false;
    snprintf(key, sizeof key, "rope.scaling.%s", from);
    LS_TRY(meta_real(x, key, &v, &present, e));
    return present ? put(scaling, to, json_real(v), e) : LS_OK;
}

/* The factor of the rotated vectors. llama.cpp multiplies YaRN's own 1 + 0.1 ln(factor) by it; Hugging Face's
 * "attention_factor" is the product. */
static ls_code put_amplitude(const translation *x, json_t *scaling, const char *type, ls_error *e) {
    double amplitude = 0, factor = 1;
    bool present = false, scaled = false;
    LS_TRY(meta_real(x, "rope.scaling.attn_factor", &amplitude, &present, e));
    LS_TRY(meta_real(x, "rope.scaling.factor", &factor, &scaled, e));
    if (!present) return LS_OK;
    if (!strcmp(type, "yarn") && factor > 1) amplitude *= 1 + 0.1 * log(factor);
    return put(scaling, "attention_factor", json_real(amplitude), e);
}

/* Fills "rope_scaling"; leaves it empty when nothing is scaled. */
static ls_code fill_scaling(const translation *x, json_t *scaling, ls_error *e) {
    const char *type = NULL;
    char key[128];
    int64_t original = 0;
    snprintf(key, sizeof key, "%s.rope.scaling.type", x->arch->name);
    LS_TRY(ls_json_get_str(x->c->metadata, key, &type, e));
    if (has_tensor(x, "rope_factors_long.weight")) type = "longrope";
    else if (has_tensor(x, "rope_freqs.weight")) type = "llama3";
    if (!type || !strcmp(type, "none")) return LS_OK;
    LS_TRY(put(scaling, "rope_type", json_string(type), e));
    LS_TRY(meta_int(x, "rope.scaling.original_context_length", &original, e));
    if (original) LS_TRY(put_int(scaling, "original_max_position_embeddings", original, e));
    if (original && !strcmp(x->arch->name, "phi3"))
        LS_TRY(put_int(x->config, "original_max_position_embeddings", original, e));
    LS_TRY(copy_scaling(x, scaling, "factor", "factor", e));
    LS_TRY(put_amplitude(x, scaling, type, e));
    LS_TRY(copy_scaling(x, scaling, "yarn_beta_fast", "beta_fast", e));
    LS_TRY(copy_scaling(x, scaling, "yarn_beta_slow", "beta_slow", e));
    LS_TRY(put_factors(x, scaling, "rope_freqs.weight", "factors", e));
    LS_TRY(put_factors(x, scaling, "rope_factors_long.weight", "long_factor", e));
    return put_factors(x, scaling, "rope_factors_short.weight", "short_factor", e);
}

static ls_code put_rope(const translation *x, ls_error *e) {
    int64_t rotary = x->head_dim;
    LS_TRY(meta_int(x, "rope.dimension_count", &rotary, e));
    if (rotary < x->head_dim)
        LS_TRY(put(x->config, "partial_rotary_factor", json_real((double)rotary / (double)x->head_dim), e));
    json_t *scaling = json_object();
    if (!scaling) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "config: out of memory");
    ls_code rc = fill_scaling(x, scaling, e);
    if (!rc && json_object_size(scaling)) return put(x->config, "rope_scaling", scaling, e);
    json_decref(scaling);
    return rc;
}

/* ---- What only some architectures have ------------------------------------------------------------------------- */

static ls_code put_window(const translation *x, ls_error *e) {
    int64_t window = 0, pattern = x->arch->window_pattern;
    LS_TRY(meta_int(x, "attention.sliding_window", &window, e));
    if (json_is_integer(meta(x, "attention.sliding_window_pattern")))
        LS_TRY(meta_int(x, "attention.sliding_window_pattern", &pattern, e));
    if (!window) return LS_OK;
    LS_TRY(put_int(x->config, "sliding_window", window, e));
    return pattern ? put_int(x->config, "sliding_window_pattern", pattern, e) : LS_OK;
}

/* Gemma 2 and 3 scale queries by 1/sqrt(query_pre_attn_scalar), which GGUF does not store: it is the head size, except
 * in the 27B models (46 and 62 layers), where it is hidden_size / heads. */
static ls_code put_gemma(const translation *x, ls_error *e) {
    bool two = !strcmp(x->arch->name, "gemma2"), three = !strcmp(x->arch->name, "gemma3");
    if (!two && !three) return LS_OK;
    bool big = x->layers == (two ? 46 : 62);
    LS_TRY(put_int(x->config, "query_pre_attn_scalar", big ? x->hidden / x->heads : x->head_dim, e));
    if (three && !json_object_get(x->config, "rope_local_base_freq"))
        LS_TRY(put(x->config, "rope_local_base_freq", json_real(10000.0), e));
    return LS_OK;
}

/* GGUF stores scale_depth / sqrt(layers) and hidden_size / dim_model_base; files older than these keys are MiniCPM 1
 * and 2, which use 12, 1.4 and 256. */
static ls_code put_minicpm(const translation *x, ls_error *e) {
    double residual = 0, logit = 0;
    bool has_residual = false, has_logit = false;
    if (strcmp(x->arch->name, "minicpm")) return LS_OK;
    LS_TRY(meta_real(x, "residual_scale", &residual, &has_residual, e));
    LS_TRY(meta_real(x, "logit_scale", &logit, &has_logit, e));
    double depth = has_residual ? residual * sqrt((double)x->layers) : 1.4;
    double base = has_logit && logit > 0 ? (double)x->hidden / logit : 256;
    if (!(base >= 1 && base <= 1e9))
        LS_FAIL(e, LS_OUT_OF_RANGE, "GGUF key \"minicpm.logit_scale\" is %g, which no hidden size gives", logit);
    if (!json_object_get(x->config, "scale_emb")) LS_TRY(put(x->config, "scale_emb", json_real(12), e));
    LS_TRY(put(x->config, "scale_depth", json_real(shortest(depth)), e));
    return put_int(x->config, "dim_model_base", (int64_t)llround(base), e);
}

/* SmolLM3 rotates no query or key in every fourth layer. */
static ls_code put_smollm3(const translation *x, ls_error *e) {
    if (strcmp(x->arch->name, "smollm3")) return LS_OK;
    LS_TRY(put_int(x->config, "no_rope_layer_interval", 4, e));
    json_t *list = json_array();
    for (int64_t i = 0; list && i < x->layers && i < 4096; i++)
        if (json_array_append_new(list, json_integer((i + 1) % 4 != 0))) {
            json_decref(list);
            list = NULL;
        }
    if (!list) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "config: out of memory");
    return put(x->config, "no_rope_layers", list, e);
}

static ls_code put_qk_norm(const translation *x, ls_error *e) {
    if (!strcmp(x->arch->name, "command-r"))
        return put_bool(x->config, "use_qk_norm", has_tensor(x, "model.layers.0.self_attn.q_norm.weight"), e);
    if (strcmp(x->arch->name, "stablelm")) return LS_OK;
    bool parallel = true;
    char key[64];
    snprintf(key, sizeof key, "%s.use_parallel_residual", x->arch->name);
    LS_TRY(ls_json_get_bool(x->c->metadata, key, &parallel, e));
    LS_TRY(put_bool(x->config, "use_parallel_residual", parallel, e));
    return put_bool(x->config, "qk_layernorm", has_tensor(x, "model.layers.0.self_attn.q_layernorm.norms.0.weight"), e);
}

/* The inner size of experts comes from their tensors: old files lack the key. */
static ls_code put_experts(const translation *x, ls_error *e) {
    int64_t experts = 0, used = 0, inner = 0, shared = 0;
    LS_TRY(meta_int(x, "expert_count", &experts, e));
    LS_TRY(meta_int(x, "expert_used_count", &used, e));
    if (!experts) return LS_OK;
    LS_TRY(meta_int(x, "expert_feed_forward_length", &inner, e));
    LS_TRY(meta_int(x, "expert_shared_feed_forward_length", &shared, e));
    const ls_entry *gate = ls_checkpoint_entry(x->c, "model.layers.0.mlp.experts.gate_proj.weight");
    const ls_entry *one = ls_checkpoint_entry(x->c, "model.layers.0.mlp.shared_expert.gate_proj.weight");
    if (gate && gate->t.rank == 3) inner = gate->t.shape[1];
    if (one && one->t.rank == 2) shared = one->t.shape[0];
    LS_TRY(put_int(x->config, strcmp(x->arch->name, "llama") ? "num_experts" : "num_local_experts", experts, e));
    LS_TRY(put_int(x->config, "num_experts_per_tok", used, e));
    if (inner) LS_TRY(put_int(x->config, "moe_intermediate_size", inner, e));
    if (shared) LS_TRY(put_int(x->config, "shared_expert_intermediate_size", shared, e));
    if (!strcmp(x->arch->name, "olmoe") && !json_object_get(x->config, "intermediate_size") && inner)
        LS_TRY(put_int(x->config, "intermediate_size", inner, e));
    LS_TRY(put_int(x->config, "decoder_sparse_step", 1, e));
    return put_bool(x->config, "norm_topk_prob", !strcmp(x->arch->name, "qwen3moe") || !strcmp(x->arch->name, "llama"),
                    e);
}

/* ---- Token ids ------------------------------------------------------------------------------------------------- */

static ls_code put_token(const translation *x, const char *from, const char *to, ls_error *e) {
    int64_t id = -1;
    LS_TRY(ls_json_get_int(x->c->metadata, from, 0, INT32_MAX, &id, e));
    if (id < 0) return LS_OK;
    LS_TRY(put_int(x->config, to, id, e));
    return put_int(x->c->generation, to, id, e);
}

/* Generation stops at the end of the text, of a turn and of a message. */
static ls_code put_stops(const translation *x, ls_error *e) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    json_t *list = json_array();
    ls_code rc = LS_OK;
    int64_t seen[3] = {-1, -1, -1};
    for (int i = 0; i < 3 && list && !rc; i++) {
        rc = ls_json_get_int(x->c->metadata, keys[i], 0, INT32_MAX, &seen[i], e);
        bool again = (i > 0 && seen[i] == seen[0]) || (i > 1 && seen[i] == seen[1]);
        if (!rc && seen[i] >= 0 && !again && json_array_append_new(list, json_integer(seen[i]))) {
            json_decref(list);
            list = NULL;
        }
    }
    if (!list) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "config: out of memory");
    if (!rc && json_array_size(list) > 1) return put(x->c->generation, "eos_token_id", list, e);
    json_decref(list);
    return rc;
}

static ls_code put_tokens(const translation *x, ls_error *e) {
    LS_TRY(put_token(x, "tokenizer.ggml.bos_token_id", "bos_token_id", e));
    LS_TRY(put_token(x, "tokenizer.ggml.eos_token_id", "eos_token_id", e));
    LS_TRY(put_token(x, "tokenizer.ggml.padding_token_id", "pad_token_id", e));
    return put_stops(x, e);
}

ls_code ls_gguf_config(ls_checkpoint *c, ls_error *e) {
    const char *name = NULL;
    LS_TRY(ls_json_get_str(c->metadata, "general.architecture", &name, e));
    translation x = {.c = c, .arch = name ? ls_gguf_arch_find(name) : NULL, .config = c->config};
    if (!x.arch) LS_FAIL(e, LS_UNIMPLEMENTED, "architecture \"%.60s\" is not supported", name ? name : "");
    LS_TRY(put_identity(&x, e));
    LS_TRY(put_sizes(&x, e));
    LS_TRY(put_vocabulary(&x, e));
    LS_TRY(put_reals(&x, e));
    LS_TRY(put_biases(&x, e));
    LS_TRY(put_rope(&x, e));
    LS_TRY(put_window(&x, e));
    LS_TRY(put_gemma(&x, e));
    LS_TRY(put_minicpm(&x, e));
    LS_TRY(put_smollm3(&x, e));
    LS_TRY(put_qk_norm(&x, e));
    LS_TRY(put_experts(&x, e));
    return put_tokens(&x, e);
}
