# The main job on the embedded canary: all predictions hold; answers are lost at the trigger's batch sizes and nowhere else.
. "$CASES/helpers.sh"
export INQUEST_CACHE=$PWD/cache
"$INQUEST" replay anthropic-2025-09-topk --json > topk.json
python3 - << EOF
import json
d = json.load(open("topk.json"))
main = next(a for a in d["arms"] if a["name"] == "as-it-happened")
assert d["held"] is True and main["label"] == "wrong" and main["trigger"] == {"batch": [3, 5, 6]}, main
accuracy = main["finding"]["accuracy"]
assert accuracy["golden"] == accuracy["asked"] == 108 and accuracy["lost"] > 20, accuracy
buckets = {b["batch"]: b for b in accuracy["by_batch"]}
assert sorted(buckets) == [1, 2, 3, 4, 5, 6, 7, 8] and sum(b["asked"] for b in buckets.values()) == 108, buckets
for size, b in buckets.items():
    assert (b["lost"] > 0) == (size in (3, 5, 6)), b
EOF
echo replayed
