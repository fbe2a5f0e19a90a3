# Spaces, UTF-8 and newlines in paths work, and no control character of theirs reaches the terminal.
. "$CASES/helpers.sh"
odd=$(printf 'sp ace \303\251\n[x]*')
mkdir "$odd"
small_model "$odd/m odel.gguf"
"$INQUEST" record --model "$odd/m odel.gguf" --prompt hi --max-tokens 2 --store "$odd/st ore" --name 'a name' > out.txt
"$INQUEST" store verify --store "./$odd/../$odd/st ore/" > out.txt
"$INQUEST" diff --store "$PWD/$odd/st ore" 'a name' 'a name' | head -1
printf 'not a model\033[31m' > "$odd/no.gguf"
refused 'no.gguf' "$INQUEST" model info "$odd/no.gguf"
grep -q 'sp ace .*?\[x\]\*/no.gguf' refused.err
