# Near ties of a small model and of the canary: the same bytes however they are computed, narrower with each round, readable by
# what takes prompts; what can't be found or asked for is told.
. "$CASES/helpers.sh"
search() { "$INQUEST" canary search "$@" 2> talk; }
small_model m.gguf
few='--count 6 --candidates 24 --max-margin 0.1'
# Words of a list.
# shellcheck disable=SC2086
{
    search m.gguf $few --rounds 1 --threads 1 > ties
    search m.gguf $few --rounds 1 --threads 2 --batch 3 | cmp - ties
    search m.gguf $few --rounds 1 --seed 2 --threads 1 > other
}
! cmp -s ties other || echo 'another seed finds the same'
sed -n '1p;$p' ties
# Of the canary, to the bit: its margins are recorded for every machine.
search canary --count 4 --candidates 48 --rounds 0 --max-margin 1 --threads 1 | sed 's/.*"expect"/"expect"/'
for rounds in 0 2; do
    search m.gguf --count 12 --candidates 24 --rounds $rounds --max-margin 0.002 --threads 1 > narrow || echo "status $?"
    cat talk
done
"$INQUEST" model eval m.gguf --prompts ties --threads 1 --json > same.json
"$INQUEST" model eval m.gguf --prompts ties --against m.gguf --dtype bf16 --threads 1 --json > rounded.json
"$INQUEST" run --model m.gguf --prompts ties --json > answers 2> talk
python3 - << 'EOF'
import json
load = lambda name: [json.loads(line) for line in open(name)]
ties, answers = load("ties"), {a["id"]: a for a in load("answers")}
assert len(ties) == 6 and max(t["tie"]["margin"] for t in ties) <= 0.1
assert len({t["id"].split(".")[0] for t in ties}) >= 3, "of several kinds"
for t in ties:
    a, tie = answers[t["id"]], t["tie"]
    step = a["steps"][tie["token"]]
    assert a["ids"] == tie["ids"] and a["text"] == t["expect"] and step["margin"] == tie["margin"], t
    assert all(before["margin"] >= 1 for before in a["steps"][:-1]) and tie["rival"] != step["id"]
same, rounded = load("same.json")[0], load("rounded.json")[0]
n = same["near_ties"]
assert same["right"] == n["probes"] == n["margins_as_recorded"] == 6 and n["moved_largest"] == n["bits_differ"] == 0
n = rounded["near_ties"]
assert n["margins_as_recorded"] == n["bits_differ"] == 6 and 0 < n["moved_median"] <= n["moved_90"] <= n["moved_largest"]
EOF
small_model other.gguf vocab=330
refused 'a near tie of the model with SHA-256' "$INQUEST" model eval m.gguf --prompts ties --against other.gguf
refused 'no near ties ship for m.gguf' "$INQUEST" model eval m.gguf --set near-tie
refused 'leave --seed out' "$INQUEST" model eval canary --set near-tie --seed 1
refused 'leave --task out' "$INQUEST" canary prompts --set near-tie --task copy
refused 'leave --model out' "$INQUEST" canary prompts --set gate --model canary
refused 'no near ties ship for m.gguf' "$INQUEST" canary prompts --set near-tie --model m.gguf
refused 'absent.gguf' "$INQUEST" canary search absent.gguf
refused '--count: found' "$INQUEST" canary search m.gguf --count 0
refused '--max-margin: found' "$INQUEST" canary search m.gguf --max-margin 2
sed 's/"margin":[^,]*/"margin":0.5/' ties > false
refused 'golden'"'"'s margin is the recorded one at 0 of 6 near ties' "$INQUEST" model eval m.gguf --prompts false --against m.gguf
