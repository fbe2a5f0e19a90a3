#!/bin/sh
# tidy.sh ROOT BUILD [ROOM...]: clang-tidy, with the checks of .clang-tidy, on the C files of the rooms that BUILD compiles.
set -eu
root=$1 build=$2
shift 2
command -v clang-tidy > /dev/null || { echo "clang-tidy is missing, not checked (apt-get install clang-tidy)"; exit 77; }
[ -f "$build/compile_commands.json" ] || { echo "$build has no compile_commands.json, not checked"; exit 77; }
cd "$root"
[ $# -gt 0 ] || set -- kernels/base kernels/cublas kernels/cuda engine faults golden harness
for room in "$@"; do
    find "$room" -name '*.c'
done | sort -u | while read -r file; do
    ! grep -q "/$file\"" "$build/compile_commands.json" || echo "$file"
done | xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p "$build" \
    --extra-arg=-include --extra-arg="$root/tests/house/tidy_hints.h" --warnings-as-errors='*' 2> /dev/null
