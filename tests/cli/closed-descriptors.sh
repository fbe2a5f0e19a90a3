# With standard output closed the store would be the next file to be opened; what is printed must not end up in it.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 2 > p.jsonl
for closed in '<&-' '>&-' '2>&-' '<&- >&-' '<&- >&- 2>&-'; do
    rm -rf S
    rc=0
    sh -c '"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 2 --store S --json '"$closed" > out || rc=$?
    echo "$closed: $rc"
    "$INQUEST" store verify --store S > verify.txt
done
