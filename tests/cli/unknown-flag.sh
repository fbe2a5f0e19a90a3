"$INQUEST" doctor --jsn
