# A size limit, a file size limit and (as root) a full disk: the store is named, what was committed stays, and the same
# command finishes where there is room.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 24 > p.jsonl
record() { "$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 30 --batch 2 --level ops --name g "$@"; }
record --store whole > whole.txt
chains whole g > want
check() { # STORE
    "$INQUEST" store verify --store "$1" > verify.txt
    chains "$1" g > kept
    [ -s kept ] || echo "$1: nothing was kept"
    comm -23 kept want
}
finish() {
    record --store "$1" > out.txt 2> err.txt
    chains "$1" g | cmp - want
    "$INQUEST" store verify --store "$1" > verify.txt
}
refused "the store reached its size limit of 1048576 bytes" record --store limited --store-limit 1
check limited
finish limited
(ulimit -f 2048 && refused "cut: committing: no space left" record --store cut)
check cut
finish cut
mkdir disk
if mount -t tmpfs -o size=1m tmpfs disk 2> /dev/null; then
    trap 'umount disk' EXIT
    refused "disk/S: committing: no space left" record --store disk/S
    check disk/S
    cat /dev/zero > disk/filler 2> /dev/null || :
    refused "disk/new: opening: no space left" record --store disk/new
    chains disk/S g | cmp - kept
    rm disk/filler
    mount -o remount,size=64m disk
    finish disk/S
    finish disk/new
fi
