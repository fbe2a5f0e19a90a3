# A device that is not there is one sentence that says what to do, and nothing is kept of the run.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 2 > p.jsonl
run() { "$INQUEST" run --model m.gguf --prompts p.jsonl --max-tokens 2 --store S "$@"; }
refused "found 'gpu' (nearest is cpu), expected one of cpu|cuda|cuda-shim" run --device gpu
run --device cuda > /dev/null 2>&1 || refused 'use --device c' run --device cuda # where there is a GPU, it runs
rm -rf S
echo '{"faults":[{"op":"down","variant":"cublas","when":{"batch":99}}]}' > cublas.json
refused 'runs only with --device cuda' run --plan cublas.json
refused 'works on GPUs only; found --device cuda-shim' run --plan cublas.json --device cuda-shim
CUDA_VISIBLE_DEVICES='' refused 'cuda: ' "$INQUEST" faults algorithms m.gguf
export IQ_SHIM_FAIL=device_count:1:100
refused 'no CUDA-capable device is detected; use --device cpu' run --device cuda-shim
IQ_SHIM_FAIL=device_count:1:35
refused 'install a driver for this CUDA version, or use --device cpu' run --device cuda-shim
unset IQ_SHIM_FAIL
[ ! -e S/data.mdb ] || "$INQUEST" store ls --store S
run --device cuda-shim --name works > out 2> talk
"$INQUEST" store verify --store S | sed 's/.*, \(1 runs, 2 requests\),.*/\1/'
