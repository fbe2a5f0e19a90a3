# Three incidents that nobody foresaw, each written from a paragraph, `--help` and the README: that the trigger language
# reaches them without a rebuild.
. "$CASES/helpers.sh"
"$INQUEST" canary prompts --set smoke > smoke.jsonl
# 15 short questions of 8 sessions, three every 20 minutes, each third one sampled; and a long one beside short ones.
python3 - << 'END'
import json
smoke = [json.loads(line) for line in open("smoke.jsonl")]
short = [p for p in smoke if len(p["prompt"]) < 200][:15]
with open("day.jsonl", "w") as out:
    for i, p in enumerate(short):
        more = {"session": 1 + i % 8, "arrive_ms": i // 3 * 1200000, "seed": i, "temperature": 0.9 if i % 3 == 2 else 0}
        out.write(json.dumps(p | more) + "\n")
far = next(p for p in smoke if p["id"] == "far-lookup.0.0")
with open("mixed.jsonl", "w") as out:
    for p in [far] + short[:2]: out.write(json.dumps(p) + "\n")
END
# A kernel that takes rows in pairs handles the odd last one with another stride, but only where the context is above 300.
cat > odd-and-long.json << 'END'
{"name": "odd-and-long", "id": "N1", "title": "an odd number of tokens, a context above 300", "source": "made up", "story": "...",
 "prompts": "mixed.jsonl", "engine": {"batch": 3, "level": "ops"},
 "plan": {"faults": [{"name": "tail", "op": "attn_out", "variant": "k_tail", "params": {"tile": 64, "drop": 8},
                      "when": {"tokens": {"mod": 2, "is": 1}, "context": {"min": 301}}}]},
 "arms": [{"name": "as-it-happened", "what": "a long prompt among short ones", "predict": {"label": "wrong", "guilty": "attn_out"}},
          {"name": "short", "what": "the same fault, the first 300 tokens only", "engine": {"chunk": 300, "batch": 1},
           "without": ["tail"], "faults": [{"name": "tail", "op": "attn_out", "variant": "k_tail", "params": {"tile": 64, "drop": 8},
           "when": {"tokens": {"mod": 2, "is": 1}, "context": {"min": 301, "max": 302}, "phase": "decode"}}],
           "predict": {"label": "identical", "fired": false}}]}
END
# Between 12 and 14 h, candidates of greedy requests are lost beside a neighbour that samples hot, and never alone.
cat > lunch-break.json << 'END'
{"name": "lunch-break", "id": "N2", "title": "near ties, hot neighbours, lunch time", "source": "made up", "story": "...",
 "prompts": "day.jsonl", "engine": {"batch": 8, "start_s": 39600},
 "plan": {"faults": [{"name": "drops", "op": "topk", "variant": "coarse_bin", "params": {"bits": 1, "capacity": 16},
                      "when": {"hour": {"min": 12, "max": 13}, "temperature": 0, "others_temperature": {"min": 0.5},
                               "value.gap": {"max": 20}}}]},
 "arms": [{"name": "as-it-happened", "what": "from 11 h on", "predict": {"label": "wrong", "guilty": "topk", "fired": true}},
          {"name": "alone", "what": "one at a time", "engine": {"batch": 1, "start_s": 39600}, "predict": {"label": "identical", "fired": false}}]}
END
# A roll-out over an hour: of the sessions that arrive late, more and more run a cold path as their context crosses 16.
cat > cold-path.json << 'END'
{"name": "cold-path", "id": "N3", "title": "a roll-out, sticky by session", "source": "made up", "story": "...",
 "prompts": "day.jsonl", "engine": {"batch": 4, "chunk": 32, "level": "ops"},
 "plan": {"faults": [{"name": "cold", "op": "matmul", "variant": "low_precision", "params": {"bits": 4}, "per": "session",
                      "rate": [[0, 0], [1200000, 0.9]], "when": {"op": {"not": "lm_head"}, "layer": {"min": 2}, "context": {"crosses": 16}}}]},
 "arms": [{"name": "as-it-happened", "what": "over an hour", "predict": {"fired": true, "guilty_among": ["qkv", "attn_out", "gate_up", "down"]}},
          {"name": "first-wave", "what": "before the roll-out", "prompts": {"first": 3}, "predict": {"fired": false, "label": "identical"}}]}
END
for i in odd-and-long lunch-break cold-path; do
    "$INQUEST" replay "./$i.json" --model canary > out 2> talk || cat out
    tail -1 out
done
# One that never strikes says which of its conditions is to blame.
sed 's/"batch": 3/"batch": 4/; s/"min": 301}/"min": 2001}/' odd-and-long.json > never.json
"$INQUEST" replay ./never.json --model canary 2> talk | sed -n 's/ in [1-9][0-9]*/ in N/; s/of [0-9]* calls/of N calls/; s/^  \(tail never fired\)/\1/p'
