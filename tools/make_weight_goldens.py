"""Makes fixtures/weights and the seeds of fixtures/fuzz/{safetensors,gguf,config}: checkpoints written by the gguf,
safetensors and MLX packages, and what those packages read back.

Run from the repository root with the versions in tools/requirements-goldens.txt:  python tools/make_weight_goldens.py
Everything is deterministic. Files:
  blocks.gguf, blocks.f32      every supported GGUF type, 3 rows of 512; all rows dequantised, in name order
  blocks.sha256                per type: SHA-256 of many blocks generated from a counter, dequantised
  mlx_<dtype>/                 every bits x group of MLX affine with f16, bf16 or f32 scales; expected.f32 in name order
  arch/<name>.gguf, .json      a tiny model per architecture: expected tensor names with shapes, and config values
"""

import hashlib
import json
import pathlib
import shutil

import gguf
import mlx.core as mx
import numpy as np
import transformers
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from safetensors.numpy import save_file
from transformers.modeling_utils import no_init_weights

OUT = pathlib.Path("fixtures/weights")
FUZZ = pathlib.Path("fixtures/fuzz")

# Byte offsets of the f16 factors in a block.
HALVES = {
    T.Q4_0: [0],
    T.Q4_1: [0, 2],
    T.Q5_0: [0],
    T.Q5_1: [0, 2],
    T.Q8_0: [0],
    T.Q2_K: [80, 82],
    T.Q3_K: [108],
    T.Q4_K: [0, 2],
    T.Q5_K: [0, 2],
    T.Q6_K: [208],
    T.IQ4_NL: [0],
}


