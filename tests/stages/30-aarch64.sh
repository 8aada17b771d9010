#!/usr/bin/env bash
# The same bits on AArch64: a cross build, run by qemu-user with every instruction it knows. The digests of operators and models,
# the kernels of every level and the native backend against the reference, and the level that the command line takes on three
# processors. Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
. tests/stage_lib.sh
if [ "$(uname -m)" = aarch64 ]; then
    echo "this machine is AArch64: the unit tests are this stage"
    echo "1 passed, 0 failed"
    exit 0
fi
build build/aarch64 "test_detmath test_exact_ops test_exact_models test_native_ops test_native_executor test_topology checkkern lockstep_cli" \
    -DCMAKE_TOOLCHAIN_FILE="$PWD/tools/aarch64.cmake" -DCMAKE_BUILD_TYPE=Release
for t in base/test_detmath reference/test_exact_ops reference/test_exact_models native/test_native_ops native/test_topology; do
    count "AArch64 $(basename $t)" qemu-aarch64 -cpu max build/aarch64/tests/$t
done
LS_REQUIRE_LEVELS=neon,neon-dotprod,neon-i8mm \
    count "AArch64 checkkern" qemu-aarch64 -cpu max build/aarch64/tests/native/checkkern --only neon
for t in "${executor_tests[@]}"; do count "AArch64 native_executor $t" qemu-aarch64 -cpu max build/aarch64/tests/native/test_native_executor "$t"; done

# answer CPU OPTIONS...: the digest of the logits and the level that ran.
answer() {
    local cpu=$1
    shift
    qemu-aarch64 -cpu "$cpu" build/aarch64/bin/lockstep generate fixtures/models/llama --json --ids 1,2,3,5,7,11 -n 4 "$@" |
        grep -oE '"(level|logits_sha256)": *"[^"]*"' | sed -E 's/.*"([^"]*)"$/\1/' | paste -sd ' '
}

# takes CPU LEVEL: its best level is LEVEL, and the answer that of portable C; likewise of levels at random.
takes() {
    local cpu=$1 level=$2 got want
    got="$(answer "$cpu") $(answer "$cpu" --level random)"
    want=$(answer "$cpu" --level c | cut -d ' ' -f 1)
    want="$want $level $want random"
    if [ "$got" = "$want" ] && [ ${#want} -gt 128 ]; then
        echo "ok   AArch64 $cpu: $level"
        pass=$((pass + 1))
    else
        printf 'FAIL AArch64 %s:\n  got  %s\n  want %s\n' "$cpu" "$got" "$want"
        fail=$((fail + 1))
    fi
}
takes cortex-a53 neon
takes neoverse-n1 neon-dotprod
takes max neon-i8mm
finish
