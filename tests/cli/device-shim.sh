# --device cuda-shim: the answers and chains of the CPU; the run says where it ran, and --again goes there again.
. "$CASES/helpers.sh"
small_model m.gguf format=Q4_1 hidden=64 ffn=160
prompts 6 > p.jsonl
"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 4 --level ops --store S --name golden > out 2> talk
chains S golden > want
for ways in '--batch 1' '--batch 3 --captured' '--captured --arrivals 900000' '--tp 2 --chunk 3'; do
    # Words of a list.
    # shellcheck disable=SC2086
    "$INQUEST" run --model m.gguf --golden golden --store S --device cuda-shim $ways --name shim > out 2> talk
    chains S shim | cmp - want
    "$INQUEST" diff --store S golden shim | sed -n 1p
done
"$INQUEST" store show --store S shim --json | grep -o '"device":"[^"]*"' | sort -u
"$INQUEST" run --again shim --store S --name again > out 2> talk
"$INQUEST" store show --store S again --json | grep -o '"device":"[^"]*"' | sort -u
"$INQUEST" run --again shim --store S --device cpu --name cpu > out 2> talk
"$INQUEST" store show --store S cpu --json | grep -o '"device":"[^"]*"' | sort -u
"$INQUEST" diff --store S shim cpu | sed -n 1p
