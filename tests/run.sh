#!/bin/sh
# sh tests/run.sh [release|asan|tsan] [CTEST-ARGUMENTS]
# Set-up, build, fetch the model, run the tests. Without arguments for ctest all tests but those labelled `exhaustive`
# run. Where the model cannot be had, the tests that need it are shown as skipped. Exit status: ctest's, or 2.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/harness/setup.sh"
preset=release
case ${1:-} in release | asan | tsan)
    preset=$1
    shift
    ;;
esac
setup_packages
setup_build "$preset" all
sed -n 's/^-- CUDA: /set-up: CUDA: /p' "$root/build/$preset/configure.log" >&2
inquest=$root/build/$preset/harness/inquest
"$inquest" doctor --optional >&2
if [ ! "${IQ_TEST_MODEL:-}" ]; then
    if IQ_TEST_MODEL=$("$inquest" model fetch smollm2); then
        export IQ_TEST_MODEL
    else
        unset IQ_TEST_MODEL
        setup_say "no model, so the tests that need it are skipped"
    fi
fi
[ $# -gt 0 ] || set -- -LE exhaustive
exec ctest --test-dir "$root/build/$preset" --output-on-failure -j2 "$@"
