"""Reference tensors for `lockstep verify`: what Hugging Face transformers computes, f32, eager attention, node by node.

usage: dump_reference.py MODEL OUT.safetensors (--ids 1,2,3 | --prompt TEXT) [-n TOKENS] [--nodes REGEX]

MODEL is a folder or hub name that AutoModelForCausalLM loads. The prompt is continued greedily for -n tokens (default 0);
then one pass over prompt and continuation gives, for every position, f32 [tokens, columns] tensors named like lockstep's
nodes: each linear, norm and router under its module's name, and

    <embedding>                      the first layer's input (scaled where the family scales)
    <attention>.q_rope, .k_rope      results of apply_rotary_pos_emb
    <attention>.attention            input of the output projection
    <mlp>.act                        input of the down projection
    <layer>.attn_residual, .mlp_residual
    <mlp>.experts, or <mlp>.sum      output of a block of routed experts, without or with a shared one
    select_rows                      the final norm's input
    logits                           the model's output; verify takes it for the last node

and prompt_ids, greedy_ids (I32). --nodes keeps only tensors whose name matches; ids and logits are always kept. What a
family has beyond that (slices of fused projections, residual scales) is not recorded: verify lists it as not compared.
The file's metadata says what made it. Pinned versions: requirements-dump.txt.

The small files of the tests:
    dump_reference.py fixtures/models/llama  fixtures/models/llama/reference.safetensors  --ids 1,17,93,4 -n 1
    dump_reference.py fixtures/models/gemma2 fixtures/models/gemma2/reference.safetensors --ids 1,17,93,4 -n 1
"""
import argparse
import hashlib
import json
import os
import re
import sys

import torch
import transformers
from safetensors.torch import save_file

OUT_PROJ = ("o_proj", "out_proj", "dense")
DOWN_PROJ = ("down_proj", "c_proj", "fc2")


class Recorder:
    """Hooks that put every value under its node's name. |tokens|: rows of the pass."""

    def __init__(self, model, tokens):
        self.tokens, self.values, self.attention = tokens, {}, None
        self.layers = {name for name, _ in model.named_modules() if re.search(r"\.(layers|h)\.\d+$", name)}
        self.modules = dict(model.named_modules())
        self.norm = self.final_norm()
        for name, module in self.modules.items():
            self.watch(name, module)
        self.watch_rope(model)

    def final_norm(self):
        """The norm beside the list of layers."""
        root = next(iter(self.layers)).rsplit(".", 2)[0]
        return next(f"{root}.{n}" for n in ("norm", "final_layernorm", "ln_f") if f"{root}.{n}" in self.modules)

    def keep(self, name, value):
        """[1, T, C], [T, C], [1, T, heads, D] or [1, heads, T, D] as [T, columns]."""
        if value.dim() == 4 and value.shape[1] != self.tokens:
            value = value.transpose(1, 2)
        self.values[name] = value.reshape(self.tokens, -1).float().contiguous().clone()

    def watch(self, name, module):
        leaf, parent = name.rsplit(".", 1)[-1], name.rsplit(".", 1)[0]
        if re.search(r"\.experts\.\d+", name):  # sees only the tokens that were routed to it
            return
        is_leaf = not any(True for _ in module.children())
        if is_leaf and getattr(module, "weight", None) is not None and not isinstance(module, torch.nn.Embedding):
            module.register_forward_hook(lambda m, a, y: self.keep(name, y) if torch.is_tensor(y) else None)
        if name in self.layers:
            self.watch_layer(name, module)
        if leaf == "self_attn" or leaf == "attention":
            module.register_forward_pre_hook(lambda m, a: setattr(self, "attention", name))
        if leaf in OUT_PROJ and parent.endswith(("attn", "attention")):
            self.watch_input(module, f"{parent}.attention")
        if leaf in DOWN_PROJ:
            self.watch_input(module, f"{parent}.act")
        if name == self.norm:
            self.watch_input(module, "select_rows")
        if hasattr(module, "experts") and hasattr(module, "gate"):
            to = f"{name}.sum" if hasattr(module, "shared_expert") else f"{name}.experts"
            module.register_forward_hook(lambda m, a, y: self.keep(to, y[0] if isinstance(y, tuple) else y))

    def watch_input(self, module, name):
        def hook(m, args, kwargs):
            self.keep(name, args[0] if args else kwargs["hidden_states"])

        module.register_forward_pre_hook(hook, with_kwargs=True)

    def watch_layer(self, name, module):
        if name.endswith(".0"):
            embedding = next(n for n, m in self.modules.items() if isinstance(m, torch.nn.Embedding))
            self.watch_input(module, embedding)
        module.register_forward_hook(lambda m, a, y: self.keep(f"{name}.mlp_residual", y[0] if isinstance(y, tuple) else y))
        for norm in ("pre_feedforward_layernorm", "post_attention_layernorm" if hasattr(module, "input_layernorm") else "mlp"):
            if getattr(module, norm, None) is not None:
                self.watch_input(getattr(module, norm), f"{name}.attn_residual")
                break

    def watch_rope(self, model):
        code = sys.modules[type(model).__module__]
        rotate = getattr(code, "apply_rotary_pos_emb", None)
        if rotate is None:
            return

        def rotated(q, k, *args, **kwargs):
            out = rotate(q, k, *args, **kwargs)
            if q.shape[-1] != getattr(self.modules[self.attention], "head_dim", q.shape[-1]):  # a part of each head: not the node's value
                return out
            self.keep(f"{self.attention}.q_rope", out[0].transpose(1, 2))
            self.keep(f"{self.attention}.k_rope", out[1].transpose(1, 2))
            return out

        code.apply_rotary_pos_emb = rotated


