# What is no incident is refused by file and field, before any model is opened.
. "$CASES/helpers.sh"
replay() { "$INQUEST" replay "$@"; }
refused "an incident's name is missing; --list shows" replay
refused 'no incident is named "anthropic-2025-09-topc", did you mean "anthropic-2025-09-topk"?' replay anthropic-2025-09-topc
refused 'nowhere.json: cannot be opened: No such file' replay nowhere.json
file() { # SENTENCE, then the file on standard input
    cat > i.json
    refused "$1" replay ./i.json --model nowhere.gguf
}
arm='{"name":"a","what":"w","predict":{"label":"wrong"}}'
head='"name":"i","id":"x","title":"t","source":"s","story":"y"'
prompts='"prompts":[{"id":"p","ids":[5]}]'
file './i.json:1:1: expected a JSON value' < /dev/null
head -c 100000 /dev/zero | tr '\0' '[' | file 'nested deeper than 64'
echo "{$head}" | file './i.json: prompts: expected a list of prompts'
echo "{$head,\"name\":\"j\"}" | file 'the key "name" stands twice'
echo "{$head,$prompts,\"plan\":{\"faults\":[{\"op\":\"topk\"}]},\"arms\":[$arm]}" | file './i.json: plan: faults[0]'
echo "{$head,$prompts,\"plan\":{},\"arms\":[$arm,$arm]}" | file './i.json: arms[1]: name: "a" is another arm'
echo "{$head,$prompts,\"arms\":[$arm]}" | file './i.json: plan: is missing, expected an object'
echo "{$head,$prompts,\"plan\":{},\"arms\":[{}]}" | file './i.json: arms[0]'
echo "{$head,\"prompts\":\"nowhere.jsonl\",\"plan\":{},\"arms\":[$arm]}" | file 'prompts: no such set is shipped'
printf '{"id":"p","ids":[5]}\n{"id":"q","ids":[true]}\n' > p.jsonl
echo "{$head,\"prompts\":\"p.jsonl\",\"plan\":{},\"arms\":[$arm]}" | file './i.json: prompts[1]: found a boolean, expected an integer'
echo "{$head,$prompts,\"plan\":{},\"engine\":{\"batch\":1e308},\"arms\":[$arm]}" | file './i.json: engine'
echo "{$head,$prompts,\"plan\":{},\"arms\":[$arm]}" | file 'nowhere.gguf'
