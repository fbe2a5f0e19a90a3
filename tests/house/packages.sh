#!/bin/sh
# packages.sh ROOT: what CMake asks pkg-config for, harness/setup.sh installs.
set -eu
. "$(dirname "$0")/sources.sh"
cd "$1"
{ echo CMakeLists.txt; source_files . | grep 'CMakeLists\.txt$'; } |
    xargs sed -n 's/^ *pkg_check_modules( *[A-Z0-9_]* REQUIRED IMPORTED_TARGET \(.*\))/\1/p' | tr ' ' '\n' | sort -u |
    {
        bad=0
        while read -r module; do
            grep -q " pc $module\$" harness/setup.sh && continue
            echo "harness/setup.sh installs nothing for pkg-config's $module; add its package to setup_needs"
            bad=1
        done
        exit $bad
    }
