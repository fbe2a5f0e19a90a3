#!/bin/sh
# run-case.sh NAME: runs NAME.sh in a fresh folder with a fresh HOME and cache, and compares what it did with the files
# beside it:
#   NAME.exit            the exit status; without the file 0
#   NAME.stdout.exact    standard output, byte for byte        (NAME.stderr.exact likewise)
#   NAME.stdout.glob     shell pattern; a line `...` stands for any text
#   NAME.stdout.ignore   anything; without any of these three files it must be empty
# Environment of the case: INQUEST (the binary), CASES (this folder), IQ_TEST_MODEL where a model is there, and
# helpers.sh to source. A case that exits 77 is skipped; what it printed says why.
set -eu
CASES=$(cd "$(dirname "$0")" && pwd)
case=$CASES/$1
: "${INQUEST:?the path of the inquest binary}"
top=$(mktemp -d "${TMPDIR:-/tmp}/inquest-cli-XXXXXX")
trap 'rm -rf "$top"' EXIT
mkdir "$top/work" "$top/home"
export CASES INQUEST HOME="$top/home"
unset INQUEST_CACHE XDG_CACHE_HOME XDG_CONFIG_HOME COLUMNS 2> /dev/null || :
rc=0
(cd "$top/work" && sh -eu "$case.sh") > "$top/stdout" 2> "$top/stderr" < /dev/null || rc=$?
if [ $rc = 77 ]; then
    cat "$top/stdout" "$top/stderr"
    exit 77
fi
bad=0
want=0
[ ! -f "$case.exit" ] || want=$(cat "$case.exit")
[ $rc = "$want" ] || { echo "exit status: found $rc, expected $want"; bad=1; }
for stream in stdout stderr; do
    got=$top/$stream
    if [ -f "$case.$stream.exact" ]; then
        diff -u "$case.$stream.exact" "$got" || bad=1
    elif [ -f "$case.$stream.glob" ]; then
        pattern=$(sed 's/^\.\.\.$/*/' "$case.$stream.glob")
        text=$(cat "$got")
        # The pattern is meant to be one.
        # shellcheck disable=SC2254
        case $text in $pattern) ;; *)
            printf '%s: found\n%s\n%s: expected the pattern\n%s\n' "$stream" "$text" "$stream" "$pattern"
            bad=1
            ;;
        esac
    elif [ ! -f "$case.$stream.ignore" ] && [ -s "$got" ]; then
        echo "$stream: found this, expected nothing"
        cat "$got"
        bad=1
    fi
done
[ $bad = 0 ] || [ ! -s "$top/stderr" ] || { echo "standard error was:"; cat "$top/stderr"; }
exit $bad
