# Faults that do nothing are not passed over: run says which never fired or changed no bit, and diff tells a clean trial,
# one whose faults slept and one whose faults were masked apart.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 4 > p.jsonl
"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 4 --store S --name golden > out 2> err
run() {
    echo "{\"faults\": [$2]}" > plan.json
    "$INQUEST" run --model m.gguf --golden golden --store S --plan plan.json --name "$1" > out 2> err
    sed -n 's/^inquest: \(fault .*\)/\1/; s/fired [0-9]* times/fired N times/; /^fault/p' err
    "$INQUEST" diff --store S golden "$1" > text
    sed -n 's/; no bit differs.*//; s/[0-9][0-9]*/N/g; 1p' text
    "$INQUEST" diff --store S golden "$1" --json | grep -o '"label":"[a-z]*","field_term":[^,]*'
}
run clean ''
run slept '{"op": "down", "variant": "low_precision", "when": {"batch": 99}}'
run masked '{"op": "down", "variant": "k_tail", "params": {"tile": 1048576}}'
# A run that is not kept says so too, and one whose fault struck says nothing.
echo '{"faults": [{"op": "topk", "variant": "coarse_bin", "when": {"tokens": 4096}}, {"op": "topk", "variant": "reference"}]}' > plan.json
"$INQUEST" run --model m.gguf --prompts p.jsonl --max-tokens 4 --plan plan.json 2>&1 > out | grep -c 'fault 0 (topk coarse_bin): never fired'
echo '{"faults": [{"op": "down", "variant": "low_precision"}]}' > plan.json
"$INQUEST" run --model m.gguf --prompts p.jsonl --max-tokens 4 --plan plan.json 2>&1 > out | grep -c fault || :
