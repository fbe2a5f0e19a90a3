# What can't be read leaves no store behind.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 1 > p.jsonl
echo '{"faults":[{"op":"nowhere"}]}' > plan.json
echo '[[' > t.json
echo '{"id":' > bad.jsonl
run() { "$INQUEST" run --store S "$@"; }
record() { "$INQUEST" record --store S "$@"; }
for command in run record; do
    refused 'bad.jsonl:1:' $command --model m.gguf --prompts bad.jsonl
    refused 't.json:2:1: ' $command --model m.gguf --prompts p.jsonl --trajectory t.json
    refused 'get it with `inquest model fetch smollm2`' $command --model smollm2 --prompts p.jsonl
done
refused 'plan.json: faults[0]' run --model m.gguf --prompts p.jsonl --plan plan.json
[ ! -e S ] || { echo "a store was left behind"; ls S; }
