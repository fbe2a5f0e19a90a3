# A file of one's own: its predictions hold and the exit status is 0; one that is made false turns it to 1; the runs are
# kept under the incident's name, and a second replay goes on from them.
. "$CASES/helpers.sh"
small_model m.gguf
cat > own.json << EOF
{"name": "own", "id": "X", "title": "a top-k that is wrong at a batch of two", "source": "nowhere", "story": "None.",
 "prompts": [{"id": "a", "ids": [5, 6, 7], "max_tokens": 6, "ignore_stop": true},
             {"id": "b", "ids": [8, 9], "max_tokens": 6, "ignore_stop": true, "arrive_ms": 1000},
             {"id": "c", "ids": [9, 9], "max_tokens": 6, "ignore_stop": true, "arrive_ms": 1000}],
 "plan": {"faults": [
   {"name": "drop", "op": "topk", "variant": "coarse_bin", "params": {"bits": 1, "capacity": 16}, "when": {"batch": 2}}]},
 "arms": [
   {"name": "wrong", "what": "as it is", "predict": {"label": "wrong", "guilty": "topk", "fired": true}},
   {"name": "cured", "what": "exact", "faults": [{"op": "topk", "variant": "reference"}],
    "predict": {"label": "identical", "fired": false}},
   {"name": "alone", "what": "one at a time", "engine": {"batch": 1}, "predict": {"hidden": true}}]}
EOF
sed 's/"label": "wrong"/"label": "benign"/' own.json > false.json
"$INQUEST" replay ./own.json --model m.gguf --store S > text
sed -n '$p' text
"$INQUEST" replay own.json --model m.gguf --store S --json > json
"$INQUEST" store ls --store S | grep -c own/
"$INQUEST" store verify --store S > verify
rc=0
"$INQUEST" replay ./false.json --model m.gguf > text || rc=$?
echo "exit $rc"
grep -A2 '^wrong' text | tail -1
sed -n '$p' text
rc=0
"$INQUEST" replay ./false.json --model m.gguf --json > false || rc=$?
echo "exit $rc"
python3 - << EOF
import json
good, bad = json.load(open("json")), json.load(open("false"))
assert good["held"] is True and bad["held"] is False
assert [a["held"] for a in bad["arms"]] == [False, True, True]
assert bad["arms"][0]["predictions"][0] == {"field": "label", "expected": "benign", "found": "wrong", "held": False}
assert good["arms"][0]["finding"]["label"] == "wrong" and good["postmortem"].startswith("verdict    wrong (silent data corruption): topk: coarse_bin on exact data")
assert good["arms"][0]["finding"]["guilty"][0]["vitro"]["evidence"].startswith("coarse_bin on exact data: row ")
EOF
