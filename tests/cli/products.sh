# Tensor-core products: other bits than ieee's, the same in every form, thread count and batch; runs of another arithmetic
# are compared by tokens only, and diff says so.
. "$CASES/helpers.sh"
small_model m.gguf format=Q4_1 hidden=64 ffn=160
prompts 5 > p.jsonl
run() {
    "$INQUEST" run --model m.gguf --prompts p.jsonl --max-tokens 8 --json "$@" > lines
    sed 's/{"id":"\([^"]*\)".*"chain":"\([0-9a-f]*\)".*/\1 \2/' lines | sort > got
}
same() { cmp -s got want || { echo "another chain: $*"; exit 1; }; }
run
cp got ieee
for products in sm80 sm90 sm80-f16 sm90-f16; do
    run --products $products
    cp got want
    for other in *.chains; do
        [ ! -f "$other" ] || ! cmp -s "$other" want || { echo "$products has the chains of $other"; exit 1; }
    done
    ! cmp -s ieee want || { echo "$products has the chains of ieee"; exit 1; }
    cp want $products.chains
    for isa in scalar avx2 avx512; do
        run --products $products --isa $isa --threads 1
        same $products --isa $isa
    done
    run --products $products --threads 3 --batch 2 --chunk 3
    same $products --threads 3 --batch 2 --chunk 3
done
cp sm90.chains want
run --products sm100
same sm100 is not sm90

"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 8 --store S --name golden > got 2> err
for products in sm90 sm100; do
    "$INQUEST" run --model m.gguf --golden golden --store S --products $products --name $products > got 2> err
done
"$INQUEST" diff --store S sm90 sm100 | sed -n 1p
rc=0
"$INQUEST" diff --store S golden sm90 > got || rc=$?
echo $rc
sed -n 's/.*another arithmetic contract: .*: \(digests are not comparable; .*\)/\1/p' got
"$INQUEST" store show --store S sm90 --json | sed 's/.*"products":"\([^"]*\)".*"matmul":"\(sm90\)[.].*/\1 \2/'
# A golden variant over another arithmetic is no workaround that changes nothing: it runs.
printf '{"faults":[{"op":"lm_head","variant":"reference"}]}' > plan.json
"$INQUEST" run --model m.gguf --golden sm90 --store S --plan plan.json --name mixed > got 2> err
"$INQUEST" diff --store S sm90 mixed | sed -n 's/^guilty *\([a-z_]*\), variant \([a-z]*\):.*/\1 \2/p'
refused "expected one of ieee|sm80|sm90|sm100|sm80-f16|sm90-f16|sm100-f16" \
    "$INQUEST" run --model m.gguf --prompt x --products sm70
