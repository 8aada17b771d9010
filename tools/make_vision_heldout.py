"""Held-out pictures and questions of the shapes model, and which of them become goldens.

    python tools/make_vision_heldout.py fixtures/vision/gemma3_shapes       (packages: tools/requirements-vision.txt)

writes FOLDER/heldout/*.png, .jpg and .webp, FOLDER/heldout.json, a list of {kind, images, content, expected}, and
FOLDER/cases.json, the part that make_vision_goldens.py computes. Drawn from seeds that the training does not use. The same
Pillow gives the same files.
"""

import argparse
import json
import random
import shutil
from pathlib import Path

import vision_world as world

SEED = "held-out"
PICTURES = 40
ROUNDS = 3  # questions about each picture
PAIRS = 30
TEXTS = 10
FORMATS = ["png", "png", "png", "jpg", "webp"]
GOLDEN = [  # name, kind, the sort of file wanted, whether all rows of logits are kept
    ("describe", "describe", ".png", True), ("layout", "layout", ".png", False), ("count", "count", ".png", False),
    ("beside", "beside", ".png", False), ("jpeg", "describe", ".jpg", False), ("webp", "count some", ".webp", False),
    ("two_describe", "describe one of two", "", True), ("two_layout", "layout of two", "", False), ("two_which", "which of two", "", False),
    ("text", "text", "", True),
]
LAST_ROWS = 4


def save(picture, path):
    options = {".png": {"optimize": True}, ".jpg": {"quality": 92}, ".webp": {"quality": 92, "method": 6}}
    picture.save(path, **options[path.suffix])


def item(question, images):
    return {"kind": question.kind, "images": images, "content": question.content, "expected": question.answer}


def make(folder):
    rng = random.Random(SEED)
    shutil.rmtree(folder / "heldout", ignore_errors=True)
    (folder / "heldout").mkdir(parents=True)
    scenes, names, items = [], [], []
    for i in range(PICTURES):
        scenes.append(world.scene(rng))
        names.append(f"heldout/{i:02}.{FORMATS[i % len(FORMATS)]}")
        save(world.draw(scenes[-1], rng), folder / names[-1])
        items += [item(world.one_picture(rng, scenes[-1]), [names[-1]]) for _ in range(ROUNDS)]
    for _ in range(PAIRS):
        a, b = rng.sample(range(PICTURES), 2)
        items.append(item(world.two_pictures(rng, (scenes[a], scenes[b])), [names[a], names[b]]))
    items += [item(world.no_picture(rng), []) for _ in range(TEXTS)]
    return items


def golden_cases(items):
    cases, used = [], set()
    for name, kind, suffix, whole in GOLDEN:
        found = next(x for x in items if x["kind"] == kind and (not suffix or x["images"][0].endswith(suffix)) and id(x) not in used)
        used.add(id(found))
        case = {"name": name, **{k: found[k] for k in ("images", "content", "expected")}}
        cases.append(case if whole else case | {"logits_rows": LAST_ROWS})
    return cases


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path)
    a = p.parse_args()
    items = make(a.folder)
    (a.folder / "heldout.json").write_text("[\n" + ",\n".join(json.dumps(x) for x in items) + "\n]\n")
    (a.folder / "cases.json").write_text(json.dumps(golden_cases(items), indent=1) + "\n")
    print(f"{len(items)} questions")


if __name__ == "__main__":
    main()
