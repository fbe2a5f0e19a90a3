# A model file that was cut anywhere is refused by name; so is each file of a Hugging Face folder. Memory is limited, so
# that a length which lies can't be believed.
. "$CASES/helpers.sh"
small_model m.gguf format=Q4_1
small_model hf
sanitized || ulimit -v 4000000
model() { refused "$1" "$INQUEST" run --model "$1" --prompt hi --max-tokens 1 --threads 1; }
size=$(wc -c < m.gguf)
for at in 0 1 4 7 8 16 23 24 31 100 1000 5000 $((size / 2)) $((size - 1)); do
    head -c "$at" m.gguf > cut.gguf
    model cut.gguf
done
for f in config.json tokenizer.json tokenizer_config.json model.safetensors; do
    mv hf/$f whole
    size=$(wc -c < whole)
    for at in 0 1 7 8 9 50 $((size / 2)) $((size - 2)); do
        head -c "$at" whole > hf/$f
        model hf
    done
    mv whole hf/$f
done
"$INQUEST" run --model hf --prompt hi --max-tokens 1 > out.txt
