# Faults on the device: the finding of the CPU, word for word, and a firing log of equal length.
. "$CASES/helpers.sh"
small_model m.gguf hidden=64 ffn=200
prompts 7 > p.jsonl
"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 4 --batch 4 --level ops --store S --name golden > out 2> talk
find() { # DEVICE OPTIONS...
    device=$1
    shift
    "$INQUEST" run --model m.gguf --golden golden --store S --plan plan.json --device "$device" --name "$device" "$@" > out 2> talk
    "$INQUEST" store ls --store S | sed -n "s/.* \([0-9]* firings\)  $device\$/\1/p"
    rc=0
    "$INQUEST" diff --store S golden "$device" --json > json || rc=$?
    sed -e 's/"subject":"[0-9a-f]*"//' -e 's/"replay":.*//' json
    echo "exit $rc"
}
while read -r fault; do
    printf '{"faults":[%s]}' "$fault" > plan.json
    find cpu > cpu
    find cuda-shim > device
    cmp cpu device && sed -n 's/.*"label":"\([a-z]*\)".*"guilty":\[{"op":"\([a-z_]*\)".*/\1 \2/p' device
    find cuda-shim --captured > device
    cmp cpu device || :
done << 'EOL'
{"op":"topk","variant":"coarse_bin","params":{"bits":4,"capacity":8}}
{"op":"topk","variant":"shard_merge","params":{"shards":4}}
{"op":"topk","variant":"threshold_precision"}
{"op":"down","variant":"reduction_order","params":{"unit":64}}
{"op":"down","variant":"low_precision","params":{"bits":8}}
{"op":"down","variant":"k_tail","params":{"tile":128}}
EOL
# A workaround is golden's bits, by whatever form it is named; a trigger may ask where an op runs.
cat > plan.json << 'EOL'
{"faults":[{"op":"matmul","variant":"k_tail","params":{"tile":32,"drop":32},"when":{"device":"cuda"}},{"op":"down","variant":"WORKAROUND"}]}
EOL
cp plan.json as-written.json
for workaround in reference cuda; do
    sed "s/WORKAROUND/$workaround/" as-written.json > plan.json
    for device in cpu cuda-shim; do
        "$INQUEST" run --model m.gguf --prompts p.jsonl --max-tokens 2 --products sm80 --plan plan.json --device $device --json \
            > "$workaround-$device" 2> talk
    done
done
cmp reference-cpu cuda-cpu
cmp reference-cuda-shim cuda-cuda-shim
! cmp -s cuda-cpu cuda-cuda-shim # the fault strikes on the device alone
