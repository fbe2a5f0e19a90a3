"$INQUEST" doctor --json > doctor.json
python3 - << EOF
import json
d = json.load(open("doctor.json"))
parts = {p["name"]: p for p in d["parts"]}
assert d["ok"] is True, d
for name in ["version", "build", "compiler", "contract", "cpu", "isa", "cores", "memory", "lmdb", "cjson", "xxhash", "libcrypto", "pcre2",
             "CUDA driver", "GPU", "CUDA toolkit", "cuBLAS", "NCCL", "GPU memcheck", "BPF"]:
    assert parts[name]["state"] in ("found", "missing"), parts[name]
    assert parts[name]["detail"], name
    assert ("remedy" in parts[name]) == (parts[name]["state"] == "missing"), parts[name]
assert parts["cores"]["cores"] >= 1
assert (parts["GPU"]["devices"] > 0) == (parts["GPU"]["state"] == "found") or "sm_" in parts["GPU"]["detail"], parts["GPU"]
EOF
