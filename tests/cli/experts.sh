# A mixture of experts: what model info says; one chain for any number of ranks; what is refused.
. "$CASES/helpers.sh"
small_model m.gguf arch=mixtral experts=8 active=2
small_model dense.gguf
prompts 6 > p.jsonl
"$INQUEST" model info m.gguf | sed -n '2,3p'
"$INQUEST" model info m.gguf --json | grep -o '"experts":8,"active_experts":2,"renormalised":true'
"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 4 --level ops --store S --name golden > out 2> talk
chains S golden > want
for ways in '--expert-parallel 2' '--expert-parallel 8 --tp 2 --chunk 3' '--expert-parallel 4 --batch 3 --captured'; do
    # Words of a list.
    # shellcheck disable=SC2086
    "$INQUEST" run --model m.gguf --golden golden --store S $ways --name ranks > out 2> talk
    chains S ranks | cmp - want
    "$INQUEST" diff --store S golden ranks | sed -n 1p
done
"$INQUEST" store show --store S ranks --json | grep -o '"tp":1,"expert_parallel":4'
run() { "$INQUEST" run --model "$@"; }
refused 'found 3 ranks, expected a power of two that divides' run m.gguf --prompt hello --expert-parallel 3
refused "divides the model's 8 experts" run m.gguf --prompt hello --expert-parallel 16
refused 'found 2 ranks, but the model has no experts' run dense.gguf --prompt hello --expert-parallel 2
refused '"sm90" is not built for experts' run m.gguf --prompt hello --products sm90
refused 'expert-parallel' run m.gguf --prompt hello --expert-parallel 0