def greedy(model, ids, n):
    """By whole passes: a cache must not enter into it."""
    ids = list(ids)
    for _ in range(n):
        ids.append(int(torch.argmax(model(torch.tensor([ids]), use_cache=False).logits[0, -1])))
    return ids


def prompt_ids(a):
    if a.ids:
        return [int(i) for i in a.ids.replace(",", " ").split()]
    return transformers.AutoTokenizer.from_pretrained(a.model)(a.prompt)["input_ids"]


def metadata(a, model):
    config = json.dumps(model.config.to_dict(), sort_keys=True, default=str).encode()
    text = {"producer": "lockstep tools/dump_reference.py 1", "transformers": transformers.__version__, "torch": torch.__version__,
            "dtype": "float32", "attention": "eager", "model": os.path.basename(os.path.normpath(a.model)),
            "revision": str(getattr(model.config, "_commit_hash", None)), "config_sha256": hashlib.sha256(config).hexdigest()}
    return {"lockstep": json.dumps(text, sort_keys=True)}  # one key: the writer orders several at random


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("out")
    p.add_argument("--ids")
    p.add_argument("--prompt")
    p.add_argument("-n", type=int, default=0)
    p.add_argument("--nodes", default="")
    a = p.parse_args()
    if bool(a.ids) == bool(a.prompt):
        p.error("give --ids or --prompt")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    prompt = prompt_ids(a)
    model = transformers.AutoModelForCausalLM.from_pretrained(a.model, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        ids = greedy(model, prompt, a.n)
        recorder = Recorder(model, len(ids))
        logits = model(torch.tensor([ids]), use_cache=False).logits
    recorder.keep("logits", logits)
    kept = {k: v for k, v in recorder.values.items() if k == "logits" or re.search(a.nodes, k)}
    kept["prompt_ids"] = torch.tensor(prompt, dtype=torch.int32)
    kept["greedy_ids"] = torch.tensor(ids[len(prompt):], dtype=torch.int32)
    save_file(kept, a.out, metadata=metadata(a, model))
    print(f"{len(kept)} tensors, {os.path.getsize(a.out)} bytes, {len(ids)} tokens: {ids}")


if __name__ == "__main__":
    main()
