#!/usr/bin/env bash
# Adds a mixer as CONTRIBUTING says, a folder and its name in model/sublayers.h, builds the program, and tries every
# command on a model that has the mixer alone, next to attention, and in turn with it.
# mixer_test.sh FOLDER builds in FOLDER, which it creates; `make mixer-test` runs it.
set -euo pipefail
source=$(dirname "$(dirname "$(realpath "$0")")")
mkdir -p "$1"
tree=$(realpath "$1")
trap 'echo "mixer_test: line $LINENO failed: $BASH_COMMAND" >&2' ERR

# The recipe.
rm -rf "$tree"/{src,model}
cp -a "$source"/{CMakeLists.txt,CMakePresets.json,cmake,src,web,models,docs,python,tools} "$tree" 2>/dev/null || true
cp -a "$source"/tests/mixer/src "$tree"
sed -i -e 's|^#include "model/mixers/attention/attention.h"|&\n#include "model/mixers/average/average.h"|' \
  -e 's|KindList<AttentionConfig, |&AverageConfig, |' "$tree/src/model/sublayers.h"
(cd "$tree" && cmake --preset release -DVITRINE_TESTS=OFF -DVITRINE_BENCH=OFF -DVITRINE_INSTALL=OFF -DVITRINE_C=OFF) >"$tree/log" 2>&1 || { cat "$tree/log"; exit 1; }
ninja -C "$tree/build" vitrine >"$tree/log" 2>&1 || { tail -40 "$tree/log"; exit 1; }
program="$tree/build/vitrine"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failed() { echo "mixer_test: $*" >&2; exit 1; }
# says TEXT COMMAND…: the output has TEXT
says() {
  "${@:2}" >out.txt 2>err.txt || failed "${*:2}: $(tail -3 err.txt)"
  grep -qF -- "$1" out.txt || failed "${*:2}: expected \"$1\", got $(head -c 2000 out.txt)"
}
# refused TEXT COMMAND…: fails with one line that has TEXT
refused() {
  local status=0
  "${@:2}" >out.txt 2>err.txt || status=$?
  [ $status -eq 1 ] && [ "$(grep -c '^vitrine: error' err.txt)" = 1 ] || failed "${*:2}: status $status, $(cat err.txt)"
  grep -qF -- "$1" err.txt || failed "${*:2}: expected \"$1\", got $(cat err.txt)"
}
# same A B: two files are equal
same() {
  cmp "$1" "$2" || failed "$1 and $2 differ"
}

