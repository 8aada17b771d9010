#!/usr/bin/env bash
# The same bits on AArch64: a cross build, run by qemu-user with every instruction it knows. The digests of operators and models,
# and the kernels of every level and the native backend against the reference. Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
. tests/stage_lib.sh
if [ "$(uname -m)" = aarch64 ]; then
    echo "this machine is AArch64: the unit tests are this stage"
    echo "1 passed, 0 failed"
    exit 0
fi
build build/aarch64 "test_detmath test_exact_ops test_exact_models test_native_ops test_native_executor checkkern" \
    -DCMAKE_TOOLCHAIN_FILE="$PWD/tools/aarch64.cmake" -DCMAKE_BUILD_TYPE=Release
for t in base/test_detmath reference/test_exact_ops reference/test_exact_models native/test_native_ops; do
    count "AArch64 $(basename $t)" qemu-aarch64 -cpu max build/aarch64/tests/$t
done
LS_REQUIRE_LEVELS=neon,neon-dotprod,neon-i8mm \
    count "AArch64 checkkern" qemu-aarch64 -cpu max build/aarch64/tests/native/checkkern --only neon
for t in "${executor_tests[@]}"; do count "AArch64 native_executor $t" qemu-aarch64 -cpu max build/aarch64/tests/native/test_native_executor "$t"; done
finish
