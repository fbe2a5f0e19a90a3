# Plans can be written from what `faults` prints: each variant is listed once, and its example is a plan that runs.
. "$CASES/helpers.sh"
small_model m.gguf
"$INQUEST" faults list | grep -A1 '^k_tail '
"$INQUEST" faults show foreign_block | sed -n '/^op/p;/^needs/p;/^  which/p'
"$INQUEST" faults fields | grep -e '^  batch ' -e '^  phase ' -e '^  matmul ' -e '"not"' -e 'value.rank_skew' -e crosses
"$INQUEST" faults list --json > list
"$INQUEST" faults fields --json > fields
"$INQUEST" faults show coarse_bin --json > show
python3 - << EOF
import json
names = [v["variant"] for v in json.load(open("list"))]
assert len(names) == len(set(names)) and {"coarse_bin", "stale_peer", "sm90"} <= set(names) and "sm90.avx2" not in names
fields = json.load(open("fields"))
assert next(f for f in fields["fields"] if f["name"] == "phase")["words"] == ["prefill", "decode"]
assert fields["operands"]["topk"] and len(fields["forms"]) == 6
assert next(v for v in fields["values"]["topk"] if v["name"] == "gap")["reads"] is True
show = json.load(open("show"))
assert show["ops"] == ["topk"] and show["params"][0]["name"] == "bits" and show["params"][0]["max"] == 16
here = [v for v in json.load(open("list")) if v["device"] != "cuda"]
trained = [v["variant"] for v in here if v["kind"] in ("seed", "product", "adamw")]
assert len(trained) == 4
open("names", "w").write("".join(v["variant"] + "\n" for v in here if v["variant"] not in trained))
open("trained", "w").write("".join(v + "\n" for v in trained))
EOF
while read -r name; do
    "$INQUEST" faults show "$name" | sed -n 's/^example  //p' > plan.json
    "$INQUEST" run --model m.gguf --prompt hello --max-tokens 1 --plan plan.json > out 2> talk || echo "the example of $name does not run"
done < names
while read -r name; do
    "$INQUEST" faults show "$name" | sed -n 's/^example  //p' > plan.json
    "$INQUEST" model train canary --steps 1 --plan plan.json > out 2> talk || echo "the example of $name does not train"
done < trained
refused 'no fault is named "k_tial", did you mean "k_tail"?' "$INQUEST" faults show k_tial
refused 'commands of faults: list, show, fields' "$INQUEST" faults
