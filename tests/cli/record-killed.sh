# kill -9 at growing distances from the start, in turn of the coordinator, its trial, or both: what was committed stays,
# the store is clean, and the same command goes on.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 30 > p.jsonl
set -- "$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 20 --batch 4 --level tensors --name g --store
"$@" whole > whole.txt
chains whole g > want
: > before
for i in 1 2 3 4 5 6; do
    "$@" S > out.txt 2> err.txt &
    coordinator=$!
    sleep 0.$((i * 2 % 7))$i
    trial=$(cat "/proc/$coordinator/task/$coordinator/children" 2> /dev/null) || trial=
    case $((i % 3)) in
        0) kill -9 $coordinator 2> /dev/null || : ;;
        1) kill -9 $trial 2> /dev/null || : ;;
        2) kill -9 $coordinator $trial 2> /dev/null || : ;;
    esac
    wait $coordinator 2> /dev/null || :
    [ ! -e S/data.mdb ] || "$INQUEST" store verify --store S > verify.txt
    chains S g > after
    comm -23 before after > lost
    [ ! -s lost ] || { echo "kill $i lost"; cat lost; }
    comm -23 after want > wrong
    [ ! -s wrong ] || { echo "kill $i left another chain"; cat wrong; }
    mv after before
done
"$@" S > out.txt 2> err.txt || cat err.txt
chains S g | cmp - want
"$INQUEST" store verify --store S > verify.txt
echo done
