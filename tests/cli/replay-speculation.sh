# Speculation's control and faults: every prediction holds.
"$INQUEST" replay speculation | sed -n '$p'
