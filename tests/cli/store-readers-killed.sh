# R35: 200 readers that are killed while they read leave no slot taken; a run compared with itself is identical.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 20 > p.jsonl
record() { "$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens "$1" --level ops --store S --name "g$1" > out.txt; }
record 20
round=0
while [ $round -lt 25 ]; do
    readers=
    for c in 'store show g20' 'diff g20 g20' 'store verify' 'store ls' 'store show g20' 'diff g20 g20' 'store verify' 'diff g20 g20'; do
        # shellcheck disable=SC2086
        "$INQUEST" $c --store S > /dev/null 2>&1 &
        readers="$readers $!"
    done
    sleep 0.0$((round % 4 + 1))
    # shellcheck disable=SC2086
    kill -9 $readers 2> /dev/null || :
    wait
    round=$((round + 1))
done 2> /dev/null
record 4
"$INQUEST" diff --store S g20 g20 | head -1
"$INQUEST" store verify --store S > verify.txt
