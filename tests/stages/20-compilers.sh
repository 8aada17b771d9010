#!/usr/bin/env bash
# The same bits from other compilers and optimisation levels: clang at -O3, gcc without optimisation. The digests of operators
# and models, and the native backend against the reference. Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
. tests/stage_lib.sh
tests="test_exact_ops test_exact_models test_native_ops test_native_executor"

build build/clang-O3 "$tests" -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O3
for t in exact_ops exact_models; do count "clang -O3 $t" build/clang-O3/tests/reference/test_$t; done
for t in native_ops native_executor; do count "clang -O3 $t" build/clang-O3/tests/native/test_$t; done

build build/gcc-O0 "$tests" -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0
for t in exact_ops exact_models; do count "gcc -O0 $t" build/gcc-O0/tests/reference/test_$t; done
count "gcc -O0 native_ops" build/gcc-O0/tests/native/test_native_ops
for t in "${executor_tests[@]}"; do count "gcc -O0 native_executor $t" build/gcc-O0/tests/native/test_native_executor "$t"; done
finish
