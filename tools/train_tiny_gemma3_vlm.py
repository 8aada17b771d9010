"""Trains the shapes model: a small Gemma3ForConditionalGeneration that answers questions about pictures of coloured shapes.

    python tools/train_tiny_gemma3_vlm.py OUT          (packages: tools/requirements-vision.txt)

Writes OUT/ as a Hugging Face checkpoint in bfloat16. Pictures and questions are those of vision_world.py. Three parts:

1. The tower and the projector alone: a linear probe on every image row must tell its place, and the colour and shape there. The
   probe is thrown away.
2. The text model on the image rows of a fixed set of pictures, computed once: conversations of one to four questions about
   one picture, two pictures or none; those about one picture come first.
3. All together, on new pictures.

All seeds are fixed. Gradients come from two threads, each with half a batch, and are added in a fixed order. Accuracy is
measured by check_vision_accuracy.py.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")  # two threads of Python instead: they wait for each other once a step

import argparse
import copy
import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
import transformers
from PIL import Image
from transformers import Gemma3Config, Gemma3ForConditionalGeneration

import vision_model_files as files
import vision_world as world

TEXT = dict(hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
            query_pre_attn_scalar=32)
VISION = dict(hidden_size=96, intermediate_size=256, num_hidden_layers=3, num_attention_heads=3)
SEED = 20  # of the initial weights, the validation pictures and, unless --seed says otherwise, the training pictures
SCENES = 2048  # whose image rows part 2 works on
TAIL = 4  # <eos> after <end_of_turn>: a continuation past the answer's end is well defined too
TAIL_WEIGHT = 0.1
LONG = ("describe", "layout", "describe one of two", "layout of two")
FULL_WEIGHT = 8  # tokens of an answer that count wholly; the tokens of longer ones share it
EMPHASIS = 0.6  # share of part 3's conversations that end with a long answer: the ones learned last
SIDE = 4  # image rows stand in SIDE rows of SIDE
WINDOW = 32


class Encoder:
    """Questions to tensors, by the tokenizer; the expansion is the one of Gemma3Processor."""

    def __init__(self, folder):
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.image = "\n\n<start_of_image>" + "<image_soft_token>" * files.IMAGE_TOKENS + "<end_of_image>\n\n"
        self.known = {}

    def ids(self, text):
        if text not in self.known:
            self.known[text] = self.tokenizer(text.replace("<start_of_image>", self.image), add_special_tokens=False)["input_ids"]
        return self.known[text]

    def row(self, turns):
        """(ids, weights) of a conversation: a list of questions about the same pictures. The rest has no weight."""
        ids, weights = [], []
        for i, question in enumerate(turns):
            asked = self.ids(world.further_prompt(question) if i else world.prompt(question))
            answer = self.ids(question.answer) + [files.ID["<end_of_turn>"]]
            ids += asked + answer
            weights += [0.0] * len(asked) + [max(0.3, min(1.0, FULL_WEIGHT / len(answer)))] * len(answer)
        return ids + [files.ID["<eos>"]] * TAIL, weights + [TAIL_WEIGHT] * TAIL

    def batch(self, conversations, features=None):
        """(inputs of the model, weights of the tokens as labels). |features|: what to pass for the pictures instead of their pixels."""
        rows = [self.row(turns) for turns in conversations]
        length = max(len(r) for r, _ in rows)
        ids, weights = torch.zeros(len(rows), length, dtype=torch.long), torch.zeros(len(rows), length)
        for i, (row, weight) in enumerate(rows):
            ids[i, :len(row)] = torch.tensor(row)
            weights[i, :len(row)] = torch.tensor(weight)
        inputs = {"input_ids": ids, "attention_mask": masks(ids), "use_cache": False}
        pictures = [p for turns in conversations for p in turns[0].pictures]
        if pictures or features is not None:
            inputs["pixel_values"] = pixels(pictures) if features is None else features
        return inputs, weights


def pixels(pictures):
    size = (files.IMAGE_SIZE, files.IMAGE_SIZE)
    whole = [p if p.size == size else p.resize(size, Image.Resampling.BILINEAR) for p in pictures]
    return torch.from_numpy(np.stack([np.asarray(p, np.float32).transpose(2, 0, 1) for p in whole]) / 127.5 - 1.0)


def masks(ids):
    """The additive masks that transformers makes of token_type_ids: causal or an image's own block, in all layers. Padding stands last."""
    is_image = ids == files.ID["<image_soft_token>"]
    before = torch.nn.functional.pad(is_image, (1, 0))[:, :-1]
    block = torch.cumsum((is_image & ~before).int(), 1) * is_image
    same = (block[:, :, None] == block[:, None, :]) & is_image[:, :, None]
    at = torch.arange(ids.shape[1])
    distance = at[:, None] - at[None, :]
    full, sliding = (distance >= 0) | same, ((distance >= 0) & (distance < WINDOW)) | same
    hidden = torch.finfo(torch.float32).min
    return {name: torch.where(seen, 0.0, hidden)[:, None] for name, seen in (("full_attention", full), ("sliding_attention", sliding))}


