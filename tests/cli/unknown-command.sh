"$INQUEST" docter
