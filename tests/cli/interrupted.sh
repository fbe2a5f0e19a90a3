# SIGTERM in the middle of a record: the bar's line is erased, the status is 143, and the store is clean.
. "$CASES/helpers.sh"
command -v script > /dev/null || { echo "no script(1); skipped"; exit 77; }
small_model m.gguf
prompts 200 > p.jsonl
cat > record.sh << 'END'
"$INQUEST" record --model m.gguf --prompts p.jsonl --max-tokens 30 --batch 1 --level tensors --store S --name g > out.txt &
echo $! > pid
{ wait $!; } 2> /dev/null || echo $? > rc
END
TERM=xterm script -qc 'sh record.sh' typescript > screen &
until chains S g | grep -q .; do sleep 0.05; done
sleep 0.3
kill -TERM "$(cat pid)"
wait
cat rc
tail -c 4 screen | od -An -c
"$INQUEST" store verify --store S > verify.txt
