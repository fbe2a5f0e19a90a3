#!/bin/sh
# test_gate.sh ROOT: tests/gpu.sh itself, with programs that pass, fail, hang and are not there. No device, no build.
# shellcheck disable=SC2015,SC2016
set -eu
root=$1
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
cd "$top"
unset IQ_GPU_FAKE IQ_GPU_BUILD IQ_GPU_PROGRAMS IQ_TEST_MODEL 2> /dev/null || :
mkdir bin
bad=0
fail() { echo "$*"; bad=1; }
program() { # NAME, its body on standard input
    { echo '#!/bin/sh'; cat; } > "bin/$1"
    chmod +x "bin/$1"
}
# gate STATUS ARGUMENT...: expects this exit status
gate() {
    want=$1 rc=0
    shift
    IQ_GPU_FAKE=1 IQ_GPU_PROGRAMS=$top/bin sh "$root/tests/gpu.sh" -o report.json "$@" > out 2> err || rc=$?
    [ $rc = "$want" ] || { fail "gpu.sh $*: expected exit $want, found $rc"; cat out err; }
}
# holds EXPRESSION: of the report r, parts by name in p
holds() {
    python3 -c '
import json, sys
r = json.load(open("report.json"))
p = {x["name"]: x for x in r["parts"]}
sys.exit(not eval(sys.argv[1]))' "$1" || { fail "not so: $1"; cat report.json; }
}

# Without a GPU: one line, exit 2, nothing made.
if ! ls /dev/nvidia[0-9]* > /dev/null 2>&1; then
    rc=0
    sh "$root/tests/gpu.sh" > out 2> err || rc=$?
    [ $rc = 2 ] && [ "$(cat out err | wc -l)" = 1 ] && grep -q '^gpu.sh: no GPU here' err && [ ! -e gpu-report.json ] || fail "no GPU: exit $rc, $(cat out err)"
fi
for wrong in --nonsense -o '--budget x' '--only nothing'; do
    rc=0
    # shellcheck disable=SC2086
    sh "$root/tests/gpu.sh" $wrong > out 2> err || rc=$?
    [ $rc = 2 ] && [ "$(cat out err | wc -l)" = 1 ] || fail "$wrong: exit $rc, $(cat out err)"
done
sh "$root/tests/gpu.sh" --help | grep -q 'Exit status' || fail "no help"
order='runtime kernels faults products engine device chains memcheck racecheck cublas nccl'
[ "$(sh "$root/tests/gpu.sh" --list | sed -n 's/^\([a-z]*\) *[0-9]* s  .*/\1/p' | tr '\n' ' ')" = "$order " ] || fail "the list is not $order"

gate 2 && grep -q 'bin/inquest does not start: ' err || fail "no inquest: $(cat err)"

# Everything passes but what the shim has not: compute-sanitizer.
program inquest << 'EOF'
case $1 in
    doctor) echo '{"parts":[{"name":"GPU","group":"optional","state":"missing","detail":"none"}]}' ;;
    run)
        wrong=0
        case $* in *"--device cuda"*"${WRONG:-nothing}"*) wrong=1 ;; esac
        echo "{\"id\":\"b\",\"chain\":\"77$wrong\"}"
        echo '{"id":"a","chain":"55"}'
        ;;
esac
EOF
echo ': > "$1"' | program make_model
for name in test_cuda_runtime test_gpu_kernels test_gpu_kernels_attention test_gpu_kernels_matmul test_gpu_kernels_products \
    test_cuda_kernels_sampling test_gpu_faults test_gpu_stale test_gpu_engine test_device test_device_faults test_device_smollm2 \
    test_gpu_cublas test_gpu_nccl; do
    program "$name" << 'EOF'
