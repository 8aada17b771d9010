#!/usr/bin/env python3
"""Writes fixtures/session/sampler.json: cases of the sampler computed from docs/sampling.md on Python's big integers.

Needs only the standard library. Written from the definition, not from the C code, so the two check each other.
    python3 tools/make_session_goldens.py
"""
import json
import os
import random
import struct
from decimal import Decimal, getcontext

getcontext().prec = 60
ONE = 1 << 20
MAX = 1 << 36
MASK = (1 << 64) - 1
LOG2E = 1549082005
COEFFICIENTS = []
_ln2, _factorial = Decimal(2).ln(), 1
for _k in range(11):
    _factorial *= _k or 1
    COEFFICIENTS.append(int((_ln2**_k / _factorial * 2**31).to_integral_value()))


def bits_of(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def fixed_logit(bits):
    sign, exponent, mantissa = bits >> 31, bits >> 23 & 255, bits & 0x7FFFFF
    if exponent == 255:
        return -MAX if mantissa or sign else MAX
    scaled = (mantissa | (0x800000 if exponent else 0)) << max(exponent, 1)  # |logit| * 2^150
    down = 150 - 20
    q, rest = scaled >> down, scaled & ((1 << down) - 1)
    half = 1 << (down - 1)
    if rest > half or (rest == half and q & 1):
        q += 1
    q = min(q, MAX)
    return -q if sign else q


def option(x):
    q = int(abs(Decimal(x)) * ONE + Decimal("0.5"))
    return -q if x < 0 else q


def saturate(x):
    return max(-MAX, min(MAX, x))


def multiply(a, b):
    m = (abs(a) * b + ONE // 2) >> 20
    return saturate(-m if a < 0 else m)


def exp2_neg(f):
    r = COEFFICIENTS[10]
    for c in reversed(COEFFICIENTS[:10]):
        r = c - (r * f >> 31)
    return r


def splitmix(seed, position):
    z = (seed + 0x9E3779B97F4A7C15 * (position + 1)) & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def tail(history, limit):
    return history[-limit:] if limit else history


def penalize(values, p, history):
    seen = tail(history, p["penalty_window"])
    repetition = option(p["repetition_penalty"] or 1)
    if repetition != ONE:
        for t in set(seen):
            v = values[t]
            values[t] = saturate((v * ONE + repetition // 2) // repetition) if v > 0 else multiply(v, repetition)
    base, multiplier = option(p["dry_base"] or 1.75), option(p["dry_multiplier"])
    if multiplier and base >= ONE:
        tokens, allowed, worst = tail(history, p["dry_window"]), p["dry_allowed_length"] or 2, {}
        for at in range(len(tokens) - 1):
            length = 0
            while length < allowed + 64 and length <= at and tokens[at - length] == tokens[len(tokens) - 1 - length] \
                    and tokens[at - length] not in p["dry_breakers"]:
                length += 1
            if length < allowed or not length:
                continue
            value = multiplier
            for _ in range(length - allowed):
                value = multiply(value, base)
            worst[tokens[at + 1]] = max(worst.get(tokens[at + 1], 0), value)
        for t, value in worst.items():
            values[t] = saturate(values[t] - value)
    frequency, presence = option(p["frequency_penalty"]), option(p["presence_penalty"])
    if frequency or presence:
        for t in set(seen):
            values[t] = saturate(values[t] - (frequency * seen.count(t) + presence))


def has_penalty(p):
    dry = option(p["dry_multiplier"]) and option(p["dry_base"] or 1.75) >= ONE
    return option(p["repetition_penalty"] or 1) != ONE or option(p["frequency_penalty"]) or option(p["presence_penalty"]) or dry


def sample(logit_bits, p, history):
    temperature = option(p["temperature"]) or (1 if p["temperature"] > 0 else 0)
    if not has_penalty(p) and not temperature:
        numbers = [struct.unpack("<f", struct.pack("<I", b))[0] for b in logit_bits]
        best = None
        for i, x in enumerate(numbers):
            if x == x and (best is None or x > numbers[best]):
                best = i
        return best or 0
    values = [fixed_logit(b) for b in logit_bits]
    penalize(values, p, history)
    if not temperature:
        return max(range(len(values)), key=lambda i: (values[i], -i))
    top, scale = max(values), (LOG2E << 20) // temperature
    ranked = []
    for v, i in sorted((-v, i) for i, v in enumerate(values)):
        if top + v > (40 << 50) // scale:
            break
        y = (top + v) * scale
        ranked.append((exp2_neg(y >> 19 & 0x7FFFFFFF) << 8 >> (y >> 50), i))
    if p["top_k"]:
        ranked = ranked[:p["top_k"]]
    top_p, min_p = option(p["top_p"] or 1), option(p["min_p"])
    if top_p < ONE or min_p:
        enough, kept, total = sum(w for w, _ in ranked) * top_p >> 20, [], 0
        for w, i in ranked:
            if kept and (total >= enough or w < min_p << 19):
                break
            kept.append((w, i))
            total += w
        ranked = kept
    target = splitmix(p["seed"], len(history)) * sum(w for w, _ in ranked) >> 64
    for w, i in ranked[:-1]:
        if target < w:
            return i
        target -= w
    return ranked[-1][1]


def options(**changes):
    p = dict(seed=0, temperature=0, top_k=0, top_p=0, min_p=0, repetition_penalty=0, frequency_penalty=0, presence_penalty=0,
             penalty_window=0, dry_multiplier=0, dry_base=0, dry_allowed_length=0, dry_window=0, dry_breakers=[])
    p.update(changes)
    return p


def all_options(rng):
    yield options()
    for t in (0.1, 0.7, 1, 1.5, 20, 64, 1e-9):
        yield options(temperature=t)
    for k in (1, 2, 10, 1000):
        yield options(temperature=1, top_k=k)
    for x in (0.001, 0.1, 0.5, 0.9, 0.999):
        yield options(temperature=1, top_p=x)
        yield options(temperature=2, min_p=x)
        yield options(temperature=1.3, top_k=20, top_p=x, min_p=x / 10)
    yield options(repetition_penalty=1.3)
    yield options(repetition_penalty=0.5, penalty_window=3)
    yield options(frequency_penalty=0.7, presence_penalty=-0.3, temperature=0.9)
    yield options(presence_penalty=2, penalty_window=5)
    yield options(dry_multiplier=0.8)
    yield options(dry_multiplier=0.8, dry_base=1.1, dry_allowed_length=1, dry_window=9, temperature=0.5)
    yield options(dry_multiplier=5, dry_base=64, dry_breakers=[1, 3])
    yield options(dry_multiplier=5, dry_base=0.5)
    yield options(repetition_penalty=64, frequency_penalty=64, presence_penalty=64, dry_multiplier=64, temperature=3)
    for _ in range(20):
        yield options(temperature=rng.choice([0, 0.3, 0.8, 1.2]), top_k=rng.choice([0, 5, 40]), top_p=rng.choice([0, 0.5, 0.95]),
                      min_p=rng.choice([0, 0.05]), repetition_penalty=rng.choice([0, 1.1]), frequency_penalty=rng.choice([0, 0.2]),
                      dry_multiplier=rng.choice([0, 0.8]), penalty_window=rng.choice([0, 4]))


def rows(rng):
    yield "normal", [bits_of(rng.gauss(0, 4)) for _ in range(257)]
    yield "ties", [bits_of(float(rng.randrange(4))) for _ in range(64)]
    yield "flat", [bits_of(0.0)] * 33
    yield "one", [bits_of(3.5)]
    yield "wide", [rng.getrandbits(32) for _ in range(300)]
    yield "special", [bits_of(x) for x in (float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1e-45, -1e-45, 1e30, -1e30, 65536.0, 65535.99)]
    yield "nothing", [0x7FC00000] * 7
    yield "close", [bits_of(10 + i * 2.0**-20) for i in range(40)]


def main():
    rng = random.Random(20261)
    cases = []
    all_rows = list(rows(rng))
    for name, logits in all_rows:
        for p in all_options(rng):
            history = [rng.randrange(min(len(logits), 6)) for _ in range(rng.choice([1, 2, 7, 30]))]
            p["seed"] = rng.getrandbits(64) - (1 << 63)  # JSON integers are signed
            unsigned = dict(p, seed=p["seed"] & MASK)
            tokens = []
            for _ in range(3):
                tokens.append(sample(logits, unsigned, history + tokens))
            cases.append(dict({k: v for k, v in p.items() if v}, row=name, history=history, tokens=tokens))
    exps = [[f, exp2_neg(f)] for f in [0, 1, 2**30, 2**31 - 1] + [rng.randrange(2**31) for _ in range(60)]]
    fixed = [[b, fixed_logit(b)] for b in [0, 1, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x47800000, 0x477FFFFF, 0x35000000, 0x34FFFFFF,
                                           0x35000001, 0x35C00000, 0x36200000] + [rng.getrandbits(32) for _ in range(100)]]
    randoms = [[str(s), p, str(splitmix(s, p))] for s, p in ((0, 0), (0, 1), (1, 0), (MASK, MASK >> 33), (1234567, 99))]
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "session")
    os.makedirs(root, exist_ok=True)
    with open(os.path.join(root, "sampler.json"), "w", encoding="utf-8") as f:
        json.dump(dict(rows=dict(all_rows), cases=cases, exp2=exps, fixed=fixed, random=randoms), f, separators=(",", ":"))
        f.write("\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
