# The trial's peak: at most 1.3 times the weight file, and its few KV blocks (46,080 bytes a position).
. "$CASES/helpers.sh"
need_model
sanitized && { echo "a sanitizer takes memory of its own; skipped"; exit 77; }
"$INQUEST" run --model "$IQ_TEST_MODEL" --prompt 'What is the capital of France?' --max-tokens 8 > out.txt &
coordinator=$!
peak=0
while kill -0 $coordinator 2> /dev/null; do
    for p in $coordinator $(cat /proc/$coordinator/task/$coordinator/children 2> /dev/null); do
        now=$(sed -n 's/VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$p/status" 2> /dev/null) || now=
        [ "${now:-0}" -le $peak ] || peak=$now
    done
    sleep 0.02
done
wait $coordinator
file=$(($(wc -c < "$IQ_TEST_MODEL") / 1024))
limit=$((file * 13 / 10 + 64 * 45))
[ $peak -gt $file ] && [ $peak -le $limit ] || echo "peak $peak KiB, expected $file to $limit"
