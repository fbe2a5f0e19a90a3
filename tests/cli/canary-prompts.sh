# A set is what `run` reads, the same each time, apart from other splits; odd parameters are refused.
. "$CASES/helpers.sh"
sets() { "$INQUEST" canary prompts "$@"; }
questions() { sed 's/.*"prompt":"\([^"]*\)".*/\1/' "$1" | sort; }
sets --set smoke > smoke
sets --set smoke | cmp - smoke
sets --set smoke --split held-out --seed 1 | cmp - smoke
head -n 2 smoke
sets --set smoke --seed 2 > other
! cmp -s smoke other || echo 'another seed gives the same questions'
sets --set gate --task brackets > held
sets --set deep --task brackets --split train > train
sets --set deep --task brackets --split validation --seed 2 > validation
for a in held train validation; do questions $a > $a.sorted; done
comm -12 held.sorted train.sorted
comm -12 held.sorted validation.sorted
comm -12 train.sorted validation.sorted
python3 - << EOF
import json
lines = [json.loads(l) for l in open("smoke")]
assert len({l["id"] for l in lines}) == len(lines) > 100
assert all(l["max_tokens"] == len(l["expect"]) + 1 for l in lines)
EOF
small_model m.gguf
sets --set smoke --task pointers > p.jsonl
"$INQUEST" run --model m.gguf --prompts p.jsonl --json > out
grep -c '"id":"pointers' out
refused '--set smoke|gate|deep|direct|near-tie is missing' sets
refused "--set: found 'gat' (nearest is gate)" sets --set gat
refused 'no task is named "lookupp", did you mean "lookup"' sets --set gate --task lookupp
refused 'the set gate has no task add-direct' sets --set gate --task add-direct
refused 'the set direct has no task copy' sets --set direct --task copy
refused '--seed: found' sets --set smoke --seed -1
refused '--seed: found' sets --set smoke --seed 9007199254740994
refused "--split: found 'test'" sets --set smoke --split test
sets --set direct --seed 9007199254740992 --split train --task add-direct | wc -l
