# A campaign's export is the same bytes however it was run: in one piece, in shards that are merged, by another number of
# workers, broken off by kill -9 and resumed. Its table; what is refused.
. "$CASES/helpers.sh"
small_model m.gguf
cat > plan.json << 'JSON'
{"faults": [{"op": "down", "variant": "low_precision", "params": {"bits": {"each": [8, 2]}},
             "when": {"layer": {"draw": [0, 1]}, "phase": "decode"}},
            {"name": "topk-at-two", "op": "topk", "variant": "coarse_bin", "params": {"bits": 1, "capacity": 8},
             "when": {"batch": 2}},
            [{"op": "down", "variant": "low_precision"}, {"op": "down", "variant": "reference"}]],
 "load": {"each": [1, 2]}, "tokens": 4, "repetitions": 3, "seed": 1,
 "prompts": [{"id": "a", "ids": [3, 5, 9, 8]}, {"id": "b", "ids": [4, 4, 7]}]}
JSON
campaign() { timeout 120 "$INQUEST" campaign plan.json --model m.gguf "$@" 2> /dev/null; }
export_of() { "$INQUEST" store export --store "$1" "$id" "$2"; }
campaign --store S --jobs 2 > whole.txt
cut -d' ' -f3- whole.txt
id=$(cut -d' ' -f1 whole.txt)
"$INQUEST" report campaign --store S
export_of S whole
"$INQUEST" store verify --store S > verify.txt

campaign --store S1 --shard 1/2 --jobs 1 > s1.txt
campaign --store S2 --shard 2/2 --jobs 3 > s2.txt
export_of S1 one
export_of S2 two
for part in two one two; do "$INQUEST" store import --store S3 $part | cut -d' ' -f3-; done
export_of S3 merged
cmp whole merged && echo "merged: the same bytes"

refused "--resume goes on with it" "$INQUEST" campaign plan.json --model m.gguf --store S

# Trials that share forward passes hold the bits of those that run by themselves: every op, layer and step that can be struck,
# from the middle of a prompt and in its answer, sticky and by the row, with a memory and with neighbours in the trigger.
cat > bits.json << 'JSON'
{"faults": [{"op": {"each": ["qkv", "attn_out", "gate_up", "down"]}, "variant": "low_precision",
             "params": {"bits": {"choose": [2, 4, 8, 11, 16, 23]}}, "when": {"layer": {"draw": [0, 1]}, "pos": {"draw": [0, 12]}}},
            {"op": "lm_head", "variant": "low_precision", "params": {"bits": 6}, "when": {"step": {"draw": [0, 5]}}},
            {"op": "topk", "variant": "coarse_bin", "params": {"bits": 1, "capacity": 8}, "when": {"step": {"draw": [0, 5]}}},
            {"op": "qkv", "variant": "k_tail", "params": {"drop": 16}, "when": {"layer": {"draw": [0, 1]}, "step": {"draw": [0, 5]}}},
            {"op": "matmul", "variant": "low_precision", "params": {"bits": 16}, "rate": 0.05, "per": "row"},
            {"op": "matmul", "variant": "low_precision", "params": {"bits": 8}, "when": {"arg.rows": {"min": 2}}},
            {"op": "ffn_reduce", "variant": "stale_peer", "rate": 0.3},
            {"op": "topk", "variant": "threshold_precision"},
            {"op": {"choose": ["qkv", "attn_out", "gate_up", "down"]}, "variant": "matmul_upset",
             "params": {"bit": {"draw": [0, 31]}, "where": {"draw": [0, 2]}, "seed": {"draw": [0, 9999]}}, "when": {"step": {"draw": [0, 5]}}},
            {"op": "kv_write", "variant": "kv_upset", "params": {"bit": -1, "seed": {"draw": [0, 9999]}}, "rate": 0.1}],
 "engine": {"dtype": {"each": ["f32", "bf16"]}}, "tokens": 6, "repetitions": 4, "seed": 3,
 "prompts": [{"id": "a", "ids": [3, 5, 9, 8, 7, 6, 5]}, {"id": "b", "ids": [4, 4, 7, 9, 1, 2, 3, 4], "temperature": 1, "seed": 4}]}
