# R37: a store that was cut, or whose pages were zeroed or swapped, is refused by name; never a signal.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 8 > p.jsonl
"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 8 --level tensors --store S --name g > out.txt
mv S/data.mdb whole
size=$(wc -c < whole)
commands() { # the damage, as told where a command does not refuse it
    for c in 'store verify' 'store ls' 'store show g' 'diff g g'; do
        # Words on purpose.
        # shellcheck disable=SC2086
        rc=0; "$INQUEST" $c --store S > out 2> err || rc=$?
        case $rc in
            0) [ "$c" != 'store verify' ] || verified="$verified $1" ;;
            2) grep -q ' S[:/]' err && [ "$(wc -l < err)" = 1 ] || { echo "$1: $c said"; cat err; } ;;
            *) echo "$1: $c ended with $rc"; cat err ;;
        esac
    done
}
verified=
for at in 0 1 4095 4096 8191 8192 12288 $((size / 2)); do
    head -c "$at" whole > S/data.mdb
    commands "cut at $at"
done
[ -z "$verified" ] || echo "verify took:$verified"
page=2
while [ $page -lt $((size / 4096)) ]; do
    cp whole S/data.mdb
    dd if=/dev/zero of=S/data.mdb bs=4096 seek=$page count=1 conv=notrunc 2> /dev/null
    commands "zeroed page $page"
    cp whole S/data.mdb
    dd if=whole of=S/data.mdb bs=4096 skip=$((size / 4096 - page)) seek=$page count=1 conv=notrunc 2> /dev/null
    commands "swapped page $page"
    page=$((page + size / 4096 / 12 + 1))
done
cp whole S/data.mdb
"$INQUEST" store verify --store S > verify.txt
