#!/bin/sh
# includes.sh ROOT: includes never run upward or sideways, name a path from the root, and nothing includes tests.
set -eu
. "$(dirname "$0")/sources.sh"
cd "$1"
c_files . | while read -r file; do
    sed -n "s|^[[:space:]]*#[[:space:]]*include[[:space:]]*\"\([^\"]*\)\".*|$file \1|p" "$file"
done | awk '
    function room(path) {
        if (path ~ /^kernels\/base\//) return "base"
        return substr(path, 1, index(path, "/") - 1)
    }
    BEGIN {
        may["base"] = " base "
        may["kernels"] = " base kernels "
        may["engine"] = " base kernels engine "
        may["faults"] = " base kernels faults "
        may["golden"] = " base golden "
        may["probes"] = " base probes "
        may["harness"] = " base kernels engine faults golden probes harness "
        may["tests"] = may["harness"] "tests "
    }
    {
        from = room($1); to = room($2)
        if (!(to in may)) { print $1 ": includes \"" $2 "\", expected a path from the root"; bad = 1 }
        else if (!index(may[from], " " to " ")) { print $1 ": includes \"" $2 "\"; " from " may include only:" may[from]; bad = 1 }
    }
    END { exit bad }'
