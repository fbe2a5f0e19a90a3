# The precision mismatch and the benign control, on the real model.
. "$CASES/helpers.sh"
need_model
"$INQUEST" replay anthropic-2025-09-precision --model "$IQ_TEST_MODEL" | sed -n '$p'
"$INQUEST" replay reduction-order --model "$IQ_TEST_MODEL" | sed -n '$p'
