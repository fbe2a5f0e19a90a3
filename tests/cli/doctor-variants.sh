# Each variant that was really built otherwise is listed with how it differs here, as a plan names it.
"$INQUEST" doctor --variants --json > all
"$INQUEST" faults list --json > list
python3 - << EOF
import json
d = json.load(open("all"))
names = [v["variant"] for v in d["miscompiled"]]
listed = {v["variant"]: v for v in json.load(open("list"))}
assert len(names) >= 23 and len(names) == len(set(names)), names
assert all(listed[n]["class"] == "benign" for n in names)
assert {v["differs"] for v in d["miscompiled"]} <= {"never", "benign", "wrong", "not here"}
other = next(p for p in d["parts"] if p["name"] == "other compiler")
assert (other["state"] == "found") == any("_other_" in n for n in names), other
EOF
