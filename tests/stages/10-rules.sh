#!/usr/bin/env bash
# Rules a compiler does not check: include direction between folders, banned calls, lengths, exported symbols.
# Prints one line per broken rule and `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
pass=0 fail=0
check() { # name, offending lines
    if [ -z "$2" ]; then pass=$((pass + 1)); else fail=$((fail + 1)); printf 'FAIL %s\n%s\n' "$1" "$2"; fi
}

# Layers, bottom to top: a folder includes itself and the folders before it.
layers=(base contract weights graph models text media reference native xla session verify server cli)
allowed() { # folder: prints the folders it may include
    case $1 in
        base) echo base ;;
        contract) echo base contract weights ;;
        weights) echo base weights ;;
        graph) echo base contract weights graph ;;
        models) echo base contract weights graph models ;;
        text) echo base text ;;
        media) echo base text media ;;
        reference) echo base contract weights graph reference ;;
        native) echo base contract weights graph reference native ;;
        session) echo base contract weights graph models text media native xla session ;;
        cli) echo base contract graph weights models text media native xla session verify cli ;;
        *) echo "${layers[@]}" ;;
    esac
}
for folder in $(ls src); do
    ok=$(allowed "$folder" | tr ' ' '|')
    bad=$(grep -rnoE '#include "[a-z_]+/' "src/$folder" --include='*.[ch]' --include='*.inc' | grep -vE "#include \"($ok)/" || true)
    check "layer of src/$folder" "$bad"
done

src=$(git ls-files 'src/*.c' 'src/*.h')
# libpng and libjpeg report errors by a jump only; setjmp stays in the two files that call them.
check "banned calls" "$(grep -nE '\b(strcpy|strcat|sprintf|strtok|atoi|rand|alloca|setjmp|system|gets)\(' $src | grep -vE '^src/media/decode_(png|jpeg)\.c:[0-9]+: .*\bsetjmp\(' || true)"
check "the C allocator outside src/base/alloc.c" "$(grep -nE '\b(malloc|calloc|realloc|free|aligned_alloc)\(' $src | grep -vE '^src/base/alloc.c:|^[^:]+:[0-9]+:.*(\* |/\*|//)' || true)"
check "print, exit or abort outside the command line" "$(grep -nE '\b(printf|fprintf|puts|exit|abort|perror)\(' $(git ls-files 'src/*.c' | grep -v '^src/cli/') | grep -v 'LS_PRINTF' || true)"
check "fast-math or native tuning" "$(git grep -nE 'ffast-math|Ofast|march=native|unsafe-math' -- CMakeLists.txt 'src/**/CMakeLists.txt' CMakePresets.json || true)"
check "files over 1200 lines" "$(wc -l $src | awk '$2 != "total" && $1 > 1200 {print $2 ": " $1}')"
check "lines over 160 columns" "$(awk 'length > 160 {print FILENAME ":" FNR ": " length}' $src)"
check "files without an opening comment" "$(for f in $src; do head -1 "$f" | grep -q '^/\*' || echo "$f"; done)"
check "tabs or trailing blanks" "$(grep -nP '\t|[ \t]+$' $src || true)"
check "every header guard is its own" "$(grep -hE '^#ifndef LS_|^#ifndef LOCKSTEP_H' $(git ls-files 'src/*.h' 'include/*.h') | sort | uniq -d)"

echo "$pass passed, $fail failed"
[ "$fail" -eq 0 ]
