# The two canaries themselves: one chain for any number of tensor- and expert-parallel ranks; the eight faults of the spine are
# caught on both, at the op where they strike.
. "$CASES/helpers.sh"
"$INQUEST" canary prompts --set smoke | grep -v far- | awk 'NR % 25 == 2 || /lookup.2/' > once.jsonl
sed 's/"id":"/&again-/' once.jsonl | cat once.jsonl - > p.jsonl
for model in canary canary-moe; do
    "$INQUEST" record --model $model --prompts p.jsonl --batch 3 --level ops --store S --name $model > out 2> talk
    chains S $model > want
    experts=1
    [ $model = canary ] || experts='1 2 4 8'
    for tp in 1 2 4 8; do
        for ep in $experts; do
            "$INQUEST" run --golden $model --store S --tp $tp --expert-parallel $ep --name r-$tp-$ep > out 2> talk
            chains S r-$tp-$ep | cmp - want && echo "$model tp $tp ep $ep: one chain"
        done
    done
done

# strike MODEL OP VARIANT PARAMS TP
strike() {
    echo "{\"faults\":[{\"op\":\"$2\",\"variant\":\"$3\",\"params\":$4}]}" > plan.json
    "$INQUEST" run --golden "$1" --store S --plan plan.json --tp "$5" --name "$1-$2-$3" > out 2> talk || true
    "$INQUEST" diff --store S "$1" "$1-$2-$3" --json > finding.json || true
    python3 - "$1" "$3" << 'EOF'
import json, sys
f = json.load(open("finding.json"))
print(*sys.argv[1:], f["label"], f["guilty"][0]["op"])
EOF
}
for model in canary canary-moe; do
    product=down sum=ffn_reduce tail=qkv
    [ $model = canary ] || product=router sum=attn_reduce tail=router
    strike $model topk coarse_bin '{"bits":4,"capacity":8}' 1
    strike $model topk shard_merge '{"shards":4}' 1
    strike $model topk threshold_precision '{}' 1
    strike $model prefix foreign_block '{"which":2}' 1
    strike $model $product reduction_order '{"unit":64}' 1
    strike $model $sum stale_peer '{}' 2
    strike $model $product low_precision '{"bits":8}' 1
    strike $model $tail k_tail '{"tile":128}' 1
done
