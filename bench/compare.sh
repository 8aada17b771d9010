#!/usr/bin/env bash
# lockstep beside other engines on the same files and threads (compare.py says what and how). Usage: compare.sh [OPTIONS] [shapes] MODEL ...
# The word "shapes" adds random weights in the shape of Llama-3.2-1B as Q4_0, Q8_0 and F16, made in .cache/shapes (4.4 GB; numpy, gguf).
# OpenVINO GenAI and ONNX Runtime GenAI take part when OPENVINO_PYTHON and ORT_PYTHON name Pythons that have them. Without shapes, the greedy tokens of
# every engine are compared with those of the f32 reference.
# The first run builds llama-cpp-python in .cache/llama-cpp (some minutes, a C++ compiler). Its build gets the instruction sets
# that the system reports: one that asks the processor itself can use some that a virtual machine then refuses.
set -eu
case ${1:-} in -h | --help) sed -n '2,/^set/{/^set/!s/^# //p}' "$0"; exit ;; esac
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
if [ -z "${LLAMA_PYTHON:-}" ] && [ ! -e "$place/built-$version" ]; then
    echo "Building llama-cpp-python $version ($options) ..."
    rm -rf "$place"
    mkdir -p "$place"
    CMAKE_ARGS="$options -DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF" python3 -m pip install --quiet --no-cache-dir --target "$place" \
        --no-binary llama-cpp-python "llama-cpp-python==$version" >"$place.log" 2>&1 || { tail -20 "$place.log"; exit 1; }
    touch "$place/built-$version"
fi
peers=llama.cpp${OPENVINO_PYTHON:+,openvino}${ORT_PYTHON:+,ort} greedy=--greedy arguments=()
for word in "$@"; do
    if [ "$word" = shapes ]; then
        python3 bench/make_shape.py .cache/shapes q4_0 q8_0 f16
        greedy=
        arguments+=(.cache/shapes/llama1b-{q4_0,q8_0,f16}.gguf)
    else
        arguments+=("$word")
    fi
done
LLAMA_PYTHON=${LLAMA_PYTHON:-python3} LLAMA_PYTHONPATH=$place python3 bench/compare.py --lockstep "$lockstep" --peers "$peers" $greedy "${arguments[@]}"
