[ -w /dev/full ] || { echo "no /dev/full"; exit 77; }
"$INQUEST" --help > /dev/full
