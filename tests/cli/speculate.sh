# R25, B30: speculation changes no answer; K22's three ways do, told apart by the length of drafts and by token, KV cell or
# draw; another order of sums in the steps that verify is benign.
. "$CASES/helpers.sh"
cat > p.jsonl << 'EOF'
{"id":"a","prompt":"one two three one two three one two three one","max_tokens":24}
{"id":"b","prompt":"red blue red blue red blue red green","max_tokens":24}
{"id":"c","prompt":"1 2 3 4 1 2 3 4 1 2","max_tokens":24}
EOF
echo '{"faults":[{"op":"accept","variant":"first_unchecked"}]}' > unchecked.json
echo '{"faults":[{"op":"rollback","variant":"keep_rejected"}]}' > kept.json
echo '{"faults":[{"op":"sample","variant":"draft_stream"}]}' > stream.json
echo '{"faults":[{"op":"matmul","variant":"reduction_order","params":{"unit":64},"when":{"draft":{"min":1}}}]}' > order.json
"$INQUEST" record --prompts p.jsonl --store S --name greedy --level ops > out 2> talk
"$INQUEST" record --prompts p.jsonl --temperature 0.9 --seed 5 --store S --name drawn --level ops > out 2> talk
# try GOLDEN LENGTH [PLAN]: the verdict's word, and the first guilty op.
try() {
    "$INQUEST" run --golden "$1" --store S --speculate "$2" ${3:+--plan $3.json} --name try --json > lines 2> talk
    "$INQUEST" diff --store S "$1" try > diff || :
    echo "$1 $2 ${3:-alone}: $(sed -n 's/^verdict *\([a-z]*\).*/\1/p' diff)$(sed -n 's/^guilty *\([a-z_]*\),.*/, \1/p' diff)"
}
for length in 1 2 3; do
    try greedy $length
    grep -o '"drafted":[0-9]*,"accepted":[0-9]*' lines | head -1
    for plan in unchecked kept; do try greedy $length $plan; done
done
try drawn 2
try drawn 2 stream
try greedy 2 stream
try greedy 2 order
cat > all.json << 'EOF'
{"faults":[{"op":"accept","variant":"first_unchecked"},{"op":"rollback","variant":"keep_rejected"},
           {"op":"sample","variant":"draft_stream"}]}
EOF
try drawn 0 all
sed 's/"}/","rate":0}/g' all.json > off.json
try drawn 2 off
"$INQUEST" store verify --store S | cut -d: -f1
# A draft model: its guesses are good where it is the model itself, and no guess changes an answer.
small_model m.gguf
small_model other.gguf seed=9
prompts 4 > q.jsonl
"$INQUEST" record --model m.gguf --prompts q.jsonl --max-tokens 12 --store S --name small > out 2> talk
for draft in m other; do
    "$INQUEST" run --golden small --store S --speculate 3 --draft $draft.gguf --name drafted --json 2> talk | grep -o '"drafted.*"accepted":[0-9]*' | tail -1
    "$INQUEST" diff --store S small drafted | cut -d: -f1 | head -1
done
"$INQUEST" store show --store S drafted --json | grep -o '"draft":{"path":"[^"]*other.gguf"'
"$INQUEST" run --again drafted --store S --name again --json 2> talk | grep -o '"drafted.*"accepted":[0-9]*' | tail -1
run() { "$INQUEST" run --raw --prompt hello "$@"; }
refused 'without --speculate' run --model m.gguf --draft other.gguf
refused 'expected one vocabulary' run --draft m.gguf --speculate 2
refused 'speculate' run --speculate 33
refused '"draft_strean"' run --plan /dev/stdin << 'EOF'
{"faults":[{"op":"sample","variant":"draft_strean"}]}
EOF
