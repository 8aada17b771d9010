#!/usr/bin/env bash
# Every linear kernel alone, from the table that also drives its tests: checkkern --bench (builds it; needs cmocka's headers).
set -eu
cd "$(dirname "$0")/.."
tools/need_packages.sh test
cmake -S . -B build/bench -DCMAKE_BUILD_TYPE=Release >build/bench.log 2>&1 || { tail -20 build/bench.log; exit 1; }
cmake --build build/bench --target checkkern >>build/bench.log 2>&1 || { tail -20 build/bench.log; exit 1; }
build/bench/tests/native/checkkern --bench
