"""Makes fixtures/base/detmath.json: arguments of log2, exp2, cos and sin with values from 200-bit arithmetic (mpmath).

    python tools/make_detmath_golden.py

Numbers are hexadecimal f64, so nothing is lost in decimal.
"""

import json
import random
from pathlib import Path

from mpmath import cos, log, mp, mpf, pi, sin

FILE = Path(__file__).resolve().parent.parent / "fixtures" / "base" / "detmath.json"


def angles(rng):
    """Random angles of all sizes, and those close to multiples of pi/2, where reduction is hardest."""
    out = [0.0, 1.0, -1.0, 0.5, 2.0**40, -(2.0**40), 2.0**-30]
    out += [rng.uniform(-1, 1) * 2.0 ** rng.uniform(-20, 40) for _ in range(120)]
    out += [float(n * pi / 2) for n in (1, 2, 3, 4, 5, 355, 1 << 20, (1 << 30) + 1, 573204, 6381956970095103 >> 13)]
    out += [float((n + mpf(1) / 2) * pi / 2) for n in (0, 1, 2, 3, 1000, 1 << 24)]
    return out


def main():
    mp.prec = 200
    rng = random.Random(7)
    xs = angles(rng)
    logs = [1.0, 2.0, 0.5, 3.0, 10000.0, 500000.0, 1e6, 2.0**-1022, 1.7976931348623157e308, 1.0000000000000002, 0.9999999999999999]
    logs += [2.0 ** rng.uniform(-1000, 1000) for _ in range(60)] + [rng.uniform(0.7, 1.5) for _ in range(40)]
    exps = [0.0, 1.0, -1.0, 0.5, -0.5, 1023.0, 1023.999, -1022.0, 2.0**-40] + [rng.uniform(-1022, 1023) for _ in range(100)]
    rows = {
        "cos": [[x, cos(mpf(x))] for x in xs],
        "sin": [[x, sin(mpf(x))] for x in xs],
        "log2": [[x, log(mpf(x), 2)] for x in logs],
        "exp2": [[x, mpf(2) ** mpf(x)] for x in exps],
    }
    text = {k: [[float(a).hex(), float(b).hex()] for a, b in v] for k, v in rows.items()}
    FILE.parent.mkdir(parents=True, exist_ok=True)
    body = ",\n".join(f' "{k}": [\n' + ",\n".join("  " + json.dumps(r) for r in v) + "\n ]" for k, v in text.items())
    FILE.write_text("{\n" + body + "\n}\n")


if __name__ == "__main__":
    main()
