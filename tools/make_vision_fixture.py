"""Makes fixtures/vision/gemma3_random/: a random Gemma3ForConditionalGeneration of 110 thousand parameters, with goldens.

    python tools/make_vision_fixture.py          (packages: tools/requirements-vision.txt)

It has the layout, tokenizer and processor of the trained shapes model (vision_model_files.py) and smaller matrices. Its
sliding window is shorter than an image's block. Goldens: make_vision_goldens.py. Pictures and questions are kept only if
the continuation is varied and survives random changes of the weights by 2^-11 of their size, so a different greedy token
is a wrong operator, not a rounding difference.
"""

import json
import random
import shutil
from pathlib import Path

import torch
from transformers import Gemma3Config, Gemma3ForConditionalGeneration

import make_vision_goldens as goldens
import vision_model_files as files
import vision_world as world

FOLDER = Path(__file__).resolve().parent.parent / "fixtures" / "vision" / "gemma3_random"
TEXT = dict(hidden_size=48, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
            query_pre_attn_scalar=16, sliding_window=12, rope_local_base_freq=100.0, rope_theta=10000.0,
            rope_scaling={"factor": 4.0, "rope_type": "linear"})
VISION = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)
SEED = 7
DISTINCT = 16
MARGIN = 0.1


def randomise(model, seed):
    """Gaussian matrices scaled by their fan-in, norm weights around their neutral value, biases that matter."""
    gen = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=gen)
        vision = "vision_model" in name
        if "norm" in name and name.endswith("weight"):
            value = 0.25 * noise + (1.0 if vision else 0.0)
            if name.endswith("language_model.norm.weight"):  # tied embeddings are small, so that a token does not just repeat itself
                value = 10.0 * (1.0 + value) - 1.0
            if name.endswith(("q_norm.weight", "k_norm.weight")):  # attention that chooses
                value = 1.4 * (1.0 + value) - 1.0
        elif p.dim() == 1:
            value = 0.2 * noise
        elif "position_embedding" in name:
            value = 0.5 * noise
        elif "embed_tokens" in name:
            value = 0.05 * noise
        elif "mm_input_projection" in name:
            value = 0.35 * noise / p.shape[0] ** 0.5
        else:
            value = (1.5 if "q_proj" in name or "k_proj" in name else 1.0) * noise / p[0].numel() ** 0.5
        p.data = value.to(torch.bfloat16).float()
    model.tie_weights()


def survives(model, inputs, tail):
    """Whether slightly different weights continue the prompt alike."""
    ids = inputs["input_ids"][0].tolist()
    kept = {n: p.data for n, p in model.named_parameters()}
    gen, ok = torch.Generator().manual_seed(1), True
    for _ in range(3):
        for n, p in model.named_parameters():
            p.data = kept[n] * (1 + 2.0**-11 * torch.randn(p.shape, generator=gen))
        best = goldens.whole_pass(model, inputs, ids + tail[:-1])[len(ids) - 1:].argmax(-1)
        ok = ok and best.tolist() == tail
    for n, p in model.named_parameters():
        p.data = kept[n]
    return ok


def greedy(model, inputs):
    """The continuation; none once a token stands out by less than MARGIN, or when it lacks variety."""
    ids = inputs["input_ids"][0].tolist()
    tail = []
    while len(tail) < goldens.GREEDY:
        best = goldens.whole_pass(model, inputs, ids + tail)[-1].topk(2)
        tail.append(int(best.indices[0]))
        if best.values[0] - best.values[1] < MARGIN or (len(tail) == 24 and len(set(tail)) < 8):
            return None
    return tail if len(set(tail)) >= DISTINCT else None


def some_text(rng):
    """Three questions without a picture: many different prompts."""
    return world.Question("text", [" ".join(world.no_picture(rng).content[0] for _ in range(3))], "")


def find_case(model, processor, name, make, sizes):
    """The first question whose continuation has variety and margin."""
    for seed in range(2000):
        rng = random.Random(seed)
        question = make(rng)
        question.pictures = [world.draw(things, rng, size) for things, size in zip(question.scenes, sizes)]
        if name == "two" and isinstance(question.content[0], int):
            continue
        _, inputs = goldens.inputs_of(processor, question.content, question.pictures)
        tail = greedy(model, inputs)
        if tail and survives(model, inputs, tail):
            print(f"{name}: seed {seed}, {len(set(tail))} distinct tokens", flush=True)
            return question
    raise SystemExit(f"{name}: no question gives a varied and robust continuation")


def main():
    goldens.check_versions()
    torch.set_num_threads(1)
    shutil.rmtree(FOLDER, ignore_errors=True)
    files.write(FOLDER, files.config(TEXT, VISION))
    model = Gemma3ForConditionalGeneration(Gemma3Config(**json.loads((FOLDER / "config.json").read_text()))).eval()
    model.set_attn_implementation("eager")
    randomise(model, SEED)
    half = Gemma3ForConditionalGeneration(model.config).bfloat16()
    half.load_state_dict(model.state_dict())
    half.save_pretrained(FOLDER)
    files.write(FOLDER, files.config(TEXT, VISION))
    processor = goldens.load_processor(FOLDER)
    cases = []
    for name, make, sizes in (("one", world.one_picture, [(64, 64)]), ("two", world.two_pictures, [(96, 80), (64, 64)]), ("text", some_text, [])):
        question = find_case(model, processor, name, make, sizes)
        images = [f"{name}_{i}.png" for i in range(len(sizes))]
        for image, picture in zip(images, question.pictures):
            picture.save(FOLDER / image, optimize=True)
        cases.append({"name": name, "images": images, "content": question.content})
    (FOLDER / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")
    goldens.run(FOLDER)


if __name__ == "__main__":
    main()
