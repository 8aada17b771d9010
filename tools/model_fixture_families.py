"""Model families that transformers 4.57.6 does not have, written from the definitions their checkpoints publish, each as
the smallest change to the nearest class of transformers."""

from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer


class MiniCPMConfig(LlamaConfig):
    """Llama with depth-scaled residuals, scaled embeddings and logits from a narrower base width."""

    model_type = "minicpm"

    def __init__(self, scale_emb=1.0, scale_depth=1.0, dim_model_base=1, **rest):
        super().__init__(**rest)
        self.scale_emb, self.scale_depth, self.dim_model_base = scale_emb, scale_depth, dim_model_base


class ScaledEmbedding(nn.Embedding):
    scale = 1.0

    def forward(self, ids):
        return super().forward(ids) * self.scale


class MiniCPMDecoderLayer(LlamaDecoderLayer):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.residual_scale = config.scale_depth / config.num_hidden_layers**0.5

    def forward(self, hidden_states, **kwargs):
        attended, _ = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **kwargs)
        hidden_states = hidden_states + attended * self.residual_scale
        return hidden_states + self.mlp(self.post_attention_layernorm(hidden_states)) * self.residual_scale


class ScaledHead(nn.Linear):
    divisor = 1.0

    def forward(self, hidden_states):
        return super().forward(hidden_states / self.divisor)


class MiniCPMForCausalLM(LlamaForCausalLM):
    config_class = MiniCPMConfig

    def __init__(self, config):
        super().__init__(config)
        self.model.embed_tokens = ScaledEmbedding(config.vocab_size, config.hidden_size)
        self.model.embed_tokens.scale = config.scale_emb
        self.model.layers = nn.ModuleList(MiniCPMDecoderLayer(config, i) for i in range(config.num_hidden_layers))
        self.lm_head = ScaledHead(config.hidden_size, config.vocab_size, bias=False)
        self.lm_head.divisor = config.hidden_size / config.dim_model_base
        self.post_init()


class MiMoConfig(Qwen2Config):
    model_type = "mimo"

    def __init__(self, num_nextn_predict_layers=1, **rest):
        super().__init__(**rest)
        self.num_nextn_predict_layers = num_nextn_predict_layers


class MiMoForCausalLM(Qwen2ForCausalLM):
    """Qwen2 with extra layers that predict further tokens; they take no part in the logits."""

    config_class = MiMoConfig

    def __init__(self, config):
        super().__init__(config)
        extra = range(config.num_nextn_predict_layers)
        self.model.mtp_layers = nn.ModuleList(Qwen2DecoderLayer(config, i) for i in extra)
        self.post_init()


class InternLM3Config(LlamaConfig):
    model_type = "internlm3"

    def __init__(self, qkv_bias=False, bias=False, **rest):
        super().__init__(attention_bias=qkv_bias, mlp_bias=bias, **rest)
        self.qkv_bias, self.bias = qkv_bias, bias


class InternLM3ForCausalLM(LlamaForCausalLM):
    """Llama with one flag for the biases of q, k and v, and one for those of the other matrices."""

    config_class = InternLM3Config

    def __init__(self, config):
        super().__init__(config)
        for layer in self.model.layers:
            old = layer.self_attn.o_proj
            layer.self_attn.o_proj = nn.Linear(old.in_features, old.out_features, bias=config.bias)
        self.post_init()


EXAONE_NAMES = (
    ("model.embed_tokens", "transformer.wte"), ("model.norm", "transformer.ln_f"), ("model.layers", "transformer.h"),
    ("self_attn.o_proj", "attn.attention.out_proj"), ("self_attn", "attn.attention"), ("input_layernorm", "ln_1"),
    ("post_attention_layernorm", "ln_2"), ("gate_proj", "c_fc_0"), ("up_proj", "c_fc_1"), ("down_proj", "c_proj"),
)


def exaone_names(tensors):
    """EXAONE 3 and 3.5 are Llama under GPT-2's names."""
    def rename(name):
        for old, new in EXAONE_NAMES:
            name = name.replace(old, new)
        return name

    return {rename(n): t for n, t in tensors.items()}
