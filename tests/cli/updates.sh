# Weights that change during a run: a request knows one version, a recorded run repeats, and what goes wrong is found there.
. "$CASES/helpers.sh"
small_model a.gguf seed=1
small_model b.gguf seed=2
prompts 8 > p.jsonl
run() { "$INQUEST" run --model a.gguf --batch 2 --max-tokens 8 "$@"; }
answers() { sed 's/.*"id":"\(q[0-9]*\)","prompt_ids.*"chain":"\([0-9a-f]*\)".*/\1 \2/' "$1" | sort; }
run --prompts p.jsonl --json > old
"$INQUEST" run --model b.gguf --max-tokens 8 --prompts p.jsonl --json > new
run --prompts p.jsonl --update-weights 10=b.gguf --json > both
answers both | while read -r id chain; do
    [ "$(answers old | grep "^$id ")" != "$id $chain" ] || { echo "$id old"; continue; }
    [ "$(answers new | grep "^$id ")" != "$id $chain" ] || echo "$id new"
done
run --prompts p.jsonl --sleep-weights 5 --json | cmp - old
"$INQUEST" record --model a.gguf --batch 2 --max-tokens 8 --prompts p.jsonl --update-weights 10=b.gguf --store S --name golden --level ops > talk 2>&1
verdict() { # NAME PLAN
    echo "$2" > plan.json
    "$INQUEST" run --model a.gguf --golden golden --store S --name "$1" --plan plan.json > talk 2>&1
    rc=0
    "$INQUEST" diff --store S golden "$1" > finding || rc=$?
    echo "$1: exit $rc" $(sed -n -e 's/^verdict *\([a-z]*\).*/\1/p' finding) $(sed -n 's/^guilty *\(.*\): in .*/\1/p' finding)
}
verdict same '{"faults":[]}'
verdict partial '{"faults":[{"op":"weights","variant":"partial_update","when":{"layer":1}}]}'
verdict copy '{"faults":[{"op":"weights","variant":"wrong_copy"}]}'
"$INQUEST" run --store S --again copy --name again > talk 2>&1
"$INQUEST" run --model a.gguf --golden golden --store S --name asleep --sleep-weights 10 > talk 2>&1
"$INQUEST" diff --store S golden asleep > finding || echo "asleep: exit $?"
grep -o 'the weights change at other steps, or to those of other files' finding | head -1
refused '--update-weights: found "b.gguf", expected STEP=MODEL' run --prompts p.jsonl --update-weights b.gguf
refused '--sleep-weights: found "5x", expected a step' run --prompts p.jsonl --sleep-weights 5x
refused 'before the weights changed at step 4000' run --prompts p.jsonl --sleep-weights 4000
small_model c.gguf ffn=96
refused 'the model of step 3 has another shape' run --prompts p.jsonl --update-weights 3=c.gguf
refused 'weights that change are not built for --device cuda-shim' run --prompts p.jsonl --sleep-weights 3 --device cuda-shim
