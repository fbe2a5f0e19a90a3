# A golden whose record was killed is no golden yet: run says how it is finished, diff says so beside its verdict.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 120 > p.jsonl
"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 40 --batch 1 --store S --name res > out.txt 2>&1 &
recorder=$!
until "$INQUEST" store ls --store S 2> err.txt | grep -q recording; do kill -0 $recorder && sleep 0.02; done
kill -9 $recorder
wait $recorder 2> /dev/null || :
say() {
    rc=0
    "$@" > out.txt 2> err.txt || rc=$?
    echo "$rc $(grep -o "[a-z]* 'res' is .*" err.txt | sed 's/([0-9]* of/(N of/')"
}
say "$INQUEST" run --model m.gguf --golden res --store S --name x
say "$INQUEST" run --model m.gguf --again res --store S --name x
say "$INQUEST" diff --store S res res | sed 's/^[03] //' # how much it compared is the kill's doing
"$INQUEST" store ls --store S | grep -c .
