"$INQUEST" doctor --optional | sed "s/^found  /missing/" | cut -c1-23 | sed "s/ *$//"
