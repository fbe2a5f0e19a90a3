. "$CASES/helpers.sh"
fake_python "echo /usr/bin/python3: No module named pip >&2; exit 1"
"$INQUEST" model fetch smollm2
