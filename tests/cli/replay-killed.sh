# A replay that ends by a signal takes its temporary store along.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 60 | sed 's/}$/,"max_tokens":200,"ignore_stop":true}/' > p.jsonl
cat > own.json << EOF
{"name": "own", "id": "X", "title": "t", "source": "s", "story": "y", "prompts": "p.jsonl",
 "plan": {"faults": [{"op": "topk", "variant": "reference"}]},
 "arms": [{"name": "a", "what": "w", "predict": {"label": "identical"}}]}
EOF
mkdir tmp
left() { find tmp -mindepth 1; }
# Each waits for the other: a count ends what never happens.
until_() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 400 ] || { echo "never happened: $*"; left; exit 1; }
        sleep 0.05
    done
}
begun() { left | grep -q data.mdb; }
gone() { [ -z "$(left)" ]; }
for signal in TERM HUP KILL; do
    TMPDIR=$PWD/tmp "$INQUEST" replay ./own.json --model m.gguf > out 2> err &
    pid=$!
    until_ begun
    kill -$signal $pid
    rc=0
    { wait $pid; } 2> /dev/null || rc=$?
    echo "$signal $rc"
    until_ gone
done
