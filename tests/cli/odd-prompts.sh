# Each odd line of prompts is refused with its place and what was expected.
. "$CASES/helpers.sh"
small_model m.gguf
run() { "$INQUEST" run --model m.gguf "$@"; }
line() { # SENTENCE, then the file's lines on standard input
    cat > p.jsonl
    refused "$1" run --prompts p.jsonl
}
line 'p.jsonl: no prompts in it' < /dev/null
echo | line 'p.jsonl: no prompts in it'
echo '{"id":"a","prompt":""}' | line 'request a: the prompt has no tokens'
echo '{"id":"a","ids":[]}' | line 'p.jsonl:1: ids: expected a list of token ids'
echo '{"id":"a","ids":[5,320]}' | line 'request a: prompt token 1 is 320; the vocabulary has 320'
echo '{"id":"a","ids":[-1]}' | line 'p.jsonl:1: found -1, expected an integer from 0'
echo '{"id":"a","ids":[1.5]}' | line 'p.jsonl:1: found 1.5, expected an exact integer'
printf '{"id":"a","ids":[5]}\n{"id":"a","ids":[6]}\n' | line 'p.jsonl: two prompts have the id "a"'
echo '{"id":"a","prompt":"x","ids":[5]}' | line 'p.jsonl:1: found 2 of "messages", "prompt" and "ids"; expected exactly one'
echo '{"id":"a","messages":[]}' | line 'p.jsonl:1: messages: expected a list'
echo '{"id":"a","promt":"x"}' | line 'unknown key `promt`, did you mean `prompt`?'
echo '{"id":"a","id":"b","prompt":"x"}' | line 'p.jsonl:1:1:11: the key "id" stands twice'
echo '{"id":"a","prompt":"x","temperature":1e400}' | line 'p.jsonl:1:1:38: a number is too large'
printf '\n{"id":"a","prompt":"\377"}\n' | line 'p.jsonl:2:1:21: expected UTF-8, found byte 0xff'
printf '{"id":"a","prompt":"x"}\0\n' | line 'expected nothing after the JSON value, found byte 0x00'
echo '{"id":"a","prompt":"x\ud800"}' | line 'a high surrogate stands alone'
head -c 100000 /dev/zero | tr '\0' '[' | line 'nested deeper than 64'
refused 'this model is open for 512 positions' run --prompt hello --max-tokens 600
refused "the model's context is 512 positions, asked for 513" run --prompt hello --positions 513
refused '--kv-blocks 1: the longest request needs 6 blocks' run --prompt hello --kv-blocks 1
refused "3 ranks are more than the model's 2 KV groups" run --prompt hello --tp 3
run --prompt hello --max-tokens 0 --json | sed 's/.*"ids":\[\],"text":"","finish":"length".*/nothing to generate/'
