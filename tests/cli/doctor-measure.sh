"$INQUEST" doctor --measure --json > doctor.json
python3 - << EOF
import json
m = json.load(open("doctor.json"))["measured"]
assert m["threads"] >= 1
assert all(x is None or 0 < x < 1e5 for pair in m["fma_gflops"].values() for x in pair), m
assert all(0 < x < 1e5 for x in m["read_gb_per_s"]), m
EOF
