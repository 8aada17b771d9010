#!/usr/bin/env bash
# lockstep beside llama.cpp on the same files and threads: decode and 512-token prefill. Usage: compare_llama.sh MODEL.gguf ...
# The first run builds llama-cpp-python in .cache/llama-cpp (some minutes, a C++ compiler). Its build gets the instruction sets
# that the system reports: one that asks the processor itself can use some that a virtual machine then refuses.
set -eu
cd "$(dirname "$0")/.."
version=0.3.36 place=$PWD/.cache/llama-cpp lockstep=${LOCKSTEP:-build/release/bin/lockstep}

options=-DGGML_NATIVE=OFF
has() { grep -m1 -E '^(flags|Features)' /proc/cpuinfo | grep -qw "$1"; }
if [ "$(uname -m)" = x86_64 ]; then
    for pair in avx:AVX avx2:AVX2 fma:FMA f16c:F16C bmi2:BMI2 avx512bw:AVX512 avx512vbmi:AVX512_VBMI avx512_vnni:AVX512_VNNI avx512_bf16:AVX512_BF16; do
        if has "${pair%:*}"; then options+=" -DGGML_${pair#*:}=ON"; else options+=" -DGGML_${pair#*:}=OFF"; fi
    done
else
    options=-DGGML_NATIVE=ON
fi
if [ ! -e "$place/built-$version" ]; then
    echo "Building llama-cpp-python $version ($options) ..."
    rm -rf "$place"
    mkdir -p "$place"
    CMAKE_ARGS="$options -DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF" python3 -m pip install --quiet --no-cache-dir --target "$place" \
        --no-binary llama-cpp-python "llama-cpp-python==$version" >"$place.log" 2>&1 || { tail -20 "$place.log"; exit 1; }
    touch "$place/built-$version"
fi
for model in "$@"; do
    for threads in $(printf '1\n%s\n' "$(nproc)" | sort -nu); do PYTHONPATH=$place python3 bench/compare_llama.py "$lockstep" "$model" --threads "$threads" --rounds 5; done
done
