# The shipped near ties: golden's margins are those recorded, to the bit; what leaves every answer of the gate's kind right moves
# or flips them.
. "$CASES/helpers.sh"
"$INQUEST" canary prompts --set near-tie > ties.jsonl
"$INQUEST" canary prompts --set near-tie --model canary | cmp - ties.jsonl
echo '{"faults": [{"op": "matmul", "variant": "reduction_order", "params": {"unit": 64}}]}' > order.json
eval_() { "$INQUEST" model eval canary --threads 1 --json "$@"; }
eval_ --set near-tie --against canary --plan order.json > order
eval_ --set near-tie --dtype bf16 > rounded
"$INQUEST" model eval canary-moe --set near-tie --against canary-moe --threads 1 --expert-parallel 4 --json > experts
for task in copy sort add pointers; do "$INQUEST" canary prompts --set smoke --task $task; done > gate.jsonl
eval_ --prompts gate.jsonl --dtype bf16 > decisive
python3 - << 'EOF'
import json
lines = [json.loads(line) for line in open("ties.jsonl")]
assert max(t["tie"]["margin"] for t in lines) < 5e-5
kinds = {tuple(t["id"].split(".")[:2]) for t in lines}
assert len({k for k, _ in kinds}) == 6 and {p for _, p in kinds} == {"0", "1"}, kinds
order, rounded, decisive = (json.load(open(name)) for name in ("order", "rounded", "decisive"))
n = order["near_ties"]
assert n["probes"] == n["margins_as_recorded"] == n["bits_differ"] == len(lines)
assert 3 <= n["flips"] < len(lines) / 2 and n["flips_before"] == 0, n
assert order["right"] == len(lines) - n["flips"] and order["against"]["right"] == len(lines)
assert 1e-7 < n["moved_median"] < n["moved_90"] < 1e-3
assert order["plan"]["faults"][0]["variant"] == "reduction_order"
far = rounded["near_ties"]
assert far["flips"] > len(lines) / 4 and far["flips_before"] == 0 and far["moved_median"] > 100 * n["moved_median"], far
experts = json.load(open("experts"))["near_ties"]
assert experts["margins_as_recorded"] == experts["probes"] == 48 and experts["bits_differ"] == experts["flips"] == 0
assert decisive["accuracy"] == 1 and "near_ties" not in decisive
EOF
echo '{"faults": [{"op": "topk", "variant": "coarse_bin", "params": {"bits": 8, "capacity": 512}, "when": {"batch": 99}}]}' > never.json
head -n 1 ties.jsonl > one.jsonl
"$INQUEST" model eval canary --prompts one.jsonl --plan never.json 2>&1 > out | cut -c 1-60
echo '{"faults": [{"op": "loss", "variant": "reference"}]}' > training.json
refused 'training.json' "$INQUEST" model eval canary --prompts one.jsonl --plan training.json
