# Two copies with nothing freed are equal, a freed one is not, and the table is whole; what makes no study is refused.
. "$CASES/helpers.sh"
"$INQUEST" study twins --steps 2 --factor ring-2 --factor optimiser-bf16 --json > twins.json
python3 - << EOF
import json
study = json.load(open("twins.json"))
assert study["repeated"] and study["steps"] == 2
reference, again, ring, moments = study["twins"]
assert [t["twin"] for t in study["twins"]] == ["reference", "again", "ring-2", "optimiser-bf16"]
for t in (reference, again, ring):
    assert t["equal"] and t["first_difference"] is None and t["distance"] == 0 and t["nll_change"] == 0, t
assert moments["plan"]["faults"][0]["variant"] == "bf16_state" and not moments["equal"]
assert moments["first_difference"] == {"step": 0, "tensor": "embed", "moments": True}, moments
assert 0 < moments["distance"] < 0.1 and moments["nll"] != reference["nll"]
for t in study["twins"]:
    low, high = t["accuracy_95"]
    assert low <= t["accuracy"] <= high and t["accuracy"] == t["right"] / study["questions"]
    low, high = t["nll_change_95"]
    assert low <= t["nll_change"] <= high
EOF
"$INQUEST" study twins --steps 1 --factor ring-2 | cut -c 1-31
refused 'no factor is named "sum-odrer", did you mean "sum-order"?' "$INQUEST" study twins --factor sum-odrer
refused 'known are init-seed, data-order' "$INQUEST" study twins --factor zzzzzz
refused "--steps: found '0'" "$INQUEST" study twins --steps 0
