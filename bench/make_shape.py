#!/usr/bin/env python3
"""Random weights in the shape of Llama-3.2-1B, for measuring speed: nothing about them is a model.

usage: make_shape.py FOLDER [FORMAT ...]      formats: q4_0 q8_0 f16 mlx4; default: all of them
needs: gguf==0.19.0 and numpy; safetensors for mlx4

Writes FOLDER/llama1b-<FORMAT>.gguf (and the folder llama1b-mlx4), each only when it is missing. The tokenizer is a byte-level BPE
of the full 128256 entries: the 256 bytes, all pairs of them, pairs with a third byte, 256 control tokens. So prompts of any text
can be encoded, every engine builds the tables of a full vocabulary, and their load times are those of the real shape.
"""
import json
import os
import struct
import sys

import numpy as np

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD, INNER, VOCAB, CONTEXT = 2048, 16, 32, 8, 64, 8192, 128256, 131072
THETA, EPS, SPREAD = 500000.0, 1e-5, 0.02
CONTROL = 256


def matrices():
    """(GGUF name, Hugging Face name, rows, columns) of every matrix."""
    yield "token_embd.weight", "model.embed_tokens", VOCAB, HIDDEN
    for i in range(LAYERS):
        for g, h, n, k in (("attn_q", "self_attn.q_proj", HEADS * HEAD, HIDDEN), ("attn_k", "self_attn.k_proj", KV_HEADS * HEAD, HIDDEN),
                           ("attn_v", "self_attn.v_proj", KV_HEADS * HEAD, HIDDEN), ("attn_output", "self_attn.o_proj", HIDDEN, HEADS * HEAD),
                           ("ffn_gate", "mlp.gate_proj", INNER, HIDDEN), ("ffn_up", "mlp.up_proj", INNER, HIDDEN),
                           ("ffn_down", "mlp.down_proj", HIDDEN, INNER)):
            yield f"blk.{i}.{g}.weight", f"model.layers.{i}.{h}", n, k


def norms():
    yield "output_norm.weight", "model.norm"
    for i in range(LAYERS):
        yield f"blk.{i}.attn_norm.weight", f"model.layers.{i}.input_layernorm"
        yield f"blk.{i}.ffn_norm.weight", f"model.layers.{i}.post_attention_layernorm"


# ---- The tokenizer ------------------------------------------------------------------------------------------------------

