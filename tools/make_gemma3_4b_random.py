"""Makes a checkpoint with the configuration of Gemma 3 4B and random bf16 weights, for tests of size: 8.6 GB in shards.

    python tools/make_gemma3_4b_random.py OUT [--text-layers N] [--vision-layers N] [--shard-gb G] [--seed S]     (needs numpy)

Weights are written as they are drawn, 16 MB at a time: memory stays under 200 MB. The same seed gives the same bytes. The
tokenizer is the small one of vision_model_files.py with Gemma 3's ids for the special tokens, so prompts with pictures work;
an 896 x 896 picture gives 256 rows of 2560. Weights are scaled like those of the small random models: activations stay of
order one through all layers, but the answers mean nothing.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np

import vision_model_files as files

TEXT = dict(hidden_size=2560, intermediate_size=10240, num_hidden_layers=34, num_attention_heads=8, num_key_value_heads=4, head_dim=256,
            query_pre_attn_scalar=256, sliding_window=1024, vocab_size=262208, max_position_embeddings=131072)
VISION = dict(hidden_size=1152, intermediate_size=4304, num_hidden_layers=27, num_attention_heads=16, image_size=896, patch_size=14)
IMAGE_TOKENS = 256
IDS = {"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3, "<mask>": 4, "<start_of_turn>": 105, "<end_of_turn>": 106, "<start_of_image>": 255999,
       "<end_of_image>": 256000, "<image_soft_token>": 262144}
FIRST_BYTE = 238
CHUNK = 1 << 23  # numbers drawn at a time


def new_id(piece, old):
    """Gemma 3's id of a special token, a run of newlines or a byte; other pieces stand after the bytes."""
    if piece in IDS:
        return IDS[piece]
    if piece and not piece.strip("\n"):
        return 106 + len(piece)
    first = len(files.SPECIAL) + len(files.NEWLINES)
    return FIRST_BYTE + old - first


def tokenizer_json():
    t = files.tokenizer_json()
    vocab = {piece: new_id(piece, i) for piece, i in t["model"]["vocab"].items()}
    taken = set(vocab.values())
    vocab |= {f"<unused{i}>": i for i in range(IDS["<image_soft_token>"]) if i not in taken}  # as many pieces as Gemma's
    t["model"]["vocab"] = dict(sorted(vocab.items(), key=lambda item: item[1]))
    for token in t["added_tokens"]:
        token["id"] = vocab[token["content"]]
    t["post_processor"]["special_tokens"]["<bos>"]["ids"] = [IDS["<bos>"]]
    return t


def tokenizer_config():
    config = files.tokenizer_config()
    config["added_tokens_decoder"] = {str(new_id(v["content"], 0)): v for v in config["added_tokens_decoder"].values()}
    return config | {"model_max_length": TEXT["max_position_embeddings"]}


def config(text_layers, vision_layers):
    text = TEXT | {"num_hidden_layers": text_layers}
    layers = ["sliding_attention" if (i + 1) % 6 else "full_attention" for i in range(text_layers)]
    c = files.config(text | {"layer_types": layers}, VISION | {"num_hidden_layers": vision_layers})
    return c | {"boi_token_index": IDS["<start_of_image>"], "eoi_token_index": IDS["<end_of_image>"], "image_token_index": IDS["<image_soft_token>"],
                "eos_token_id": [IDS["<eos>"], IDS["<end_of_turn>"]], "mm_tokens_per_image": IMAGE_TOKENS}


def text_tensors(n_layers):
    h, m = TEXT["hidden_size"], TEXT["intermediate_size"]
    q, kv = (TEXT[k] * TEXT["head_dim"] for k in ("num_attention_heads", "num_key_value_heads"))
    yield "embed_tokens.weight", (TEXT["vocab_size"], h), 0.05, 0.0
    for i in range(n_layers):
        at = f"layers.{i}."
        for norm in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"):
            yield f"{at}{norm}.weight", (h,), 0.25, 0.0
        for norm in ("q_norm", "k_norm"):
            yield f"{at}self_attn.{norm}.weight", (TEXT["head_dim"],), 0.25, 0.0
        for name, rows, cols in (("self_attn.q_proj", q, h), ("self_attn.k_proj", kv, h), ("self_attn.v_proj", kv, h), ("self_attn.o_proj", h, q),
                                 ("mlp.gate_proj", m, h), ("mlp.up_proj", m, h), ("mlp.down_proj", h, m)):
            yield f"{at}{name}.weight", (rows, cols), cols**-0.5, 0.0
    yield "norm.weight", (h,), 0.25, 0.0


