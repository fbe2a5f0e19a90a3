# A shipped incident is printed as it is; the copy replays under its path; the example in --help is an incident.
. "$CASES/helpers.sh"
small_model m.gguf
"$INQUEST" replay --show reduction-order > mine.json
cmp mine.json "$CASES/../../harness/incidents/reduction-order.json"
refused 'nowhere.gguf' "$INQUEST" replay ./mine.json --model nowhere.gguf
"$INQUEST" replay --help | sed -n '/^mine.json/,/^$/p' | sed 1d > example.json
refused 'nowhere.gguf' "$INQUEST" replay ./example.json --model nowhere.gguf
rc=0
"$INQUEST" replay ./example.json --model m.gguf > text || rc=$?
[ $rc -le 1 ]
grep -c '^alone ' text
"$INQUEST" replay --show prompts-waves.jsonl | head -c 6
echo
