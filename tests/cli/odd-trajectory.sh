# A trajectory that can't be followed is refused by file, step and pair.
. "$CASES/helpers.sh"
small_model m.gguf
run() { "$INQUEST" run --model m.gguf --prompt Hello --raw --max-tokens 2 --trajectory "$@"; }
refused 'none.json: cannot be opened: No such file' run none.json
file() { # SENTENCE TEXT
    echo "$2" > t.json
    refused "$1" run t.json
}
file 't.json:2:1: ' '[['
file 't.json: step 0: expected a list of steps' '{"steps":1}'
file 't.json: step 0: expected a list of steps' '[7]'
file 't.json: step 0, pair 0: expected pairs [request, tokens]' '[[[0]]]'
file 't.json: step 0, pair 0: request: found 4, expected' '[[[4,1]]]'
file 't.json: step 0, pair 1: names request 0 twice' '[[[0,1],[0,1]]]'
file 't.json: step 1, pair 0: gives request 0 300 tokens, but it lacks' '[[[0,1]],[[0,300]]]'
file 't.json: it ends before step 1, yet 1 of 1 requests are not done' '[[[0,1]]]'
refused 't.json: it ends before step 1' "$INQUEST" record --model m.gguf --prompt Hello --raw --trajectory t.json --store S
