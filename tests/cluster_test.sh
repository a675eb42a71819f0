#!/usr/bin/env bash
# Runs on several ranks with Open MPI's mpirun: the same bits as one process, refused inputs, signals, ranks that die or
# stop. cluster_test.sh PROGRAM; `make cluster-test` runs it.
set -euo pipefail
program=$(realpath "$1")
goldens=$(dirname "$(realpath "$0")")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'echo "cluster_test: line $LINENO failed: $BASH_COMMAND" >&2' ERR
cd "$folder"
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none  # containers forbid it, and Open MPI would say so
. "$goldens/cluster_run.sh"
schedule=('lr = 1e-3')
log=('validate_every = 3' 'save_every = 2' 'keep_last = 100')
ranks() { mpirun -q --bind-to none -n "$@"; }

# same A B: whether two runs have the same checkpoint and losses
same() {
  same_checkpoint "$1" "$2"
  [ "$(losses "$1")" = "$(losses "$2")" ] || failed "$2: other losses than $1"
}
losses() { sed -E 's/"time":[^,]*,//; s/,"tokens_per_s":[^,}]*//' "$1/metrics.jsonl"; }
# refused STATUS TEXT COMMAND…: fails with one line that has TEXT
refused() {
  local status=0 lines
  n_run=$((n_run + 1))
  "${@:3}" >out.txt 2>err.txt || status=$?
  [ $status = "$1" ] || failed "${*:3}: exit status $status, expected $1"
  lines=$(grep -c '^vitrine: error' err.txt || true)
  [ "$lines" = 1 ] || failed "${*:3}: $lines error lines: $(head -5 err.txt)"
  grep -q -- "$2" err.txt || failed "${*:3}: expected \"$2\", got $(grep '^vitrine' err.txt)"
}

# The bits of one process, for numbers of ranks that divide the micro-batches and numbers that do not.
for train in 'dropout = 0.1' $'dtype = "bf16"\nrecompute = true'; do
  for parts in 6 8; do
    write_config one 4 $parts "$train"
    rm -rf one && "$program" train one.toml --threads 1 >/dev/null 2>&1
    for n in 2 3 5; do
      for shard in none optimizer gradients parameters; do
        case $n-$shard in 2-optimizer | 2-gradients | 5-none | 5-optimizer) continue ;; esac
        write_config several 4 $parts "$train"
        rm -rf several && ranks $n "$program" train several.toml --threads $((1 + n % 2)) --shard $shard 2>err.txt >out.txt ||
          failed "$n ranks, $shard: $(tail -3 err.txt)"
        same one several
      done
    done
  done
done
ranks 2 "$program" train several.toml --json >/dev/null 2>err.txt && failed "a run was overwritten"
rm -rf several
ranks 8 "$program" train several.toml --threads 1 --json 2>/dev/null | tail -1 >out.txt
same one several
grep -q '"cluster":{.*"ranks":8' out.txt || failed "no cluster in $(cat out.txt)"

# Refused, with one line and nothing written.
rm -rf several
refused 1 "expected at least as many as ranks (9), got 8" ranks 9 "$program" train several.toml
sed 's/lr = 1e-3/lr = 2e-3/' several.toml >other.toml
refused 1 "rank 1 on .* has another content than rank 0" \
  mpirun -q --bind-to none -n 1 "$program" train several.toml : -n 1 "$program" train other.toml
cp -r tokens others && sed 's/"tokens"/"others"/' several.toml >other.toml
printf '\x05' | dd of=others/shard-00000.tokens bs=1 seek=3000 conv=notrunc status=none
mkdir -p a b && cp -r tokens a/tokens && cp -r others b/tokens && cp several.toml a && cp several.toml b
refused 1 "rank 1 on .*tokens/shard-00000.tokens" \
  mpirun -q --bind-to none -n 1 --wdir "$folder/a" "$program" train several.toml : -n 1 --wdir "$folder/b" "$program" train several.toml
