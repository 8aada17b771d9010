#!/usr/bin/env bash
# The native executor and the session under ThreadSanitizer. Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
. tests/stage_lib.sh
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

build build/tsan "test_native_executor test_share test_session test_chat" -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O1 -DLS_SANITIZE=thread
for t in "${executor_tests[@]}" test_experts; do count "thread native_executor $t" build/tsan/tests/native/test_native_executor "$t"; done
count "thread share" build/tsan/tests/native/test_share
for t in session chat; do count "thread $t" build/tsan/tests/session/test_$t; done

finish
