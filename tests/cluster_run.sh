# What the tests of several ranks share. They source it in a folder of their own, with `program` set.

n_failed=0 n_run=0
test_name=$(basename "$0" .sh)
failed() { echo "$test_name: $1" >&2; n_failed=$((n_failed + 1)); }
finish() {
  echo "$test_name: $n_run checks, $n_failed failed, $SECONDS s"
  [ $n_failed = 0 ]
}

# write_config NAME STEPS MICRO_BATCHES [LINES OF train]; a test may set the lines of schedule and log
schedule=('name = "constant"' 'lr = 1e-3')
log=('save_every = 50')
write_config() {
  printf '%s\n' '[model.config]' 'model_type = "vitrine"' 'd_model = 48' 'n_layers = 3' 'n_heads = 4' 'd_ff = 128' \
    'vocab_size = 64' 'max_seq_len = 64' 'positions = "rope"' 'norm = "rms"' 'activation = "silu"' 'gated = true' \
    'tied = true' '[data]' 'train = "tokens"' 'validation_fraction = 0.1' '[train]' "steps = $2" "batch = $((2 * $3))" \
    "micro_batches = $3" 'seq_len = 32' 'seed = 1' "${@:4}" '[schedule]' "${schedule[@]}" '[log]' "${log[@]}" '[out]' \
    "folder = \"$1\"" >"$1.toml"
}
# same_checkpoint A B: whether two runs end with the same bytes
same_checkpoint() {
  n_run=$((n_run + 1))
  cmp "$1/last/model.safetensors" "$2/last/model.safetensors" || failed "$2: other weights than $1"
  cmp "$1/last/trainer_state.safetensors" "$2/last/trainer_state.safetensors" || failed "$2: other moments than $1"
}
# until_step N: waits until the run in parts has learned step N, 60 s at most
until_step() {
  for _ in $(seq 600); do
    if [ -e parts/metrics.jsonl ] && tail -1 parts/metrics.jsonl | awk -F '[:,]' -v n="$1" '{ exit !($2 >= n) }'; then return; fi
    sleep 0.1
  done
  failed "no step $1 in 60 s: $(tail -3 err.txt)"
}

seq 4000 | awk '{ printf "%c%c%c\n", 97 + $1 % 26, 97 + ($1 * 7) % 26, 97 + int($1 / 3) % 26 }' >text.txt
"$program" tokenizer train text.txt --model char --out characters.json >/dev/null
"$program" data pack text.txt --tokenizer characters.json --out tokens >/dev/null 2>&1
