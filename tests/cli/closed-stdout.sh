"$INQUEST" --help >&-
