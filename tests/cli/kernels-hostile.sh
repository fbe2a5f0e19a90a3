# Libraries that are none, or whose tables are broken: one sentence that names library and entry, exit status 2, nothing kept.
. "$CASES/helpers.sh"
small_model m.gguf
plan() { echo "{\"libraries\":[$1],\"faults\":[{\"op\":\"ffn_norm\",\"variant\":\"second\"}]}" > plan.json; }
run() { "$INQUEST" run --model m.gguf --prompt hello --max-tokens 2 --store S --plan plan.json; }
plan "\"$IQ_TEST_ABI/hostile.so\""
while read -r case sentence; do
    export ABI_CASE="$case"
    refused "plan.json: libraries[0]: $IQ_TEST_ABI/hostile.so: $sentence" run
done << 'LIST'
null-table inquest_kernels(1) returned NULL
wrong-abi found ABI 99, expected 1; build it against
wrong-size says that struct inquest_kernel has 8 bytes, expected
no-kernels lists 0 kernels, expected 1 to 64
many-kernels lists 4000000000 kernels, expected 1 to 64
null-kernels lists 0 kernels, expected 1 to 64
wild-kernels while it was loaded it was killed by signal 11
null-name kernels[1]: name: found NULL, expected a text
null-kind kernels[1]: kind: found NULL, expected a text
empty-name kernels[1]: name: found "", expected 1 to 63 letters
odd-name kernels[1]: name: found "a b
latin-name kernels[1]: name: found "n
long-name kernels[1]: name: found "aaaa
same-name kernels[1]: it lists first of rmsnorm twice
taken-name kernels[1]: rmsnorm already has a variant that is called reference
odd-kind kernels[1]: no kind that a kernel may stand for is named "rmsnrom", did you mean "rmsnorm"?
other-kind kernels[1]: no kind that a kernel may stand for is named "sample"
null-run kernels[1] (second): run is NULL
odd-flags kernels[1]: `flags`: found 128
both-flags kernels[1] (second): flags say both
nan-param kernels[0]: params[1] (q): found default 1, range 0 to nan
inf-param kernels[0]: params[1] (q): found default 1, range 0 to nan
param-range kernels[0]: params[1] (q): found default 3, range 0 to 2
same-param kernels[0]: parameter p is there twice
null-param kernels[0]: params[1]: name: found NULL
many-params has a kernel with more than 16 parameters
dies-in-constructor while it was loaded it was killed by signal 11
exits-in-constructor while it was loaded it ended its process with status 0
dies-in-listing while it was loaded it was killed by signal 6
LIST
export ABI_CASE=
[ ! -e S ] || echo "a store was made"
run > out 2> talk
# Loading it changes how its process computes: said, and golden's process is another.
ABI_CASE=flushes run > out 2> talk
case $(uname -m) in x86_64) grep -c 'hostile.so: the process that loads it flushes subnormals to zero' talk ;; *) echo 1 ;; esac
ABI_CASE=wrong-abi
export ABI_CASE
refused 'found ABI 99' "$INQUEST" faults list --kernels "$IQ_TEST_ABI/hostile.so"
export ABI_CASE=
# Files that are no libraries.
echo 'no library' > text.so
plan '"text.so"'
refused "text.so: cannot be loaded: $PWD/text.so: file too short" run
head -c 4096 /dev/zero > zero.so
plan '"./zero.so"'
refused 'zero.so: cannot be loaded: ' run
plan '"m.gguf"'
refused 'm.gguf: cannot be loaded: ' run
plan '"none.so"'
refused 'libraries[0]: ./none.so: No such file or directory' run
plan '"."'
refused 'libraries[0]: ' run
if libm=$(ls /lib/*/libm.so.6 2> /dev/null); then # a library, but none of kernels
    plan "\"$libm\""
    refused 'exports no function inquest_kernels' run
fi
# Entries that are none.
while read -r sentence; do
    read -r entry
    plan "$entry"
    refused "plan.json: $sentence" run
done << 'LIST'
libraries[0]: found a number, expected an object
7
libraries[0]: expected the path of a shared library
{}
libraries[0]: expected the path of a shared library
{"file": "a.so", "process": ["b"]}
libraries[0]: expected the path of a shared library
{"process": "python3 mine.py"}
libraries[0]: process: expected a program and its arguments
{"process": []}
libraries[0]: process: expected a list of at most 64 texts
{"process": ["a", 7]}
libraries[0]: `timeout_s`: found 0
{"file": "a.so", "timeout_s": 0}
libraries[0]: `memory_mb`: found -1
{"file": "a.so", "memory_mb": -1}
libraries[0]: unknown key `timeout`, did you mean `timeout_s`?
{"file": "a.so", "timeout": 1}
libraries[0]: `sha256`:
{"file": "a.so", "sha256": 4}
LIST
plan '"text.so"'
sed -i 's/\["text.so"\]/"text.so"/' plan.json
refused 'plan.json: libraries: expected a list' run
plan "{\"file\":\"$IQ_TEST_ABI/hostile.so\",\"sha256\":\"00\"}"
refused 'of hostile.so, expected 00: it is another library now' run
# Two libraries may not bring the same name.
cp "$IQ_TEST_ABI/hostile.so" copy.so
plan "\"$IQ_TEST_ABI/hostile.so\",\"copy.so\""
refused 'plan.json: libraries[1]: ' run
plan "\"$IQ_TEST_ABI/hostile.so\",\"$IQ_TEST_ABI/hostile.so\""
run > out 2> talk
refused '--kernels needs --plan FILE' "$INQUEST" run --model m.gguf --prompt hello --kernels "$IQ_TEST_ABI/hostile.so"
