"""The cases of make_model_fixtures.py: one small configuration per family, with every feature that changes the result on."""

from dataclasses import dataclass, field
from typing import Callable

import transformers as tf

import model_fixture_families as own


@dataclass
class Case:
    name: str
    config: object
    model: Callable
    dtype: str = "bf16"
    norm_offset: bool = False  # norm weights are stored minus one (Gemma)
    embed_std: float = 1.0
    final_gain: float = 1.0  # of the last norm: tied embeddings are small, so that a token does not just repeat itself
    gains: dict = field(default_factory=dict)  # part of a parameter's name -> factor of its scale
    drop: tuple = ()  # config keys that published checkpoints lack
    extra: dict = field(default_factory=dict)  # config keys to add
    nest: Callable = lambda config: config
    rename: Callable = lambda tensors: tensors
    shards: int = 1
    mlx_bits: int = 0
    mlx_group: int = 64

    def __post_init__(self):
        base = {"q_proj": 1.5, "o_proj": 2.0, "down_proj": 3.0, "lm_head": 4.0}
        self.gains = {**base, **self.gains}
        self.config._attn_implementation = "eager"


def sizes(**changes):
    """Common sizes, small. Windows, original context lengths and the like are far below the 84 positions that run."""
    base = dict(
        vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, pad_token_id=None, bos_token_id=1, eos_token_id=2,
    )
    return {**base, **changes}


def nest_gemma3(config):
    """The published form of the larger Gemma 3 models: a text config inside a vision-language one."""
    return {
        "model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "text_config": config,
        "mm_tokens_per_image": 4, "torch_dtype": config["torch_dtype"],
    }


def rename_exaone(config):
    names = {"num_hidden_layers": "num_layers", "hidden_act": "activation_function", "rms_norm_eps": "layer_norm_epsilon"}
    return {names.get(k, k): v for k, v in config.items()}


def interleave_rotary(tensors):
    """Rows of q and k in the order of GGUF's llama converter: the halves of each head interleaved."""
    for name, heads in (("q_proj.weight", 4), ("k_proj.weight", 2)):
        for key in [k for k in tensors if k.endswith(name)]:
            w = tensors[key]
            tensors[key] = w.reshape(heads, 2, -1, w.shape[1]).transpose(1, 2).reshape(w.shape).contiguous()
    return tensors


LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
TIED = dict(embed_std=0.1, final_gain=5.0)
MOE_GAINS = {"mlp.gate.": 2.0, "shared_expert_gate": 2.0}

