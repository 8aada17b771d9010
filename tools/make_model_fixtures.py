"""Makes fixtures/models/<case>/: small random checkpoints of every model family and what transformers computes with them.

    python tools/make_model_fixtures.py [case ...]          (packages: tools/requirements-goldens.txt)

Each folder holds config.json, the weights as a Hugging Face checkpoint (safetensors, some sharded, one quantised by MLX)
and golden.safetensors:
    prompt_ids  i32 [n]            the prompt
    logits      f32 [n, vocab]     transformers, float32, eager attention, CPU
    logits_f64  i32 [n, vocab, 2]  the bytes of the float64 evaluation of the same weights (rotary angles from the same
                                   float32 inverse frequencies), as pairs of little-endian words
    greedy_ids  i32 [64]           greedy continuation

Weights are random, but not any: a seed is kept only if the continuation is varied, if it is the same in float32 and
float64, and if it survives random changes of the weights by 2^-11 of their size. So a different greedy token is a wrong
operator, not a rounding difference. Families that transformers does not have are in model_fixture_families.py.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import save_file
from torch.overrides import TorchFunctionMode
from transformers.modeling_utils import no_init_weights

from model_fixture_cases import CASES

FOLDER = Path(__file__).resolve().parent.parent / "fixtures" / "models"
PROMPT = 20
GREEDY = 64
FINAL_NORMS = ("model.norm.weight", "transformer.ln_f.weight")
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


class Float64(TorchFunctionMode):
    """Turns every request for float32 inside a model's code into float64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        def wide(value):
            return torch.float64 if value is torch.float32 else value

        if func is torch.Tensor.float:
            func = torch.Tensor.double
        args = tuple(wide(a) for a in args)
        return func(*args, **{k: wide(v) for k, v in (kwargs or {}).items()})


def randomise(model, case, seed):
    """Gaussian matrices scaled by their fan-in, norm weights around their neutral value, biases that matter."""
    gen = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=gen)
        if "norm" in name or ".ln_" in name:
            value = 1.0 + 0.25 * noise if name.endswith("weight") else 0.2 * noise
            if name in FINAL_NORMS:
                value = value * case.final_gain
            if case.norm_offset:
                value = value - 1.0
        elif p.dim() == 1:
            value = 0.3 * noise
        elif "embed" in name or "wte" in name:
            value = case.embed_std * noise
        else:
            gain = next((g for part, g in case.gains.items() if part in name), 1.0)
            value = gain * noise / p.shape[-1] ** 0.5
        p.data = value.to(case.torch_dtype).float()


def quantise_mlx(model, case):
    """Replaces every matrix by its MLX affine quantisation; returns the tensors to store."""
    import mlx.core as mx

    stored = {}
    for name, p in model.named_parameters():
        if p.dim() != 2:
            stored[name] = p.data.to(case.torch_dtype)
            continue
        w, scales, biases = mx.quantize(mx.array(p.data.numpy()).astype(mx.float16), case.mlx_group, case.mlx_bits)
        back = mx.dequantize(w, scales.astype(mx.float32), biases.astype(mx.float32), case.mlx_group, case.mlx_bits)
        p.data = torch.tensor(np.array(back.astype(mx.float32)))
        base = name.removesuffix("weight")
        stored[name] = torch.tensor(np.array(w).view(np.int32)).view(torch.uint32)
        stored[base + "scales"] = torch.tensor(np.array(scales))
        stored[base + "biases"] = torch.tensor(np.array(biases))
    return stored


def logits_of(model, ids):
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


def greedy(model, prompt):
    ids = list(prompt)
    for _ in range(GREEDY):
        ids.append(int(logits_of(model, ids)[-1].argmax()))
    return ids[len(prompt):]


def survives(model, prompt, tail):
    """Whether float64, and float32 with slightly different weights, continue the prompt alike."""
    ids = prompt + tail[:-1]
    want = torch.tensor(tail)

    def same(m):
        return torch.equal(logits_of(m, ids)[len(prompt) - 1:].argmax(-1), want)

    kept = {n: p.data for n, p in model.named_parameters()}
    gen = torch.Generator().manual_seed(1)
    ok = True
    for _ in range(3):
        for n, p in model.named_parameters():
            p.data = kept[n] * (1 + 2.0**-11 * torch.randn(p.shape, generator=gen))
        ok = ok and same(model)
    for n, p in model.named_parameters():
        p.data = kept[n]
    return ok


