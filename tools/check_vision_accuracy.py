"""How often the shapes model answers exactly right: transformers, f32, pictures as files through Gemma3Processor.

    python tools/check_vision_accuracy.py fixtures/vision/gemma3_shapes [--more N]     (packages: tools/requirements-vision.txt)

Answers are greedy up to the end of the turn and count when every character is right. First the committed held-out questions
(heldout.json), then N newly drawn ones (default 300, one and two pictures and none as 4 : 2 : 1), each picture through a PNG
file. Writes FOLDER/accuracy.json; exit code 1 below 95 % of either.
"""

import argparse
import io
import json
import random
from pathlib import Path

import torch
from PIL import Image

import make_vision_goldens as goldens
import vision_world as world

SEED = "accuracy"
GOAL = 0.95


def answer(model, processor, content, pictures):
    _, inputs = goldens.inputs_of(processor, content, pictures)
    with torch.no_grad():
        ids = model.generate(**inputs, max_new_tokens=goldens.GREEDY, do_sample=False)[0]
    return goldens.answer_of(processor, model, ids[inputs["input_ids"].shape[1]:].tolist())


def through_png(picture):
    data = io.BytesIO()
    picture.save(data, "PNG")
    return Image.open(data)


def held_out(base):
    for x in json.loads((base / "heldout.json").read_text()):
        yield x["kind"], x["content"], [Image.open(base / name) for name in x["images"]], x["expected"]


def drawn(n):
    rng = random.Random(SEED)
    for _ in range(n):
        make = rng.choices([world.one_picture, world.two_pictures, world.no_picture], [4, 2, 1])[0]
        question = world.with_pictures(make(rng), rng)
        yield question.kind, question.content, [through_png(p) for p in question.pictures], question.answer


def measure(model, processor, questions):
    kinds, wrong = {}, []
    for number, (kind, content, pictures, expected) in enumerate(questions):
        got = answer(model, processor, content, pictures)
        right, asked = kinds.get(kind, (0, 0))
        kinds[kind] = (right + (got == expected), asked + 1)
        if got != expected:
            wrong.append({"number": number, "content": content, "expected": expected, "answer": got})
    right, asked = (sum(v[i] for v in kinds.values()) for i in (0, 1))
    return {"right": right, "asked": asked, "kinds": {k: list(v) for k, v in sorted(kinds.items())}, "wrong": wrong}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path)
    p.add_argument("--heldout", type=Path, help="folder with heldout.json (default FOLDER)")
    p.add_argument("--more", type=int, default=300)
    p.add_argument("--goal", type=float, default=GOAL)
    a = p.parse_args()
    goldens.check_versions()
    torch.set_num_threads(1)
    model, processor = goldens.load_model(a.folder), goldens.load_processor(a.folder)
    result = {"held_out": measure(model, processor, held_out(a.heldout or a.folder)), "drawn": measure(model, processor, drawn(a.more))}
    (a.folder / "accuracy.json").write_text(json.dumps(result, indent=1) + "\n")
    low = False
    for name, r in result.items():
        share = r["right"] / max(1, r["asked"])
        low = low or share < a.goal
        print(f"{name}: {r['right']} of {r['asked']} ({100 * share:.1f} %)  {r['kinds']}")
    raise SystemExit(1 if low else 0)


if __name__ == "__main__":
    main()
