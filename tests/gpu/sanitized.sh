#!/bin/sh
# A part of tests/gpu.sh: a short run under compute-sanitizer. sanitized.sh TOOL, memcheck or racecheck.
# Environment: inquest, small (a random model), device, work, root.
set -eu
: "${inquest:?} ${small:?} ${device:?} ${work:?} ${root:?}"
if [ "$device" = cuda-shim ]; then
    echo "the shim has checks of its own; compute-sanitizer watches GPUs"
    exit 77
fi
checker=$(python3 "$root/tests/gpu/report.py" found "$work/doctor" 'GPU memcheck') || {
    echo "$checker"
    exit 77
}
printf '{"id":"a","ids":[3,4,5,6,7],"max_tokens":3}\n{"id":"b","ids":[9],"max_tokens":3}\n' > "$work/short"
for how in '' --captured; do
    "$checker" --tool "$1" --target-processes all --error-exitcode 99 "$inquest" run --model "$small" --device "$device" \
        --prompts "$work/short" $how > "$work/said" || { rc=$?; tail -n 40 "$work/said"; exit $rc; }
    printf '{"tool":"%s","graphs":%s,"said":"%s"}\n' "$1" "$([ "$how" ] && echo true || echo false)" \
        "$(sed -n 's/^========= \(.*SUMMARY.*\)/\1/p' "$work/said" | tr -d '"' | tail -n 1)"
done
