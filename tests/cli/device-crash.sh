# A device that is lost in the middle of a run: the trial is recorded as crashed, at a step; what it had recorded stays;
# diff says so; the next run is right.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 6 > p.jsonl
"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 4 --level ops --store S --name golden > out 2> talk
chains S golden > want
run() { "$INQUEST" run --model m.gguf --golden golden --store S --batch 2 --device cuda-shim "$@"; }
for fail in stream_sync:9:700 launch:300:719 memcpy_async:40:700; do
    rc=0
    IQ_SHIM_FAIL=$fail run --name lost > out 2> talk || rc=$?
    echo "$fail: exit $rc"
    grep -c 'the trial crashed; it is recorded as such' talk
    "$INQUEST" store ls --store S | grep -c ' crashed .* lost$'
    "$INQUEST" store show --store S lost --json > show
    grep -q '"message":"step [0-9]*: .*cuda-shim: .*the device is lost to this process' show || cat show
    "$INQUEST" store verify --store S > verify
    chains S lost > kept
    comm -23 kept want
    rc=0
    "$INQUEST" diff --store S golden lost > diff || rc=$?
    [ -s kept ] && [ "$(wc -l < kept)" -lt "$(wc -l < want)" ]
    echo "diff: exit $rc, $(sed -n 's/^verdict *\(crashed\) .*/\1/p' diff)"
done
run --name next > out 2> talk
chains S next | cmp - want
"$INQUEST" diff --store S golden next | sed -n 1p
# The same trial, whole and lost, are two runs: neither takes the other's place. What was lost is asked again as golden asked.
"$INQUEST" store ls --store S | sed -n 's/^[0-9a-f]* *\([a-z]*\) .* \(lost\|next\)$/\1 \2/p'
"$INQUEST" run --again lost --store S --name again > out 2> talk
chains S again | cmp - want
# Out of memory in a step is a crash, too.
rc=0
IQ_SHIM_FAIL=launch:300:2 run --name poor > out 2> talk || rc=$?
echo "out of memory: exit $rc, $(grep -c 'the trial crashed; .* out of memory; fewer KV blocks' talk)"
# Golden recordings keep what is whole, and go on.
rc=0
IQ_SHIM_FAIL=stream_sync:12:700 "$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 4 --level ops --store T \
    --name golden --device cuda-shim --batch 1 > out 2> talk || rc=$?
echo "record: exit $rc, $(wc -l < talk) line"
"$INQUEST" store verify --store T > verify
"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 4 --level ops --store T --name golden --device cuda-shim \
    --batch 1 > out 2> talk
chains T golden | cmp - want
