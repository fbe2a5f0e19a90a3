# A plan strikes training as it strikes answers: from its step on, and only ops that training has.
. "$CASES/helpers.sh"
small_model m.gguf
digests() { sed -n 's/^step.*tok\/s  //p'; }
plan() { echo "{\"faults\":[$1]}" > "$2"; }
plan '{"op":"grad_reduce","variant":"ring","when":{"step":{"min":1}}}' ring.json
plan '{"op":"grad_reduce","variant":"ring","when":{"step":9}}' never.json
plan '{"op":"topk","variant":"coarse_bin"}' topk.json
plan '{"op":"product","variant":"bf16_operands","when":{"pos":3}}' rows.json
plan '{"op":"dropout","variant":"reseed","rate":0.5,"per":"request"}' per.json
train() { "$INQUEST" model train canary --steps 2 --every 1 --data-parallel 4 "$@"; }
train --out plain.gguf | digests > plain
train --out ring.gguf --plan ring.json | digests > ring
train --out ring.gguf --plan ring.json > out 2> again # the same plan goes on where it ended
grep -q 'going on from step 2' again || cat again
train --out never.gguf --plan never.json 2> talk | digests > never
[ "$(sed -n 1p plain)" = "$(sed -n 1p ring)" ] && [ "$(sed -n 2p plain)" != "$(sed -n 2p ring)" ] || echo "the ring is not from step 1 on"
cmp plain never
grep -q 'never fired; check its `when`' talk || cat talk
ls ./*.train | sed 's/\.[0-9a-f]\{8\}\./.PLAN./'
refused 'fault topk/coarse_bin: topk is an op of answering' train --plan topk.json
refused 'it asks about requests' train --plan rows.json
refused 'it asks about requests' train --plan per.json
refused 'grad_reduce is an op of training, and this is a run that answers' "$INQUEST" run --model m.gguf --prompt hello --plan ring.json
