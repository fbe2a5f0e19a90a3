#!/bin/sh
# sh tests/gpu.sh [-o FILE] [--budget SECONDS] [--only PART,PART...] [--list] [--help]
# The one command for a machine with a GPU: set-up and build as tests/run.sh's, then every CUDA test on the device, a table,
# and one JSON file (gpu-report.json). Nothing is downloaded beyond that set-up. What a machine lacks is a row that says so
# (`not here`), never a pass.
# Exit status: 0 all parts passed; 1 a part failed; 2 nothing was tried (no GPU, no kernels for it, wrong use: one line);
# 3 none failed, but parts are not here.
#
# What no machine without a GPU can show, and what this command is for: that the kernels give the CPU's bits on hardware,
# that graphs replay what was queued, that tensor cores behave as kernels/tensor_core models them (below 2^-126, too), what
# cuBLAS chooses by batch size, NCCL's collectives (two GPUs), speed.
#
# IQ_GPU_BUILD=FOLDER takes a build as it is, made elsewhere: no set-up, no compiler. For the tests of this script:
# IQ_GPU_FAKE=1 runs the same parts on the shim, and says so in table and file ("cuda-shim"); IQ_GPU_PROGRAMS is a folder
# with the programs.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/harness/setup.sh"

# One line per part: name, seconds that each of its programs may take, what it shows, programs (or a script of tests/gpu
# and its argument).
parts() {
    cat << 'LIST'
runtime|30|memory, streams and graphs as the table of functions promises|test_cuda_runtime
kernels|120|each kernel against the CPU's reference, to the bit|test_gpu_kernels test_gpu_kernels_attention test_gpu_kernels_matmul test_gpu_kernels_products test_gpu_kernels_sampling
faults|60|wrong variants give the same wrong bits as on the CPU|test_gpu_faults test_gpu_stale
products|100|tensor cores against their model, and the model's constant|test_gpu_products
engine|150|SmolLM2's chains: CPU = CUDA, eager = graph; tokens per second|test_gpu_engine
device|120|small models: batches, chunks, hits, ranks, levels, plans|test_device test_device_faults test_device_smollm2
chains|90|CPU = CUDA as users run it|chains.sh
memcheck|90|compute-sanitizer: accesses out of bounds|sanitized.sh:memcheck
racecheck|90|compute-sanitizer: hazards in shared memory|sanitized.sh:racecheck
cublas|90|algorithms as variants|test_gpu_cublas
nccl|60|collectives over communicators|test_gpu_nccl
LIST
}

stop() { echo "gpu.sh: $*" >&2; exit 2; }
now() { date +%s; }
report() { python3 "$root/tests/gpu/report.py" "$@"; }
device_here() {
    for node in /dev/nvidia[0-9]* /dev/dxg /dev/nvhost-gpu; do
        [ ! -e "$node" ] || return 0
    done
    command -v nvidia-smi > /dev/null 2>&1 && nvidia-smi -L 2> /dev/null | grep -q '^GPU'
}
program() { # NAME: its path in the build; on the shim the same test under its name there
    for name in "$1" $([ "$label" = cuda ] || echo "test_cuda_${1#test_gpu_} test_${1#test_gpu_}_device"); do
        path=$programs/$name
        [ -x "$path" ] || path=$(find "$programs" -name "$name" -type f -perm -u+x 2> /dev/null | head -n 1)
        [ ! "$path" ] || { echo "$path"; return 0; }
    done
    return 1
}

# What the shim has instead of libraries: recorded answers, several devices.
arguments() {
    case $label:$1 in cuda-shim:test_gpu_cublas) echo "--made $IQ_TEST_DATA/cublas/made.json" ;; esac
}

# limited SECONDS COMMAND...: standard output and error as they are; 124 when it ran out of time and was killed.
limited() {
    timeout -k 5 "$@" < /dev/null &
    child=$!
    wait $child
}

usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0" | sed '/^set -eu/,$d'; }

list() {
    printf '%-10s %6s  %s\n' part limit 'what it shows (programs)'
    parts | while IFS='|' read -r name limit what tests; do
        printf '%-10s %4s s  %s (%s)\n' "$name" "$limit" "$what" "$tests"
    done
    device_here && echo "here: a GPU's device files" || echo "not here: a GPU (no /dev/nvidia0); exit status 2"
    if [ -x "$inquest" ]; then
        "$inquest" doctor --optional | grep -E ' (CUDA|GPU|cuBLAS|NCCL)' | sed -n 's/^found/here:/p; s/^missing/not here:/p'
    else
        echo "not built yet: after \`sh harness/start.sh doctor\` this list says what else this machine lacks"
    fi
}

file=gpu-report.json budget=600 only='' listing=''
while [ $# -gt 0 ]; do
    case $1 in
        -o | --budget | --only)
            [ $# -gt 1 ] || stop "$1 needs a value"
            case $1 in -o) file=$2 ;; --budget) budget=$2 ;; --only) only=,$2, ;; esac
            shift
            ;;
        --list) listing=1 ;;
        --help) usage; exit 0 ;;
        *) stop "unknown argument '$1'; see sh tests/gpu.sh --help" ;;
    esac
    shift
done
case $budget in '' | *[!0-9]*) stop "--budget: expected seconds, found '$budget'" ;; esac
for name in $(echo "$only" | tr ',' ' '); do
    parts | grep -q "^$name|" || stop "--only: no part '$name'; there are $(parts | cut -d'|' -f1 | tr '\n' ' ')"
