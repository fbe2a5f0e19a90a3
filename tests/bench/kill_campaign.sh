#!/bin/sh
# kill_campaign.sh INQUEST PLAN [KILLS] [run's flags]: kill -9 of coordinator, zygote, a worker or a trial, at random moments,
# KILLS times (100); then the campaign is finished and its export must be the bytes of a run that nobody disturbed.
set -eu
inquest=$1 plan=$2 kills=${3:-100}
shift 2
[ $# = 0 ] || shift
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
"$inquest" campaign "$plan" --store "$top/whole" "$@" > "$top/id" 2> /dev/null
id=$(cut -d' ' -f1 "$top/id")
"$inquest" store export --store "$top/whole" "$id" "$top/whole.file"
members() { # of the process $1's family, itself first
    for pid in "$1" $(pgrep -P "$1" || true); do
        [ "$pid" = "$1" ] && echo "$pid" || members "$pid"
    done
}
done=0 starts=0 ends=0
while [ $done -lt "$kills" ]; do
    "$inquest" campaign "$plan" --store "$top/S" --resume "$@" > "$top/out" 2> "$top/err" &
    runner=$!
    starts=$((starts + 1))
    while [ $done -lt "$kills" ] && kill -0 $runner 2> /dev/null; do
        sleep "0.$(od -An -N1 -tu1 /dev/urandom | tr -d ' ')"
        pid=$(members $runner 2> /dev/null | shuf -n 1)
        if [ -n "$pid" ] && kill -9 "$pid" 2> /dev/null; then done=$((done + 1)); fi
    done
    wait $runner && {
        ends=$((ends + 1))
        rm -rf "$top/S" # it was done before the kills were: once more from the beginning
    }
done
"$inquest" campaign "$plan" --store "$top/S" --resume "$@" > "$top/out" 2> "$top/err"
"$inquest" store export --store "$top/S" "$id" "$top/killed.file"
"$inquest" store verify --store "$top/S"
cmp "$top/whole.file" "$top/killed.file"
echo "$done kills, $starts starts, $ends of them finished: the same bytes"
