#!/usr/bin/env bash
# The unit tests under AddressSanitizer and UndefinedBehaviorSanitizer. Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
. tests/stage_lib.sh
export ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1

# The build of 50-fuzz.sh as well.
build build/sanitize all -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O1 -DLS_FUZZ=ON -DLS_SANITIZE=address,undefined
for t in build/sanitize/tests/*/test_*; do
    # The tokenizers' megabyte inputs take many minutes here; fuzz_tokenizer runs the same code under the same sanitizers.
    case $t in *test_native_executor | *test_real_models | *test_resident | *test_tokenizer*) continue ;; esac
    # test_vision and test_vision_goldens run the same code.
    case $t in *test_vision_heldout) continue ;; esac
    # These spend minutes in device compilers that are not instrumented, or on a thousand module texts; test_pjrt and the models
    # below run the same code of ours. IREE's compiler leaks.
    case $t in *test_xla_* | *test_oracle_engines | *test_iree | *test_emit*) continue ;; esac
    [ -f "$t" ] && [ -x "$t" ] && count "address,undefined $(basename "$t")" "$t"
done
for t in "${executor_tests[@]}"; do count "address,undefined native_executor $t" build/sanitize/tests/native/test_native_executor "$t"; done
plugin=.cache/plugins/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so
[ -f "$plugin" ] && count "address,undefined xla_models" build/sanitize/tests/xla/test_xla_models "$plugin" single exact16 =llama =gemma2 =qwen2_moe =stablelm

finish