cat >config.json <<JSON
{"model_type": "average", "architectures": ["AverageForCausalLM"], "hidden_size": 32, "num_hidden_layers": 8,
 "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 512, "vocab_size": 256}
JSON
seq 400 | awk '{ printf "%c%c%c\n", 97 + $1 % 26, 97 + ($1 * 7) % 26, 97 + int($1 / 3) % 26 }' >text.txt
"$program" tokenizer train text.txt --model char --out characters.json >/dev/null
"$program" data pack text.txt --tokenizer characters.json --out tokens >/dev/null 2>&1

# train writes a model whose decays are no longer 0; with recompute and in parts it has the same bits.
write_config() {
  printf '%s\n' '[model.config]' "${config[@]}" '[data]' 'train = "tokens"' 'tokenizer = "characters.json"' '[train]' 'steps = 12' 'batch = 4' 'seq_len = 16' 'seed = 1' \
    'dropout = 0.1' "${@:2}" '[schedule]' 'name = "constant"' 'lr = 1e-2' '[out]' "folder = \"$1\"" >"$1.toml"
}
config=('model_type = "average"' 'architectures = ["AverageForCausalLM"]' 'hidden_size = 32' 'num_hidden_layers = 8'
  'num_attention_heads = 4' 'intermediate_size = 64' 'max_position_embeddings = 512' 'vocab_size = 27')
write_config whole
write_config recomputed 'recompute = true'
"$program" train whole.toml --threads 2 >out.txt 2>err.txt || failed "train: $(cat err.txt)"
"$program" train recomputed.toml --threads 1 >out.txt 2>err.txt || failed "train: $(cat err.txt)"
same whole/last/model.safetensors recomputed/last/model.safetensors
model=whole/last
text='abcabdabe'

says 'average' "$program" info $model
says 'blocks.0.average.decay' "$program" info $model --json

# What is read token by token from the cache has the bits of what is read at once, on any number of threads.
ids() { sed 's/.*"ids":\[\([^]]*\)\].*/\1/' "$1"; }
logprobs() { grep -o '"logprob":[^,]*,"piece":"[^"]*","top"' "$1" | cut -d, -f1 | tail -"$2"; }
generate() { "$program" generate $model "${@:2}" --greedy --json --seed 1 --logprobs 1 >"$1" 2>err.txt || failed "generate: $(cat err.txt)"; }
"$program" tokenize $model "$text" --json >out.txt 2>/dev/null
generate first.json "$text" --max-tokens 20 --threads 2
prompt=$(sed 's/.*"prompt_ids":\[\([^]]*\)\].*/\1/' first.json)
generate second.json --ids "$prompt,$(ids first.json | cut -d, -f1-10)" --max-tokens 10 --threads 1
logprobs first.json 10 >a.txt
logprobs second.json 10 >b.txt
[ "$(wc -l <a.txt)" = 10 ] || failed "no log-probabilities in $(cat first.json)"
same a.txt b.txt
"$program" generate $model "$text" --max-tokens 6 --beam 3 --json >out.txt 2>err.txt || failed "beams: $(cat err.txt)"

# Sites: in the default set, written, on demand.
"$program" trace $model "$text" --sites '*average*' --out trace.safetensors >/dev/null 2>err.txt || failed "trace: $(cat err.txt)"
for layer in 0 2 3 4; do
  for site in average.hook_state average.hook_out hook_average_out; do
    grep -aqF "\"blocks.$layer.$site\"" trace.safetensors || failed "trace: no blocks.$layer.$site"
  done
done
if grep -aq 'hook_average_in\|blocks.1.average' trace.safetensors; then failed "trace: more sites than the model has"; fi
"$program" trace $model "$text" --sites 'blocks.3.hook_resid_mid' --sites 'blocks.2.average.hook_state' --gradients \
  --set 'blocks.0.average.hook_state[0]=0' --out trace.safetensors >/dev/null 2>err.txt || failed "trace: $(cat err.txt)"
for name in blocks.2.average.hook_state_grad blocks.3.hook_resid_mid; do
  grep -aqF "\"$name\"" trace.safetensors || failed "trace: no $name"
done
"$program" trace $model "$text" --sites 'blocks.7.average.hook_state' --out last.safetensors >/dev/null 2>err.txt || failed "trace: $(cat err.txt)"

# Gradients, and what they say about a small change of a decay.
"$program" grad $model "$text" --out grad.safetensors >/dev/null 2>err.txt || failed "grad: $(cat err.txt)"
grep -aqF 'layers.0.average.decay' grad.safetensors || failed "grad: no gradient of a decay"

says 'blocks.7.hook_resid_post' "$program" lens $model "$text"
says 'resid_post' "$program" patch $model --clean abcabd --corrupted abdabd --token a --site hook_resid_post --json
"$program" patch $model --clean abcabd --corrupted abdabd --token a --site attn.hook_z --json >out.txt 2>err.txt || failed "patch: $(cat err.txt)"
grep -qF '"metric":[[],[' out.txt || failed "patch: $(cat out.txt)"
"$program" look $model "$text" --out page.html >/dev/null 2>err.txt || failed "look: $(cat err.txt)"
says ' 7.3 ' "$program" heads $model "$text"
says 'average' "$program" attribute $model "$text" --token a
refused 'average' "$program" quantize $model model.gguf --type q8_0

# The server reads only what is new of a text that it has read.
"$program" serve $model --port 0 >serve.txt 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 100); do grep -qs 'http://' serve.txt && break; sleep 0.1; done
url=$(grep -o 'http://[^ ,]*' serve.txt | head -1)
curl -sS "$url/v1/completions" -H 'Content-Type: application/json' -d "{\"prompt\": \"$text\", \"max_tokens\": 20, \"temperature\": 0}" >answer.json
grep -qF "\"text\":$(grep -o '"text":"[^"]*"' first.json | cut -d: -f2)" answer.json || failed "serve: $(cat answer.json)"
kill -TERM $server
wait $server || true
echo "mixer_test: all checks hold, $SECONDS s"