def vision_tensors(n_layers):
    h, m, p = VISION["hidden_size"], VISION["intermediate_size"], VISION["patch_size"]
    yield "embeddings.patch_embedding.weight", (h, 3, p, p), (3 * p * p)**-0.5, 0.0
    yield "embeddings.patch_embedding.bias", (h,), 0.1, 0.0
    yield "embeddings.position_embedding.weight", ((VISION["image_size"] // p)**2, h), 0.5, 0.0
    for i in range(n_layers):
        at = f"encoder.layers.{i}."
        for norm in ("layer_norm1", "layer_norm2"):
            yield f"{at}{norm}.weight", (h,), 0.25, 1.0
            yield f"{at}{norm}.bias", (h,), 0.1, 0.0
        for name, rows, cols in (*((f"self_attn.{n}", h, h) for n in ("q_proj", "k_proj", "v_proj", "out_proj")), ("mlp.fc1", m, h), ("mlp.fc2", h, m)):
            yield f"{at}{name}.weight", (rows, cols), cols**-0.5, 0.0
            yield f"{at}{name}.bias", (rows,), 0.1, 0.0
    yield "post_layernorm.weight", (h,), 0.25, 1.0
    yield "post_layernorm.bias", (h,), 0.1, 0.0


def tensors(text_layers, vision_layers):
    """(name, shape, standard deviation, mean) of every tensor, in the order they are drawn."""
    for name, *rest in text_tensors(text_layers):
        yield "language_model.model." + name, *rest
    for name, *rest in vision_tensors(vision_layers):
        yield "vision_tower.vision_model." + name, *rest
    h = VISION["hidden_size"]
    yield "multi_modal_projector.mm_soft_emb_norm.weight", (h,), 0.25, 0.0
    yield "multi_modal_projector.mm_input_projection_weight", (h, TEXT["hidden_size"]), 2.5 * h**-0.5, 0.0


def size_of(shape):
    return 2 * int(np.prod(shape))


def shards(listed, limit):
    """The tensors in runs of at most |limit| bytes, a larger tensor alone."""
    run, total = [], 0
    for item in listed:
        if run and total + size_of(item[1]) > limit:
            yield run
            run, total = [], 0
        run.append(item)
        total += size_of(item[1])
    yield run


def bf16(values):
    """Rounded to nearest, ties to even."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def write_shard(path, run, rng):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape, _, _ in run:
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size_of(shape)]}
        offset += size_of(shape)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for _, shape, deviation, mean in run:
            left = int(np.prod(shape))
            while left:
                n = min(left, CHUNK)
                f.write(bf16(rng.standard_normal(n, np.float32) * np.float32(deviation) + np.float32(mean)).tobytes())
                left -= n


def write_files(out, text_layers, vision_layers):
    files.write(out, config(text_layers, vision_layers))
    size = {"height": VISION["image_size"], "width": VISION["image_size"]}
    changed = {
        "tokenizer.json": tokenizer_json(), "tokenizer_config.json": tokenizer_config(),
        "preprocessor_config.json": files.preprocessor_config() | {"size": size, "image_seq_length": IMAGE_TOKENS},
        "processor_config.json": {"image_seq_length": IMAGE_TOKENS, "processor_class": "Gemma3Processor"},
        "generation_config.json": files.generation_config() | {"eos_token_id": [IDS["<eos>"], IDS["<end_of_turn>"]]},
    }
    for name, value in changed.items():
        (out / name).write_text(json.dumps(value, indent=None if name == "tokenizer.json" else 1, ensure_ascii=False) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=Path)
    p.add_argument("--text-layers", type=int, default=TEXT["num_hidden_layers"])
    p.add_argument("--vision-layers", type=int, default=VISION["num_hidden_layers"])
    p.add_argument("--shard-gb", type=float, default=2.0)
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    runs = list(shards(tensors(a.text_layers, a.vision_layers), int(a.shard_gb * 1e9)))
    total = sum(size_of(shape) for run in runs for _, shape, _, _ in run)
    a.out.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(a.out).free
    if free < total + (1 << 28):
        raise SystemExit(f"{a.out}: needs {total / 1e9:.1f} GB, has {free / 1e9:.1f} GB free")
    write_files(a.out, a.text_layers, a.vision_layers)
    rng, index = np.random.Generator(np.random.PCG64(a.seed)), {}
    for i, run in enumerate(runs):
        name = f"model-{i + 1:05}-of-{len(runs):05}.safetensors"
        write_shard(a.out / name, run, rng)
        index |= {tensor: name for tensor, *_ in run}
        print(f"{name}: {len(run)} tensors", flush=True)
    text = {"metadata": {"total_size": total}, "weight_map": index}
    (a.out / "model.safetensors.index.json").write_text(json.dumps(text, indent=1, sort_keys=True) + "\n")
    print(f"{a.out}: {total // 2} parameters, {total / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
