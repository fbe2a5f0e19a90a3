# A store that somebody else may only read: reading works, also without lock.mdb, and keeps a writer out; writing is
# refused.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 3 > p.jsonl
"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 4 --store S --name g > out.txt
chmod a-w S S/*
reader=
if [ "$(id -u)" = 0 ]; then
    reader='setpriv --reuid 65534 --regid 65534 --clear-groups'
    $reader true 2> /dev/null || { echo "setpriv can't give up root; skipped"; exit 77; }
    chmod a+rx "$PWD" "$PWD/.."
    $reader "$INQUEST" --version > out.txt 2>&1 || { echo "the program is not readable for others; skipped"; exit 77; }
fi
all() {
    $reader "$INQUEST" store verify --store S > out.txt
    $reader "$INQUEST" store show --store S g > out.txt
    $reader "$INQUEST" diff --store S g g | head -1
    refused 'S: no permission to write there' $reader "$INQUEST" store rm --store S g
    refused 'S: opening: Permission denied' $reader "$INQUEST" record --model m.gguf --prompts p.jsonl --store S
}
all
chmod u+w S
rm -f S/lock.mdb
chmod u-w S
all
chmod u+w S S/*
