# Kernels of one's own in a campaign: one that crashes, one that never returns, one that eats memory, one that writes outside its
# output are rows that say so, and the campaign goes on.
. "$CASES/helpers.sh"
small_model m.gguf
cp "$IQ_TEST_ABI/rogue.so" .
fault() { echo "{\"op\":\"ffn_norm\",\"variant\":\"$1\",\"name\":\"$1\"},"; }
cat > plan.json << JSON
{"libraries": [{"file": "rogue.so", "timeout_s": 0.3, "memory_mb": 64}],
 "faults": [$(fault dereference)$(fault hangs)$(fault past_end)$(fault leaves_out)$(fault leaves)
            {"op": "ffn_norm", "variant": "declines", "name": "declines"}],
 "load": 2, "tokens": 4, "seed": 1, "prompts": [{"id": "a", "ids": [3, 5, 9, 8]}, {"id": "b", "ids": [4, 4, 7]}]}
JSON
sed 's/0.3/60/;s/"faults".*/"faults": [{"op":"ffn_norm","variant":"eats"},/' plan.json > memory.json
for plan in plan memory; do
    "$INQUEST" campaign $plan.json --model m.gguf --store S$plan --jobs 2 2> talk > end
    cut -d' ' -f3- end
    "$INQUEST" report campaign --store S$plan | cut -c1-90
    "$INQUEST" store export --store S$plan "$(cut -d' ' -f1 end)" $plan.rows
    LC_ALL=C grep -a -o 'kernel [a-z_]* of rogue\.so [a-zA-Z0-9 .]*' $plan.rows | sed 's/ *$//'
done
