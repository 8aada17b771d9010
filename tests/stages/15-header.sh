#!/usr/bin/env bash
# The public header compiles alone, as the languages that may include it. Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
pass=0 fail=0
try() { # name, command...
    local name=$1
    shift
    if "$@" -Wall -Wextra -Werror -fsyntax-only include/lockstep.h; then pass=$((pass + 1)); else fail=$((fail + 1)); echo "FAIL include/lockstep.h as $name"; fi
}
try C11 cc -std=c11 -Wpedantic -x c
try C17 cc -std=c17 -Wpedantic -x c
if command -v c++ >/dev/null; then try C++17 c++ -std=c++17 -x c++; fi

echo "$pass passed, $fail failed"
[ "$fail" -eq 0 ]
