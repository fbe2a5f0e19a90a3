mkdir empty
PATH=$PWD/empty "$INQUEST" model fetch smollm2
