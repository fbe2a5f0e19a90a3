# What is nearly right is refused with what was probably meant.
. "$CASES/helpers.sh"
small_model m.gguf
plan() { # SENTENCE, then the fault on standard input
    printf '{"faults":[%s]}' "$(cat)" > plan.json
    refused "$1" "$INQUEST" run --model m.gguf --prompt hello --plan plan.json
}
echo '{"op":"topk","variant":"coarse_bin","when":{"btach":3}}' | plan '`when`: unknown key `btach`, did you mean `batch`?'
echo '{"op":"topk","variant":"coarse_bin","when":{"phase":"decoed"}}' | plan 'did you mean "decode"?'
echo '{"op":"topk","variant":"corase_bin"}' | plan 'no variant of topk is named "corase_bin", did you mean "coarse_bin"?'
echo '{"op":"tpok","variant":"coarse_bin"}' | plan 'no op or kind is named "tpok", did you mean "topk"?'
echo '{"op":"topk","variant":"coarse_bin","params":{"bist":3}}' | plan 'did you mean `bits`?'
refused 'smolm2: no such file, and no known model; did you mean "smollm2"?' "$INQUEST" run --model smolm2 --prompt hello
refused 'no incident is named "reduction-ordre", did you mean "reduction-order"?' "$INQUEST" replay reduction-ordre
refused 'no incident is named "reduction-ordre", did you mean "reduction-order"?' "$INQUEST" replay --show reduction-ordre
echo '{"id":"a","messages":[{"role":"usr","content":"x"}]}' > p.jsonl
refused 'p.jsonl:1: no role is named "usr", did you mean "user"?; known are system, user, assistant, tool' \
    "$INQUEST" run --model m.gguf --prompts p.jsonl
refused '--fail-on: found no label, expected some of these: identical' "$INQUEST" diff --store S a b --fail-on ''
