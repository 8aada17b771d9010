# For the scripts of tests/stages that build the project another way: building, running cmocka programs, counting. Source it
# from the repository's root; a stage ends with `finish`.
pass=0 fail=0

# build FOLDER TARGETS CMAKE_OPTIONS...: configures and builds the space-separated targets; on failure shows the log's end and
# ends the stage. The folder is reused.
build() {
    local folder=$1 targets=$2 log=$1.log
    shift 2
    mkdir -p build
    # shellcheck disable=SC2086
    if ! { cmake -S . -B "$folder" -G Ninja -DLS_WERROR=ON "$@" && cmake --build "$folder" --target $targets; } >"$log" 2>&1; then
        echo "FAIL build of $folder"
        grep -E 'error|FAILED' "$log" | head -20
        tail -20 "$log"
        fail=$((fail + 1))
        finish
    fi
}

# count NAME COMMAND...: runs a cmocka program and adds its passed tests one by one; shows its output when it fails. At most
# 20 minutes.
count() {
    local name=$1 log rc=0 start=$SECONDS n
    shift
    log=$(mktemp)
    timeout 1200 "$@" >"$log" 2>&1 || rc=$?
    n=$(grep -cF '[       OK ]' "$log")
    if [ "$rc" -eq 0 ] && [ "$n" -gt 0 ]; then
        echo "ok   $name: $n tests, $((SECONDS - start)) s"
    else
        echo "FAIL $name: exit code $rc, $n tests passed"
        tail -60 "$log"
        fail=$((fail + 1))
    fi
    pass=$((pass + n))
    rm -f "$log"
}

# The tests of test_native_executor that fit slow builds and emulators: decoding against the reference, errors, memory.
executor_tests=(test_truncate test_errors_change_nothing test_creation_errors test_progress_and_memory test_warm_decode_allocates_nothing)

finish() {
    echo "$pass passed, $fail failed"
    [ "$fail" -eq 0 ]
    exit
}