CASES = [
    Case(
        "llama",
        tf.LlamaConfig(**sizes(
            vocab_size=256, hidden_size=64, intermediate_size=96, num_hidden_layers=3, tie_word_embeddings=False, rope_theta=500000.0,
            rope_scaling=LLAMA3,
        )),
        tf.LlamaForCausalLM, dtype="f16", drop=("head_dim",),
    ),
    Case(
        "gemma3",
        tf.Gemma3TextConfig(**sizes(
            vocab_size=256, hidden_size=64, num_hidden_layers=4, head_dim=32, num_key_value_heads=1, query_pre_attn_scalar=24, sliding_window=6,
            layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
            rope_local_base_freq=100.0, rope_theta=10000.0, rope_scaling=dict(rope_type="linear", factor=4.0),
        )),
        tf.Gemma3ForCausalLM, norm_offset=True, embed_std=0.05, final_gain=8.0,
        drop=("_sliding_window_pattern",), extra=dict(sliding_window_pattern=3),
    ),
    Case(
        "qwen2_moe",
        tf.Qwen2MoeConfig(**sizes(
            num_hidden_layers=4, num_key_value_heads=4, hidden_size=48, moe_intermediate_size=24, vocab_size=160,
            shared_expert_intermediate_size=40, num_experts=5, num_experts_per_tok=2, norm_topk_prob=False, decoder_sparse_step=2,
            mlp_only_layers=[3],
        )),
        tf.Qwen2MoeForCausalLM, gains=MOE_GAINS,
    ),
    Case(
        "llama_bias",
        tf.LlamaConfig(**sizes(
            head_dim=12, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, rope_scaling=dict(type="linear", factor=2.0),
        )),
        tf.LlamaForCausalLM, dtype="f32", shards=3, **TIED,
    ),
    Case("llama_interleaved", tf.LlamaConfig(**sizes()), tf.LlamaForCausalLM, dtype="f16", extra=dict(rope_interleaved=True),
         rename=interleave_rotary),
    Case(
        "llama_mlx",
        tf.LlamaConfig(**sizes(hidden_size=64, intermediate_size=128)), tf.LlamaForCausalLM, dtype="f16", mlx_bits=4, mlx_group=32,
        extra=dict(quantization=dict(group_size=32, bits=4)),
    ),
    Case("mistral", tf.MistralConfig(**sizes(sliding_window=6, head_dim=16)), tf.MistralForCausalLM),
    Case(
        "qwen2",
        tf.Qwen2Config(**sizes(use_sliding_window=True, sliding_window=6, max_window_layers=1)), tf.Qwen2ForCausalLM, dtype="f32",
    ),
    Case(
        "qwen3",
        tf.Qwen3Config(**sizes(
            head_dim=16, attention_bias=False, tie_word_embeddings=True,
            rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, beta_fast=8.0),
        )),
        tf.Qwen3ForCausalLM, dtype="f16", **TIED,
    ),
    Case("gemma", tf.GemmaConfig(**sizes(num_key_value_heads=1, head_dim=16, num_hidden_layers=3)), tf.GemmaForCausalLM,
         norm_offset=True, embed_std=0.05, final_gain=10.0),
    Case(
        "gemma2",
        tf.Gemma2Config(**sizes(
            head_dim=16, num_hidden_layers=3, sliding_window=6, query_pre_attn_scalar=20, attn_logit_softcapping=2.0, final_logit_softcapping=5.0,
        )),
        tf.Gemma2ForCausalLM, norm_offset=True, embed_std=0.05, final_gain=15.0,
    ),
    Case(
        "gemma3_nested",
        tf.Gemma3TextConfig(**sizes(
            head_dim=16, sliding_window=6, query_pre_attn_scalar=16, rope_local_base_freq=100.0,
            layer_types=["sliding_attention", "full_attention"],
        )),
        tf.Gemma3ForCausalLM, norm_offset=True, embed_std=0.05, final_gain=10.0, drop=("_sliding_window_pattern",),
        extra=dict(layer_types=["sliding_attention", "full_attention"]), nest=nest_gemma3,
        rename=lambda tensors: {"language_model." + k: v for k, v in tensors.items()},
    ),
    Case(
        "smollm3",
        tf.SmolLM3Config(**sizes(num_hidden_layers=3, no_rope_layer_interval=2, tie_word_embeddings=True, use_sliding_window=False)),
        tf.SmolLM3ForCausalLM, **TIED,
    ),
    Case(
        "phi3",
        tf.Phi3Config(**sizes(
            partial_rotary_factor=0.75, hidden_size=64, sliding_window=6, original_max_position_embeddings=128, tie_word_embeddings=False,
            rope_scaling=dict(type="longrope", short_factor=[1.0, 1.2, 1.5, 2.0, 2.5, 3.0], long_factor=[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]),
        )),
        tf.Phi3ForCausalLM, gains={"qkv_proj": 1.3},
    ),
    Case(
        "phi3_long",
        tf.Phi3Config(**sizes(
            tie_word_embeddings=True, original_max_position_embeddings=8, max_position_embeddings=96,
            rope_scaling=dict(type="longrope", short_factor=[1.0, 1.2, 1.5, 2.0], long_factor=[1.0, 2.0, 4.0, 8.0]),
        )),
        tf.Phi3ForCausalLM, gains={"qkv_proj": 1.3}, **TIED,
    ),
    Case(
        "granite",
        tf.GraniteConfig(**sizes(
            embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.6, attention_multiplier=0.2, attention_bias=True,
            mlp_bias=True, tie_word_embeddings=True,
        )),
        tf.GraniteForCausalLM, embed_std=0.1, final_gain=10.0, gains={"down_proj": 5.0, "o_proj": 4.0},
    ),
    Case(
        "cohere",
        tf.CohereConfig(**sizes(logit_scale=0.5, use_qk_norm=True)), tf.CohereForCausalLM, embed_std=0.1, final_gain=10.0,
    ),
    Case(
        "cohere2",
        tf.Cohere2Config(**sizes(
            logit_scale=0.25, sliding_window=6, num_hidden_layers=3,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        )),
        tf.Cohere2ForCausalLM, embed_std=0.1, final_gain=20.0, drop=("_sliding_window_pattern",), extra=dict(sliding_window_pattern=2),
    ),
    Case("olmo2", tf.Olmo2Config(**sizes()), tf.Olmo2ForCausalLM),
    Case("stablelm", tf.StableLmConfig(**sizes(partial_rotary_factor=0.5, use_qkv_bias=True)), tf.StableLmForCausalLM, dtype="f16"),
    Case(
        "stablelm_parallel",
        tf.StableLmConfig(**sizes(partial_rotary_factor=0.25, use_parallel_residual=True, qk_layernorm=True)), tf.StableLmForCausalLM,
    ),
    Case("starcoder2", tf.Starcoder2Config(**sizes(sliding_window=6, use_bias=True)), tf.Starcoder2ForCausalLM, gains={"c_proj": 3.0},
         **TIED),
    Case(
        "minicpm",
        own.MiniCPMConfig(**sizes(scale_emb=6.0, scale_depth=1.2, dim_model_base=16, tie_word_embeddings=True)), own.MiniCPMForCausalLM,
        embed_std=0.05, final_gain=15.0, gains={"down_proj": 5.0, "o_proj": 4.0},
    ),
    Case("seed_oss", tf.SeedOssConfig(**sizes(head_dim=16, attention_bias=True, attention_out_bias=False, mlp_bias=True)),
         tf.SeedOssForCausalLM),
    Case("mimo", own.MiMoConfig(**sizes(num_nextn_predict_layers=1)), own.MiMoForCausalLM),
    Case(
        "internlm3",
        own.InternLM3Config(**sizes(head_dim=12, qkv_bias=True, bias=True, rope_scaling=dict(rope_type="dynamic", factor=6.0))),
        own.InternLM3ForCausalLM, drop=("attention_bias", "mlp_bias"),
    ),
    Case("exaone", tf.LlamaConfig(**sizes(rope_scaling=LLAMA3)), tf.LlamaForCausalLM, drop=("attention_bias", "mlp_bias"),
         extra=dict(model_type="exaone"), nest=rename_exaone, rename=own.exaone_names),
    Case(
        "exaone4",
        tf.Exaone4Config(**sizes(
            num_hidden_layers=3, sliding_window=6, sliding_window_pattern="LG", tie_word_embeddings=False,
            layer_types=["sliding_attention", "full_attention", "full_attention"],
        )),
        tf.Exaone4ForCausalLM,
    ),
    Case(
        "qwen3_moe",
        tf.Qwen3MoeConfig(**sizes(head_dim=16, moe_intermediate_size=24, num_experts=6, num_experts_per_tok=3, norm_topk_prob=True)),
        tf.Qwen3MoeForCausalLM, gains=MOE_GAINS,
    ),
    Case(
        "mixtral",
        tf.MixtralConfig(**sizes(num_local_experts=4, num_experts_per_tok=2, intermediate_size=24, sliding_window=6)),
        tf.MixtralForCausalLM, gains={"moe.gate.": 2.0, ".w2.": 3.0},
    ),
    Case(
        "olmoe",
        tf.OlmoeConfig(**sizes(num_experts=5, num_experts_per_tok=2, clip_qkv=1.0, intermediate_size=24)), tf.OlmoeForCausalLM,
        gains=MOE_GAINS,
    ),
]
