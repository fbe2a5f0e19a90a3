# A record that is whole already is told, and changes nothing.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 3 > p.jsonl
"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 4 --store S --name g > first
"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 4 --store S --name g > second
cmp first second
