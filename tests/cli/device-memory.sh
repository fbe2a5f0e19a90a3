# A device that is too small: one sentence with what to do, nothing kept of the run, and the next one works.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 4 > p.jsonl
run() { "$INQUEST" run --model m.gguf --prompts p.jsonl --max-tokens 3 --store S "$@" --device cuda-shim; }
"$INQUEST" run --model m.gguf --prompts p.jsonl --max-tokens 3 --store S --name first > out 2> talk
for bytes in 1000 100000 1000000; do
    export IQ_SHIM_MEMORY=$bytes
    refused 'device memory' run --name small
done
unset IQ_SHIM_MEMORY
for call in malloc:1:2 malloc:4:2; do
    export IQ_SHIM_FAIL=$call
    refused 'need less device memory' run --name small
done
unset IQ_SHIM_FAIL
"$INQUEST" store ls --store S | grep -c small || :
run --name next > out 2> talk
"$INQUEST" diff --store S first next | sed -n 1p
"$INQUEST" store verify --store S | sed 's/.*, \(2 runs, 8 requests\),.*/\1/'
