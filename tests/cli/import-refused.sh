# A file that is no run leaves no store behind; a small store that is whole has bytes.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 1 > p.jsonl
"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 2 --store S --name g > out.txt 2>&1
"$INQUEST" store export --store S g good.iqrun
{ cat good.iqrun; echo; } > bad.iqrun
for f in bad.iqrun p.jsonl nothing.iqrun; do
    ! "$INQUEST" store import --store S3 $f > out.txt 2>&1 || echo "$f was taken"
    [ ! -e S3 ] || echo "$f left a store behind"
done
"$INQUEST" store import --store S3 good.iqrun > out.txt
"$INQUEST" store verify --store S3 --json | grep -o '"bytes":[1-9][0-9]*' | sed 's/[0-9]*$/N/'
