# An arm at level ops gets a golden with cells, whatever the incident's own level: its guilty op has a name. Without cells
# there is no name and no empty one.
. "$CASES/helpers.sh"
small_model m.gguf
incident() {
    cat << JSON
{"name": "level", "id": "X", "title": "a product in low precision", "source": "nowhere", "story": "None.",
 "prompts": [{"id": "a", "ids": [5, 6, 7], "max_tokens": 3, "ignore_stop": true}],
 "plan": {"faults": [{"name": "low", "op": "down", "variant": "low_precision"}]},
 "arms": [{"name": "one", "what": "as it is"$1, "predict": {"guilty": "$2", "fired": true}}]}
JSON
}
for arm in ', "engine": {"level": "ops"}|down' '|body'; do
    incident "${arm%|*}" "${arm#*|}" > i.json
    "$INQUEST" replay ./i.json --model m.gguf > text 2> err
    sed -n 's/^\(guilty .*\): in .*/\1/p; s/^\(guilty .* cells\);.*/\1/p' text
    ! grep 'variant *:' text
    sed -n '$p' text
done
