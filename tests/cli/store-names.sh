# A run may have several names: ls shows all of them, rm takes one off and the run goes with the last. A repeated run is
# dated when it was repeated.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 2 > p.jsonl
"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 3 --store S --name g > out.txt 2>&1
"$INQUEST" run --model m.gguf --golden g --store S --name topk > out.txt 2>&1
"$INQUEST" run --model m.gguf --again topk --store S --name topk2 > out.txt 2>&1
"$INQUEST" store ls --store S | sed 's/.* firings  //'
"$INQUEST" store ls --store S --json | grep -o '"names":\[[^]]*\]'
date -u +%Y-%m-%d > today
"$INQUEST" store ls --store S | grep -c -F "$(cat today)"
"$INQUEST" store rm --store S topk
"$INQUEST" store rm --store S topk2
"$INQUEST" store ls --store S | sed 's/.* firings  //'
