#!/usr/bin/env python3
"""lockstep beside llama.cpp on one GGUF file: decode and 512-token prefill, interleaved runs, same threads.

usage: compare_llama.py LOCKSTEP MODEL.gguf [--threads 2] [--rounds 3]
needs: llama-cpp-python; compare_llama.sh builds it for this machine and calls this script

Every round times both programs once, in turn, so that a machine whose speed drifts treats them alike. Prints tokens per
second of the median and the best round of each, and the ratio of the medians.
"""
import argparse
import json
import os
import statistics
import subprocess
import time

PREFILL, DECODE = 512, 64


def run_lockstep(program, model, threads):
    text = subprocess.run([program, "bench", model, "-p", str(PREFILL), "-n", str(DECODE), "-r", "1", "--threads", str(threads), "--json"],
                          capture_output=True, text=True, check=True).stdout
    report = json.loads(text)
    return report["prefill_tokens_per_second_best"], report["decode_tokens_per_second_best"]


def open_llama(model, threads):
    from llama_cpp import Llama
    return Llama(model, n_ctx=1024, n_batch=PREFILL, n_threads=threads, n_threads_batch=threads, verbose=False)


def run_llama(llm):
    tokens = [(i * 7919) % 20000 + 10 for i in range(PREFILL)]
    llm.reset()
    start = time.perf_counter()
    llm.eval(tokens)
    prefill = PREFILL / (time.perf_counter() - start)
    llm.reset()
    llm.eval(tokens[:8])
    start = time.perf_counter()
    for i in range(DECODE):
        llm.eval([tokens[8 + i]])
    return prefill, DECODE / (time.perf_counter() - start)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("lockstep")
    p.add_argument("model")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    llm = open_llama(a.model, a.threads)
    ours, theirs = [], []
    for _ in range(a.rounds):
        ours.append(run_lockstep(a.lockstep, a.model, a.threads))
        theirs.append(run_llama(llm))
    for i, name in enumerate(("prefill 512", "decode")):
        l, r = [x[i] for x in ours], [x[i] for x in theirs]
        ml, mr = statistics.median(l), statistics.median(r)
        print(f"{os.path.basename(a.model)}, {a.threads} threads, {name}: lockstep {ml:.0f} (best {max(l):.0f}), "
              f"llama.cpp {mr:.0f} (best {max(r):.0f}) tokens/s; ratio {ml / mr:.2f}", flush=True)


main()
