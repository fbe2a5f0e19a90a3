# R4: a split set opens by any shard and by its folder; a set that is not whole is refused by the shard's name.
. "$CASES/helpers.sh"
mkdir one set
small_model one/m.gguf
small_model set/m.gguf shards=3
shard() { echo "set/m-0000$1-of-00003.gguf"; }
run() { "$INQUEST" run --model "$1" --prompt hello --max-tokens 4 --json; }
run one/m.gguf > want
for m in "$(shard 1)" "$(shard 2)" set; do run "$m" | cmp - want; done
mv "$(shard 3)" 3
refused "$(shard 3)" run "$(shard 1)"
cp "$(shard 2)" "$(shard 3)"
refused "$(shard 3): split.no is 1" run "$(shard 1)"
mv 3 "$(shard 3)"
cp "$(shard 2)" renamed.gguf
refused 'renamed.gguf: this is shard 2 of 3' run renamed.gguf
