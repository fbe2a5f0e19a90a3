#!/bin/sh
# A part of tests/gpu.sh: golden's chains on the device, in several settings, are those of the CPU, as a user runs them.
# Environment: inquest, model, small (the random model; SmolLM2 gets text, it gets ids), device, work, root.
set -eu
: "${inquest:?} ${model:?} ${device:?} ${work:?} ${root:?}"
if [ "$model" = "${small:-}" ]; then
    cat << 'LIST'
{"id":"a","ids":[3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20],"max_tokens":8}
{"id":"b","ids":[30,31,32],"max_tokens":8}
{"id":"c","ids":[9],"max_tokens":5}
{"id":"d","ids":[3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,40],"max_tokens":3}
LIST
else
    cat << 'LIST'
{"id":"a","prompt":"Rivers carry water from the hills to the sea. The longest river of France is","max_tokens":16}
{"id":"b","prompt":"One, two, three","max_tokens":16}
{"id":"c","prompt":"Water","max_tokens":9}
{"id":"d","prompt":"Rivers carry water from the hills to the sea. The longest river of Spain is","max_tokens":7}
LIST
fi > "$work/prompts"
# chains DEVICE OPTION...: a line a request, id and chain
chains() {
    on=$1
    shift
    "$inquest" run --model "$model" --device "$on" --prompts "$work/prompts" --json "$@" > "$work/lines"
    python3 "$root/tests/gpu/report.py" chains "$work/lines"
}
chains cpu > "$work/want"
bad=0
while read -r options; do
    # $options is a list of words
    # shellcheck disable=SC2086
    chains "$device" $options > "$work/got"
    equal=true
    cmp -s "$work/want" "$work/got" || { equal=false; bad=1; }
    printf '{"model":"%s","settings":"%s","chains":%d,"equal_to_cpu":%s}\n' "${model##*/}" "$options" "$(wc -l < "$work/got")" $equal
done << 'LIST'
--batch 1
--batch 3 --chunk 5
--batch 8
--batch 8 --captured
LIST
exit $bad