def random_bytes(seed, n):
    """The first |n| bytes of splitmix64 run from |seed|, little-endian; tests/weights repeats this in C."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, (n + 7) // 8 + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return z.astype("<u8").view(np.uint8)[:n].copy()


def finite_half(bits):
    """f16 bit patterns with infinities and NaN moved to large finite numbers."""
    bits = bits.astype(np.uint16)
    return np.where((bits & 0x7C00) == 0x7C00, bits & ~np.uint16(0x0400), bits).astype("<u2")


def generated_blocks(kind, n):
    """|n| blocks of random bytes whose factors walk through all f16 patterns in steps of 65536 / n."""
    size = GGML_QUANT_SIZES[kind][1]
    blocks = random_bytes(int(kind) + 1, n * size).reshape(n, size)
    step = 65536 // n
    for i, at in enumerate(HALVES[kind]):
        pattern = (np.arange(n) * step + (np.arange(n) % step) + i * 12345) % 65536
        blocks[:, at : at + 2] = finite_half(pattern).view(np.uint8).reshape(n, 2)
    return blocks


def make_blocks():
    writer = gguf.GGUFWriter(OUT / "blocks.gguf", "llama")
    for key, value in (
        ("block_count", 1),
        ("embedding_length", 512),
        ("attention.head_count", 4),
        ("context_length", 8),
    ):
        writer.add_uint32(f"llama.{key}", value)
    expected = {}
    digests = []
    for kind in HALVES:
        weights, size = GGML_QUANT_SIZES[kind]
        n = 65536 if weights == 32 else 4096
        blocks = generated_blocks(kind, n)
        digests.append(f"{kind.name} {n} {hashlib.sha256(gguf.dequantize(blocks, kind).tobytes()).hexdigest()}")
        rows = blocks[:: n // (3 * 512 // weights)][: 3 * 512 // weights].copy()
        rows[0, :] = 255  # all ones and all zeros around the largest and smallest factors
        rows[1, :] = 0
        for at in HALVES[kind]:
            rows[0, at : at + 2] = (0xFF, 0x7B)
            rows[1, at : at + 2] = (0x01, 0x80)
        data = rows.reshape(3, -1)
        name = f"t.{kind.name}"
        writer.add_tensor(name, data, raw_dtype=kind)
        expected[name] = gguf.dequantize(data, kind)
    floats = random_bytes(99, 3 * 512 * 2).view("<u2").reshape(3, 512)
    for kind, finite in (
        (T.F16, finite_half(floats)),
        (T.BF16, np.where((floats & 0x7F80) == 0x7F80, floats & 0xFF7F, floats)),
    ):
        data = finite.astype("<u2").view(np.float16 if kind == T.F16 else np.uint8).reshape(3, -1)
        writer.add_tensor(f"t.{kind.name}", data, raw_dtype=kind)
        expected[f"t.{kind.name}"] = gguf.dequantize(data, kind)
    data = np.random.default_rng(0).standard_normal((3, 512)).astype(np.float32)
    writer.add_tensor("t.F32", data)
    expected["t.F32"] = data
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with open(OUT / "blocks.f32", "wb") as f:
        for name in sorted(expected):
            f.write(expected[name].astype("<f4").tobytes())
    (OUT / "blocks.sha256").write_text("\n".join(digests) + "\n")


def as_bits(array, dtype):
    """An MLX array of |dtype| from unsigned bit patterns."""
    return mx.array(array).view({"f16": mx.float16, "bf16": mx.bfloat16, "f32": mx.float32}[dtype])


def random_scales(dtype, shape, seed):
    """Rows of ordinary values first, then rows of any finite bit pattern."""
    rows, groups = shape
    rng = np.random.default_rng(seed)
    ordinary = (rng.standard_normal(shape) * 0.05).astype(np.float32)
    kind = {"f16": mx.float16, "bf16": mx.bfloat16, "f32": mx.float32}[dtype]
    unsigned = "<u4" if dtype == "f32" else "<u2"
    raw = random_bytes(seed, rows * groups * np.dtype(unsigned).itemsize).view(unsigned).reshape(shape)
    mask, clear = {"f16": (0x7C00, 0x0400), "bf16": (0x7F80, 0x0080), "f32": (0x7F800000, 0x00800000)}[dtype]
    raw = np.where((raw & mask) == mask, raw & ~np.array(clear, raw.dtype), raw).astype(unsigned)
    both = np.array(mx.array(ordinary).astype(kind).view(mx.uint32 if dtype == "f32" else mx.uint16))
    both[rows // 2 :] = raw[rows // 2 :]
    return both.astype(unsigned)


def make_mlx(dtype):
    folder = OUT / f"mlx_{dtype}"
    folder.mkdir(parents=True)
    tensors, expected, overrides = {}, {}, {}
    rows, columns = 4, 256
    seed = 1000
    for bits in (2, 3, 4, 6, 8):
        for group in (32, 64, 128):
            seed += 1
            name = f"b{bits}g{group}"
            words = random_bytes(seed, rows * columns * bits // 8).view("<u4").reshape(rows, -1)
            scales = random_scales(dtype, (rows, columns // group), seed * 2)
            biases = random_scales(dtype, (rows, columns // group), seed * 2 + 1)
            tensors.update(
                {
                    f"{name}.weight": mx.array(words),
                    f"{name}.scales": as_bits(scales, dtype),
                    f"{name}.biases": as_bits(biases, dtype),
                }
            )
            value = mx.dequantize(
                mx.array(words), as_bits(scales, dtype), as_bits(biases, dtype), group_size=group, bits=bits
            )
            expected[f"{name}.weight"] = np.array(value.astype(mx.float32))
            if (bits, group) != (4, 64):
                overrides[name] = {"bits": bits, "group_size": group}
    tensors["plain.weight"] = mx.ones((4, 4), dtype=mx.float32)
    mx.save_safetensors(str(folder / "model.safetensors"), tensors)
    key = "quantization_config" if dtype == "bf16" else "quantization"
    config = {"model_type": "llama", key: {"bits": 4, "group_size": 64, "plain": False, **overrides}}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    with open(folder / "expected.f32", "wb") as f:
        for name in sorted(expected):
            f.write(expected[name].astype("<f4").tobytes())


# ---- One tiny model per architecture --------------------------------------------------------------------------------

SMALL = dict(
    hidden_size=32,
    intermediate_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=24,
    max_position_embeddings=64,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)
SIZES = [
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
    "max_position_embeddings",
    "tie_word_embeddings",
    "model_type",
    "rope_theta",
]
RMS = SIZES + ["intermediate_size", "rms_norm_eps"]
LAYER = SIZES + ["intermediate_size", "layer_norm_eps"]
MOE = ["num_experts", "num_experts_per_tok"]

# gguf architecture: (transformers prefix, config arguments, config keys that must come back, extra GGUF keys)
FAMILIES = {
    "llama": ("Llama", dict(rope_theta=500000.0), RMS + ["attention_bias", "mlp_bias"], {}),
    "qwen2": ("Qwen2", dict(rope_theta=1e6, tie_word_embeddings=True), RMS, {}),
    "qwen3": ("Qwen3", dict(rope_theta=1e6, head_dim=16), RMS + ["head_dim"], {}),
    "gemma": ("Gemma", dict(head_dim=16), RMS + ["head_dim"], {}),
    "gemma2": (
        "Gemma2",
        dict(head_dim=16, query_pre_attn_scalar=16, sliding_window=32),
        RMS
        + [
            "head_dim",
            "query_pre_attn_scalar",
            "sliding_window",
            "attn_logit_softcapping",
            "final_logit_softcapping",
            "hidden_activation",
        ],
        {},
    ),
    "gemma3": (
        "Gemma3",
        dict(head_dim=16, query_pre_attn_scalar=16, sliding_window=32, rope_theta=1e6),
        RMS + ["head_dim", "query_pre_attn_scalar", "sliding_window", "rope_local_base_freq"],
        {},
    ),
    "smollm3": ("SmolLM3", dict(rope_theta=2e6), RMS + ["no_rope_layers", "no_rope_layer_interval"], {}),
    "phi3": (
        "Phi3",
        dict(
            sliding_window=32,
            original_max_position_embeddings=32,
            rope_scaling=dict(
                type="longrope", short_factor=[1.0, 1.1, 1.25, 1.5], long_factor=[1.0, 2.5, 10.25, 64.75]
            ),
        ),
        RMS + ["sliding_window", "original_max_position_embeddings"],
        {},
    ),
    "granite": (
        "Granite",
        dict(embedding_multiplier=12.0, residual_multiplier=0.22, attention_multiplier=0.015625, logits_scaling=8.0),
        RMS + ["embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"],
        {},
    ),
    "command-r": (
        "Cohere",
        dict(logit_scale=0.0625, use_qk_norm=True, tie_word_embeddings=True),
        LAYER + ["logit_scale", "use_qk_norm"],
        {},
    ),
    "cohere2": (
        "Cohere2",
        dict(logit_scale=0.25, sliding_window=32, tie_word_embeddings=True),
        LAYER + ["logit_scale", "sliding_window"],
        {},
    ),
    "olmo2": ("Olmo2", dict(rope_theta=500000.0), RMS, {}),
    "stablelm": (
        "StableLm",
        dict(use_parallel_residual=True, qk_layernorm=True, use_qkv_bias=True, partial_rotary_factor=0.25),
        LAYER + ["use_parallel_residual", "qk_layernorm", "use_qkv_bias", "partial_rotary_factor"],
        {},
    ),
    "starcoder2": (
        "Starcoder2",
        dict(use_bias=True, norm_epsilon=1e-5),
        SIZES + ["intermediate_size", "norm_epsilon", "use_bias", "hidden_act"],
        {},
    ),
    "qwen2moe": (
        "Qwen2Moe",
        dict(
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=8,
            shared_expert_intermediate_size=24,
            norm_topk_prob=False,
        ),
        RMS + MOE + ["moe_intermediate_size", "shared_expert_intermediate_size", "norm_topk_prob"],
        {},
    ),
    "qwen3moe": (
        "Qwen3Moe",
        dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8, norm_topk_prob=True, head_dim=16),
        RMS + MOE + ["moe_intermediate_size", "norm_topk_prob", "head_dim"],
        {},
    ),
    "olmoe": ("Olmoe", dict(num_experts=4, num_experts_per_tok=2), RMS + MOE, {}),
    "seed_oss": ("SeedOss", dict(rope_theta=1e7, head_dim=16), RMS + ["head_dim"], {}),
}

# Architectures without a class in transformers: (model_type, tensor template, config that must come back, GGUF keys)
BLOCK = [
    ("attn_norm", "input_layernorm", (32,)),
    ("attn_q", "self_attn.q_proj", (32, 32)),
    ("attn_k", "self_attn.k_proj", (16, 32)),
    ("attn_v", "self_attn.v_proj", (16, 32)),
    ("attn_output", "self_attn.o_proj", (32, 32)),
    ("ffn_norm", "post_attention_layernorm", (32,)),
    ("ffn_gate", "mlp.gate_proj", (16, 32)),
    ("ffn_up", "mlp.up_proj", (16, 32)),
    ("ffn_down", "mlp.down_proj", (32, 16)),
]
EXAONE = [
    "ln_1",
    "attn.attention.q_proj",
    "attn.attention.k_proj",
    "attn.attention.v_proj",
    "attn.attention.out_proj",
    "ln_2",
    "mlp.c_fc_0",
    "mlp.c_fc_1",
    "mlp.c_proj",
]


def write_gguf(path, arch, keys, tensors):
    writer = gguf.GGUFWriter(path, arch)
    for key, value in keys.items():
        full = key if "." in key and key.split(".")[0] in ("general", "tokenizer") else f"{arch}.{key}"
        if isinstance(value, bool):
            writer.add_bool(full, value)
        elif isinstance(value, float):
            writer.add_float32(full, value)
        elif isinstance(value, str):
            writer.add_string(full, value)
        elif isinstance(value, list):
            writer.add_array(full, value)
        else:
            writer.add_uint32(full, value)
    for name, shape in tensors:
        data = shape if isinstance(shape, np.ndarray) else np.zeros(shape, np.float16 if len(shape) > 1 else np.float32)
        writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_keys(arch, c):
    """The metadata that llama.cpp's converter writes for a Hugging Face config |c| (a dict)."""
    head = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    keys = {
        "block_count": c["num_hidden_layers"],
        "context_length": c["max_position_embeddings"],
        "embedding_length": c["hidden_size"],
        "feed_forward_length": c["intermediate_size"],
        "attention.head_count": c["num_attention_heads"],
        "attention.head_count_kv": c["num_key_value_heads"],
        "rope.freq_base": float(c["rope_theta"]),
        "rope.dimension_count": int(head * c.get("partial_rotary_factor", 1.0)),
        "general.name": "tiny",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": [f"t{i}" for i in range(c["vocab_size"])],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.eot_token_id": 7,
        "tokenizer.ggml.padding_token_id": 0,
    }
    if c.get("head_dim"):
        keys.update({"attention.key_length": head, "attention.value_length": head})
    for name, key in (
        ("rms_norm_eps", "attention.layer_norm_rms_epsilon"),
        ("layer_norm_eps", "attention.layer_norm_epsilon"),
        ("norm_epsilon", "attention.layer_norm_epsilon"),
        ("attn_logit_softcapping", "attn_logit_softcapping"),
        ("final_logit_softcapping", "final_logit_softcapping"),
        ("embedding_multiplier", "embedding_scale"),
        ("residual_multiplier", "residual_scale"),
        ("attention_multiplier", "attention.scale"),
        ("logits_scaling", "logit_scale"),
        ("logit_scale", "logit_scale"),
    ):
        if c.get(name) is not None:
            keys[key] = float(c[name])
    for name, key in (
        ("sliding_window", "attention.sliding_window"),
        ("num_experts", "expert_count"),
        ("num_experts_per_tok", "expert_used_count"),
        ("use_parallel_residual", "use_parallel_residual"),
        ("original_max_position_embeddings", "rope.scaling.original_context_length"),
    ):
        if c.get(name) is not None and (name != "sliding_window" or arch in ("gemma2", "gemma3", "phi3", "cohere2")):
            keys[key] = c[name]
    return keys


