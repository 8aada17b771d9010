"""Makes fixtures/models/rotary.json: inverse frequencies and amplitudes of rotary tables as transformers computes them.

    python tools/make_rotary_golden.py          (packages: transformers 4.57.6, torch 2.13.0)

Frequencies are f32 bit patterns; the amplitude is a hexadecimal f64.
"""

import json
from pathlib import Path

import numpy as np
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

FILE = Path(__file__).resolve().parent.parent / "fixtures" / "models" / "rotary.json"
LLAMA31 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
PHI_SHORT = [1.0 + 0.01 * i for i in range(48)]
PHI_LONG = [1.0 + 0.75 * i for i in range(48)]
LONGROPE = dict(type="longrope", short_factor=PHI_SHORT, long_factor=PHI_LONG)

# name, head_dim, theta, rope_scaling, max_position_embeddings, original_max_position_embeddings, context
CASES = [
    ("default", 64, 10000.0, None, 2048, None, 0),
    ("qwen2", 128, 1000000.0, None, 32768, None, 0),
    ("smollm2", 64, 100000.0, dict(rope_type="default"), 8192, None, 0),
    ("linear", 256, 1000000.0, dict(type="linear", factor=8.0), 131072, None, 0),
    ("llama3.1", 128, 500000.0, LLAMA31, 131072, None, 0),
    ("llama3.2", 64, 500000.0, {**LLAMA31, "factor": 32.0}, 131072, None, 0),
    ("dynamic", 128, 50000000.0, dict(rope_type="dynamic", factor=6.0), 32768, None, 32768),
    ("yarn", 128, 1000000.0, dict(type="yarn", factor=4.0, original_max_position_embeddings=32768), 131072, None, 0),
    ("yarn_mscale", 64, 10000.0, dict(rope_type="yarn", factor=40.0, original_max_position_embeddings=4096, mscale=1.0, mscale_all_dim=0.7,
                                      beta_fast=16.0, beta_slow=2.0), 163840, None, 0),
    ("yarn_no_truncate", 64, 150000.0, dict(rope_type="yarn", factor=32.0, original_max_position_embeddings=4096, truncate=False),
     131072, None, 0),
    ("yarn_factor", 128, 1000000.0, dict(rope_type="yarn", factor=2.0, attention_factor=0.9), 32768, None, 0),
    ("longrope_short", 96, 10000.0, LONGROPE, 131072, 4096, 4096),
    ("longrope_long", 96, 10000.0, LONGROPE, 131072, 4096, 4097),
    ("longrope_whole", 96, 10000.0, LONGROPE, 131072, 4096, 0),
]


def table(head_dim, theta, scaling, longest, original, context):
    config = transformers.LlamaConfig(hidden_size=head_dim, num_attention_heads=1, head_dim=head_dim, rope_theta=theta,
                                      max_position_embeddings=longest)
    config.rope_scaling = scaling
    if original:
        config.original_max_position_embeddings = original
    kind = (scaling or {}).get("rope_type", (scaling or {}).get("type", "default"))
    return ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=context or longest)


def main():
    rows = []
    for name, head_dim, theta, scaling, longest, original, context in CASES:
        freq, amplitude = table(head_dim, theta, scaling, longest, original, context)
        config = {"rope_theta": theta, "max_position_embeddings": longest, "rope_scaling": scaling}
        if original:
            config["original_max_position_embeddings"] = original
        bits = [int(v) for v in freq.numpy().astype(np.float32).view(np.uint32)]
        rows.append({"name": name, "head_dim": head_dim, "config": config, "context": context, "bits": bits,
                     "amplitude": float(amplitude).hex()})
    FILE.write_text("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")


if __name__ == "__main__":
    main()