class Trainer:
    """A model, its twin on the same weights, and an optimiser over some parameters."""

    def __init__(self, model, loss, parameters, rate, warm_up):
        self.loss, self.parameters, self.rate, self.warm_up = loss, parameters, rate, warm_up
        self.models = [model, copy.deepcopy(model)]
        pairs = dict(zip(model.parameters(), self.models[1].parameters()))
        for a, b in pairs.items():
            b.data = a.data
            b.requires_grad_(a.requires_grad)
        self.twins = [pairs[p] for p in parameters]
        groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.02},
                  {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0}]
        self.optimiser = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98))
        self.pool = ThreadPoolExecutor(2)

    def part(self, i, batch):
        loss = self.loss(self.models[i], batch)
        loss.backward()
        return loss.item()

    def step(self, batches, done):
        """One step on two half batches; |done|: share of this part of the training behind. Returns the loss."""
        rate = self.rate * min(1.0, 0.01 + 3.0 * (1.0 - done))  # steady, then falling over the last third
        self.steps = getattr(self, "steps", 0) + 1
        for group in self.optimiser.param_groups:
            group["lr"] = rate * min(1.0, self.steps / self.warm_up)
        losses = list(self.pool.map(self.part, (0, 1), batches))
        for p, twin in zip(self.parameters, self.twins):
            if twin.grad is not None:
                p.grad = (p.grad + twin.grad) / 2
                twin.grad = None
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return sum(losses) / 2


class Tower(torch.nn.Module):
    """Tower, projector and the probe of part 1."""

    def __init__(self, model):
        super().__init__()
        self.tower, self.projector = model.model.vision_tower, model.model.multi_modal_projector
        self.sizes = [len(world.COLOURS) + 1, len(world.SHAPES) + 1, 4]
        self.probe = torch.nn.Linear(TEXT["hidden_size"], sum(self.sizes))

    def forward(self, values):
        return self.probe(self.projector(self.tower(pixel_values=values).last_hidden_state)).split(self.sizes, -1)


