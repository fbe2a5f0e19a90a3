"$INQUEST" doctor now
