# The example in NumPy: right kernels, one that is wrong for an odd number of rows, and returns that are refused.
. "$CASES/helpers.sh"
python3 -c 'import numpy' 2> /dev/null || { echo "python3 has no numpy; skipped"; exit 77; }
small_model m.gguf
cp "$IQ_TEST_ABI_SOURCE"/example_numpy.py .
prompts 24 | awk '{ sub(/}$/, ",\"ignore_stop\":true,\"max_tokens\":" NR * 5 % 12 + 2 "}"); print }' > p.jsonl
"$INQUEST" record --model m.gguf --prompts p.jsonl --level ops --batch 6 --store S --name golden > out 2> talk
try() { # OP VARIANT
    echo "{\"libraries\":[{\"process\":[\"python3\",\"example_numpy.py\"],\"timeout_s\":60}],
        \"faults\":[{\"op\":\"$1\",\"variant\":\"$2\",\"when\":{\"layer\":0}}]}" > plan.json
    [ "$1" != topk ] || sed -i 's/,"when":{"layer":0}//' plan.json
    rc=0
    "$INQUEST" run --model m.gguf --golden golden --store S --batch 6 --plan plan.json --name "$2" > out 2> talk || rc=$?
    "$INQUEST" diff --store S golden "$2" > diff || :
    echo "$2: run $rc, $(sed -n 's/^effect.*: \([0-9]* of [0-9]*\).*/\1/p' diff) answers changed"
    sed -n '/^crash/p;/^guilty/s/:.*//p;/^  trigger/s/:.*//p' diff
}
try ffn_norm numpy_norm | sed '/trigger/d'
try down numpy_matmul | sed '/trigger/d'
try topk numpy_topk
try ffn_norm numpy_odd_norm | sed 's/[0-9]* of 24 answers/answers/'
try ffn_norm numpy_bad_shape | sed 's/[0-9]* of .* answers/answers/'
try ffn_norm numpy_bad_type | sed 's/[0-9]* of .* answers/answers/'
try topk numpy_one_output | sed 's/[0-9]* of .* answers/answers/'
try ffn_norm numpy_writes_input | sed 's/[0-9]* of .* answers/answers/'
