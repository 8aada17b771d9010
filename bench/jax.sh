#!/usr/bin/env bash
# Backend xla beside JAX on the same PJRT plugin: decode step, compile time, cache hits (compare_jax.py says how).
#   bench/jax.sh MODEL.gguf      needs the plugins of tools/fetch_plugins.py; fetches JAX into .cache/bench-jax
set -eu
[ $# -eq 1 ] || { echo "Usage: bench/jax.sh MODEL.gguf" >&2; exit 2; }
case $1 in /*) model=$1 ;; *) model=$PWD/$1 ;; esac
cd "$(dirname "$0")/.."
plugin=.cache/plugins/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so
if [ "$(uname -m)" != x86_64 ]; then
    echo "bench/jax.sh: the CPU plugins on PyPI are for x86-64 only; nothing to compare"
    exit 0
fi
[ -f "$plugin" ] || tools/fetch_plugins.py
place=.cache/bench-jax
if [ ! -e "$place/ready" ]; then
    echo "Fetching jax 0.10.2 ..."
    rm -rf "$place"
    python3 -m pip install --quiet --target "$place" jax==0.10.2 jaxlib==0.10.2 gguf==0.19.0 numpy
    touch "$place/ready"
fi
PYTHONPATH=$place python3 bench/compare_jax.py "${LOCKSTEP:-build/release/bin/lockstep}" "$model" "$PWD/$plugin"
