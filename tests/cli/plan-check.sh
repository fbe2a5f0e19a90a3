# A plan is explained in words, and what can never fire is told with its reason: exit status 1; a plan that may, 0.
. "$CASES/helpers.sh"
small_model m.gguf
prompts 6 > p.jsonl
rc() { "$@" && echo "exit 0" || echo "exit $?"; }
check() { rc "$INQUEST" plan check plan.json "$@"; }
cat > plan.json << 'END'
{"engine": {"batch": 8},
 "faults": [{"name": "drops", "op": "topk", "variant": "coarse_bin", "params": {"capacity": 512},
             "when": {"batch": [3, 7], "tracing": false}, "rate": [[0, 0.008], [60000, 0.16]], "per": "session"},
            {"op": "topk", "variant": "reference", "when": {"temperature": {"min": 0.5}}}]}
END
check
# The same, wrong in every way.
cat > plan.json << 'END'
{"faults": [{"name": "a", "op": "topk", "variant": "coarse_bin", "when": {"batch": {"min": 9}}},
            {"name": "b", "op": "down", "variant": "k_tail", "when": {"layer": 99}},
            {"name": "c", "op": "route", "variant": "reference"},
            {"name": "d", "op": "lm_head", "variant": "k_tail", "when": {"pos": {"min": 9}, "context": 5}},
            {"name": "e", "op": "topk", "variant": "coarse_bin", "rate": 0},
            {"name": "f", "op": "topk", "variant": "coarse_bin", "when": {"batch": 2}},
            {"name": "g", "op": "topk", "variant": "reference"},
            {"name": "h", "op": "qkv", "variant": "low_precision", "when": {"context": {"min": 40}}}]}
END
check --model m.gguf --prompts p.jsonl --max-tokens 4 | grep -e '^fault' -e '^  fires' -e '^exit' -e '^checked'
check --model m.gguf --prompts p.jsonl --max-tokens 4 --json > out || :
python3 - << 'END'
import json
out = json.loads(open("out").read().splitlines()[0])
assert out["never"] == 7 and out["model"] and out["prompts"] == 6, out
assert [f["name"] for f in out["faults"] if not f["never"]] == ["g"]
assert out["faults"][6]["class"] == "workaround" and out["faults"][6]["wins_over"] == [4, 5]
assert out["faults"][0]["ops"] == [] and out["faults"][5]["plan"]["when"] == {"batch": 2}
END
# Options go before what the plan says, as in `run`; what is said never to fire does not.
check --batch 16 --json | grep -o '"name":"a","class":"wrong"\|"never":[0-9]*' | head -2
"$INQUEST" run --model m.gguf --prompts p.jsonl --max-tokens 4 --plan plan.json 2>&1 > out | grep -c 'never fired'
# Draws that are sticky are known beforehand.
echo '{"faults": [{"op": "down", "variant": "low_precision", "rate": 0.5, "per": "request", "seed": 5}]}' > plan.json
check --model m.gguf --prompts p.jsonl | grep -e drawn -e fires
# A plan of training; a value on a device; what is no plan.
echo '{"faults": [{"op": "forward", "variant": "bf16_operands"}]}' > plan.json
check | head -2
echo '{"faults": [{"op": "topk", "variant": "coarse_bin", "when": {"value.gap": {"max": 0.1}}}]}' > plan.json
refused 'value.gap asks for numbers of topk, which lie on the device; use --device cpu' "$INQUEST" plan check plan.json --device cuda-shim
refused 'value.gap asks for numbers of topk' "$INQUEST" run --model m.gguf --prompts p.jsonl --plan plan.json --device cuda-shim
refused 'give --model too' "$INQUEST" plan check plan.json --prompts p.jsonl
refused 'absent.json' "$INQUEST" plan check absent.json
echo '{"faults": [{"op": "topk", "variant": "coarse_bin", "when": {"cotnext": 3}}]}' > plan.json
refused 'did you mean `context`' "$INQUEST" plan check plan.json
