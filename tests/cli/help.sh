"$INQUEST" --help
