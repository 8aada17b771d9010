/* GGUF tensor names in Hugging Face terms, and the table of supported architectures. */
#include <stdio.h>
#include <string.h>

#include "weights/gguf_arch.h"

/* Most architectures are named after Llama; each lists only what differs. */
static const ls_gguf_rename common[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.gate_proj"},
    {"ffn_up_exps", "mlp.experts.up_proj"},
    {"ffn_down_exps", "mlp.experts.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {NULL, NULL},
};

static const ls_gguf_rename mixtral[] = {
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"ffn_gate_exps", "block_sparse_moe.experts.w1"},
    {"ffn_up_exps", "block_sparse_moe.experts.w3"},
    {"ffn_down_exps", "block_sparse_moe.experts.w2"},
    {NULL, NULL},
};
static const ls_gguf_rename sandwich[] = {{"ffn_norm", "pre_feedforward_layernorm"}, {NULL, NULL}};
static const ls_gguf_rename phi3[] = {{"ffn_up", "mlp.gate_up_proj"}, {NULL, NULL}};
static const ls_gguf_rename starcoder2[] = {{"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}, {NULL, NULL}};
static const ls_gguf_rename stablelm[] = {
    {"attn_q_norm", "self_attn.q_layernorm.norms.%d"}, {"attn_k_norm", "self_attn.k_layernorm.norms.%d"}, {NULL, NULL}};
static const ls_gguf_rename exaone[] = {
    {"token_embd", "transformer.wte"},
    {"output_norm", "transformer.ln_f"},
    {"attn_norm", "ln_1"},
    {"attn_q", "attn.attention.q_proj"},
    {"attn_k", "attn.attention.k_proj"},
    {"attn_v", "attn.attention.v_proj"},
    {"attn_output", "attn.attention.out_proj"},
    {"ffn_norm", "ln_2"},
    {"ffn_gate", "mlp.c_fc_0"},
    {"ffn_up", "mlp.c_fc_1"},
    {"ffn_down", "mlp.c_proj"},
    {NULL, NULL},
};

const ls_gguf_arch *ls_gguf_arch_find(const char *name) {
    enum { P = LS_GGUF_PERMUTED, ONE = LS_GGUF_NORM_HAS_ONE, S = LS_GGUF_SANDWICH, G = LS_GGUF_GELU_TANH };
    static const ls_gguf_arch all[] = {
        {"llama", "llama", "LlamaForCausalLM", P, mixtral, 0},
        {"mistral3", "mistral", "MistralForCausalLM", P, NULL, 0},
        {"qwen2", "qwen2", "Qwen2ForCausalLM", 0, NULL, 0},
        {"qwen3", "qwen3", "Qwen3ForCausalLM", 0, NULL, 0},
        {"qwen2moe", "qwen2_moe", "Qwen2MoeForCausalLM", 0, NULL, 0},
        {"qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM", 0, NULL, 0},
        {"olmoe", "olmoe", "OlmoeForCausalLM", 0, NULL, 0},
        {"mimo", "mimo", "MiMoForCausalLM", 0, NULL, 0},
        {"gemma", "gemma", "GemmaForCausalLM", ONE | G, NULL, 0},
        {"gemma2", "gemma2", "Gemma2ForCausalLM", ONE | G | S, sandwich, 2},
        {"gemma3", "gemma3_text", "Gemma3ForCausalLM", ONE | G | S, sandwich, 6},
        {"smollm3", "smollm3", "SmolLM3ForCausalLM", P, NULL, 0},
        {"phi3", "phi3", "Phi3ForCausalLM", 0, phi3, 0},
        {"granite", "granite", "GraniteForCausalLM", P, NULL, 0},
        {"command-r", "cohere", "CohereForCausalLM", 0, NULL, 0},
        {"cohere2", "cohere2", "Cohere2ForCausalLM", 0, NULL, 4},
        {"olmo2", "olmo2", "Olmo2ForCausalLM", 0, NULL, 0},
        {"stablelm", "stablelm", "StableLmForCausalLM", 0, stablelm, 0},
        {"starcoder2", "starcoder2", "Starcoder2ForCausalLM", G, starcoder2, 0},
        {"minicpm", "minicpm", "MiniCPMForCausalLM", P, NULL, 0},
        {"seed_oss", "seed_oss", "SeedOssForCausalLM", 0, NULL, 0},
        {"exaone", "exaone", "ExaoneForCausalLM", 0, exaone, 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i].name, name)) return &all[i];
    return NULL;
}

static const char *lookup(const ls_gguf_rename *table, const char *stem, size_t len) {
    for (; table && table->gguf; table++)
        if (strlen(table->gguf) == len && !strncmp(table->gguf, stem, len)) return table->hf;
    return NULL;
}

/* |name| is "blk.<layer>.<stem>.<end>" or "<stem>.<end>", the end being "weight" or "bias". */
ls_code ls_gguf_name(const ls_gguf_arch *arch, const char *name, char out[LS_MAX_NAME_BYTES], bool *split,
                     ls_error *e) {
    const char *stem = name, *end = strrchr(name, '.'), *hf = NULL;
    int layer = -1, used = 0;
    if (sscanf(name, "blk.%5d.%n", &layer, &used) == 1 && used) stem = name + used;
    if (end && end > stem) {
        hf = lookup(arch->own, stem, (size_t)(end - stem));
        if (!hf) hf = lookup(common, stem, (size_t)(end - stem));
    }
    const char *blocks = arch->own == exaone ? "transformer.h" : "model.layers";
    *split = hf && strstr(hf, "%d");
    int n = !hf           ? snprintf(out, LS_MAX_NAME_BYTES, "%s", name)
            : stem > name ? snprintf(out, LS_MAX_NAME_BYTES, "%s.%d.%s%s", blocks, layer, hf, end)
                          : snprintf(out, LS_MAX_NAME_BYTES, "%s%s", hf, end);
    if (n < 0 || n >= LS_MAX_NAME_BYTES)
        LS_FAIL(e, LS_INVALID_ARGUMENT, "tensor \"%.100s...\": its name is too long", name);
    return LS_OK;
}