rm b/several.toml
refused 1 "rank 1 on .*several.toml" \
  mpirun -q --bind-to none -n 1 --wdir "$folder/a" "$program" train several.toml : -n 1 --wdir "$folder/b" "$program" train several.toml
refused 1 "expected one process" ranks 2 "$program" tokenize text.txt abc
refused 1 "srun --mpi=pmix" env SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 "$program" train several.toml
mkdir -p alone && cp "$program" alone
refused 1 "package vitrine-mpi" ranks 2 alone/vitrine train several.toml
[ ! -e several ] && [ ! -e a/several ] || failed "a refused run wrote its folder"

# A sample needs all weights at rank 0. The run starts from a checkpoint.
write_config first 2 4
"$program" train first.toml --threads 1 >/dev/null 2>&1
for name in one several; do
  rm -rf $name
  write_config $name 4 4
  sed -i 's/^save_every.*/&\nsample_every = 2\nsample_tokens = 8/; s/^train = .*/&\ntokenizer = "characters.json"/' $name.toml
  sed -i -e '1i [model]\nfrom = "first/last"' -e '/^\[model.config\]/,/^tied/d' $name.toml
done
"$program" train one.toml --threads 1 >/dev/null 2>err.txt || failed "$(tail -3 err.txt)"
ranks 3 "$program" train several.toml --threads 1 --shard parameters >/dev/null 2>err.txt || failed "$(tail -3 err.txt)"
same one several
cmp one/samples/step-000004.txt several/samples/step-000004.txt || failed "another sample"

# Memory and bytes, as `info` computes them. The model is large, so that MPI's own memory matters little.
cat >large.json <<'END'
{"model_type": "vitrine", "d_model": 512, "n_layers": 8, "n_heads": 8, "d_ff": 2048, "vocab_size": 512, "max_seq_len": 32,
 "positions": "rope", "norm": "rms", "activation": "silu", "gated": true, "tied": true}
END
printf '%s\n' '[model]' 'config = "large.json"' '[data]' 'train = "tokens"' '[train]' 'steps = 2' 'batch = 4' \
  'micro_batches = 4' 'seq_len = 32' '[schedule]' 'lr = 1e-3' '[out]' 'folder = "large"' >large.toml
rm -rf large && "$program" train large.toml --threads 1 >out.txt 2>err.txt
alone=$(grep -o '[0-9]* MB' err.txt | tail -1)  # the peak, in the line of the last step
echo "one process: $alone"
# numbers_of FILE KEY: the numbers of a list in the last line of FILE, one a line
numbers_of() { tail -1 "$1" | sed -E "s/.*\"$2\":\[([^]]*)\].*/\1/" | tr ',' '\n'; }
for shard in none optimizer gradients parameters; do
  rm -rf large
  ranks 4 "$program" train large.toml --threads 1 --shard $shard --json 2>err.txt >out.txt || failed "$(tail -3 err.txt)"
  "$program" info large.json --phase train --batch 4 --length 32 --ranks 4 --micro-batches 4 --shard $shard --json >paper.txt
  n_run=$((n_run + 1))
  [ "$(numbers_of out.txt bytes_sent)" = "$(numbers_of paper.txt bytes_sent)" ] || failed "$shard: other bytes than info"
  paste <(numbers_of out.txt peak_rss_bytes) <(numbers_of paper.txt memory_bytes) |
    awk -v s=$shard '{ printf "%s: %.0f MB of %.0f\n", s, $1 / 1e6, $2 / 1e6; if ($1 > 1.1 * $2) bad = 1 } END { exit bad }' ||
    failed "$shard: more memory than info computes"
done
numbers_of out.txt peak_rss_bytes | awk -v alone="${alone% MB}" '$1 / 1e6 > 0.45 * alone { bad = 1 } END { exit bad }' ||
  failed "parameters: more than 0.45 of the memory of one process"

