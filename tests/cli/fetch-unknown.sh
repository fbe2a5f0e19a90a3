"$INQUEST" model fetch smolm2
