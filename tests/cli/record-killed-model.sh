# The same on a real model: three kills, of the coordinator, the trial, and both.
. "$CASES/helpers.sh"
need_model
prompts 6 > p.jsonl
set -- "$INQUEST" record --model "$IQ_TEST_MODEL" --prompts p.jsonl --max-tokens 2 --batch 1 --level ops --name g --store
"$@" whole > whole.txt
chains whole g > want
: > before
for i in 1 2 3; do
    "$@" S > out.txt 2> err.txt &
    coordinator=$!
    sleep 1.$((i * 3))
    trial=$(cat "/proc/$coordinator/task/$coordinator/children" 2> /dev/null) || trial=
    case $i in
        1) kill -9 $trial 2> /dev/null || : ;;
        2) kill -9 $coordinator 2> /dev/null || : ;;
        3) kill -9 $coordinator $trial 2> /dev/null || : ;;
    esac
    wait $coordinator 2> /dev/null || :
    [ ! -e S/data.mdb ] || "$INQUEST" store verify --store S > verify.txt
    chains S g > after
    comm -23 before after
    comm -23 after want
    mv after before
done
"$@" S > out.txt 2> err.txt || cat err.txt
chains S g | cmp - want
"$INQUEST" store verify --store S > verify.txt
