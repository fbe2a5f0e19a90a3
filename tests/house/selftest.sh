#!/bin/sh
# selftest.sh: the house's own checks refuse what they are for.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

# refuses CHECK FILE TEXT: alone in a tree, FILE with this text is refused; a harmless one is not.
refuses() {
    rm -rf "${tree:?}"/*
    mkdir -p "$tree/$(dirname "$2")"
    printf 'int iq_nothing;\n' > "$tree/$2"
    sh "$here/$1.sh" "$tree" > /dev/null || { echo "$1 refuses a clean $2"; failed=1; }
    printf '%b' "$3" > "$tree/$2"
    if sh "$here/$1.sh" "$tree" > /dev/null 2>&1; then echo "$1 lets $2 pass"; failed=1; fi
}

refuses includes kernels/base/a.c '#include "kernels/op.h"\n'
refuses includes kernels/a.c '#include "engine/engine.h"\n'
refuses includes engine/a.c '#include "faults/faultset.h"\n'
refuses includes golden/sub/a.h '#  include "kernels/op.h"\n'
refuses includes harness/a.c '#include "tests/a.h"\n'
refuses includes harness/a.c '#include "a.h"\n'
refuses lengths engine/a.c "$(awk 'BEGIN { for (i = 0; i < 501; i++) printf "\\n" }')"
refuses words engine/a.c '/* see /work/main */\n'
refuses words tests/a.c 'char *p = "/tmp/store";\n'
refuses words faults/a.c '/* TODO */\n'
refuses words harness/cli/a.c 'void f(void) { exit(1); }\n'
refuses words golden/a.c 'void f(void) { printf("x"); }\n'
rm -rf "${tree:?}"/*
mkdir "$tree/harness"
echo 'liblmdb-dev pc lmdb' > "$tree/harness/setup.sh"
echo 'pkg_check_modules(LMDB REQUIRED IMPORTED_TARGET lmdb)' > "$tree/CMakeLists.txt"
sh "$here/packages.sh" "$tree" || { echo "packages refuses what setup.sh installs"; failed=1; }
echo 'pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)' >> "$tree/CMakeLists.txt"
! sh "$here/packages.sh" "$tree" > /dev/null || { echo "packages lets an unknown module pass"; failed=1; }
rc=0
sh "$here/format.sh" "$tree" > /dev/null 2>&1 || rc=$?
if [ $rc != 77 ]; then
    cp "$here/../../.clang-format" "$tree/"
    refuses_format() { refuses format harness/a.c 'int  iq_x ;\n'; }
    rm -rf "${tree:?}/golden"
    refuses_format
fi
exit $failed
