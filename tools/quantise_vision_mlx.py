"""A 4-bit variant of a Gemma 3 vision checkpoint in the layout of MLX: affine, groups of 32 columns.

    python tools/quantise_vision_mlx.py fixtures/vision/gemma3_shapes fixtures/vision/gemma3_shapes_mlx4     (tools/requirements-vision.txt)

Linears of both halves and the token embedding become packed u32 weights with bf16 scales and biases; norms, biases, the
projection, the patch convolution (channels last, as MLX keeps it) and the position table stay bf16. config.json gets
"quantization". cases.json takes the first case about one picture, about two and without, pictures from the first folder.
"""

import argparse
import json
import os
import shutil
from pathlib import Path

import mlx.core as mx
import numpy as np
import torch
from safetensors.torch import load_file, save_file

GROUP = 32
BITS = 4
KEPT = ("position_embedding.weight", "mm_input_projection_weight")


def quantise(value):
    """u32 weight, bf16 scales and biases of a bf16 matrix."""
    packed = mx.quantize(mx.array(value.float().numpy()).astype(mx.bfloat16), GROUP, BITS)
    weight = torch.from_numpy(np.array(packed[0]).view(np.int32)).view(torch.uint32)
    return [weight] + [torch.from_numpy(np.array(part.astype(mx.float32))).bfloat16() for part in packed[1:]]


def convert(tensors):
    out = {}
    for name, value in tensors.items():
        if name.endswith("patch_embedding.weight"):
            out[name] = value.permute(0, 2, 3, 1).contiguous()
        elif value.dim() != 2 or value.shape[1] % GROUP or name.endswith(KEPT):
            out[name] = value
        else:
            base = name.removesuffix("weight")
            out |= dict(zip((name, base + "scales", base + "biases"), quantise(value)))
    return out


def write_cases(source, out):
    cases = json.loads((source / "cases.json").read_text())
    chosen = [next(c for c in cases if len(c["images"]) == n) for n in (1, 2, 0)]
    for case in chosen:
        case["images"] = [os.path.relpath(source / name, out) for name in case["images"]]
        case["logits_rows"] = 4
    (out / "cases.json").write_text(json.dumps(chosen, indent=1) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("source", type=Path)
    p.add_argument("out", type=Path)
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    for name in ("generation_config.json", "tokenizer.json", "tokenizer_config.json", "preprocessor_config.json", "processor_config.json",
                 "chat_template.json", "special_tokens_map.json"):
        shutil.copy(a.source / name, a.out / name)
    config = json.loads((a.source / "config.json").read_text())
    config["quantization"] = config["quantization_config"] = {"group_size": GROUP, "bits": BITS, "mode": "affine"}
    (a.out / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    save_file(convert(load_file(a.source / "model.safetensors")), a.out / "model.safetensors", metadata={"format": "mlx"})
    write_cases(a.source, a.out)


if __name__ == "__main__":
    main()
