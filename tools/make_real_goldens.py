"""Goldens of the two downloaded models: greedy answers and logits of transformers on the same dequantised weights.

usage: make_real_goldens.py smollm2 MODEL.gguf OUT.json             chat prompts, ids from transformers
       make_real_goldens.py gemma3 MODEL.gguf OUT.json LOCKSTEP    plain prompts, ids from `LOCKSTEP tokenize`:
           transformers reads this file's tokenizer as a unigram model, which it is not

For 20 prompts: prompt ids, up to 64 greedy tokens of the f32 eager model with the margin between the two largest logits
at each step, and, for the last prompt position, logits of an f64 evaluation at 512 spread vocabulary entries beside the
f32 and f16 evaluations' rms error over the same entries. "f16_inputs" is the f32 model with every linear's input rounded
to f16 and the rest left alone: the least an f16 engine loses. Gemma 3 overflows f16: its f16 error is null. Pinned versions: requirements-goldens.txt.
"""
import json
import os
import subprocess
import sys

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PROMPTS = [
    "What makes the sky look blue at noon?", "Name four rivers in South America.", "Write two sentences about a lighthouse keeper.",
    "How many minutes are there in a week?", "Give a short recipe for pancakes.", "What is the difference between a virus and a bacterium?",
    "Turn this into past tense: she walks to school and buys bread.", "List five uses for an old newspaper.",
    "Explain recursion to a ten-year-old.", "Who was Ada Lovelace?", "Write a haiku about winter rain.",
    "What is 17 times 23? Show the steps.", "Why do cats purr?", "Suggest a name for a bakery and a slogan.",
    "Describe how a bicycle stays upright.", "Was ist die Hauptstadt von Frankreich?", "Write a Python function that reverses a string.",
    "What should I pack for a day of hiking?", "Tell me a fact about octopuses.", "Summarise the water cycle in three steps.",
]
NEW_TOKENS, SAMPLES = 64, 512


def prompt_ids(name, path, tok, text):
    if name == "smollm2":
        chat = tok.apply_chat_template([{"role": "user", "content": text}], add_generation_prompt=True, return_dict=True)
        return list(chat["input_ids"])
    ids = subprocess.run([sys.argv[4], "tokenize", path, "--ids", text], capture_output=True, text=True, check=True).stdout
    return [int(i) for i in ids.replace(",", " ").split()]


def greedy(model, ids, eos):
    """Up to NEW_TOKENS ids, the EOS left out, and the top-two margin of every step taken."""
    out, margins = [], []
    with torch.no_grad():
        step = model(torch.tensor([ids]), use_cache=True)
        for _ in range(NEW_TOKENS):
            top = torch.topk(step.logits[0, -1], 2)
            margins.append(float(top.values[0] - top.values[1]))
            token = int(torch.argmax(step.logits[0, -1]))
            if token in eos:
                break
            out.append(token)
            step = model(torch.tensor([[token]]), past_key_values=step.past_key_values, use_cache=True)
    return out, margins


def load(path):
    folder, file = os.path.split(path)
    return AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32, attn_implementation="eager").eval()


def last_logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0, -1].double().numpy()


def evaluate_in_f64():
    """transformers casts to f32 inside norms, rotary tables and softmax whatever the model's dtype: let those casts go to f64."""
    to, softmax, double = torch.Tensor.to, torch.nn.functional.softmax, lambda t: torch.float64 if t is torch.float32 else t
    torch.Tensor.float = lambda self, *a, **k: self.double()
    torch.Tensor.to = lambda self, *a, **k: to(self, *map(double, a), **{n: double(v) for n, v in k.items()})
    torch.nn.functional.softmax = lambda x, dim=None, dtype=None, **k: softmax(x, dim=dim, dtype=double(dtype), **k)


def rounded_inputs(model):
    return [m.register_forward_pre_hook(lambda _, a: (a[0].half().float(),)) for m in model.modules() if isinstance(m, torch.nn.Linear)]


def main():
    name, path, out = sys.argv[1:4]
    folder, file = os.path.split(path)
    tok = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = load(path)
    eos = model.generation_config.eos_token_id if model.generation_config.eos_token_id is not None else tok.eos_token_id
    eos = set(eos if isinstance(eos, list) else [eos])
    cases = []
    for text in PROMPTS:
        ids = prompt_ids(name, path, tok, text)
        tokens, margins = greedy(model, ids, eos)
        cases.append({"prompt": text, "ids": ids, "greedy": tokens, "margins": [round(m, 6) for m in margins]})
        print(len(cases), text, len(tokens), flush=True)
    f32 = [last_logits(model, c["ids"]) for c in cases]
    hooks = rounded_inputs(model)
    inputs = [last_logits(model, c["ids"]) for c in cases]
    for h in hooks:
        h.remove()
    model = model.half()
    f16 = [last_logits(model, c["ids"]) for c in cases]
    del model
    model = load(path).double()
    evaluate_in_f64()
    sample = np.linspace(0, len(f32[0]) - 1, SAMPLES).round().astype(int)
    for i, c in enumerate(cases):
        exact = last_logits(model, c["ids"])[sample]
        for key, other in (("rms_f32_sample", f32), ("rms_f16_inputs_sample", inputs), ("rms_f16_sample", f16)):
            rms = float(np.sqrt(np.mean((other[i][sample] - exact) ** 2)))
            c[key] = rms if np.isfinite(rms) else None
        c["logits"] = [float(v) for v in exact]
        print(i, c["rms_f32_sample"], c["rms_f16_inputs_sample"], c["rms_f16_sample"], flush=True)
    import transformers
    json.dump({"model": name, "file": file, "transformers": transformers.__version__, "torch": torch.__version__, "eos": sorted(eos),
               "sample": sample.tolist(), "cases": cases}, open(out, "w"), separators=(",", ":"))


main()
