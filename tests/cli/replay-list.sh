"$INQUEST" replay --list
"$INQUEST" replay --list --json | python3 -c 'import json, sys; print(" ".join(i["id"] for i in json.load(sys.stdin)))'
