#!/bin/sh
# lengths.sh ROOT: no source file is longer than what one sitting can read.
set -eu
limit=500
. "$(dirname "$0")/sources.sh"
cd "$1"
source_files . | xargs awk -v limit=$limit '
    FNR == limit + 1 { print FILENAME ": more than " limit " lines; split it by what changes together"; bad = 1 }
    END { exit bad }'
