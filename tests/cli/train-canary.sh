# Twenty steps from scratch are the shipped run's, on two threads and four ranks, and broken off in between; what can't be
# trained is refused with a sentence, and a checkpoint that can't be written leaves the last good one.
. "$CASES/helpers.sh"
train() { "$INQUEST" model train canary --every 10 --json "$@" 2> talk; }
train --steps 10 --out m.gguf --threads 2 | python3 -c 'import json, sys; print(json.loads(sys.stdin.readline())["step"])'
train --steps 20 --out m.gguf --data-parallel 4 > rest
grep -c 'going on from step 10$' talk
python3 - << EOF
import json
lines = [json.loads(l) for l in open("rest")]
print(lines[0]["step"], lines[0]["as_shipped"], lines[1]["step"])
EOF
refused 'expected a whole number from 1 to' "$INQUEST" model train canary --steps 0
refused 'expected a power of two' "$INQUEST" model train canary --steps 1 --data-parallel 3 --out n.gguf
refused '`parrot` is no model that inquest trains' "$INQUEST" model train parrot
cp m.gguf.train good
rc=0
(ulimit -f 100 && train --steps 21 --out m.gguf > out) || rc=$?
echo "exit $rc"
grep -c 'the file that was there before, if any, is untouched' talk
cmp m.gguf.train good
head -c 100000 good > m.gguf.train
refused 'it was cut off or added to; remove it to begin again' "$INQUEST" model train canary --steps 21 --out m.gguf
