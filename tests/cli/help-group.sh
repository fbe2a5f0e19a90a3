"$INQUEST" help model
