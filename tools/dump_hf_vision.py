"""Reference tensors of a Gemma 3 that sees, for `lockstep verify --image`: what transformers computes, f32, eager, node by node.

usage: dump_hf_vision.py MODEL OUT.safetensors --image PICTURE [--image PICTURE ...] [-p TEXT] [-n TOKENS] [--nodes REGEX]

MODEL is a folder or hub name of a Gemma3ForConditionalGeneration. The pictures stand before the text in one user's turn, in
order; the chat template and Gemma3Processor make the prompt. It is continued greedily for -n tokens (default 0), then one
pass over prompt and continuation gives f32 tensors named like lockstep's nodes. Tower and projector, [images * rows, columns]:

    <tower>.embeddings.patches                the input: a patch in (channel, y, x) order a row
    <tower>.embeddings.patch_embedding, .position_embedding (their sum)
    <tower>.encoder.layers.<i>.layer_norm1, .self_attn.q_proj, .k_proj, .v_proj, .attention, .out_proj, .attn_residual,
                               .layer_norm2, .mlp.fc1, .mlp.act, .mlp.fc2, .mlp_residual (the block's output)
    <tower>.post_layernorm
    <projector>.avg_pool, .mm_soft_emb_norm, .mm_input_projection

and the text model, [tokens, columns], as tools/dump_reference.py has them; <text>.embed_tokens are the prepared rows: scaled
embeddings with the images' rows in their places. Besides: pixel_values f32 [images, 3, S, S]; prompt_ids, token_type_ids and
greedy_ids (I32); logits. --nodes keeps only nodes whose name matches. By default every node of every block is kept: a few
GB for a 4B model, so choose there: --nodes 'vision_tower.*(layers.0[.]|mlp_residual|post_layernorm|embeddings)|projector|embed_tokens'.
Names are those of the checkpoint's tensors. Pinned versions: requirements-vision.txt.
"""
import argparse
import hashlib
import json
import os
import re

import torch
import transformers
from PIL import Image
from safetensors.torch import save_file

import dump_reference

TEXT_FORMS = ("language_model.model.", "model.language_model.")  # published, and as current transformers names modules