def stack(tensors):
    """Tensors {name: shape} as the converter regroups them: (name for gguf's map, {our name: shape}, shape)."""
    seen = set()
    for name, shape in sorted(tensors.items()):
        parts = name.split(".")
        if "experts" in parts:
            i = parts.index("experts")
            merged = ".".join(parts[: i + 1] + parts[i + 2 :])
            n = len(
                {k for k in tensors if k.startswith(".".join(parts[: i + 1])) and k.endswith(".".join(parts[i + 2 :]))}
            )
            if merged not in seen:
                seen.add(merged)
                yield merged, {merged: (n, *shape)}, (n, *shape)
        elif "norms" in parts:
            i = parts.index("norms")
            merged = ".".join(parts[:i] + parts[i + 2 :])
            heads = {k: v for k, v in tensors.items() if k.startswith(".".join(parts[: i + 1]) + ".")}
            if merged not in seen:
                seen.add(merged)
                yield merged, heads, (len(heads), *shape)
        else:
            squeezed = tuple(d for d in shape if d != 1)
            yield name, {name: shape}, squeezed


def expect(path, names, config, generation):
    path.write_text(
        json.dumps(
            {"tensors": {k: list(v) for k, v in sorted(names.items())}, "config": config, "generation": generation},
            indent=1,
        )
        + "\n"
    )


