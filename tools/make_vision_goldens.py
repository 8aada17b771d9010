"""Goldens of a vision checkpoint: what Hugging Face transformers computes, f32, eager attention, on a CPU.

    python tools/make_vision_goldens.py fixtures/vision/gemma3_shapes       (packages: tools/requirements-vision.txt)

reads FOLDER/cases.json, a list of cases {name, images: files beside it, content: texts and numbers of images, expected},
and writes FOLDER/golden.json: per case also the templated prompt, the answer (greedy, up to the end of the turn) and where
its rows of logits begin; and FOLDER/golden.safetensors, per case:
    <case>.input_ids        i32 [n]              the processor's, placeholders expanded
    <case>.token_type_ids   i32 [n]              1 for a token of an image
    <case>.pixel_values     f32 [images, 3, S, S]
    <case>.tower            f32 [images, patches, vision hidden]   last_hidden_state, after post_layernorm
    <case>.projected        f32 [images, tokens per image, text hidden]
    <case>.logits           f32 [rows, vocab]    of the prompt from position logits_from of golden.json to its end
    <case>.greedy_ids       i32 [64]             greedy continuation, not stopped by an end token
The cases without pictures lack pixel_values, tower and projected. A quantised checkpoint (MLX affine, "quantization" in
config.json) is computed with its dequantised weights.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import PIL
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file

GREEDY = 64
VERSIONS = {"transformers": "4.57.6", "torch": "2.13.0", "Pillow": "13.0.0"}


def check_versions():
    have = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0], "Pillow": PIL.__version__}
    if have != VERSIONS:
        raise SystemExit(f"needs {VERSIONS}, has {have}")


def dequantise(tensors, quantization):
    """MLX affine tensors (name.weight u32, .scales, .biases) as f32 matrices; the others as f32, the patch convolution with channels first."""
    import mlx.core as mx

    out = {}
    for name, value in tensors.items():
        base = name.removesuffix(".weight")
        if name.endswith((".scales", ".biases")):
            continue
        if f"{base}.scales" not in tensors:
            out[name] = value.float().permute(0, 3, 1, 2).contiguous() if name.endswith("patch_embedding.weight") else value.float()
            continue
        packed = mx.array(value.view(torch.int32).numpy().view(np.uint32))
        scales, biases = (mx.array(tensors[f"{base}.{part}"].float().numpy()) for part in ("scales", "biases"))
        matrix = mx.dequantize(packed, scales, biases, quantization["group_size"], quantization["bits"])
        out[name] = torch.from_numpy(np.array(matrix.astype(mx.float32)))
    return out


def load_model(folder):
    config = json.loads((folder / "config.json").read_text())
    if "quantization" not in config:
        return transformers.Gemma3ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    plain = {k: v for k, v in config.items() if k not in ("quantization", "quantization_config")}
    weights = dequantise(load_file(folder / "model.safetensors"), config["quantization"])
    return transformers.Gemma3ForConditionalGeneration.from_pretrained(
        None, config=transformers.Gemma3Config(**plain), state_dict=weights, dtype=torch.float32, attn_implementation="eager").eval()


def load_processor(folder):
    """As transformers chooses it for a published Gemma 3: the image processor that its configuration names, the one on Pillow."""
    return transformers.AutoProcessor.from_pretrained(folder)


def messages_of(content):
    parts = [{"type": "text", "text": c} if isinstance(c, str) else {"type": "image"} for c in content]
    return [{"role": "user", "content": parts}]


def inputs_of(processor, content, pictures):
    """(templated prompt, inputs of the model)."""
    prompt = processor.apply_chat_template(messages_of(content), add_generation_prompt=True)
    shown = [pictures[c] for c in content if not isinstance(c, str)]
    return prompt, processor(text=prompt, images=shown or None, return_tensors="pt", add_special_tokens=False)


def whole_pass(model, inputs, ids):
    """Logits [n, vocab] of |ids|: the prompt of |inputs| and what follows it, in one pass without a cache."""
    types = torch.zeros(1, len(ids), dtype=torch.long)
    types[:, :inputs["token_type_ids"].shape[1]] = inputs["token_type_ids"]
    pixels = {"pixel_values": inputs["pixel_values"]} if "pixel_values" in inputs else {}
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), token_type_ids=types, use_cache=False, **pixels).logits[0]


def greedy(model, inputs, n=GREEDY):
    """By whole passes: a cache must not enter into it."""
    ids = inputs["input_ids"][0].tolist()
    prompt = len(ids)
    for _ in range(n):
        ids.append(int(whole_pass(model, inputs, ids)[-1].argmax()))
    return ids[prompt:]


def answer_of(processor, model, tail):
    """The text up to the first end token."""
    ends = model.config.eos_token_id if isinstance(model.config.eos_token_id, list) else [model.config.eos_token_id]
    n = next((i for i, t in enumerate(tail) if t in ends), len(tail))
    return processor.tokenizer.decode(tail[:n])


def tensors_of(model, inputs, tail, logits_from):
    prompt = inputs["input_ids"][0].tolist()
    out = {"input_ids": torch.tensor(prompt, dtype=torch.int32), "token_type_ids": inputs["token_type_ids"][0].to(torch.int32)}
    if "pixel_values" in inputs:
        with torch.no_grad():
            tower = model.model.vision_tower(pixel_values=inputs["pixel_values"]).last_hidden_state
            out |= {"pixel_values": inputs["pixel_values"], "tower": tower, "projected": model.model.multi_modal_projector(tower)}
    out["logits"] = whole_pass(model, inputs, prompt)[logits_from:]
    out["greedy_ids"] = torch.tensor(tail, dtype=torch.int32)
    return {k: v.contiguous() for k, v in out.items()}


def run(folder, logits_rows=None):
    """|logits_rows|: how many rows of logits to keep of each case that does not say it ("logits_rows"); None: all."""
    model, processor = load_model(folder), load_processor(folder)
    cases, tensors = json.loads((folder / "cases.json").read_text()), {}
    for case in cases:
        pictures = [Image.open(folder / name) for name in case["images"]]
        prompt, inputs = inputs_of(processor, case["content"], pictures)
        rows = case.pop("logits_rows", logits_rows)
        n = inputs["input_ids"].shape[1]
        case["logits_from"] = 0 if rows is None else max(0, n - rows)
        tail = greedy(model, inputs)
        case |= {"prompt": prompt, "answer": answer_of(processor, model, tail)}
        tensors |= {f"{case['name']}.{k}": v for k, v in tensors_of(model, inputs, tail, case["logits_from"]).items()}
        print(f"{case['name']:16} {n:4} tokens  {case['answer']!r}  expected {case.get('expected')!r}")
    made = {**VERSIONS, "dtype": "float32", "attention": "eager", "image_processor": type(processor.image_processor).__name__}
    (folder / "golden.json").write_text(json.dumps({"made_with": made, "cases": cases}, indent=1) + "\n")
    save_file(tensors, folder / "golden.safetensors")
    print(f"{folder}: {len(cases)} cases, {(folder / 'golden.safetensors').stat().st_size // 1024} KiB")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path)
    p.add_argument("--logits-rows", type=int, help="rows of logits to keep, from the prompt's end (default all)")
    a = p.parse_args()
    check_versions()
    torch.set_num_threads(1)
    run(a.folder, a.logits_rows)


if __name__ == "__main__":
    main()
