#!/usr/bin/env python3
"""The vision tower beside PyTorch in f32, on the same weights and threads, in turns.

usage: compare_torch_vision.py LOCKSTEP MODEL [--threads 2] [--rounds 3]       needs: pip install torch numpy

MODEL is a folder of a Gemma 3 with config.json and bf16 safetensors (tools/make_gemma3_4b_random.py makes one of the 4B's sizes). PyTorch
runs the tower in f32 with scaled_dot_product_attention under inference_mode, as transformers does, without the projector; lockstep
runs tower and projector under exact16. A round of each is one image after one that does not count. Prints the medians.
"""
import argparse
import glob
import json
import os
import statistics
import struct
import subprocess
import time

import numpy as np
import torch
import torch.nn.functional as F

PREFIX = "vision_tower.vision_model."


def read_tensors(folder):
    """The tower's bf16 tensors as f32."""
    out = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        data = np.memmap(path, dtype=np.uint8, mode="r")
        size = struct.unpack("<Q", data[:8].tobytes())[0]
        for name, t in json.loads(data[8:8 + size].tobytes()).items():
            if not name.removeprefix("model.").startswith(PREFIX):
                continue
            if t["dtype"] != "BF16":
                raise SystemExit(f"{name} is {t['dtype']}; this script reads BF16")
            begin, end = (8 + size + o for o in t["data_offsets"])
            bits = data[begin:end].view("<u2").astype(np.uint32) << 16
            out[name.removeprefix("model.").removeprefix(PREFIX)] = torch.from_numpy(bits.view(np.float32).reshape(t["shape"]))
    return out


class Tower:
    def __init__(self, folder):
        with open(os.path.join(folder, "config.json")) as f:
            self.c = json.load(f)["vision_config"]
        self.w = read_tensors(folder)

    def linear(self, name, x):
        return F.linear(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.w[name + ".weight"], self.w[name + ".bias"], 1e-6)

    def attention(self, at, x):
        heads = self.c["num_attention_heads"]
        q, k, v = (self.linear(f"{at}.{n}_proj", x).view(1, -1, heads, x.shape[-1] // heads).transpose(1, 2) for n in "qkv")
        y = F.scaled_dot_product_attention(q, k, v)
        return self.linear(at + ".out_proj", y.transpose(1, 2).reshape(x.shape))

    def __call__(self, pixels):
        x = F.conv2d(pixels, self.w["embeddings.patch_embedding.weight"], self.w["embeddings.patch_embedding.bias"], stride=self.c["patch_size"])
        x = x.flatten(2).transpose(1, 2) + self.w["embeddings.position_embedding.weight"]
        for i in range(self.c["num_hidden_layers"]):
            at = f"encoder.layers.{i}."
            x = x + self.attention(at + "self_attn", self.norm(at + "layer_norm1", x))
            x = x + self.linear(at + "mlp.fc2", F.gelu(self.linear(at + "mlp.fc1", self.norm(at + "layer_norm2", x)), approximate="tanh"))
        return self.norm("post_layernorm", x)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("lockstep")
    p.add_argument("model")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    tower, ours, theirs = Tower(a.model), [], []
    size = tower.c["image_size"]
    pixels = torch.rand(1, 3, size, size) * 2 - 1
    for turn in range(a.rounds):
        out = subprocess.run([a.lockstep, "bench", a.model, "--vision", "--json", "-r", "1", "--threads", str(a.threads)], check=True, capture_output=True)
        ours.append(json.loads(out.stdout)["vision_seconds_best"])
        with torch.inference_mode():
            for _ in range(2):
                begin = time.perf_counter()
                tower(pixels)
                seconds = time.perf_counter() - begin
        theirs.append(seconds)
        print(f"turn {turn + 1}: lockstep exact16 {ours[-1]:.2f} s, PyTorch f32 {seconds:.2f} s", flush=True)
    m, t = statistics.median(ours), statistics.median(theirs)
    print(f"{size} x {size}, {a.threads} threads: lockstep exact16 {m:.2f} s, PyTorch {torch.__version__} f32 {t:.2f} s; PyTorch takes {t / m:.2f} times as long")


if __name__ == "__main__":
    main()