def seen_at(things):
    """[SIDE * SIDE, 3]: per image row the colour's and the shape's number at its place, 0 for an empty one, and the place."""
    at = {t.place: [1 + list(world.COLOURS).index(t.colour), 1 + world.SHAPES.index(t.shape)] for t in things}
    half = SIDE // 2
    places = [2 * (i // SIDE // half) + i % SIDE // half for i in range(SIDE * SIDE)]
    return [at.get(place, [0, 0]) + [place] for place in places]


def tower_loss(module, batch):
    values, seen = batch
    return sum(torch.nn.functional.cross_entropy(logits.flatten(0, 1), seen[..., i].flatten()) for i, logits in enumerate(module(values)))


def pictures_of(scenes, rng):
    return pixels([world.draw(s, rng) for s in scenes]), torch.tensor([seen_at(s) for s in scenes])


def train_tower(model, steps, seed, log):
    module, rng = Tower(model), random.Random(seed)
    trainer = Trainer(module, tower_loss, list(module.parameters()), 2e-3, 60)
    mean = 4.0
    for step in range(steps):
        halves = [pictures_of([world.scene(rng) for _ in range(32)], rng) for _ in range(2)]
        mean += (trainer.step(halves, step / steps) - mean) / min(step + 1, 30)
        if step % 50 == 49:
            log(f"tower {step + 1} loss {mean:.4f}")


def text_loss(model, batch):
    inputs, weights = batch
    hidden = model.model(**inputs).last_hidden_state[:, :-1]
    at = weights[:, 1:] > 0
    logits = model.lm_head(hidden[at])
    loss = torch.nn.functional.cross_entropy(logits, inputs["input_ids"][:, 1:][at], reduction="none")
    return (loss * weights[:, 1:][at]).sum() / weights.sum()


def short(make, about, rng):
    """A question with a short answer."""
    while True:
        question = make(rng, about)
        if question.kind not in LONG:
            return question


def long(make, about, rng):
    """A question whose answer tells everything."""
    while True:
        question = make(rng, about)
        if question.kind in LONG:
            return question


def conversation(make, scenes, turns, rng, emphasis=0.0):
    """|turns| questions about the same pictures; long answers come last and seldom, but |emphasis| is a share of conversations that have one."""
    if make is world.no_picture:
        return [make(rng)]
    about = scenes if make is world.two_pictures else scenes[0]
    if emphasis and rng.random() < emphasis:
        last = long(make, about, rng)
    else:
        last = make(rng, about) if rng.random() < 0.4 else short(make, about, rng)
    return [short(make, about, rng) for _ in range(turns - 1)] + [last]


def sort_of(rng, done):
    """(what to ask, pictures, conversations in half a batch, their questions); |done|: share of part 2 behind."""
    one, two, none = (world.one_picture, 1, 12, rng.choice([1, 3, 4])), (world.two_pictures, 2, 8, rng.choice([1, 2, 3])), (world.no_picture, 0, 12, 1)
    if done < 0.55:
        return rng.choices([one, none], [15, 1])[0]
    return rng.choices([one, two, none], [5, 6, 0.4])[0]


class Pool:
    """Image rows of a fixed set of pictures."""

    def __init__(self, model, rng):
        self.scenes, parts = [world.scene(rng) for _ in range(SCENES)], []
        with torch.no_grad():
            for start in range(0, SCENES, 64):
                values, _ = pictures_of(self.scenes[start:start + 64], rng)
                parts.append(model.model.get_image_features(values))
        self.rows = torch.cat(parts)

    def batch(self, encoder, rng, sort):
        make, n, size, turns = sort
        chosen = [[rng.randrange(SCENES) for _ in range(n)] for _ in range(size)]
        made = [conversation(make, [self.scenes[i] for i in c], turns, rng) for c in chosen]
        return encoder.batch(made, self.rows[[i for c in chosen for i in c]] if n else None)


def new_batch(encoder, rng, sort):
    make, n, size, turns = sort
    made = [conversation(make, [world.scene(rng) for _ in range(n)], turns, rng, EMPHASIS) for _ in range(size)]
    for asked in made:
        world.with_pictures(asked[0], rng)
    return encoder.batch(made)


def exact(model, encoder, made):
    """(share of all, shares by sort) of answers whose every token is the model's choice after the right ones: what greedy decoding gives."""
    right = {}
    for start in range(0, len(made), 50):
        part = made[start:start + 50]
        inputs, weights = encoder.batch([[q] for q in part])
        with torch.no_grad():
            best = model(**inputs).logits[:, :-1].argmax(-1)
        good = ((best == inputs["input_ids"][:, 1:]) | (weights[:, 1:] <= TAIL_WEIGHT)).all(1)
        for q, ok in zip(part, good.tolist()):
            right.setdefault(q.kind, []).append(ok)
    total = [ok for oks in right.values() for ok in oks]
    return sum(total) / len(total), {k: round(sum(v) / len(v), 3) for k, v in right.items()}


def validation():
    rng = random.Random(SEED + 1)
    return [world.with_pictures(make(rng), rng) for make, n in ((world.one_picture, 250), (world.two_pictures, 150), (world.no_picture, 50))
            for _ in range(n)]


def train_text(model, encoder, steps, seed, log, checkpoint):
    rng = random.Random(seed + 2)
    pool, held = Pool(model, rng), validation()
    parameters = list(model.model.language_model.parameters())
    trainer = Trainer(model, text_loss, parameters, 2e-3, 100)
    kept = [m.model.get_image_features for m in trainer.models]
    mean = 4.0
    for m in trainer.models:
        m.model.get_image_features = lambda rows: rows
    for step in range(steps):
        sort = sort_of(rng, step / steps)
        mean += (trainer.step([pool.batch(encoder, rng, sort) for _ in range(2)], step / steps) - mean) / min(step + 1, 50)
        if step % 50 == 49:
            log(f"text {step + 1} loss {mean:.4f}")
        if step % 300 == 299 or step == steps - 1:
            model.model.get_image_features = kept[0]
            log(f"text {step + 1} exact {exact(model, encoder, held)}")
            checkpoint()
            model.model.get_image_features = lambda rows: rows
    del model.model.get_image_features


def train_all(model, encoder, steps, seed, log, checkpoint):
    rng, held = random.Random(seed + 3), validation()
    trainer = Trainer(model, text_loss, list(model.parameters()), 5e-4, 20)
    mean = 1.0
    for step in range(steps):
        sort = sort_of(rng, 1.0)
        mean += (trainer.step([new_batch(encoder, rng, sort) for _ in range(2)], step / steps) - mean) / min(step + 1, 50)
        if step % 50 == 49 or step == steps - 1:
            log(f"all {step + 1} loss {mean:.4f} exact {exact(model, encoder, held)}")
            checkpoint()


def save(model, out):
    """Weights in bfloat16 under their published names; the other files are vision_model_files's."""
    half = Gemma3ForConditionalGeneration(model.config).bfloat16()
    half.load_state_dict(model.state_dict())
    half.save_pretrained(out)
    files.write(out, files.config(TEXT, VISION))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=Path)
    p.add_argument("--steps", default="400,4000,2400", help="of the three parts (default 400,4000,2400)")
    p.add_argument("--start", type=Path, help="a checkpoint to begin with")
    p.add_argument("--seed", type=int, default=SEED, help=f"of the training pictures and questions: another one for every --start (default {SEED})")
    a = p.parse_args()
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    files.write(a.out, files.config(TEXT, VISION))
    model = Gemma3ForConditionalGeneration(Gemma3Config(**json.loads((a.out / "config.json").read_text())))
    torch.nn.init.normal_(model.model.multi_modal_projector.mm_input_projection_weight, std=0.03)  # transformers leaves zeros
    if a.start:
        model = Gemma3ForConditionalGeneration.from_pretrained(a.start, dtype=torch.float32)
    began = time.time()
    log = lambda text: print(f"{time.time() - began:6.0f} s  cpu {time.process_time():6.0f} s  {text}", flush=True)  # noqa: E731
    log(f"{sum(p.numel() for p in model.parameters())} parameters")
    encoder, (tower, text, together) = Encoder(a.out), map(int, a.steps.split(","))
    if tower:
        train_tower(model, tower, a.seed, log)
        save(model, a.out)
    if text:
        train_text(model, encoder, text, a.seed, log, lambda: save(model, a.out))
    if together:
        train_all(model, encoder, together, a.seed, log, lambda: save(model, a.out))


if __name__ == "__main__":
    main()
