# The script is bash that completes commands, their words, options and choices.
command -v bash > /dev/null || { echo "bash is missing"; exit 77; }
"$INQUEST" completion bash > script
cat > try << 'EOF'
. ./script
try() { COMP_WORDS=(inquest "$@"); COMP_CWORD=$#; COMPREPLY=(); _inquest; echo "${COMPREPLY[*]}"; }
try doc
try model fet
try doctor --m
try model fetch --ver
try replay redu
try faults show k_
try ''
EOF
bash try
