# bad_words and allowed: an answer keeps to them, a recorded run brings them along, and a mask on the wrong row is caught.
. "$CASES/helpers.sh"
small_model m.gguf
run() { "$INQUEST" run --model m.gguf "$@"; }
cat > p.jsonl << EOF
{"id":"free","prompt":"hello there","max_tokens":6,"ignore_stop":true}
{"id":"one-of","prompt":"hello there","max_tokens":12,"allowed":["yes","no",[80,81]]}
{"id":"never","prompt":"hello there","max_tokens":6,"ignore_stop":true,"bad_words":$(python3 -c 'print([[i] for i in range(320) if i % 5])')}
EOF
run --prompts p.jsonl --json > lines
python3 - << EOF
import json
r = {a["id"]: a for a in map(json.loads, open("lines"))}
assert r["one-of"]["finish"] == "stop" and (r["one-of"]["text"] in ("yes", "no") or r["one-of"]["ids"][:2] == [80, 81])
assert len(r["never"]["ids"]) == 6 and not any(i % 5 for i in r["never"]["ids"])
assert any(i % 5 for i in r["free"]["ids"])
EOF
"$INQUEST" record --model m.gguf --prompts p.jsonl --store S --name golden --level ops > talk 2>&1
run --store S --golden golden --name same > talk 2>&1
"$INQUEST" diff --store S golden same | sed -n 's/^verdict *\([a-z]*\).*/\1/p'
echo '{"faults":[{"op":"mask","variant":"neighbour_mask"}]}' > plan.json
run --store S --golden golden --name wrong --plan plan.json > talk 2>&1
"$INQUEST" diff --store S golden wrong > finding || echo "exit $?"
sed -n -e 's/^verdict *\([a-z]*\).*/\1/p' -e 's/^guilty *\(.*\): in .*/\1/p' finding
run --store S --again wrong --name again > talk 2>&1 # its words are among what was recorded
line() { # SENTENCE LINE
    echo "$2" > p.jsonl
    refused "$1" run --prompts p.jsonl
}
line 'p.jsonl:1: allowed: expected a list of 1 to 4096' '{"id":"a","prompt":"x","allowed":[]}'
line 'p.jsonl:1: bad_words: expected a list of texts' '{"id":"a","prompt":"x","bad_words":[5]}'
line 'p.jsonl:1: bad_words: a text of 0 bytes' '{"id":"a","prompt":"x","bad_words":[""]}'
line 'p.jsonl:1: allowed: a word of 0 tokens' '{"id":"a","prompt":"x","allowed":[[]]}'
line 'request a: allowed 0 has token 320; the vocabulary has 320' '{"id":"a","prompt":"x","allowed":[[320]]}'
echo '{"id":"a","prompt":"x","bad_words":["y"]}' > p.jsonl
refused 'bad_words and allowed are not built for --device cuda-shim' run --prompts p.jsonl --device cuda-shim