# A model on several ranks. result_in FILE: without how fast it came.
result_in() { sed -E 's/"(timings|speculation)":(\{[^}]*\}|null)//g' "$1"; }
prompt='--ids 1,2,3,4,5,6,7,8,9'
for kind in layers heads; do
  for n in 2 3; do
    for command in "generate one/last $prompt --max-tokens 20 --seed 5" "predict one/last $prompt" "eval one/last text.txt --window 64"; do
      "$program" $command --json >one.txt 2>err.txt || failed "$command: $(cat err.txt)"
      ranks $n "$program" $command --json --split $kind --threads 1 >out.txt 2>err.txt || failed "$n $kind $command: $(tail -3 err.txt)"
      n_run=$((n_run + 1))
      [ "$(result_in one.txt)" = "$(result_in out.txt)" ] || failed "$n $kind: another result of $command"
    done
    "$program" logits one/last $prompt --out one.npy >/dev/null
    ranks $n "$program" logits one/last $prompt --out out.npy --split $kind >/dev/null 2>err.txt || failed "$(tail -3 err.txt)"
    cmp one.npy out.npy || failed "$n $kind: other logits"
  done
done
# Quantized weights, adapters, integer caches, and traces: one file with the same bytes.
"$program" init gemma-3-1b tiny --dtype bf16 --seed 1 --set n_layers=3 --set d_model=64 --set n_heads=4 --set n_kv_heads=4 \
  --set head_dim=32 --set query_pre_attn_scalar=32 --set d_ff=128 --set vocab_size=512 >/dev/null
"$program" quantize tiny tiny.gguf --type q8_0 >/dev/null 2>&1
"$program" lora new tiny adapter --rank 2 --seed 1 >/dev/null
for kind in layers heads; do
  for model in tiny tiny.gguf; do
    given="$model $prompt --adapter adapter"
    "$program" generate $given --max-tokens 9 --seed 5 --kv int8:int4 >one.txt
    "$program" trace $given --set 'blocks.1.attn.hook_z[:,2]*=0.5' --out one.safetensors >one.list
    ranks 3 "$program" generate $given --max-tokens 9 --seed 5 --kv int8:int4 --split $kind >out.txt 2>err.txt || failed "$(tail -3 err.txt)"
    ranks 3 "$program" trace $given --set 'blocks.1.attn.hook_z[:,2]*=0.5' --out out.safetensors --split $kind >out.list 2>err.txt || failed "$(tail -3 err.txt)"
    n_run=$((n_run + 1))
    cmp one.txt out.txt && cmp one.list out.list && cmp one.safetensors out.safetensors || failed "$kind $model: another result"
  done
done
# Numbers of ranks between K/V heads and query heads, a norm over all heads, encoders: every value of every site.
# A line has the folder, the numbers of ranks, and the input.
printf '%s\n' 'goldens/falcon_new 3:5' 'goldens/olmo2 2:4' 'goldens/masked/bert_pretraining 2' \
  'goldens/pairs/t5 2 --target-ids 0,3,4' 'goldens/pairs/bart 2 --target-ids 2,3,4' >families.txt
