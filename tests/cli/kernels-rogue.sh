# Kernels that misbehave end their trial, never the harness: each is a finding that names the kernel, what it did and where.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 3 > p.jsonl
"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 4 --level ops --store S --name golden > out 2> talk
chains S golden > want
while read -r name timeout memory; do
    echo "{\"libraries\":[{\"file\":\"$IQ_TEST_ABI/rogue.so\",\"timeout_s\":$timeout,\"memory_mb\":$memory}],
        \"faults\":[{\"op\":\"ffn_norm\",\"variant\":\"$name\"}]}" > plan.json
    rc=0
    "$INQUEST" run --model m.gguf --golden golden --store S --plan plan.json --name "$name" > out 2> talk || rc=$?
    ! grep 'a kernel says' out # standard output is data
    says=0
    "$INQUEST" diff --store S golden "$name" > diff || says=$?
    sed -n 's/^verdict *\([a-z]*\).*/\1/p' diff > verdict
    echo "$name: run $rc, diff $says $(cat verdict): $(sed -n 's/^crash *//p' diff | sed 's/ at address 0x[0-9a-f]*//')"
done << LIST
dereference 30 1024
past_end 30 1024
before_start 30 1024
far_past_end 30 1024
writes_input 30 1024
aborts 30 1024
leaves 30 1024
hangs 0.2 1024
spins 0.2 1024
eats 60 64
recurses 30 1024
answers 30 1024
hangs_up 30 1024
refuses 30 1024
leaves_out 30 1024
talks 30 1024
declines 30 1024
LIST
"$INQUEST" store verify --store S > verify
chains S golden | cmp - want
# Where it isn't run, nothing happens: by rate, and by a trigger.
for when in '"rate":0' '"when":{"layer":0}'; do
    echo "{\"libraries\":[\"$IQ_TEST_ABI/rogue.so\"],\"faults\":[{\"op\":\"ffn_norm\",\"variant\":\"aborts\",$when},
        {\"op\":\"ffn_norm\",\"variant\":\"reference\"}]}" > plan.json
    "$INQUEST" run --model m.gguf --golden golden --store S --plan plan.json --name never > out 2> talk
    chains S never | cmp - want
done
# Nothing is left running.
for stat in /proc/[0-9]*/stat; do
    if grep -q "^[0-9]* (inquest) [^Z] 1 " "$stat" 2> /dev/null && grep -q rogue.so "${stat%stat}maps"; then echo "left: $stat"; fi
done
