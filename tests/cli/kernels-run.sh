# Kernels of one's own: a right one is identical or benign, a wrong one is found with its op and its trigger.
. "$CASES/helpers.sh"
EXAMPLE=$IQ_TEST_ABI/example.so
"$INQUEST" faults list --kernels "$EXAMPLE" | grep 'example.so'
"$INQUEST" faults show odd_norm --kernels "$EXAMPLE" > show
sed -n 's/^  shift/shift/p' show
sed -n 's/^example  //p' show > plan.json
small_model m.gguf
# Batches of many sizes, so that an odd number of rows is told apart from all else.
prompts 24 | awk '{ sub(/}$/, ",\"ignore_stop\":true,\"max_tokens\":" NR * 5 % 12 + 2 "}"); print }' > p.jsonl
"$INQUEST" record --model m.gguf --prompts p.jsonl --level ops --batch 6 --store S --name golden > out 2> talk
chains S golden > want
prompts 5 > few.jsonl
"$INQUEST" record --model m.gguf --prompts few.jsonl --max-tokens 3 --level ops --store S --name few > out 2> talk
run() { "$INQUEST" run --model m.gguf --store S --batch 6 "$@"; }
run --golden few --plan plan.json --name shown > out 2> talk
plan() { # VARIANT [MORE]
    op=$1
    variant=$2
    shift 2
    echo "{\"faults\":[{\"op\":\"$op\",\"variant\":\"$variant\"$*}]}" > plan.json
}
try() { # NAME [GOLDEN]
    run --golden "${2:-golden}" --plan plan.json --kernels "$EXAMPLE" --name "$1" > out 2> talk || cat talk
    says=0
    "$INQUEST" diff --store S "${2:-golden}" "$1" --fired > diff || says=$?
}
# Every kind, everywhere: golden's bits, or another order of its sums. (Rope and swiglu have no test in vitro.)
while read -r op variant otherwise; do
    plan "$op" "$variant"
    try "$variant" few
    label=$(sed -n 's/^verdict *\([a-z]*\).*/\1/p' diff)
    echo "$variant: $says $(sed -n 's/^effect.*: \([0-9]* of [0-9]*\).*/\1/p' diff) answers changed, $label" |
        sed "s/suspect/$otherwise/"
    grep -q "^fired *[1-9]" diff || cat diff
done << 'LIST'
rmsnorm golden_norm
rmsnorm plain_norm
matmul golden_matmul
matmul plain_matmul
matmul packed_matmul
topk plain_topk
attention plain_attention
rope plain_rope benign
all_reduce plain_all_reduce
swiglu plain_swiglu benign
add plain_add
LIST
# Wrong for an odd number of rows alone.
plan ffn_norm odd_norm ',"when":{"layer":0}'
try odd_norm
echo "odd_norm: $says $(sed -n 's/^verdict *\([a-z]*\).*/\1/p' diff)"
sed -n '/^guilty/s/:.*//p;/^  trigger/s/:.*//p' diff
plan down odd_matmul ',"when":{"layer":0}'
try odd_matmul
echo "odd_matmul: $says $(sed -n 's/^verdict *\([a-z]*\).*/\1/p' diff)"
sed -n '/^guilty/s/:.*//p;/^  trigger/s/:.*//p;/^  in vitro/s/data.*/data/p' diff
# A parameter that makes it right, and a workaround on top of it.
plan ffn_norm odd_norm ',"params":{"shift":0}'
try shift
grep -q '^verdict *masked' diff || cat diff
echo '{"faults":[{"op":"ffn_norm","variant":"odd_norm"},{"op":"ffn_norm","variant":"reference"}]}' > plan.json
try around
chains S around | cmp - want
# Ranks: the partial sums of four, added in their own order.
"$INQUEST" record --model m.gguf --prompts few.jsonl --max-tokens 3 --level ops --tp 2 --store S --name ranks > out 2> talk
plan all_reduce plain_all_reduce
"$INQUEST" run --model m.gguf --golden ranks --store S --plan plan.json --kernels "$EXAMPLE" --name summed > out 2> talk
"$INQUEST" diff --store S ranks summed | sed -n 's/^verdict *\([a-z]*\).*/ranks: \1/p'
# The manifest names the library; the run can be made again, unless the library has changed.
cp "$EXAMPLE" mine.so
mkdir sub
echo '{"libraries":["../mine.so"],"faults":[{"op":"ffn_norm","variant":"odd_norm"}]}' > sub/plan.json
run --golden golden --plan sub/plan.json --name mine > out 2> talk
"$INQUEST" store show --store S mine --json > show
python3 - mine.so << 'PY'
import hashlib, json, os, sys
plan = json.loads(open("show").readline())["manifest"]["plan"]
assert plan["libraries"] == [{"file": os.path.realpath("mine.so"), "timeout_s": 10, "memory_mb": 2048,
    "sha256": hashlib.sha256(open("mine.so", "rb").read()).hexdigest()}], plan
PY
run_again() { "$INQUEST" run --again mine --store S --name again; }
run_again > out 2> talk
chains S mine > first
chains S again | cmp - first
"$INQUEST" diff --store S golden mine > before || :
printf x >> mine.so
refused 'it is another library now' run_again
"$INQUEST" diff --store S golden mine > after 2> talk || :
grep -c 'not judged in vitro: manifest: plan: libraries\[0\]: found SHA-256' talk
rm mine.so
"$INQUEST" diff --store S golden mine > after 2> talk || :
grep -c 'not judged in vitro: manifest: plan: libraries\[0\]: .*No such file' talk
sed -n '/^guilty/s/:.*//p' after