while read -r family counts target; do
  given="$goldens/$family --ids 5,6,7,8,9,1 $target"
  "$program" trace $given --sites '*' --out one.safetensors >one.list
  for split in heads:${counts%:*} heads:${counts#*:} layers:2; do
    n_run=$((n_run + 1))
    ranks ${split#*:} "$program" trace $given --sites '*' --out out.safetensors --split ${split%:*} >out.list 2>err.txt </dev/null ||
      failed "$family $split: $(tail -3 err.txt)"
    cmp one.list out.list && cmp one.safetensors out.safetensors || failed "$family $split: another trace"
  done
done <families.txt
# An encoder–decoder writes.
n_run=$((n_run + 1))
given="$goldens/goldens/pairs/t5 --ids 5,6,7,8"
"$program" generate $given --max-tokens 6 --seed 2 >one.txt
ranks 2 "$program" generate $given --max-tokens 6 --seed 2 --split layers >out.txt 2>err.txt || failed "$(tail -3 err.txt)"
cmp one.txt out.txt || failed "another translation"

# A signal to one rank ends all of them.
for _ in $(seq 100); do cat text.txt; done >long.txt
for victim in 0 1; do
  mpirun -q --bind-to none -n 2 "$program" eval one/last long.txt --window 64 --split heads >out.txt 2>err.txt &
  launcher=$!
  until pgrep -P $launcher -f 'eval one/last' >pids.txt && [ "$(wc -l <pids.txt)" = 2 ]; do sleep 0.1; done
  sleep 1
  begun=$SECONDS
  kill -TERM "$(sed -n $((victim + 1))p pids.txt)"
  wait $launcher && failed "a run survives SIGTERM at rank $victim"
  n_run=$((n_run + 1))
  [ $((SECONDS - begun)) -le 15 ] || failed "it took $((SECONDS - begun)) s to end after SIGTERM at rank $victim"
done

echo '{"prompt":"a","chosen":"b","rejected":"c"}' >pairs.jsonl
refused 1 "expected a plain text" ranks 2 "$program" eval one/last --pairs pairs.jsonl --split heads
refused 1 "expected a trace without gradients" ranks 2 "$program" trace one/last $prompt --gradients --out out.safetensors --split heads
refused 1 "at most as many ranks as layers (3), got 4" ranks 4 "$program" generate one/last $prompt --split layers
refused 1 "at most as many ranks as query heads (4), got 5" ranks 5 "$program" generate one/last $prompt --split heads
refused 1 "give --split layers or --split heads" ranks 2 "$program" generate one/last $prompt

# The network.
n_run=$((n_run + 1))
ranks 3 "$program" bench --network --json 2>/dev/null | grep -q '"to":1' || failed "bench --network"

# Signals: all ranks save the same step and end; SIGUSR1 with status 0.
write_config whole 3000 4
"$program" train whole.toml --threads 1 >/dev/null 2>&1
write_config parts 3000 4
resume=
step=200
for signal in USR1 TERM; do
  mpirun -q --bind-to none -n 2 "$program" train parts.toml --threads 1 $resume 2>err.txt >out.txt &
  launcher=$!
  until_step $step
  kill -$signal $launcher
  status=0
  wait $launcher || status=$?
  resume=--resume
  step=$((step + 600))
  n_run=$((n_run + 1))
  [ $signal = TERM ] || [ $status = 0 ] || failed "SIGUSR1: exit status $status: $(tail -3 err.txt)"
  [ -e parts/last/trainer_state.json ] || failed "SIG$signal: no checkpoint"
done
# A rank that dies, and one that stops: the run ends within 15 s, and another number of ranks continues it.
for n in 3 4; do
  mpirun -q --bind-to none -n $n "$program" train parts.toml --threads 1 --resume --peer-timeout 4 2>err.txt >out.txt &
  launcher=$!
  until_step $step
  victim=$(pgrep -P $launcher -f 'train parts.toml' | tail -1)
  if [ $n = 3 ]; then kill -KILL "$victim"; else kill -STOP "$victim"; fi
  begun=$SECONDS
  step=$((step + 600))
  wait $launcher && failed "the run survives the loss of a rank"
  n_run=$((n_run + 1))
  [ $((SECONDS - begun)) -le 15 ] || failed "it took $((SECONDS - begun)) s to end without a rank"
  [ $n = 3 ] || grep -q '^vitrine: error: .*rank .* has been silent for 4 s' err.txt || failed "a stopped rank: $(cat err.txt)"
done
ranks 2 "$program" train parts.toml --threads 1 --shard optimizer --resume 2>err.txt >out.txt || failed "$(tail -3 err.txt)"
cmp whole/last/model.safetensors parts/last/model.safetensors || failed "other weights after stops"
cmp whole/last/trainer_state.safetensors parts/last/trainer_state.safetensors || failed "other moments after stops"

finish
