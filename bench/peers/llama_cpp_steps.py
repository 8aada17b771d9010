#!/usr/bin/env python3
"""llama.cpp behind the lines of `lockstep bench --steps`. usage: llama_cpp_steps.py MODEL.gguf --threads T --batch B --ctx-size N

Flash attention on, keys and values in f16, one unified cache, prompts in batches of 512: what llama-server does by default.
"""
import time

import llama_cpp as l
import numpy as np

from steps import serve


class Engine:
    def __init__(self, a):
        l.llama_backend_init()
        self.model = l.llama_model_load_from_file(a.model.encode(), l.llama_model_default_params())
        p = l.llama_context_default_params()
        p.n_ctx, p.n_batch, p.n_ubatch = a.batch * a.ctx_size, 512, 512
        p.n_threads = p.n_threads_batch = a.threads
        p.n_seq_max, p.flash_attn_type, p.kv_unified = a.batch, 1, True
        self.context = l.llama_init_from_model(self.model, p)
        self.memory = l.llama_get_memory(self.context)
        self.vocab = l.llama_vocab_n_tokens(l.llama_model_get_vocab(self.model))
        self.rows = l.llama_batch_init(512, 0, 1)
        self.prompts, self.sequences, self.position = 0, 0, 0

    def forward(self, rows):
        """rows: (token, position, sequence, whether its logits are wanted)"""
        b = self.rows
        b.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, position, 1, wanted
            b.seq_id[i][0] = sequence
        if l.llama_decode(self.context, b):
            raise RuntimeError("llama_decode failed")

    def prompt(self, n):
        self.prompts += 1
        return [(i * 7919 + self.prompts * 104729 + 13) % self.vocab for i in range(n)]

    def best(self, i):
        p = l.llama_get_logits_ith(self.context, i)
        return max(range(0, self.vocab, max(1, self.vocab // 64)), key=lambda k: p[k])  # an engine's sampler is not measured

    def open(self, sequences, n):
        l.llama_memory_clear(self.memory, True)
        start = time.perf_counter()
        for s in range(sequences):
            tokens = self.prompt(n)
            for at in range(0, n, 512):
                self.forward([(t, at + i, s, at + i == n - 1) for i, t in enumerate(tokens[at:at + 512])])
        self.sequences, self.position = sequences, n
        return {"read": sequences * n, "seconds": time.perf_counter() - start}

    def decode(self, steps):
        start = time.perf_counter()
        for _ in range(steps):
            self.forward([((self.position * 7919 + s) % self.vocab, self.position, s, True) for s in range(self.sequences)])
            self.best(0)
            self.position += 1
        return {"decoded": steps * self.sequences, "seconds": time.perf_counter() - start}

    def greedy(self, tokens, n):
        l.llama_memory_clear(self.memory, True)
        rows, out = [(t, i, 0, i == len(tokens) - 1) for i, t in enumerate(tokens)], []
        while len(out) < n:
            self.forward(rows)
            out.append(int(np.ctypeslib.as_array(l.llama_get_logits_ith(self.context, len(rows) - 1), (self.vocab,)).argmax()))
            rows = [(out[-1], len(tokens) + len(out) - 1, 0, True)]
        return out


if __name__ == "__main__":
    serve(Engine, l.__version__)
