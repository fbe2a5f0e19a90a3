# The whole lattice on the real model: wrong at its batch sizes and nowhere else; and a false prediction is found out.
. "$CASES/helpers.sh"
need_model
"$INQUEST" replay anthropic-2025-09-topk-smollm2 --model "$IQ_TEST_MODEL" --json > topk.json
python3 - "$CASES/../../harness/incidents/anthropic-2025-09-topk-smollm2.json" << EOF
import json, sys
d = json.load(open("topk.json"))
arms = {a["name"]: a for a in d["arms"]}
main = arms.pop("as-it-happened")
assert d["held"] is True and main["guilty"] == ["topk"] and main["trigger"] == {"batch": [3, 5, 6]}, main
buckets = {b["batch"]: b for b in main["finding"]["trigger"]["buckets"]}
assert sorted(buckets) == [1, 2, 3, 4, 5, 6, 7, 8], buckets
for size, b in buckets.items():
    assert b["evaluated"] > 0 and b["guilty"] == (b["evaluated"] if size in (3, 5, 6) else 0), b
assert {n for n, a in arms.items() if a["label"] == "identical"} == set(arms) - {"workaround-gone"}, arms
incident = json.load(open(sys.argv[1]))
del incident["arms"][1:]
incident["arms"][0]["predict"] = {"trigger": {"batch": [3, 5, 7]}}
json.dump(incident, open("false.json", "w"))
EOF
rc=0
"$INQUEST" replay ./false.json --model "$IQ_TEST_MODEL" > text || rc=$?
echo "exit $rc"
sed -n '$p' text
