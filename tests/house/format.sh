#!/bin/sh
# format.sh ROOT: every C file is as clang-format leaves it. Other versions break lines elsewhere, so only one is asked.
set -eu
version=14
. "$(dirname "$0")/sources.sh"
cd "$1"
for tool in clang-format-$version clang-format none; do
    [ "$tool" != none ] || { echo "clang-format $version is missing, formatting not checked (apt-get install clang-format)"; exit 77; }
    if command -v "$tool" > /dev/null && "$tool" --version | grep -q "version $version\."; then break; fi
done
c_files . | {
    bad=0
    while read -r file; do
        "$tool" "$file" | cmp -s - "$file" || { echo "$file: not as $tool leaves it; run: $tool -i $file"; bad=1; }
    done
    exit $bad
}
