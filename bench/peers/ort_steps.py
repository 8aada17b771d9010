#!/usr/bin/env python3
"""ONNX Runtime GenAI behind the lines of `lockstep bench --steps`. usage: ort_steps.py MODEL.gguf --threads T --batch B --ctx-size N

It reads no GGUF: its own builder makes a model from the values, quantised anew to 4 bits in groups of 32 with products of 8-bit activations, which is
what it runs fastest. That is done once, in .cache/ort, and takes transformers, gguf, torch, onnx and onnx_ir beside onnxruntime-genai.
"""
import json
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import onnxruntime_genai as og

from steps import serve


def convert(model):
    """The folder of the ONNX model of a GGUF file."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    folder, name = os.path.split(os.path.abspath(model))
    out = os.path.join(".cache", "ort", f"{name}-{os.path.getsize(model)}")
    if os.path.exists(os.path.join(out, "genai_config.json")):
        return out
    values = out + "-values"
    read = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    read.hf_quantizer = None  # the values are floats by now
    read.config.__dict__.pop("quantization_config", None)
    read.save_pretrained(values)
    AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(values)
    subprocess.run([sys.executable, "-m", "onnxruntime_genai.models.builder", "-m", "local", "-i", values, "-o", out, "-p", "int4", "-e", "cpu",
                    "-c", out + "-cache", "--extra_options", "int4_block_size=32", "int4_accuracy_level=4"], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(values)
    return out


class Engine:
    def __init__(self, a):
        config = og.Config(convert(a.model))
        options = {"intra_op_num_threads": a.threads, "inter_op_num_threads": 1}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
        self.model, self.context = og.Model(config), a.ctx_size
        self.prompts, self.generator = 0, None

    def generate(self, rows):
        """A generator that has read |rows| and chosen a first token."""
        self.generator = None
        p = og.GeneratorParams(self.model)
        p.set_search_options(batch_size=len(rows), max_length=self.context, min_length=self.context, do_sample=False)
        self.generator = og.Generator(self.model, p)
        self.generator.append_tokens(np.array(rows, np.int32))
        self.generator.generate_next_token()

    def prompt(self, n):
        self.prompts += 1
        return [(i * 7919 + self.prompts * 104729 + 13) % 20000 + 10 for i in range(n)]

    def open(self, sequences, n):
        rows = [self.prompt(n) for _ in range(sequences)]
        start = time.perf_counter()
        self.generate(rows)
        self.sequences = sequences
        return {"read": sequences * n, "seconds": time.perf_counter() - start}

    def decode(self, steps):
        start = time.perf_counter()
        for _ in range(steps):
            self.generator.generate_next_token()
        return {"decoded": steps * self.sequences, "seconds": time.perf_counter() - start}

    def greedy(self, tokens, n):
        self.generate([tokens])
        for _ in range(n - 1):
            self.generator.generate_next_token()
        return [int(t) for t in self.generator.get_sequence(0)[len(tokens):]]


if __name__ == "__main__":
    serve(Engine, og.__version__)
