#!/usr/bin/env python3
"""lockstep beside llama.cpp, OpenVINO GenAI and ONNX Runtime GenAI: same files, same threads, runs that take turns.

usage: compare.py [--lockstep PROGRAM] [--peers llama.cpp,openvino,ort] [--threads N] [--rounds N] [--contract exact16,exact24]
                  [--deep POSITIONS] [--greedy] [--sweep context,batch,threads] [--contexts 512,2048,...] [--out FOLDER] MODEL ...
needs: a C compiler; for llama.cpp the Python in $LLAMA_PYTHON with llama-cpp-python 0.3.36 (in $LLAMA_PYTHONPATH), for openvino the one
in $OPENVINO_PYTHON with openvino-genai 2026.4, for ort the one in $ORT_PYTHON (bench/peers/ort_steps.py says with what). An engine that is
not there, or refuses a file, is named in the report. bench/compare.sh builds the first one.

All engines stay loaded and answer `lockstep bench --steps` lines (bench/peers). Every round asks each for one decode, one batch of
eight sequences and one prompt of 512 tokens, in an order that turns around every other round, and reads the machine's memory
bandwidth once. FOLDER gets compare.json and compare.html.
"""
import argparse
import html
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

from compare_page import page

HERE = os.path.dirname(os.path.abspath(__file__))
DECODE, BATCH, PROMPT, BATCH_STEPS, GREEDY = 24, 8, 512, 8, 32
PEERS = {"llama.cpp": ("LLAMA_PYTHON", "llama_cpp_steps.py"), "openvino": ("OPENVINO_PYTHON", "openvino_steps.py"), "ort": ("ORT_PYTHON", "ort_steps.py")}
CONTEXTS, BATCHES = "512,2048,8192,16384,32768", (1, 2, 4, 8, 16)