done

label=cuda
[ ! "${IQ_GPU_FAKE:-}" ] || label=cuda-shim
device=$label
build=${IQ_GPU_BUILD:-$root/build/release}
programs=${IQ_GPU_PROGRAMS:-$build}
inquest=$build/harness/inquest
[ ! "${IQ_GPU_PROGRAMS:-}" ] || inquest=$programs/inquest
if [ "$listing" ]; then
    list
    exit 0
fi
started=$(now)
[ $label = cuda-shim ] || device_here || stop "no GPU here (no /dev/nvidia0, nvidia-smi shows none); \`--list\` says what would run"
(: >> "$file") 2> /dev/null || stop "$file cannot be written; name another by -o"

if [ ! "${IQ_GPU_BUILD:-}${IQ_GPU_PROGRAMS:-}" ]; then
    setup_packages
    # A tree that was configured before nvcc came is configured again.
    grep -qs '^CMAKE_CUDA_COMPILER:[A-Z]*=/' "$build/CMakeCache.txt" || rm -f "$build/build.ninja"
    (setup_build release inquest make_model) || exit 1
fi
work=$(mktemp -d)
child=''
trap 'rm -rf "$work"' EXIT
trap '[ ! "$child" ] || kill "$child" 2> /dev/null; exit 130' INT TERM HUP
"$inquest" doctor --json > "$work/doctor" 2> "$work/err" || [ -s "$work/doctor" ] || stop "$inquest does not start: $(tail -n 1 "$work/err")"
if [ $label = cuda ]; then
    for need in 'CUDA toolkit' 'CUDA driver' GPU; do
        lacks=$(report found "$work/doctor" "$need") || stop "$lacks"
    done
fi
if [ ! "${IQ_GPU_BUILD:-}${IQ_GPU_PROGRAMS:-}" ]; then
    tests=$(ninja -C "$build" -t targets all | sed -n 's/^\(test_[a-z0-9_]*\): phony$/\1/p' | while read -r name; do
        case $name in test_gpu_*) ;; *) parts | grep -qE "[| ]$name( |\$)" || continue ;; esac
        echo "$name"
    done)
    # $tests is a list of words
    # shellcheck disable=SC2086
    (setup_build release $tests) || exit 1
fi
built=$(now)

# Programs choose their device by IQ_TEST_DEVICE. SmolLM2 is for devices: the shim would take minutes.
export IQ_TEST_DEVICE=$label IQ_TEST_DATA="$root/tests/data" IQ_TEST_CUT="$root/tests/engine/cut_model.py"
small=$work/small.gguf
maker=$(program make_model) && "$maker" "$small" layers=2 kv_heads=2 heads=4 > /dev/null || small=''
model=$small
if [ $label = cuda ] && [ ! "${IQ_TEST_MODEL:-}" ]; then
    if IQ_TEST_MODEL=$("$inquest" model fetch smollm2); then export IQ_TEST_MODEL; else unset IQ_TEST_MODEL; fi
fi
[ $label = cuda ] || export IQ_SHIM_DEVICES=4
[ $label != cuda ] || model=${IQ_TEST_MODEL:-$small}
export work model small device inquest root

# one PART LIMIT COMMAND...: runs it within what is left of the budget; a line of $work/runs says how it went.
one() {
    part=$1 limit=$2 name=$3
    shift 3
    left=$((budget - $(now) + started))
    [ "$limit" -le $left ] || limit=$left
    out=$work/$part.$name
    begun=$(now)
    rc=0
    if [ "$limit" -lt 1 ]; then
        echo "no time left of $budget s (--budget)" > "$out.out"
        : > "$out.err"
        rc=77
    else
        limited "$limit" "$@" > "$out.out" 2> "$out.err" || rc=$?
    fi
    echo "$part|$name|$rc|$(($(now) - begun))|$limit" >> "$work/runs"
}

parts > "$work/parts"
# Tests that no line above names run as parts of their own.
find "$programs" -name 'test_gpu_*' -type f -perm -u+x 2> /dev/null | sed 's|.*/||' | sort -u | while read -r name; do
    parts | grep -qE "[| ]$name( |\$)" || echo "${name#test_gpu_}|60|$name|$name"
done >> "$work/parts"
: > "$work/runs"
while IFS='|' read -r part limit what tests <&3; do
    case $only in '' | *",$part,"*) ;; *) continue ;; esac
    echo "gpu.sh: $part, at most $limit s: $what" >&2
    for name in $tests; do
        case $name in
            *.sh*) one "$part" "$limit" "$name" sh "$root/tests/gpu/${name%%:*}" "${name##*:}" ;;
            *)
                if path=$(program "$name"); then
                    # shellcheck disable=SC2046
                    one "$part" "$limit" "$name" "$path" $(arguments "$name")
                else
                    echo "$name is not in this build" > "$work/$part.$name.out"
                    : > "$work/$part.$name.err"
                    echo "$part|$name|77|0|$limit" >> "$work/runs"
                fi
                ;;
        esac
    done
done 3< "$work/parts"
rc=0
commit=$(git -C "$root" rev-parse HEAD 2> /dev/null || echo unknown)
report table "$work" "$file" "$label" "$commit" "$started" "$built" "$budget" || rc=$?
exit $rc