def byte_letters():
    """The printable character that stands for each byte in byte-level BPE."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, extra = {}, 0
    for b in range(256):
        if b not in keep:
            extra += 1
        letters[b] = chr(b if b in keep else 255 + extra)
    return letters


def vocabulary():
    letters = list(byte_letters().values())
    tokens, merges = list(letters), []
    pairs = [(a, b) for a in letters for b in letters]
    merges += pairs
    tokens += [a + b for a, b in pairs]
    for first, second in pairs:
        for third in letters:
            if len(tokens) == VOCAB - CONTROL:
                return tokens, merges
            merges.append((first + second, third))
            tokens.append(first + second + third)
    raise AssertionError


def control_tokens():
    return ["<|begin_of_text|>", "<|end_of_text|>", *(f"<|reserved_{i}|>" for i in range(CONTROL - 2))]


# ---- GGUF -----------------------------------------------------------------------------------------------------------------

def halves(rng, count, unit):
    """Scales around |unit| as float16."""
    return (unit * (0.5 + rng.random(count, dtype=np.float32))).astype(np.float16)


def q4_0(rng, rows, cols):
    n = rows * cols // 32
    block = np.empty((n, 18), np.uint8)
    block[:, :2] = halves(rng, n, SPREAD / 4.6).view(np.uint8).reshape(n, 2)
    block[:, 2:] = rng.integers(0, 256, (n, 16), np.uint8)
    return block.reshape(rows, -1)


def q8_0(rng, rows, cols):
    n = rows * cols // 32
    block = np.empty((n, 34), np.uint8)
    block[:, :2] = halves(rng, n, SPREAD / 74).view(np.uint8).reshape(n, 2)
    block[:, 2:] = rng.integers(1, 256, (n, 32), np.uint8) ^ 0x80
    return block.reshape(rows, -1)


def f16(rng, rows, cols):
    return (SPREAD * rng.standard_normal((rows, cols), np.float32)).astype(np.float16)


def write_gguf(path, kind):
    import gguf
    make = {"q4_0": q4_0, "q8_0": q8_0, "f16": f16}[kind]
    types = {"q4_0": gguf.GGMLQuantizationType.Q4_0, "q8_0": gguf.GGMLQuantizationType.Q8_0, "f16": gguf.GGMLQuantizationType.F16}
    files = {"q4_0": gguf.LlamaFileType.MOSTLY_Q4_0, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0, "f16": gguf.LlamaFileType.MOSTLY_F16}
    rng = np.random.default_rng(1)
    w = gguf.GGUFWriter(path, "llama")
    w.add_name("random weights, Llama-3.2-1B shape")
    w.add_context_length(CONTEXT)
    w.add_embedding_length(HIDDEN)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(INNER)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_key_length(HEAD)
    w.add_value_length(HEAD)
    w.add_rope_dimension_count(HEAD)
    w.add_rope_freq_base(THETA)
    w.add_layer_norm_rms_eps(EPS)
    w.add_vocab_size(VOCAB)
    w.add_file_type(files[kind])
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    tokens, merges = vocabulary()
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("llama-bpe")
    w.add_token_list(tokens + control_tokens())
    w.add_token_types([gguf.TokenType.NORMAL] * len(tokens) + [gguf.TokenType.CONTROL] * CONTROL)
    w.add_token_merges([f"{a} {b}" for a, b in merges])
    w.add_bos_token_id(len(tokens))
    w.add_eos_token_id(len(tokens) + 1)
    w.add_chat_template("{% for m in messages %}{{ m['content'] }}{% endfor %}")
    for name, _ in norms():
        w.add_tensor(name, np.ones(HIDDEN, np.float32))
    for name, _, rows, cols in matrices():
        w.add_tensor(name, make(rng, rows, cols), raw_dtype=types[kind])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


# ---- MLX affine, 4 bits, groups of 64 ----------------------------------------------------------------------------------------

def mlx_tensors():
    """(name, dtype, shape, maker) in the order of the file."""
    def norm(_):
        return np.full(HIDDEN, 0x3F80, np.uint16) # bf16 1.0
    for _, name in norms():
        yield name + ".weight", "BF16", (HIDDEN,), norm
    for _, name, rows, cols in matrices():
        groups = (rows, cols // 64)
        yield name + ".weight", "U32", (rows, cols // 8), lambda rng, s=(rows, cols // 8): rng.integers(0, 2**32, s, np.uint32)
        yield name + ".scales", "F16", groups, lambda rng, g=groups: halves(rng, g[0] * g[1], SPREAD / 4.6).reshape(g)
        yield name + ".biases", "F16", groups, lambda rng, g=groups: -halves(rng, g[0] * g[1], 7.5 * SPREAD / 4.6).reshape(g)


def write_safetensors(path):
    size = {"U32": 4, "F16": 2, "BF16": 2}
    header, at = {"__metadata__": {"format": "mlx"}}, 0
    for name, dtype, shape, _ in mlx_tensors():
        n = size[dtype] * int(np.prod(shape))
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    rng = np.random.default_rng(1)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, _, make in mlx_tensors():
            make(rng).tofile(f)


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=False)


def write_mlx(folder):
    os.makedirs(folder, exist_ok=True)
    tokens, merges = vocabulary()
    controls = control_tokens()
    write_json(os.path.join(folder, "config.json"), {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "intermediate_size": INNER, "vocab_size": VOCAB,
        "max_position_embeddings": CONTEXT, "rope_theta": THETA, "rms_norm_eps": EPS, "hidden_act": "silu", "tie_word_embeddings": True,
        "attention_bias": False, "mlp_bias": False, "bos_token_id": len(tokens), "eos_token_id": len(tokens) + 1,
        "torch_dtype": "bfloat16", "quantization": {"group_size": 64, "bits": 4}})
    split = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = [{"id": len(tokens) + i, "content": c, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, c in enumerate(controls)]
    write_json(os.path.join(folder, "tokenizer.json"), {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None, "pre_tokenizer": split,
        "post_processor": None, "decoder": split,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": {t: i for i, t in enumerate(tokens)},
                  "merges": [f"{a} {b}" for a, b in merges]}})
    write_json(os.path.join(folder, "tokenizer_config.json"), {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": controls[0], "eos_token": controls[1],
        "chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %}"})
    write_safetensors(os.path.join(folder, "model.safetensors"))


def main():
    folder, formats = sys.argv[1], sys.argv[2:] or ["q4_0", "q8_0", "f16", "mlx4"]
    os.makedirs(folder, exist_ok=True)
    for kind in formats:
        path = os.path.join(folder, "llama1b-" + kind + ("" if kind == "mlx4" else ".gguf"))
        if os.path.exists(path):
            continue
        print(f"writing {path} ...", flush=True)
        if kind == "mlx4":
            write_mlx(path + ".part")
        else:
            write_gguf(path + ".part", kind)
        os.rename(path + ".part", path)


if __name__ == "__main__":
    main()
