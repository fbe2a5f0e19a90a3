# Adapters: prompts ask for them by name, a recorded run brings them along, and KV of another adapter is caught.
. "$CASES/helpers.sh"
small_model m.gguf
mkdir one two
python3 - << EOF
import json, random, struct
for name, seed in (("one", 1), ("two", 2)):
    random.seed(seed)
    header, data = {}, b""
    for layer in range(2):
        for module, n, k in (("self_attn.q_proj", 64, 64), ("self_attn.v_proj", 32, 64), ("mlp.down_proj", 64, 160)):
            for part, rows, columns in (("A", 4, k), ("B", n, 4)):
                values = struct.pack("<%df" % (rows * columns), *(random.gauss(0, 0.3) for _ in range(rows * columns)))
                header[f"base_model.model.model.layers.{layer}.{module}.lora_{part}.weight"] = {
                    "dtype": "F32", "shape": [rows, columns], "data_offsets": [len(data), len(data) + len(values)]}
                data += values
    text = json.dumps(header).encode()
    open(name + "/adapter_model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
    json.dump({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", "target_modules": ["q_proj"]},
              open(name + "/adapter_config.json", "w"))
prompt = [5 + i % 90 for i in range(40)]
with open("p.jsonl", "w") as f:
    for i, adapter in enumerate([None, "one", "two", "one", None]):
        line = {"id": f"r{i}", "ids": prompt, "max_tokens": 6, "ignore_stop": True, "arrive_ms": 1000 * i}
        if adapter:
            line["adapter"] = adapter
        f.write(json.dumps(line) + "\n")
EOF
run() { "$INQUEST" run --model m.gguf "$@"; }
run --prompts p.jsonl --adapter one=one --adapter two=two --json > lines
python3 - << EOF
import json
r = {a["id"]: a for a in map(json.loads, open("lines"))}
assert r["r0"]["chain"] == r["r4"]["chain"] and r["r1"]["chain"] == r["r3"]["chain"]
assert len({r[i]["chain"] for i in ("r0", "r1", "r2")}) == 3
assert [r[f"r{i}"]["cached"] for i in range(5)] == [0, 0, 0, 32, 32]
EOF
"$INQUEST" record --model m.gguf --prompts p.jsonl --adapter one=one --adapter two=two --store S --name golden --level ops > talk 2>&1
run --store S --golden golden --name same > talk 2>&1
"$INQUEST" diff --store S golden same | sed -n 's/^verdict *\([a-z]*\).*/\1/p'
echo '{"faults":[{"op":"identity","variant":"shared_identity","params":{"what":3},"when":{"adapter":{"min":1}}}]}' > plan.json
run --store S --golden golden --name wrong --plan plan.json > talk 2>&1
"$INQUEST" diff --store S golden wrong > finding || echo "exit $?"
sed -n -e 's/^verdict *\([a-z]*\).*/\1/p' -e 's/^guilty *\(.*\): in .*/\1/p' finding
refused 'adapter "one": none was given; say --adapter one=FOLDER' run --prompts p.jsonl
refused 'did you mean "ones"?' run --prompts p.jsonl --adapter ones=one --adapter two=two
refused '--adapter: found "one", expected NAME=FOLDER' run --prompts p.jsonl --adapter one
refused 'adapter one: three: holds no adapter_model.safetensors' run --prompts p.jsonl --adapter one=three
echo '{"r":4}' > two/adapter_config.json
refused 'adapter two: two/adapter_config.json: lora_alpha is missing' run --prompts p.jsonl --adapter one=one --adapter two=two
refused 'adapters are not built for --device cuda-shim' run --prompts p.jsonl --adapter one=one --adapter two=one --device cuda-shim