def make_family(arch):
    prefix, arguments, compared, extra = FAMILIES[arch]
    config_class = getattr(transformers, "Gemma3TextConfig" if prefix == "Gemma3" else prefix + "Config")
    config = config_class(**{**SMALL, **arguments})
    with no_init_weights():
        model = getattr(transformers, prefix + "ForCausalLM")(config)
    tied = config.tie_word_embeddings
    shapes = {k: tuple(v.shape) for k, v in model.state_dict().items() if not (tied and k == "lm_head.weight")}
    names_of = gguf.get_tensor_name_map(
        {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[arch], config.num_hidden_layers
    )
    c = config.to_dict()
    tensors, expected = [], {}
    for name, ours, shape in stack(shapes):
        target = names_of.get_name(name, try_suffixes=(".weight", ".bias"))
        assert target, f"{arch}: no GGUF name for {name}"
        tensors.append((target, shape))
        expected.update(ours)
    want = {k: c[k] for k in compared}
    keys = {**gguf_keys(arch, c), **extra}
    if arch in ("llama", "smollm3", "granite"):
        want["rope_interleaved"] = True
    if arch.startswith("gemma"):
        want["norm_weight_has_one"] = True
    if arch == "llama":
        factors = np.array([1.0, 1.5, 8.0, 32.0], np.float32)
        tensors.append(("rope_freqs.weight", factors))
        expected["rope_freqs.weight"] = factors.shape
        want["rope_scaling"] = {"rope_type": "llama3", "factors": factors.tolist()}
    if arch == "phi3":
        scaling = c["rope_scaling"]
        for kind in ("long", "short"):
            tensors.append((f"rope_factors_{kind}.weight", np.array(scaling[f"{kind}_factor"], np.float32)))
            expected[f"rope_factors_{kind}.weight"] = (len(scaling[f"{kind}_factor"]),)
        keys["rope.scaling.attn_factor"] = 1.25
        want["rope_scaling"] = {
            "rope_type": "longrope",
            "original_max_position_embeddings": 32,
            "attention_factor": 1.25,
            "long_factor": scaling["long_factor"],
            "short_factor": scaling["short_factor"],
        }
    if arch == "qwen2":
        keys.update(
            {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 32}
        )
        want["rope_scaling"] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
    if arch == "gemma3":
        keys.update({"rope.scaling.type": "linear", "rope.scaling.factor": 8.0})
        want["rope_scaling"] = {"rope_type": "linear", "factor": 8.0}
    if arch in ("gemma2", "gemma3", "cohere2"):
        want["sliding_window_pattern"] = {"gemma2": 2, "gemma3": 6, "cohere2": 4}[arch]
    write_gguf(OUT / "arch" / f"{arch}.gguf", arch, keys, tensors)
    expect(
        OUT / "arch" / f"{arch}.json", expected, want, {"bos_token_id": 1, "eos_token_id": [2, 7], "pad_token_id": 0}
    )


def make_remote(arch, model_type, rename, want, extra):
    """Architectures that transformers does not include, from their published tensor names."""
    c = {**SMALL, "rope_theta": 10000.0, "rms_norm_eps": 1e-6}
    tensors, expected = [], {}
    for gguf_name, name, shape in (
        ("token_embd", rename("model.embed_tokens"), (24, 32)),
        ("output_norm", rename("model.norm"), (32,)),
        ("output", "lm_head", (24, 32)),
    ):
        tensors.append((f"{gguf_name}.weight", shape))
        expected[f"{name}.weight"] = shape
    for layer in range(2):
        for i, (gguf_name, name, shape) in enumerate(BLOCK):
            tensors.append((f"blk.{layer}.{gguf_name}.weight", shape))
            full = f"transformer.h.{layer}.{EXAONE[i]}" if arch == "exaone" else f"model.layers.{layer}.{name}"
            expected[f"{full}.weight"] = shape
    write_gguf(OUT / "arch" / f"{arch}.gguf", arch, {**gguf_keys(arch, c), **extra}, tensors)
    expect(
        OUT / "arch" / f"{arch}.json",
        expected,
        {"model_type": model_type, "tie_word_embeddings": False, "vocab_size": 24, **want},
        {"bos_token_id": 1, "eos_token_id": [2, 7], "pad_token_id": 0},
    )


def make_fuzz_seeds():
    for kind in ("safetensors", "gguf", "config"):
        shutil.rmtree(FUZZ / kind, ignore_errors=True)
        (FUZZ / kind).mkdir(parents=True)
    shutil.copyfile(OUT / "plain.safetensors", FUZZ / "safetensors" / "plain")
    save_file(
        {"x": np.zeros((2, 2), np.uint32), "y": np.ones(3, np.float16)},
        FUZZ / "safetensors" / "metadata",
        {"format": "pt"},
    )
    names = {
        "llama": ["rope_freqs.weight"],
        "gemma3": [],
        "stablelm": ["blk.0.attn_q_norm.weight"],
        "minicpm": [],
        "qwen2moe": ["blk.0.ffn_gate_exps.weight", "blk.0.ffn_gate_inp_shexp.weight"],
    }
    for arch, extra in names.items():
        keys = {
            "block_count": 1,
            "embedding_length": 4,
            "attention.head_count": 1,
            "feed_forward_length": 4,
            "expert_count": 2,
            "rope.freq_base": 10000.0,
            "rope.scaling.type": "yarn",
            "attention.sliding_window": 4,
            "tokenizer.ggml.tokens": ["a", "b"],
            "tokenizer.ggml.eos_token_id": 1,
            "tokenizer.ggml.add_bos_token": True,
        }
        tensors = [
            ("token_embd.weight", (2, 4)),
            *((name, (2, 4)) for name in extra if "exps" not in name and "freqs" not in name),
            *((name, (2, 4, 4)) for name in extra if "exps" in name),
            *((name, (2,)) for name in extra if "freqs" in name),
        ]
        write_gguf(FUZZ / "gguf" / arch, arch, keys, tensors)
    for i, config in enumerate(
        (
            {"bits": 4, "group_size": 64},
            {"bits": 8, "group_size": 32, "m": {"bits": 8}},
            {"m": False},
            {"bits": 2, "group_size": 128, "m": {"mode": "affine", "bits": 4, "group_size": 64}},
        )
    ):
        (FUZZ / "config" / f"{i}").write_text(json.dumps({"quantization" if i % 2 else "quantization_config": config}))


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    (OUT / "arch").mkdir(parents=True)
    make_blocks()
    for dtype in ("f16", "bf16", "f32"):
        make_mlx(dtype)
    for arch in FAMILIES:
        make_family(arch)
    make_remote(
        "minicpm",
        "minicpm",
        lambda n: n,
        {"scale_emb": 12.0, "scale_depth": 1.4, "dim_model_base": 16, "rope_interleaved": True},
        {"embedding_scale": 12.0, "residual_scale": 1.4 / 2**0.5, "logit_scale": 2.0},
    )
    make_remote("mimo", "mimo", lambda n: n, {"rms_norm_eps": 1e-6}, {})
    make_remote(
        "exaone",
        "exaone",
        lambda n: {"model.embed_tokens": "transformer.wte", "model.norm": "transformer.ln_f"}[n],
        {"num_layers": 2, "layer_norm_epsilon": 1e-6},
        {},
    )
    save_file(
        {
            "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
            "b.ids": np.arange(4, dtype=np.int64),
            "c.empty": np.zeros((0, 5), np.float16),
            "d.scalar": np.array(2.5, np.float32),
            "e.bytes": np.zeros(3, np.uint8),
        },
        OUT / "plain.safetensors",
    )
    make_fuzz_seeds()


if __name__ == "__main__":
    main()
