#!/bin/sh
# words.sh ROOT: no path of somebody's machine, no unfinished work, no exit and no printing where they do not belong.
set -eu
. "$(dirname "$0")/sources.sh"
cd "$1"
bad=0
# refuse PATTERN REASON, file names on standard input
refuse() {
    if xargs grep -nE "$1" /dev/null; then
        echo "  ^ $2"
        bad=1
    fi
}
source_files . | grep -v '^tests/house/' > "${TMPDIR:-/tmp}/words.$$"
trap 'rm -f "${TMPDIR:-/tmp}/words.$$"' EXIT
list=${TMPDIR:-/tmp}/words.$$
refuse '(^|[^[:alnum:]_.$}])/(work|root|home)/' 'a path of one machine' < "$list"
refuse '"/tmp/[^"]*[^X"]"' 'a fixed name in /tmp: use mkdtemp or mktemp' < "$list"
refuse '\b(TODO|FIXME)\b' 'unfinished work' < "$list"
grep -E '\.(c|h)$' "$list" | grep -vE '^(tests/|harness/main\.c$)' > "$list.c" || :
refuse '(^|[^_[:alnum:]])exit\(' 'only harness/main.c exits' < "$list.c"
grep -v '^harness/' "$list.c" > "$list.low" || :
refuse '(^|[^_[:alnum:]])(printf|puts|putchar|perror)\(|(^|[^._[:alnum:]])(stdout|stderr)\b' 'only harness prints' < "$list.low"
rm -f "$list.c" "$list.low"
exit $bad