class Tower:
    """Hooks on the tower and the projector that put every value under its node's name."""

    def __init__(self, model, prefix):
        self.values, self.prefix = {}, prefix
        tower, projector = model.model.vision_tower.vision_model, model.model.multi_modal_projector
        self.patch = tower.config.patch_size
        at = "vision_tower.vision_model"
        tower.embeddings.register_forward_pre_hook(self.patches, with_kwargs=True)
        tower.embeddings.patch_embedding.register_forward_hook(lambda m, a, y: self.keep(f"{at}.embeddings.patch_embedding", y.flatten(2).transpose(1, 2)))
        self.result(tower.embeddings, f"{at}.embeddings.position_embedding")
        for i, layer in enumerate(tower.encoder.layers):
            self.block(layer, f"{at}.encoder.layers.{i}")
        self.result(tower.post_layernorm, f"{at}.post_layernorm")
        projector.avg_pool.register_forward_hook(lambda m, a, y: self.keep("multi_modal_projector.avg_pool", y.flatten(2).transpose(1, 2)))
        self.result(projector.mm_soft_emb_norm, "multi_modal_projector.mm_soft_emb_norm")
        self.result(projector, "multi_modal_projector.mm_input_projection")

    def keep(self, name, value):
        """[images, rows, columns] as [images * rows, columns]."""
        self.values[self.prefix + name] = value.reshape(-1, value.shape[-1]).float().contiguous().clone()

    def result(self, module, name):
        module.register_forward_hook(lambda m, a, y: self.keep(name, y[0] if isinstance(y, tuple) else y))

    def argument(self, module, name):
        module.register_forward_pre_hook(lambda m, args: self.keep(name, args[0]))

    def patches(self, module, args, kwargs):
        pixels, p = args[0] if args else kwargs["pixel_values"], self.patch
        n, c, h, w = pixels.shape
        rows = pixels.reshape(n, c, h // p, p, w // p, p).permute(0, 2, 4, 1, 3, 5)
        self.keep("vision_tower.vision_model.embeddings.patches", rows.reshape(n, (h // p) * (w // p), c * p * p))

    def block(self, layer, name):
        for part in ("layer_norm1", "layer_norm2", "mlp.fc1", "mlp.fc2", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"):
            self.result(layer.get_submodule(part), f"{name}.{part}")
        self.argument(layer.self_attn.out_proj, f"{name}.self_attn.attention")
        self.argument(layer.layer_norm2, f"{name}.attn_residual")
        self.argument(layer.mlp.fc2, f"{name}.mlp.act")
        self.result(layer, f"{name}.mlp_residual")


def names_of(model_name):
    """(prefix of tower and projector, prefix of the text model) in the checkpoint's own names; the published form for a hub name."""
    index, single = (os.path.join(model_name, f) for f in ("model.safetensors.index.json", "model.safetensors"))
    names = []
    if os.path.exists(index):
        with open(index) as f:
            names = list(json.load(f)["weight_map"])
    elif os.path.exists(single):
        with open(single, "rb") as f:
            names = list(json.loads(f.read(int.from_bytes(f.read(8), "little"))))
    vision = "model." if any(n.startswith("model.multi_modal_projector.") for n in names) else ""
    text = next((form for form in TEXT_FORMS if any(n.startswith(form) for n in names)), TEXT_FORMS[0])
    return vision, text


def prepare(a):
    """(inputs of the model, the templated prompt)."""
    processor = transformers.AutoProcessor.from_pretrained(a.model)
    content = [{"type": "image"} for _ in a.image] + [{"type": "text", "text": a.prompt}]
    prompt = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
    pictures = [Image.open(name) for name in a.image]
    return processor(text=prompt, images=pictures, return_tensors="pt", add_special_tokens=False), prompt


def whole_pass(model, inputs, ids):
    types = torch.zeros(1, len(ids), dtype=torch.long)
    types[:, :inputs["token_type_ids"].shape[1]] = inputs["token_type_ids"]
    return model(input_ids=torch.tensor([ids]), token_type_ids=types, pixel_values=inputs["pixel_values"], use_cache=False).logits


def greedy(model, inputs, n):
    """By whole passes: a cache must not enter into it."""
    ids = inputs["input_ids"][0].tolist()
    for _ in range(n):
        ids.append(int(whole_pass(model, inputs, ids)[0, -1].argmax()))
    return ids


def record(model, inputs, ids, model_name):
    vision, text = names_of(model_name)
    tower = Tower(model, vision)
    recorder = dump_reference.Recorder(torch.nn.ModuleDict({"model": model.model.language_model}), len(ids))
    recorder.watch_rope(model.model.language_model)
    logits = whole_pass(model, inputs, ids)
    recorder.keep("logits", logits)
    return tower.values | {re.sub("^model[.]", text, n): v for n, v in recorder.values.items()}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("out")
    p.add_argument("--image", action="append", required=True)
    p.add_argument("-p", "--prompt", default="Describe the picture.")
    p.add_argument("-n", type=int, default=0)
    p.add_argument("--nodes", default="")
    p.add_argument("--threads", type=int, default=1)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.use_deterministic_algorithms(True)
    inputs, prompt = prepare(a)
    model = transformers.Gemma3ForConditionalGeneration.from_pretrained(a.model, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        ids = greedy(model, inputs, a.n)
        values = record(model, inputs, ids, a.model)
    n = inputs["input_ids"].shape[1]
    kept = {k: v for k, v in values.items() if k == "logits" or re.search(a.nodes, k)}
    kept |= {"pixel_values": inputs["pixel_values"].float(), "prompt_ids": inputs["input_ids"][0].to(torch.int32),
             "token_type_ids": inputs["token_type_ids"][0].to(torch.int32), "greedy_ids": torch.tensor(ids[n:], dtype=torch.int32)}
    about = json.loads(dump_reference.metadata(a, model)["lockstep"])
    about |= {"producer": "lockstep tools/dump_hf_vision.py 1", "prompt": prompt, "images_sha256": [sha256(name) for name in a.image]}
    save_file({k: v.contiguous() for k, v in kept.items()}, a.out, metadata={"lockstep": json.dumps(about, sort_keys=True)})
    print(f"{len(kept)} tensors, {os.path.getsize(a.out)} bytes, {len(a.image)} pictures, {len(ids)} tokens: {ids}")


def sha256(name):
    with open(name, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


if __name__ == "__main__":
    main()
