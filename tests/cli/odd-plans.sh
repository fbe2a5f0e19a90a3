# Hostile plans: a sentence that names the field, exit status 2, and no time or memory to speak of.
. "$CASES/helpers.sh"
small_model m.gguf
if sanitized; then limit() { timeout 60 "$@"; }; else limit() { (ulimit -v 1500000 && exec timeout 20 "$@"); }; fi
check() { refused "$1" limit "$INQUEST" plan check plan.json; }
fault() { echo "{\"faults\": [{\"op\": \"topk\", \"variant\": \"coarse_bin\", $1}]}" > plan.json; }
python3 - << 'END'
import json
open("deep.json", "w").write('{"faults": ' + "[" * 1000000 + "]" * 1000000 + "}")
when = "3"
for _ in range(63): when = '{"not": %s}' % when
open("nots.json", "w").write('{"faults": [{"op": "topk", "variant": "coarse_bin", "when": {"batch": %s}}]}' % when)
fault = {"op": "topk", "variant": "coarse_bin"}
def plan(file, **more): json.dump({"faults": [fault | more]}, open(file, "w"))
plan("values.json", when={"pos": list(range(1, 500001))})
plan("points.json", rate=[[i, 0.5] for i in range(5000)])
plan("name.json", name="n" * 1000000)
json.dump({"faults": [fault] * 300}, open("faults.json", "w"))
open("huge.json", "w").write(" " * 5000000 + "{}")
open("bytes.json", "wb").write(b'{"faults": [{"op": "\xff"}]}')
END
for f in deep nots values points name faults huge bytes; do cp $f.json plan.json
    case $f in
    deep) check 'nested deeper than' ;;
    nots) check 'nested deeper than' ;;
    values) limit "$INQUEST" plan check plan.json > out; grep -o 'pos is 1, 2, 3, 4, 5, 6, 7, 8 or one of 499992 more' out ;;
    points) check '`rate`: 5000 points, expected at most 4096' ;;
    name) limit "$INQUEST" plan check plan.json > out; grep -c '^fault 0' out ;;
    faults) check '300 faults; at most 256' ;;
    huge) check 'found more than 4194304 bytes' ;;
    bytes) check 'expected UTF-8' ;;
    esac
done
mkdir folder
refused 'folder' limit "$INQUEST" plan check folder
ln -s a b; ln -s b a
refused 'a: ' limit "$INQUEST" plan check a
mkfifo pipe; (echo '{"faults": []}' > pipe &)
limit "$INQUEST" plan check pipe | head -1
fault '"when": {"batch": 1e999}'; check 'plan.json:1'
fault '"when": {"batch": 99999999999999999999}'; check '`batch`'
fault '"when": {"batch": 3, "batch": 4}'; check 'stands twice'
fault '"when": {"batch": 3, "b\u0061tch": 4}'; check 'stands twice'
fault '"when": [1]'; check '`when`: found an array, expected an object'
fault '"when": {"batch": {"not": {"min": {}}}}'; check 'expected an integer'
fault '"rate": "1"'; check '`rate`: expected a number from 0 to 1, a list'
fault '"rate": [[0, 1e-400], [1, 2]]'; check 'point 1: the probability is 2'
fault '"rate": {"hours": {"0": 1}}'; check '`rate`: expected'
fault '"per": 3'; check 'per'
fault '"seed": -1'; check 'seed'
fault '"params": {"bits": 1e308}'; check 'bits'
fault '"variant": "reference"'; check 'stands twice'
fault '"wen": {}'; check 'did you mean `when`'
echo '[]' > plan.json; check 'expected an object'
echo '{"faults": {}}' > plan.json; check 'faults: expected a list'
echo '{"faults": [3]}' > plan.json; check 'faults[0]: found a number, expected an object'
echo '{"faults": [{"op": "topk"}]}' > plan.json; check 'variant'
echo '{"engine": {"batch": 1e9}}' > plan.json; check 'batch'
echo '{"engine": {"start_s": 86400}}' > plan.json; check '`start_s`: found 86400'
: > plan.json; check 'plan.json'
