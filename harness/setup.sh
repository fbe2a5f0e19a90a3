# shellcheck shell=sh disable=SC2154
# Set-up that harness/start.sh and tests/run.sh share; sourced by them with $root, the repository. POSIX sh.
# All it says goes to standard error, so that standard output stays the command's.

setup_say() { echo "set-up: $*" >&2; }
setup_stop() { setup_say "$*"; exit 2; }

# One line per need: the Debian (and Ubuntu) package, then what proves that it is there without dpkg:
# `cmd NAME` on PATH, `file NAME`, `pc NAME` for pkg-config, or `py NAME`, a Python module.
setup_needs() {
    cat << 'LIST'
gcc cmd gcc
g++ cmd g++
libc6-dev file /usr/include/stdio.h
cmake cmd cmake
ninja-build cmd ninja
pkg-config cmd pkg-config
liblmdb-dev pc lmdb
libcjson-dev pc libcjson
check pc check
libxxhash-dev pc libxxhash
libpcre2-dev pc libpcre2-8
libutf8proc-dev pc libutf8proc
libssl-dev pc libcrypto
ca-certificates file /etc/ssl/certs/ca-certificates.crt
python3 cmd python3
python3-jinja2 py jinja2
python3-pip py pip
LIST
}

setup_has() { # PACKAGE KIND NAME
    case $2 in
        cmd) command -v "$3" > /dev/null 2>&1 ;;
        file) [ -e "$3" ] ;;
        pc) command -v pkg-config > /dev/null 2>&1 && pkg-config --exists "$3" ;;
        py) python3 -c 'import importlib.util as u, sys; exit(not u.find_spec(sys.argv[1]))' "$3" 2> /dev/null ;;
    esac && return 0
    command -v dpkg-query > /dev/null 2>&1 || return 1
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2> /dev/null)" = installed ]
}

setup_missing() {
    setup_needs | while read -r package kind name; do
        setup_has "$package" "$kind" "$name" < /dev/null || printf ' %s' "$package"
    done
}

setup_packages() {
    packages=$(setup_missing)
    [ "$packages" ] || return 0
    command -v apt-get > /dev/null 2>&1 ||
        setup_stop "missing, by their Debian names:$packages; install them with this system's package manager"
    if [ "$(id -u)" = 0 ]; then
        as=
    elif command -v sudo > /dev/null 2>&1 && sudo -n true 2> /dev/null; then
        as='sudo -n'
    else
        setup_stop "packages are missing; as root run: apt-get update && apt-get install -y --no-install-recommends$packages"
    fi
    setup_say "installing$packages"
    log=$(mktemp)
    # $as and $packages are lists of words.
    # shellcheck disable=SC2086
    if ! { $as apt-get update -qq && $as env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        -o DPkg::Lock::Timeout=300 --no-install-recommends $packages; } > "$log" 2>&1 < /dev/null; then
        tail -n 15 "$log" >&2
        setup_stop "apt-get failed; its whole output is in $log"
    fi
    rm -f "$log"
    packages=$(setup_missing)
    [ ! "$packages" ] || setup_stop "still missing after apt-get install:$packages"
}

# setup_build PRESET [TARGET...]: configures and builds in build/PRESET; says something only when there is work.
setup_build() {
    preset=$1
    shift
    build=$root/build/$preset
    { mkdir -p "$build" && [ -w "$build" ]; } 2> /dev/null ||
        setup_stop "$build cannot be written; build in a checkout of your own"
    exec 9> "$build/.lock"
    if command -v flock > /dev/null 2>&1; then flock 9; fi # one build at a time in this folder
    # A tree that was copied here together with its build folder knows its old place only.
    if [ -f "$build/CMakeCache.txt" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"; then
        rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles" "$build/build.ninja"
    fi
    if [ ! "$(find "$build/build.ninja" ! -newer "$root/CMakePresets.json" -prune -o -print 2> /dev/null)" ]; then
        setup_say "configuring $preset"
        (cd "$root" && cmake --preset "$preset") > "$build/configure.log" 2>&1 < /dev/null ||
            setup_build_failed "$build/configure.log"
    fi
    # -n costs a few milliseconds and tells whether there is anything to do
    if ! ninja -C "$build" -n "$@" 2> /dev/null | grep -q 'no work to do'; then
        setup_say "building $preset"
        ninja -C "$build" "$@" > "$build/build.log" 2>&1 < /dev/null || setup_build_failed "$build/build.log"
    fi
    exec 9>&-
}

setup_build_failed() {
    tail -n 40 "$1" >&2
    setup_stop "the build failed; its whole output is in $1"
}