def build(case, seed):
    with no_init_weights():
        model = case.model(case.config)
    model.eval()
    randomise(model, case, seed)
    stored = quantise_mlx(model, case) if case.mlx_bits else None
    model.tie_weights()
    return model, stored


def search(case):
    """The first seed whose model answers with variety and margin."""
    for seed in range(400):
        model, stored = build(case, seed)
        prompt = torch.randint(0, case.config.vocab_size, (PROMPT,), generator=torch.Generator().manual_seed(seed)).tolist()
        tail = greedy(model, prompt)
        if len(set(tail)) >= 16 and survives(model, prompt, tail):
            return seed, model, stored, prompt, tail
    raise SystemExit(f"{case.name}: no seed gives a varied and robust continuation")


def weights_of(case, model, stored):
    """The checkpoint's tensors under their published names."""
    if stored is None:
        stored = {n: p.data.to(case.torch_dtype).contiguous() for n, p in model.named_parameters()}
    return case.rename({n: t.clone() for n, t in stored.items()})


def write_weights(folder, tensors, shards):
    if shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(tensors)
    index = {}
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        part = names[i * len(names) // shards:(i + 1) * len(names) // shards]
        save_file({n: tensors[n] for n in part}, folder / file, metadata={"format": "pt"})
        index.update({n: file for n in part})
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    text = {"metadata": {"total_size": total}, "weight_map": index}
    (folder / "model.safetensors.index.json").write_text(json.dumps(text, indent=1, sort_keys=True) + "\n")


def config_of(case):
    """config.json as published checkpoints have it: derived fields that older ones lack are dropped."""
    text = json.loads(case.config.to_json_string(use_diff=True))
    for key in ("layer_types", "transformers_version", "dtype", "torch_dtype", *case.drop):
        text.pop(key, None)
    text.update(case.extra)
    text["torch_dtype"] = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}[case.dtype]
    return case.nest(text)


def run(case):
    case.torch_dtype = DTYPES[case.dtype]
    seed, model, stored, prompt, tail = search(case)
    folder = FOLDER / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_weights(folder, weights_of(case, model, stored), case.shards)
    (folder / "config.json").write_text(json.dumps(config_of(case), indent=1, sort_keys=True) + "\n")

    single = logits_of(model, prompt).float()
    model.double()
    with Float64():
        double = logits_of(model, prompt)
        everywhere = logits_of(model, prompt + tail[:-1])
    if everywhere[PROMPT - 1:].argmax(-1).tolist() != tail:
        raise SystemExit(f"{case.name}: float64 continues differently")
    save_numpy(
        {
            "prompt_ids": np.array(prompt, np.int32),
            "greedy_ids": np.array(tail, np.int32),
            "logits": single.numpy(),
            "logits_f64": double.numpy().view(np.int32).reshape(*double.shape, 2),
        },
        folder / "golden.safetensors",
    )
    size = sum(f.stat().st_size for f in folder.iterdir()) // 1024
    error = (single.double() - double).abs().max().item()
    print(f"{case.name:18} seed {seed:3} {size:4} KiB  distinct {len(set(tail)):2}  logits rms {double.std():.2f}  f32 error {error:.1e}")


def main():
    if transformers.__version__ != "4.57.6" or not torch.__version__.startswith("2.13.0"):
        raise SystemExit(f"needs transformers 4.57.6 and torch 2.13.0, have {transformers.__version__} and {torch.__version__}")
    torch.set_num_threads(1)
    wanted = sys.argv[1:]
    unknown = set(wanted) - {c.name for c in CASES}
    if unknown:
        raise SystemExit(f"unknown cases: {', '.join(sorted(unknown))}")
    for case in CASES:
        if not wanted or case.name in wanted:
            run(case)


if __name__ == "__main__":
    main()
