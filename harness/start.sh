#!/bin/sh
# sh harness/start.sh              set-up, build, run the main job on the canary, which is inside the binary
# sh harness/start.sh ARGUMENTS    set-up, build, then `inquest ARGUMENTS`
# Root, or a user with sudo that asks no password, gets missing Debian packages installed; anyone else is told the one
# line that installs them (exit status 2). What set-up says goes to standard error.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/harness/setup.sh"
setup_packages
setup_build release inquest
inquest=$root/build/release/harness/inquest
if [ $# -gt 0 ]; then exec "$inquest" "$@"; fi
"$inquest" doctor --optional >&2
exec "$inquest" replay anthropic-2025-09-topk