class Engine:
    """One loaded program that answers lines."""

    def __init__(self, name, command):
        self.name, self.command, self.version = name, command, ""
        start = time.perf_counter()
        env = dict(os.environ)
        if name == "llama.cpp" and "LLAMA_PYTHONPATH" in env:
            env["PYTHONPATH"] = env["LLAMA_PYTHONPATH"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
        self.version = self.read().get("version", "")
        self.load = time.perf_counter() - start
        self.ask("open 1 8")
        self.first_token = time.perf_counter() - start
        self.rates = {}

    def read(self):
        line = self.process.stdout.readline()
        while line and not line.startswith("{"):
            line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with status {self.process.wait()}")
        return json.loads(line)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.read()

    def measure(self, key, line):
        a = self.ask(line)
        n = a.get("read") or a.get("decoded") or 0
        if n and a["seconds"] > 0:
            self.rates.setdefault(key, []).append(n / a["seconds"])

    def peak(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return int(re.search(r"VmHWM:\s+(\d+)", f.read()).group(1)) * 1024

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def commands(a, model, context, batch=BATCH, threads=0):
    common = [model, "--threads", str(threads or a.threads), "--batch", str(batch), "--ctx-size", str(context)]
    for contract in a.contract.split(","):
        yield "lockstep " + contract, [a.lockstep, "bench", "--steps", "--contract", contract, *common]
    for peer in a.peers.split(",") if a.peers else []:
        variable, script = PEERS[peer]
        python = os.environ.get(variable)
        yield peer, [python, os.path.join(HERE, "peers", script), *common] if python else None


def start(a, model, context, missing, **more):
    """The engines that are there; why others are not goes into |missing|."""
    engines = []
    for name, command in commands(a, model, context, **more):
        try:
            if not command:
                raise RuntimeError("its Python is not named")
            engines.append(Engine(name, command))
        except (RuntimeError, OSError) as error:
            missing[name] = str(error)
    return engines


def machine(a):
    program = os.path.join(a.out, "machine")
    if not os.path.exists(program):
        subprocess.run(["cc", "-O3", "-march=native", "-D_GNU_SOURCE", os.path.join(HERE, "machine.c"), "-o", program, "-lpthread"], check=True)
    return json.loads(subprocess.run([program, str(a.threads)], capture_output=True, text=True, check=True).stdout)


def one_round(engines, turned):
    order = list(reversed(engines)) if turned else engines
    for key, lines in (("decode", ["open 1 8", f"decode {DECODE}"]), ("batch", [f"open {BATCH} 8", f"decode {BATCH_STEPS}", "close"]),
                       ("prefill", [f"prefill {PROMPT}"])):
        for e in order:
            for line in lines:
                e.measure(key if line.split()[0] in ("decode", "prefill") else "other", line)


def deep_decode(engines, deep, rounds):
    """Decode with |deep| positions in the cache, where engines take turns too."""
    for e in engines:
        e.ask(f"open 1 {deep}")
    for r in range(rounds):
        for e in (reversed(engines) if r % 2 else engines):
            e.measure(f"decode at {deep}", "decode 8")
    for e in engines:
        e.ask("close")


def greedy(a, model, engines):
    """How many of the first tokens of every engine equal those of the f32 reference."""
    found = {}
    ids = ",".join(str(i * 37 + 11) for i in range(16))
    for contract, backend in [("float", "reference"), *((c, "native") for c in a.contract.split(","))]:
        text = subprocess.run([a.lockstep, "generate", model, "--ids", ids, "-n", str(GREEDY), "--temp", "0", "--json", "--contract", contract,
                               "--backend", backend], capture_output=True, text=True, check=True).stdout
        found["lockstep " + contract] = json.loads(text)["output_ids"]
    want = found.pop("lockstep float")
    for e in engines:
        if e.name in PEERS:
            found[e.name] = e.ask(f"greedy {GREEDY} {ids}")["tokens"]
    return {name: next((i for i, (x, y) in enumerate(zip(tokens, want)) if x != y), min(len(tokens), len(want))) for name, tokens in found.items()}


# ---- Sweeps -------------------------------------------------------------------------------------------------------------

def measure_point(engines, rounds, sequences, n, steps, found, point):
    """Prompts of |n| tokens in |sequences| sequences, then steps of decoding, where engines take turns. One that ends is left out from then on."""
    for e in engines:
        e.rates = {}
    for r in range(rounds):
        for e in (engines[::-1] if r % 2 else engines[:]):
            try:
                e.measure("prefill", f"open {sequences} {n}")
                e.measure("decode", f"decode {steps}")
                e.ask("close")
            except (RuntimeError, OSError) as error:
                print(f"  {error}", flush=True)
                engines.remove(e)
    for e in engines:
        found.setdefault(e.name, {})[str(point)] = {key: statistics.median(v) for key, v in e.rates.items()}


def sweep_engines(points, what, run):
    """run(point, found) for every point."""
    found = {}
    for point in points:
        print(f"  {what} {point} ...", flush=True)
        run(point, found)
    return {"what": what, "points": list(points), "engines": found}


def close(engines):
    for e in engines:
        e.close()


def sweep_context(a, model, most):
    def run(n, found):
        engines = start(a, model, n + 64, {}, batch=1)
        measure_point(engines, min(a.rounds, 2), 1, n, 8, found, n)
        close(engines)
    return sweep_engines([n for n in map(int, a.contexts.split(",")) if n + 64 <= most], "positions in the cache", run)


def sweep_batch(a, model, most):
    engines = start(a, model, 256, {}, batch=BATCHES[-1])
    result = sweep_engines(BATCHES, "sequences", lambda n, found: measure_point(engines, a.rounds, n, 32, 8, found, n))
    close(engines)
    return result


def sweep_threads(a, model, most):
    def run(n, found):
        engines = start(a, model, PROMPT + 64, {}, batch=1, threads=n)
        measure_point(engines, a.rounds, 1, PROMPT, DECODE, found, n)
        close(engines)
    counts = sorted({1, *(2 ** i for i in range(10) if 2 ** i < a.threads), a.threads})
    return sweep_engines(counts, "threads", run)


SWEEPS = {"context": sweep_context, "batch": sweep_batch, "threads": sweep_threads}


# ---- A model ------------------------------------------------------------------------------------------------------------


def summary(e, bytes_read, macs, limits):
    out = {"engine": e.name, "version": e.version, "load_seconds": e.load, "first_token_seconds": e.first_token, "peak_bytes": e.peak()}
    for key, v in e.rates.items():
        if key != "other":
            out[key] = {"best": max(v), "median": statistics.median(v), "worst": min(v), "all": v}
    if "decode" in out:
        out["decode"]["gb_per_second"] = out["decode"]["median"] * bytes_read * 1e-9
        out["decode"]["share_of_read"] = out["decode"]["gb_per_second"] / limits["read_gb_per_second"]
    if "prefill" in out and limits["gmac_per_second"]:
        out["prefill"]["gmac_per_second"] = out["prefill"]["median"] * macs * 1e-9
        out["prefill"]["share_of_products"] = out["prefill"]["gmac_per_second"] / limits["gmac_per_second"]
    return out


def size_of(model):
    if os.path.isfile(model):
        return os.path.getsize(model)
    return sum(os.path.getsize(os.path.join(model, f)) for f in os.listdir(model) if f.endswith(".safetensors"))


def parameters(a, model):
    """Multiply-adds of one prompt token (all but the logits), and the bytes of weights that one written token reads; for models whose logits
    use the table of embeddings."""
    text = subprocess.run([a.lockstep, "inspect", model, "--json"], capture_output=True, text=True, check=True).stdout
    d = json.loads(text)
    return d["parameters"] - d["vocabulary"] * d["hidden"], d["weight_bytes"], d["max_context"]


def compare(a, model):
    print(f"{model} ...", flush=True)
    context = max(PROMPT + 8, 8 + DECODE + 8) + 64
    missing, readings = {}, []
    engines = start(a, model, context, missing)
    for r in range(a.rounds + 1):
        readings.append(machine(a))
        one_round(engines, r % 2)
        if not r:
            for e in engines:
                e.rates = {}
    limits = {k: max(r[k] for r in readings) if readings[0][k] is not None else None for k in readings[0]}
    macs, bytes_read, most = parameters(a, model)
    result = {"model": os.path.basename(model), "batch": BATCH, "prompt": PROMPT, "file_bytes": size_of(model), "threads": a.threads, "rounds": a.rounds, "machine": limits,
              "readings": readings, "missing": missing, "engines": [summary(e, bytes_read, macs, limits) for e in engines]}
    if a.greedy:
        result["tokens_equal_to_f32"] = greedy(a, model, engines)
    close(engines)
    if a.sweep:
        result["sweeps"] = {name: SWEEPS[name](a, model, most) for name in a.sweep.split(",")}
    if a.deep:
        result["deep"] = compare_deep(a, model)
    print_result(result)
    return result


def compare_deep(a, model):
    engines = []
    for name, command in commands(a, model, a.deep + 256):
        if command and name != "openvino":
            command[command.index("--batch") + 1] = "1"
            engines.append(Engine(name, command))
    deep_decode(engines, a.deep, a.rounds)
    out = {e.name: {"best": max(v), "median": statistics.median(v)} for e in engines for k, v in e.rates.items() if k.startswith("decode at")}
    for e in engines:
        e.close()
    return {"positions": a.deep, "engines": out}


def print_result(r):
    print(f"  machine: {r['machine']['read_gb_per_second']:.1f} GB/s read, {r['machine']['gmac_per_second'] or 0:.0f} G multiply-adds/s")
    for e in r["engines"]:
        cells = [f"{k} {e[k]['median']:.1f} (best {e[k]['best']:.1f})" for k in ("decode", "prefill", "batch") if k in e]
        print(f"  {e['engine']:18s} {', '.join(cells)}; first token {e['first_token_seconds']:.2f} s, peak {e['peak_bytes'] * 1e-6:.0f} MB, "
              f"{e.get('decode', {}).get('share_of_read', 0):.0%} of read, {e.get('prefill', {}).get('share_of_products', 0):.0%} of products", flush=True)
    for name, v in r.get("deep", {}).get("engines", {}).items():
        print(f"  decode at {r['deep']['positions']}: {name} {v['median']:.1f} (best {v['best']:.1f})")
    if "tokens_equal_to_f32" in r:
        print(f"  greedy tokens equal to f32: {r['tokens_equal_to_f32']}")
    for sweep in r.get("sweeps", {}).values():
        for name, v in sweep["engines"].items():
            print(f"  {name} by {sweep['what']}: " + ", ".join(f"{p}: {x.get('decode', 0):.1f} ({x.get('prefill', 0):.0f})" for p, x in v.items()))
    for name, why in r["missing"].items():
        print(f"  {name}: not measured, {why}")


def main():
    p = argparse.ArgumentParser(description="Speed of lockstep beside other engines, which take turns: a table, compare.json and compare.html.",
                                epilog="example: bench/compare.py --peers llama.cpp,openvino --contract exact16,exact24 MODEL.gguf")
    p.add_argument("models", nargs="+", metavar="MODEL", help="a GGUF file; OpenVINO reads it too, ONNX Runtime quantises it anew")
    p.add_argument("--lockstep", default="build/release/bin/lockstep", help="the program, %(default)s")
    p.add_argument("--peers", default="llama.cpp", help="engines beside it: " + ", ".join(PEERS))
    p.add_argument("--threads", type=int, default=os.cpu_count(), help="of every engine, %(default)s here")
    p.add_argument("--rounds", type=int, default=5, help="turns of every engine, %(default)s")
    p.add_argument("--contract", default="exact16", help="of lockstep, one or several with commas")
    p.add_argument("--deep", type=int, default=0, metavar="N", help="decode with N positions in the cache too")
    p.add_argument("--greedy", action="store_true", help="count greedy tokens equal to those of f32")
    p.add_argument("--sweep", default="", help="curves: " + ", ".join(SWEEPS))
    p.add_argument("--contexts", default=CONTEXTS, help="positions of the sweep over contexts, %(default)s")
    p.add_argument("--out", default=".cache/compare", metavar="DIR", help="where the files go, %(default)s")
    a = p.parse_args()
    for given, known in ((a.peers, PEERS), (a.sweep, SWEEPS)):
        for name in filter(None, given.split(",")):
            if name not in known:
                sys.exit(f"compare.py: \"{name}\" is unknown; allowed are {', '.join(known)}")
    if not shutil.which(a.lockstep):
        sys.exit(f"compare.py: there is no program \"{a.lockstep}\"; build it (make) or name it with --lockstep")
    if not shutil.which("cc"):
        sys.exit("compare.py: a C compiler (cc) is needed to measure the machine")
    os.makedirs(a.out, exist_ok=True)
    results = [compare(a, m) for m in a.models]
    with open(os.path.join(a.out, "compare.json"), "w", encoding="utf-8") as f:
        json.dump(results, f, indent=1)
    with open(os.path.join(a.out, "compare.html"), "w", encoding="utf-8") as f:
        f.write(page(results))
    print(f"{a.out}/compare.json, {a.out}/compare.html")


main()
