# A program's kernels over shared memory: right ones are golden's or benign, each misbehaviour is a finding.
. "$CASES/helpers.sh"
small_model m.gguf
cp "$IQ_TEST_ABI_SOURCE"/*.py .
prompts 3 > p.jsonl
"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 4 --level ops --store S --name golden > out 2> talk
chains S golden > want
plan() { # PROGRAM OP VARIANT TIMEOUT MEMORY
    echo "{\"libraries\":[{\"process\":[\"python3\",\"$1\"],\"timeout_s\":$4,\"memory_mb\":$5}],\"faults\":[{\"op\":\"$2\",\"variant\":\"$3\"}]}"
}
try() {
    plan "$@" > plan.json
    rc=0
    "$INQUEST" run --model m.gguf --golden golden --store S --plan plan.json --name "$3" > out 2> talk || rc=$?
    says=0
    "$INQUEST" diff --store S golden "$3" > diff || says=$?
    label=$(sed -n 's/^verdict *\([a-z]*\).*/\1/p' diff)
    echo "$3: run $rc, diff $says $label $(sed -n 's/^crash *//p' diff)" | sed 's/ *$//'
}
while read -r name timeout memory; do
    try rogue.py ffn_add "$name" "$timeout" "$memory"
done << 'LIST'
raw_add 60 1024
raises 60 1024
dies 60 1024
leaves 60 1024
sleeps 0.3 1024
eats 60 64
talks 60 1024
asks 60 1024
leaves_out 60 1024
LIST
! grep 'a kernel says' out
# The manifest names program, folder and file: the run can be made again from elsewhere, while the file is the same.
try rogue.py attn_add raw_add 60 1024
mkdir elsewhere
(cd elsewhere && "$INQUEST" run --again raw_add --model ../m.gguf --store ../S --name again > out 2> talk)
chains S again | cmp - want
echo '# changed' >> rogue.py
refused 'it is another library now' "$INQUEST" run --again raw_add --store S --name again
# What can't be started, and what is started and says nothing.
start() { # WORDS SENTENCE
    printf "%s\n" "{\"libraries\":[{\"process\":[$1]}]}" > plan.json
    refused "plan.json: libraries[0]: $2" "$INQUEST" run --model m.gguf --prompt hello --plan plan.json
}
start '"no-such-program"' 'no-such-program: no-such-program cannot be started in '
start '"true"' 'true: before it said what it has it ended its process with status 0'
start '"sh","-c","exit 3"' 'sh: before it said what it has it ended its process with status 3'
start '"sh","-c","kill -9 $$"' 'sh: before it said what it has it was killed by signal 9'
start '"python3","-c","import socket; socket.socket(fileno=3).send(b\"{]\")"' 'python3: its listing'
start '"python3","-c","import socket; socket.socket(fileno=3).send(b\"{}\")"' 'python3: its listing: '
start '"python3","-c","import socket; socket.socket(fileno=3).send(b\"{\\\"abi\\\":2}\")"' 'python3: found ABI 2, expected 1'
python3 rogue.py 2> talk && echo "served nobody"
[ "$(PYTHONPATH=$IQ_TEST_MODULE python3 rogue.py 2>&1)" = 'rogue.py holds kernels for inquest: name it in a plan, {"libraries": [{"process": ["python3", "rogue.py"]}], "faults": [...]}' ]