JSON
bits() { timeout 120 "$INQUEST" campaign bits.json --model m.gguf --jobs 2 "$@" 2> /dev/null; }
bits --store B1 --alone --json > alone.txt
bits --store B2 --json > aboard.txt
sed 's/.*"trials":\([0-9]*\).*"aboard":\([0-9]*\).*/\2 of \1 shared passes/' alone.txt aboard.txt
id=$(sed 's/.*"campaign":"\([0-9a-f]*\).*/\1/' alone.txt)
export_of B1 alone
export_of B2 aboard
cmp alone aboard && echo "aboard: the bits of trials alone"
"$INQUEST" report campaign --store B2 --csv | cut -d, -f5-7,10,13,16,19,22-23 | sort | uniq -c | sed 's/^ *//'

# Whoever is killed, and whenever: the coordinator is begun again, the others it begins again itself. (Four times as many
# trials, so that there is something to kill.)
sed 's/"repetitions": 3/"repetitions": 12/' plan.json > more.json
mv more.json plan.json
campaign --store L > more.txt
id=$(cut -d' ' -f1 more.txt)
export_of L long
kills=0
for at in 0 1 2 3 4 5; do
    campaign --store K --resume --jobs 2 > killed.txt &
    runner=$!
    sleep "0.$((at + 1))"
    family=$(pgrep -P $runner | while read -r coordinator; do
        echo "$coordinator $(pgrep -P "$coordinator")"
        pgrep -P "$coordinator" | while read -r zygote; do pgrep -P "$zygote"; done
    done)
    for pid in $(echo $family | cut -d' ' -f$((at % 3 + 1))-); do
        kill -9 "$pid" 2> /dev/null && kills=$((kills + 1))
        break
    done
    wait $runner || true
done
campaign --store K --resume --jobs 2 > killed.txt
export_of K killed
cmp long killed && [ $kills -gt 0 ] && echo "killed and resumed: the same bytes"

refused "--shard: found \"3/2\"" "$INQUEST" campaign plan.json --model m.gguf --store S --shard 3/2
odd() {
    echo "$2" > odd.json
    refused "$1" "$INQUEST" campaign odd.json --model m.gguf --store X
}
one='"prompts": [{"id": "a", "ids": [3]}]'
odd 'faults: expected a list' "{$one}"
odd 'faults[0]: ' "{\"faults\": [{\"op\": \"down\", \"variant\": \"nosuch\"}], $one}"
odd 'each: expected a list of 1 to' "{\"faults\": [{\"op\": {\"each\": []}, \"variant\": \"k_tail\"}], $one}"
odd 'draw: expected [least, most]' "{\"faults\": [{\"op\": \"down\", \"variant\": \"k_tail\", \"when\": {\"layer\": {\"draw\": [3]}}}], $one}"
odd 'only faults vary by repetition' "{\"faults\": [{\"op\": \"down\", \"variant\": \"k_tail\"}], \"engine\": {\"tp\": {\"draw\": [1, 2]}}, $one}"
odd '2 prompts in flight, but there are 1' "{\"faults\": [{\"op\": \"down\", \"variant\": \"k_tail\"}], \"load\": 2, $one}"
odd 'a device does not outlive a fork' "{\"faults\": [{\"op\": \"down\", \"variant\": \"k_tail\"}], \"engine\": {\"device\": \"cuda\"}, $one}"
odd 'prompts: expected' "{\"faults\": [{\"op\": \"down\", \"variant\": \"k_tail\"}]}"
odd 'repetitions' "{\"faults\": [{\"op\": \"down\", \"variant\": \"k_tail\"}], \"repetitions\": 1e300, $one}"
[ ! -e X ] && echo "refused plans leave no store"

head -c 300 whole > cut
refused "it was cut or added to" "$INQUEST" store import --store S4 cut
{ head -c 200 whole; printf X; tail -c +202 whole; } > altered
refused "it was altered" "$INQUEST" store import --store S4 altered
[ ! -e S4 ] && echo "refused files leave no store"
