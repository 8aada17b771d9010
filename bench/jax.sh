#!/usr/bin/env bash
# Backend xla beside JAX on the same PJRT plugin: decode step, compile time, cache hits (compare_jax.py says how).
#   bench/jax.sh MODEL.gguf      needs the plugins of tools/fetch_plugins.py; makes a Python environment in .cache/bench
set -eu
cd "$(dirname "$0")/.."
plugin=.cache/plugins/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so
if [ "$(uname -m)" != x86_64 ]; then
    echo "bench/jax.sh: the CPU plugins on PyPI are for x86-64 only; nothing to compare"
    exit 0
fi
[ -f "$plugin" ] || tools/fetch_plugins.py
if [ ! -x .cache/bench/bin/python ]; then
    python3 -m venv .cache/bench
    .cache/bench/bin/pip install -q jax==0.10.2 jaxlib==0.10.2 gguf==0.19.0 numpy
fi
.cache/bench/bin/python bench/compare_jax.py build/release/bin/lockstep "$1" "$PWD/$plugin"