echo "a line that is no row"
echo "{not json either"
printf '{"device":"%s","ratio":0.25,"text":"say \\"so\\""}\n{"survey":[]}\n' "$IQ_TEST_DEVICE"
EOF
done
echo 'echo "{\"emax\":-126}"; echo "the constant is right" >&2' | program test_gpu_products
echo 'exit 0' | program test_gpu_extra
gate 3
holds 'r["device"] == "cuda-shim" and r["version"] == 1'
holds "[x['name'] for x in r['parts']] == '$order extra'.split()"
holds 'r["not_here"] == ["memcheck", "racecheck"] and not r["failed"]'
holds 'p["kernels"]["programs"][4]["rows"] == [{"device": "cuda-shim", "ratio": 0.25, "text": "say \"so\""}, {"survey": []}]'
holds 'p["nccl"]["programs"][0]["said"] == ["a line that is no row", "{not json either"]'
holds 'p["chains"]["programs"][0]["rows"][3] == {"model": "small.gguf", "settings": "--batch 8 --captured", "chains": 2, "equal_to_cpu": True}'
holds 'r["machine"][0]["name"] == "GPU" and r["seconds"] >= 0 and len(r["commit"]) > 6'
grep -q '^products   cuda-shim passed ' out && grep -q '^  emax -126$' out && grep -q '^  test_gpu_products: the constant is right$' out &&
    grep -q '^cublas .*golden takes 0.25 to 0.25 times' out && grep -q 'more in the file' out && grep -q 'on the shim, which is no GPU' out || fail "the table: $(cat out)"
gate 0 --only kernels,nccl
holds '[x["name"] for x in r["parts"]] == ["kernels", "nccl"]'

# A part of several programs fails with one of them; one that is not there is no pass.
echo 'echo "{\"n\":1}"; echo "two is not three" >&2; exit 1' | program test_gpu_kernels_attention
rm bin/test_gpu_nccl
gate 1 --only kernels,nccl,cublas
holds 'r["failed"] == ["kernels"] and r["not_here"] == ["nccl"] and r["passed"] == ["cublas"]'
holds 'p["kernels"]["why"] == "exit status 1: two is not three" and p["kernels"]["programs"][1]["rows"] == [{"n": 1}]'
holds 'p["nccl"]["why"] == "test_gpu_nccl is not in this build"'
echo 'echo "no libnccl.so.2"; exit 77' | program test_gpu_nccl
gate 3 --only nccl
holds 'p["nccl"]["why"] == "no libnccl.so.2"'
echo 'echo "Running suite"; echo "90%: Checks: 9"; echo "a.c:128:F:bits:a_name:0: seed 1"; exit 1' | program test_gpu_nccl
gate 1 --only nccl
holds 'p["nccl"]["why"] == "exit status 1: a.c:128:F:bits:a_name:0: seed 1"'
echo 'echo "{\"skipped\":\"no such library\"}"; echo noise >&2; exit 77' | program test_gpu_nccl
gate 3 --only nccl
holds 'p["nccl"]["why"] == "no such library"'
echo 'kill -SEGV $$' | program test_gpu_nccl
gate 1 --only nccl
holds 'p["nccl"]["why"].startswith("signal 11: ")'
WRONG='--chunk 5' && export WRONG
gate 1 --only chains
holds '[x["equal_to_cpu"] for x in p["chains"]["programs"][0]["rows"]] == [True, False, True, True]'
unset WRONG

# What hangs is killed with its children; the parts behind it have no time left, and say so.
echo 'sleep 1000 & echo $! > sleeper; trap "" HUP; wait' | program test_gpu_cublas
gate 1 --budget 2 --only cublas,nccl
holds 'p["cublas"]["state"] == "failed" and p["cublas"]["why"].startswith("killed after ") and 1 <= p["cublas"]["seconds"] <= 8'
holds 'p["nccl"]["state"] == "not here" and p["nccl"]["why"].startswith("no time left")'
! grep -qs '^State:[[:space:]]*[^Z[:space:]]' "/proc/$(cat sleeper)/status" || fail "the child of what hung is alive"

# What a build or machine lacks is a sentence.
printf '{"parts":[{"name":"CUDA toolkit","state":"missing","detail":"no nvcc","remedy":"get it"},{"name":"GPU","state":"found","detail":"0: H"}]}' > doctor
[ "$(python3 "$root/tests/gpu/report.py" found doctor GPU)" = '0: H' ] || fail "a GPU that is found"
! python3 "$root/tests/gpu/report.py" found doctor 'CUDA toolkit' > out && [ "$(cat out)" = 'CUDA toolkit: no nvcc; get it' ] || fail "lacks: $(cat out)"
exit $bad
