#!/usr/bin/env python3
"""The decode step of backend xla beside the same model in JAX, on the same PJRT plugin: the same build of XLA.

usage: compare_jax.py LOCKSTEP MODEL.gguf PLUGIN [--rounds 3] [--context 256] [--steps 64]
needs: pip install jax==0.10.2 gguf numpy

JAX runs a Llama-shaped model of the file's sizes in f32 (values do not change the speed), jitted once, its caches donated, its
matrices stored [in, out], the order in which XLA is fastest.
lockstep runs the file itself under float, exact16 and exact24. Rounds are interleaved; a step ends when its logits are on
the host. Prints milliseconds a token (best of the rounds) and, of medians, how many times JAX's each is.
"""
import argparse
import json
import os
import statistics
import subprocess
import time


def read_sizes(path):
    from gguf import GGUFReader
    reader = GGUFReader(path)
    get = lambda name: next(f for k, f in reader.fields.items() if k.endswith(name)).parts[-1][0].item()
    vocab = next(t for t in reader.tensors if t.name == "token_embd.weight").shape[1].item()
    heads, hidden = get(".attention.head_count"), get(".embedding_length")
    return dict(layers=get(".block_count"), hidden=hidden, inner=get(".feed_forward_length"), heads=heads,
                kv=get(".attention.head_count_kv"), dim=hidden // heads, vocab=vocab)


def open_jax(plugin):
    os.environ["JAX_PLATFORMS"] = "lockstep_bench"
    import jax
    from jax._src import xla_bridge
    xla_bridge.register_plugin("lockstep_bench", library_path=plugin)
    return jax


def make_model(jax, s, context):
    import jax.numpy as jnp
    import numpy as np
    rng = np.random.default_rng(0)
    put = lambda *shape: jax.device_put(rng.standard_normal(shape, np.float32) * np.float32(0.02))
    q, kv = s["heads"] * s["dim"], s["kv"] * s["dim"]
    weights = dict(embed=put(s["vocab"], s["hidden"]), norm=put(s["hidden"]), head=put(s["hidden"], s["vocab"]), cos=put(context, s["dim"] // 2), sin=put(context, s["dim"] // 2),
                   layers=[dict(n1=put(s["hidden"]), n2=put(s["hidden"]), q=put(s["hidden"], q), k=put(s["hidden"], kv), v=put(s["hidden"], kv),
                                o=put(q, s["hidden"]), g=put(s["hidden"], s["inner"]), u=put(s["hidden"], s["inner"]), d=put(s["inner"], s["hidden"]))
                           for _ in range(s["layers"])])

    def norm(x, w):
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * w

    def turn(x, c, t):
        a, b = jnp.split(x, 2, -1)
        return jnp.concatenate([a * c - b * t, b * c + a * t], -1)

    def step(w, token, pos, keys, values):
        x = w["embed"][token][None]
        c, t = w["cos"][pos], w["sin"][pos]
        seen = jnp.arange(context) <= pos
        for i, l in enumerate(w["layers"]):
            h = norm(x, l["n1"])
            a = turn((h @ l["q"]).reshape(s["heads"], s["dim"]), c, t)
            k = turn((h @ l["k"]).reshape(s["kv"], s["dim"]), c, t)
            keys = jax.lax.dynamic_update_slice(keys, k[None, None], (i, pos, 0, 0))
            values = jax.lax.dynamic_update_slice(values, (h @ l["v"]).reshape(1, 1, s["kv"], s["dim"]), (i, pos, 0, 0))
            a = a.reshape(s["kv"], -1, s["dim"])
            p = jnp.where(seen, jnp.einsum("kgd,skd->kgs", a, keys[i]) * s["dim"] ** -0.5, -1e30)
            x = x + jnp.einsum("kgs,skd->kgd", jax.nn.softmax(p, -1), values[i]).reshape(1, -1) @ l["o"]
            h = norm(x, l["n2"])
            x = x + (jax.nn.silu(h @ l["g"]) * (h @ l["u"])) @ l["d"]
        return norm(x, w["norm"]) @ w["head"], keys, values

    cache = lambda: jax.device_put(np.zeros((s["layers"], context, s["kv"], s["dim"]), np.float32))
    return jax.jit(step, donate_argnums=(3, 4)), weights, cache


def time_jax(np, model, steps):
    step, weights, cache = model
    keys, values = cache(), cache()
    best = 0
    for i in range(steps + 2):
        if i == 2:
            begin = time.perf_counter()
        logits, keys, values = step(weights, np.int32(i), np.int32(i), keys, values)
        best += int(np.asarray(logits).argmax())
    return (time.perf_counter() - begin) / steps * 1e3


def time_lockstep(a, contract):
    text = subprocess.run([a.lockstep, "bench", a.model, "--backend", "xla", "--allow-unqualified", "--plugin", a.plugin, "--contract", contract, "--ctx-size",
                           str(a.context), "-p", "8", "-n", str(a.steps), "-r", "1", "--json"], capture_output=True, text=True, check=True).stdout
    report = json.loads(text)
    return 1e3 / report["decode_tokens_per_second_best"], report


def main():
    p = argparse.ArgumentParser()
    p.add_argument("lockstep")
    p.add_argument("model")
    p.add_argument("plugin")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--context", type=int, default=256)
    p.add_argument("--steps", type=int, default=64)
    a = p.parse_args()
    import numpy as np
    jax = open_jax(a.plugin)
    model = make_model(jax, read_sizes(a.model), a.context)
    times = {"jax": [], "float": [], "exact16": [], "exact24": []}
    for _ in range(a.rounds):
        times["jax"].append(time_jax(np, model, a.steps))
        for contract in ("float", "exact16", "exact24"):
            ms, report = time_lockstep(a, contract)
            times[contract].append(ms)
            c = report["xla"]["compiling"]
            if len(times[contract]) == 1:
                print(f"{contract}: {c['programs']} programs, {c['cache_hits']} from the cache, {c['seconds']:.1f} s", flush=True)
    base = statistics.median(times["jax"])
    for name, ms in times.items():
        print(f"decode {name}: {min(ms):.1f} ms a token, best of {a.rounds}; {statistics.median(ms) / base:.2f} times JAX's (medians)")


if __name__ == "__main__":
    main()
