"$INQUEST" --version
