#!/usr/bin/env bash
# Every fuzz target for a minute (of src/media: half of that) on its committed seeds and the fixtures it can read, under AddressSanitizer and UndefinedBehaviorSanitizer, two at a time.
# One passed test per target. LS_FUZZ_SECONDS: time per target. Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
. tests/stage_lib.sh
seconds=${LS_FUZZ_SECONDS:-60}
export ASAN_OPTIONS=allocator_may_return_null=1
targets=(weights/fuzz_safetensors weights/fuzz_gguf weights/fuzz_config text/fuzz_tokenizer text/fuzz_template session/fuzz_pack
    media/fuzz_png media/fuzz_jpeg media/fuzz_webp media/fuzz_processor)

build build/sanitize "$(printf '%s ' "${targets[@]#*/}")" -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O1 -DLS_FUZZ=ON \
    -DLS_SANITIZE=address,undefined
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fixtures FOLDER FILES...: copies fixtures of one name in several folders, as seeds called after their folders.
fixtures() {
    local to=$work/$1 f
    shift
    mkdir -p "$to"
    for f in "$@"; do cp "$f" "$to/$(basename "$(dirname "$f")")"; done
}
fixtures config-seeds fixtures/models/*/config.json
fixtures tokenizer-seeds fixtures/text/tokenizer/sp_*/tokenizer.model
mkdir -p "$work"/{png,jpeg,webp}-seeds
cp fixtures/media/images/*.png "$work/png-seeds"
cp fixtures/media/images/*.jpg "$work/jpeg-seeds"
cp fixtures/media/images/*.webp "$work/webp-seeds"

# New inputs go to a scratch folder, so that the committed seeds stay as they are.
fuzz() {
    local name=${1#*/fuzz_} time=$seconds
    case $1 in media/*) time=$(((seconds + 1) / 2)) ;; esac
    mkdir -p "$work/$name" "$work/$name-seeds"
    "build/sanitize/tests/$1" -max_total_time="$time" -timeout=10 -rss_limit_mb=2048 -artifact_prefix="build/fuzz-$name-" \
        "$work/$name" "fixtures/fuzz/$name" "$work/$name-seeds" >"$work/$name.log" 2>&1
}
wait_for() { # job, target
    local name=${2#*/fuzz_}
    if wait "$1"; then
        pass=$((pass + 1))
        echo "ok   fuzz_$name: $(grep -E 'Done [0-9]+ runs' "$work/$name.log")"
    else
        fail=$((fail + 1))
        echo "FAIL fuzz_$name"
        tail -40 "$work/$name.log"
    fi
}
for ((i = 0; i < ${#targets[@]}; i += 2)); do
    first=${targets[i]} second=${targets[i + 1]:-}
    fuzz "$first" &
    a=$!
    if [ -n "$second" ]; then
        fuzz "$second" &
        b=$!
    fi
    wait_for $a "$first"
    [ -z "$second" ] || wait_for $b "$second"
done
finish
