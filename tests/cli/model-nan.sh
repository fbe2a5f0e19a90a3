# Weights that are NaN leave no token to sample: said, and recorded as crashed.
. "$CASES/helpers.sh"
small_model m.gguf
size=$(wc -c < m.gguf)
head -c $((size - 20000)) /dev/zero | tr '\0' '\377' | dd of=m.gguf bs=1000 seek=20 conv=notrunc 2> /dev/null
head -c "$size" m.gguf > n.gguf
refused 'no token can be sampled: a row'"'"'s logits are all NaN' "$INQUEST" run --model n.gguf --prompt hi
rc=0
"$INQUEST" run --model n.gguf --prompt hi --store S --name nan 2> err || rc=$?
echo $rc
"$INQUEST" store ls --store S
