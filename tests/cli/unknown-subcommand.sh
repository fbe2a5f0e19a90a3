"$INQUEST" model fetc smollm2
