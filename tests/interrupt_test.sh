#!/usr/bin/env bash
# interrupt_test.sh PROGRAM MOMENTS LIMIT [COMMAND…]
# Ctrl-C ends every command within LIMIT milliseconds. Each command gets work for several seconds and is interrupted at
# MOMENTS random moments of its first two seconds. With COMMAND…, only these commands are tested.
set -euo pipefail
program=$(realpath "$1")
moments=$2
limit=$3
shift 3
only=" $* "

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
RANDOM=1
failed=0

now() { echo "${EPOCHREALTIME/[.,]/}"; }  # microseconds

input=/dev/null

# interrupt NAME ARGUMENTS…: runs the program with $input as its input.
interrupt() {
  local name=$1 i delay begun took status pid slowest=0 early=0
  shift
  [[ $only == "  " || $only == *" $name "* ]] || return 0
  for ((i = 0; i < moments; ++i)); do
    rm -rf out out.*
    delay=$((RANDOM % 2000))
    # A shell starts background processes with SIGINT ignored.
    env --default-signal=INT "$program" "$@" < "$input" > stdout 2> stderr &
    pid=$!
    sleep "$(printf '%d.%03d' $((delay / 1000)) $((delay % 1000)))"
    begun=$(now)
    kill -INT $pid 2> kill.log || true
    status=0
    wait $pid || status=$?
    took=$((($(now) - begun) / 1000))
    ((took > slowest)) && slowest=$took
    if ((status == 0)); then
      ((++early))
    elif ((status != 130)); then
      echo "$name after $delay ms: expected status 130, got $status: $(tail -n 1 stderr)"
      failed=1
    fi
    # A run that succeeds was writing its file; a busy disk may need seconds for fsync().
    if ((took > (status == 0 ? 5 * limit : limit))); then
      echo "$name after $delay ms: took $took ms to end"
      failed=1
    fi
  done
  echo "$name: at most $slowest ms; $early of $moments runs had ended before"
}

# A model, texts, a tokenizer, tokens, and a run to resume.
prepare() {
  local sizes=(--set d_model=512 --set n_layers=6 --set n_heads=8 --set vocab_size=1024 --set max_seq_len=8192)
  "$program" init gpt2 model "${sizes[@]}" --seed 1
  awk 'BEGIN { srand(1); for (i = 0; i < 600000; ++i) printf "%c%c%c%s", 97 + rand() * 26, 97 + rand() * 26,
       97 + rand() * 26, i % 12 ? " " : ".\n" }' > text.txt
  for i in 1 2 3 4 5 6 7 8; do cat text.txt; done > long.txt
  head -c 200000 text.txt > short.txt
  "$program" tokenizer train short.txt --vocab-size 1024 --out tokenizer.json
  "$program" data pack text.txt --tokenizer tokenizer.json --out tokens
  "$program" data pack long.txt --tokenizer tokenizer.json --out many-tokens
  awk 'BEGIN { for (i = 0; i < 400000; ++i) printf "{\"step\":%d,\"time\":1,\"loss\":%f,\"lr\":0.1}\n", i, 1 / (i + 1) }' \
    > metrics.jsonl
  cat > train.toml << END
[model]
config = "model/config.json"
[data]
train = "tokens"
validation_fraction = 0.1
tokenizer = "tokenizer.json"
[train]
steps = 100000
batch = 8
seq_len = 256
[log]
save_every = 2
validate_every = 3
sample_every = 1
[out]
folder = "out"
END
  sed 's/"out"/"run"/; s/steps = 100000/steps = 1/' train.toml > short.toml
  sed 's/"out"/"run"/' train.toml > resume.toml
  "$program" train short.toml
}
prepare > prepare.log 2>&1 || { cat prepare.log; exit 1; }
ids=$(seq -s, 0 1000),$(seq -s, 0 1000),$(seq -s, 0 1000)
longer=$ids,$ids

interrupt predict predict model --ids "$longer"
interrupt generate generate model --ids 1 --max-tokens 5000
interrupt logits logits model --ids "$longer" --out out.npy
interrupt grad grad model --ids "$ids" --out out.safetensors
interrupt trace trace model --ids "$ids" --out out.safetensors
interrupt trace-gradients trace model --ids "$ids" --gradients --out out.safetensors
interrupt embed embed model '#1' '#2' --tokenizer tokenizer.json
interrupt eval eval model long.txt --tokenizer tokenizer.json
interrupt imatrix imatrix model long.txt --tokenizer tokenizer.json --out out.gguf
interrupt info info model
interrupt init init gpt2 out --seed 1
interrupt bench bench model
interrupt quantize quantize model out.gguf --type q8_0
input=long.txt interrupt tokenize tokenize tokenizer.json -
interrupt tokenizer tokenizer train long.txt long.txt long.txt --vocab-size 20000 --out out.json
interrupt pack data pack long.txt long.txt long.txt long.txt --tokenizer tokenizer.json --out out
interrupt baselines data baselines many-tokens
interrupt plot plot metrics.jsonl metrics.jsonl metrics.jsonl --out out.svg
interrupt score score long.txt long.txt
interrupt train train train.toml
interrupt resume train resume.toml --resume
exit $failed
