"$INQUEST" model fetch --help
"$INQUEST" help model fetch > again
"$INQUEST" model fetch --help | cmp - again
