# Another order of sums flips near ties of the canary, and stays benign.
"$INQUEST" replay near-tie-order > told
sed -n '/^effect/p' told
sed -n '$p' told
