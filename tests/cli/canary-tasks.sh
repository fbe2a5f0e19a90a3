# Each task is listed once with an example, as text and as JSON.
"$INQUEST" canary tasks | grep -A1 -e '^copy ' -e '^far-lookup ' -e '^add-direct '
"$INQUEST" canary tasks --json > list
python3 - << EOF
import json
tasks = json.load(open("list"))
assert len({t["task"] for t in tasks}) == len(tasks) and sum(t["gated"] for t in tasks) == 11
assert all(t["prompt"] and t["expect"] and t["levels"] == 3 for t in tasks)
sort = next(t for t in tasks if t["task"] == "sort")
assert sort["expect"] == "".join(sorted(sort["prompt"][1:-1]))
EOF
