#!/usr/bin/env bash
# The 896 x 896 tower pass of Gemma 3 4B's sizes, random weights, beside PyTorch f32 (compare_torch_vision.py says how). Fetches PyTorch for
# processors and makes the checkpoint (one text layer, 2.4 GB) under .cache on first use.
set -eu
cd "$(dirname "$0")/.."
place=.cache/bench-torch model=.cache/bench-gemma3-4b
if [ ! -e "$place/ready" ]; then
    echo "Fetching torch ..."
    rm -rf "$place"
    python3 -m pip install --quiet --target "$place" torch==2.13.0 numpy==2.4.6
    touch "$place/ready"
fi
if [ ! -e "$model/config.json" ]; then
    echo "Making $model ..."
    PYTHONPATH=$place python3 tools/make_gemma3_4b_random.py "$model" --text-layers 1
fi
PYTHONPATH=$place python3 bench/compare_torch_vision.py "${LOCKSTEP:-build/release/bin/lockstep}" "$model" --threads "$(nproc)"
