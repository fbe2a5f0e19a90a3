# Output that can't be written is the sentence of `run`, and the run is not kept.
. "$CASES/helpers.sh"
[ -w /dev/full ] || { echo "no /dev/full"; exit 77; }
small_model m.gguf
prompts 3 > p.jsonl
run() { "$INQUEST" run --model m.gguf --prompts p.jsonl --max-tokens 4 --json "$@"; }
rc=0
run > /dev/full 2> err || rc=$?
echo "$rc $(cat err)"
rc=0
run --store S --name x > /dev/full 2> err || rc=$?
echo "$rc $(cat err)"
"$INQUEST" store ls --store S
mkfifo pipe
(
    sleep 0.3
    rc=0
    run || rc=$?
    echo $rc > rc
) > pipe 2> err &
: < pipe
wait
echo "$(cat rc) $(cat err)"
(trap '' XFSZ && ulimit -f 0 && run --save-trajectory t.json 2>&1 > /dev/null || :) | cat
[ ! -e t.json ] || echo "t.json was left behind"
refused 'no/such/file: cannot be written: No such file' run --save-trajectory no/such/file
