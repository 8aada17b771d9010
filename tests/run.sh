#!/usr/bin/env bash
# The whole suite: build with warnings as errors, the unit tests, then every script of tests/stages in order. A stage prints
# `N passed, N failed` as its last such line; this script adds them up, prints one closing line and fails if any stage did.
#   tests/run.sh [stage ...]    only these stages (without .sh)
set -u
cd "$(dirname "$0")/.."
export LS_TEST_BUILD=${LS_TEST_BUILD:-$PWD/build/test}
export LS_LOCKSTEP=$LS_TEST_BUILD/bin/lockstep
passed=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Runs a command, shows its output, and adds its counts. A command that fails or that counts nothing is a failure.
stage() {
    local name=$1
    shift
    echo "== $name"
    "$@" 2>&1 | tee "$log"
    local rc=${PIPESTATUS[0]} line
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -1)
    local p=${line%% passed*} f=${line#*passed, }
    f=${f%% failed*}
    if [ -z "$line" ]; then
        p=0 f=1
        echo "$name: no count of passed and failed tests"
    elif [ "$rc" -ne 0 ] && [ "$f" -eq 0 ]; then
        f=1
        echo "$name: exit code $rc"
    fi
    passed=$((passed + p)) failed=$((failed + f))
}

build() {
    cmake -S . -B "$LS_TEST_BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLS_WERROR=ON >"$LS_TEST_BUILD.log" 2>&1 &&
        cmake --build "$LS_TEST_BUILD" >>"$LS_TEST_BUILD.log" 2>&1
}

# ctest's programs. Passed tests are counted one by one (cmocka, unittest), failures by program.
unit() {
    local out="$LS_TEST_BUILD/ctest.log" all="$LS_TEST_BUILD/Testing/Temporary/LastTest.log" rc=0 p f
    ctest --test-dir "$LS_TEST_BUILD" --output-on-failure -j "$(nproc)" --timeout 1200 -O "$out" >/dev/null 2>&1 || rc=$?
    grep -E '^ *[0-9]+/[0-9]+ Test' "$out"
    f=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#.*(\*\*\*|Not Run)' "$out")
    [ "$f" -gt 0 ] && cat "$out"
    p=$(awk '/\[       OK \]/ {n++} /^Ran [0-9]+ tests? in/ {n += $2}
        /^(OK|FAILED) \(/ {while (match($0, /(skipped|failures|errors)=[0-9]+/)) {split(substr($0, RSTART, RLENGTH), x, "="); n -= x[2]; $0 = substr($0, RSTART + RLENGTH)}}
        END {print n + 0}' "$all")
    echo "$p passed, $f failed"
    return "$rc"
}

mkdir -p "$(dirname "$LS_TEST_BUILD")"
echo "== build (warnings are errors)"
if ! build; then
    tail -60 "$LS_TEST_BUILD.log"
    echo "0 passed, 1 failed"
    exit 1
fi
if [ $# -eq 0 ]; then
    stage unit unit
    set -- $(cd tests/stages && ls ./*.sh | sed 's|^\./||; s|\.sh$||' | sort)
fi
for name in "$@"; do stage "$name" bash "tests/stages/$name.sh"; done

echo
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
