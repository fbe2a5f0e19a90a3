# A canary of two steps is written as a file and evaluated: the table adds up, a model is as good as itself and other arithmetic
# shows, the exit status says what was asked for, and odd questions are refused.
. "$CASES/helpers.sh"
eval_() { "$INQUEST" model eval "$@"; }
"$INQUEST" model train canary --steps 2 --every 2 --out m.gguf --json > train.json 2> /dev/null
"$INQUEST" canary prompts --set smoke > smoke.jsonl
awk 'NR % 12 == 1 && !/"far/' smoke.jsonl > few.jsonl
eval_ m.gguf --set smoke --json > smoke.json
eval_ m.gguf --prompts few.jsonl --batch 3 --threads 2 --chunk 5 --against m.gguf --json > same.json
eval_ m.gguf --prompts few.jsonl --against m.gguf --dtype bf16 --json > rounded.json
eval_ m.gguf --prompts few.jsonl --against m.gguf > text
sed -n '1p' text | tr -s ' '
grep -c '^copy *all *1 ' text
tail -n 1 text
# Questions that it answers right: its own answers, a token each, where that is a letter.
grep -v '"far' smoke.jsonl | sed 's/"max_tokens":[0-9]*/"max_tokens":1/' > short.jsonl
"$INQUEST" run --model m.gguf --prompts short.jsonl --json > answered.jsonl
python3 - << 'EOF'
import hashlib, json
load = lambda name: [json.loads(line) for line in open(name)]
step, model = load("train.json")
assert step["step"] == model["step"] == 2 and model["model"] == "m.gguf"
assert model["sha256"] == hashlib.sha256(open("m.gguf", "rb").read()).hexdigest()
smoke, same, rounded = load("smoke.json")[0], load("same.json")[0], load("rounded.json")[0]
assert smoke["set"] == "smoke" and smoke["seed"] == 1 and smoke["sha256"] == model["sha256"]
assert smoke["questions"] == 123 and len(smoke["tasks"]) == 11
for task in smoke["tasks"]:
    for field in "questions", "tokens", "right":
        assert task[field] == sum(level[field] for level in task["levels"])
for field in "questions", "tokens", "right":
    assert smoke[field] == sum(task[field] for task in smoke["tasks"])
mean = sum(t["nll_mean"] * t["tokens"] for t in smoke["tasks"]) / smoke["tokens"]
assert abs(mean - smoke["nll_mean"]) < 1e-9 and 3 < mean < 7  # log(320) is 5.8: it has learned next to nothing
assert smoke["interval"][0] <= smoke["accuracy"] <= smoke["interval"][1]
against = same.pop("against")
for field in "answers_changed", "logits_differ", "nll_change", "nll_change_largest", "margin_change_largest":
    assert against[field] == 0, field
assert same["first_difference"] is None and same["golden"]["sha256"] == model["sha256"]
for field in "right", "nll_mean", "margin_median", "margins_below", "interval":
    assert same[field] == against[field] == rounded["against"][field], field
few = load("few.jsonl")
assert rounded["against"]["logits_differ"] == len(few) and 0 < rounded["against"]["nll_change_largest"] < 1
assert rounded["first_difference"] == {"id": few[0]["id"], "token": 0}
answer = {a["id"]: a["text"] for a in load("answered.jsonl") if "\ufffd" not in a["text"]}
asked = [question | {"expect": answer[question["id"]]} for question in load("short.jsonl") if question["id"] in answer]
assert len(asked) >= 2
asked = asked[:len(asked) // 2 * 2]
with open("known.jsonl", "w") as known, open("wrong.jsonl", "w") as wrong:
    for i, question in enumerate(asked):
        known.write(json.dumps(question) + "\n")
        wrong.write(json.dumps(question | {"expect": question["expect"] + "!" * (i % 2)}) + "\n")
EOF
eval_ m.gguf --prompts known.jsonl --at-least 100 --at-least-task 100 | grep '^all tasks' | grep -c ' 100.00 '
status() { rc=0; "$@" > /dev/null || rc=$?; echo "$rc"; }
status eval_ m.gguf --prompts wrong.jsonl --at-least 40
status eval_ m.gguf --prompts wrong.jsonl --at-least 60
status eval_ m.gguf --prompts wrong.jsonl --at-least-task 100
status eval_ m.gguf --prompts wrong.jsonl
echo '{"id": "a", "prompt": "Cab="}' > none.jsonl
echo '{"id": "a", "prompt": "Cab=", "expect": "ab", "temperature": 1}' > warm.jsonl
echo '{"id": "a", "prompt": "Cab=", "expect": "ab", "max_tokens": 5000}' > long.jsonl
: > empty.jsonl
small_model other.gguf vocab=320
refused 'prompt a: "expect" is missing' eval_ m.gguf --prompts none.jsonl
refused 'prompt a: found temperature 1, expected 0' eval_ m.gguf --prompts warm.jsonl
refused '5000 to generate; this model is open for 2048' eval_ m.gguf --prompts long.jsonl
refused 'empty.jsonl: no prompts in it' eval_ m.gguf --prompts empty.jsonl
refused 'leave --set and --seed out' eval_ m.gguf --prompts none.jsonl --set gate
refused "--set: found 'gatee' (nearest is gate)" eval_ m.gguf --set gatee
refused '--at-least: found' eval_ m.gguf --at-least 101
refused 'other token ids for the same questions' eval_ m.gguf --prompts few.jsonl --against other.gguf
refused 'absent.gguf' eval_ absent.gguf
refused 'absent.gguf' eval_ m.gguf --prompts few.jsonl --against absent.gguf
