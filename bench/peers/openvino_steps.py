#!/usr/bin/env python3
"""OpenVINO GenAI behind the lines of `lockstep bench --steps`. usage: openvino_steps.py MODEL.gguf --threads T --batch B --ctx-size N

The GGUF file is read by OpenVINO itself. Prefix cache off, and every prompt is new: it would serve a repeated one from its cache.
"""
import time

import numpy as np
import openvino as ov
import openvino_genai as og

from steps import serve


class Engine:
    def __init__(self, a):
        scheduler = og.SchedulerConfig()
        scheduler.enable_prefix_caching = False
        scheduler.max_num_batched_tokens = max(512, a.ctx_size)
        scheduler.cache_size = 2
        self.pipe = og.LLMPipeline(a.model, "CPU", scheduler_config=scheduler, INFERENCE_NUM_THREADS=a.threads)
        self.prompts, self.sequences, self.length = 0, 0, 0

    def prompts_of(self, sequences, n):
        rows = []
        for _ in range(sequences):
            self.prompts += 1
            rows.append([(i * 7919 + self.prompts * 104729 + 13) % 20000 + 10 for i in range(n)])
        ids = np.array(rows, np.int64)
        return og.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids)))

    def run(self, sequences, n, tokens):
        config = og.GenerationConfig(max_new_tokens=tokens, min_new_tokens=tokens, ignore_eos=True, do_sample=False)
        return self.pipe.generate(self.prompts_of(sequences, n), config).perf_metrics

    def open(self, sequences, n):
        self.sequences, self.length = sequences, n
        return {"read": sequences * n, "seconds": self.run(sequences, n, 1).get_ttft().mean / 1e3}

    def decode(self, steps):
        start = time.perf_counter()
        m = self.run(self.sequences, self.length, steps + 1)
        return {"decoded": steps * self.sequences, "seconds": time.perf_counter() - start - m.get_ttft().mean / 1e3}


    def greedy(self, tokens, n):
        ids = np.array([tokens], np.int64)
        config = og.GenerationConfig(max_new_tokens=n, min_new_tokens=n, ignore_eos=True, do_sample=False)
        return [int(t) for t in self.pipe.generate(og.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids))), config).tokens[0]]


if __name__ == "__main__":
    serve(Engine, og.__version__)
