# One writer at a time: the second is told who; readers see whole transactions meanwhile.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 4 > few.jsonl
prompts 50 > many.jsonl
record() { "$INQUEST" record --model m.gguf --max-tokens 4 --level tensors --store S "$@"; }
record --prompts few.jsonl --name few > out.txt
"$INQUEST" record --model m.gguf --max-tokens 4 --level tensors --store S --prompts many.jsonl --batch 2 > many.txt &
first=$!
until "$INQUEST" store ls --store S | grep -q recording; do kill -0 $first && sleep 0.02; done
refused "S: process $first is writing to it" record --prompts few.jsonl
refused "S: process $first is writing to it" "$INQUEST" store rm --store S few
"$INQUEST" diff --store S few few | head -1
"$INQUEST" store verify --store S > verify.txt
kill -0 $first || echo "the first ended too early for this test"
wait $first
"$INQUEST" store ls --store S | grep -c 'complete .* 50 requests'
