# A step's logit, margin and top are of one kind at any temperature: the model's own logits.
. "$CASES/helpers.sh"
small_model m.gguf
run() { "$INQUEST" run --model m.gguf --prompt Hello --raw --max-tokens 6 --logits 40 --json --temperature "$@"; }
run 0 > greedy.json
run 0.25 --seed 1 > cold.json
run 3 --seed 7 > hot.json
python3 - << 'EOF'
import json, struct
f32 = lambda x: struct.unpack("f", struct.pack("f", x))[0]
first = json.load(open("greedy.json"))["steps"][0]["top"]
off_best = 0
for name in ("greedy", "cold", "hot"):
    steps = json.load(open(name + ".json"))["steps"]
    assert steps[0]["top"] == first, (name, steps[0]["top"], first)
    for s in steps:
        logit = dict(s["top"])
        assert f32(s["top"][0][1] - s["top"][1][1]) == f32(s["margin"]), (name, s)
        assert s["logit"] == logit.get(s["id"]), (name, s)
        off_best += s["id"] != s["top"][0][0]
assert off_best, "nothing was sampled"
EOF
