# --again brings its model along, as long as the file holds what it held; several answers stand behind their ids.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 3 > p.jsonl
answers() { chains S "$1" | grep "^q"; }
"$INQUEST" run --model m.gguf --prompts p.jsonl --max-tokens 2 --store S --name first 2> talk | LC_ALL=C sed 's/^\(\[q.\]\) .*/\1/' | sort
answers first > first
"$INQUEST" run --again first --store S --level ops --name again > out 2> talk
answers again | cmp - first
refused 'a recorded run brings its own prompts and sampling; leave --seed out' \
    "$INQUEST" run --again first --store S --seed 3
mv m.gguf n.gguf
refused 'm.gguf, the model of the recorded run: No such file or directory; give its file with --model' \
    "$INQUEST" run --again first --store S
"$INQUEST" run --again first --store S --model n.gguf --level ops --name moved > out 2> talk
answers moved | cmp - first
small_model m.gguf seed=9
refused "; give its file with --model" "$INQUEST" run --again first --store S
"$INQUEST" record --model n.gguf --prompt hello --max-tokens 1 --store S --name taken > out 2> talk
refused "the name 'taken' is taken by another run; choose another, or move it (--move-name)" \
    "$INQUEST" record --model n.gguf --prompt other --max-tokens 1 --store S --name taken
