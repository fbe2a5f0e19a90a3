# A library linked with -ffast-math switches subnormals off when it is loaded.
command -v gcc > /dev/null || { echo "gcc is missing"; exit 77; }
[ "$(uname -m)" = x86_64 ] || { echo "only x86-64 has a crtfastmath that does this"; exit 77; }
! ldd "$INQUEST" | grep -qE "lib[at]san" || { echo "a sanitizer must be the first library loaded"; exit 77; }
gcc -shared -fPIC -ffast-math -x c /dev/null -o ftz.so
rc=0
LD_PRELOAD=$PWD/ftz.so "$INQUEST" doctor > out || rc=$?
grep "float state" out
exit $rc
