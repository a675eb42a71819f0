#!/bin/bash
# Runs the commands of a page as a reader would, and compares their output with the page.
#   docs_test.sh SOURCE BUILD PAGE.md
#
# In fenced blocks of the page
#   $ COMMAND        is run by bash. All commands of a page run in the same temporary folder. A line that ends in \
#                    continues on the next one; a comment after two spaces and # is dropped. `build/vitrine` and `vitrine`
#                    are the program that was built. The folder contains the files of VITRINE_DATA and the substitutes
#                    named below.
#   other lines      up to the next command are its stdout; leading and trailing spaces are ignored, and `…` matches
#                    any text, including several lines. Without such lines, only the exit status must be 0.
#   ```toml, ```python, ```c  with a first line `# NAME.toml`, `# NAME.py` or `/* NAME.c */` is a file. It is written to the folder before the
#                    next command runs.
#   $ vitrine serve … runs in the background until the end of the page, at a free port that replaces 8080 on the page.
#   $ make TARGET    is not run, because this test is part of `make test`; the target must exist. tests/newcomer.sh runs it.
#   vitrine COMMAND …  without $, a synopsis: the command must exist.
# `info` runs with VITRINE_ISA=scalar, because its estimates of memory include buffers whose size depends on the
# instruction set.
# Commands that name missing data, or a model on a hub, are skipped and counted. A README.md in which no command is
# found fails, so that the test cannot pass without testing anything.
set -uo pipefail
source="$1" build="$2" page="$3"
work=$(mktemp -d)
server="" port=$((20000 + $$ % 20000))
trap 'if [ -n "$server" ]; then kill "$server"; wait "$server"; fi; rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir build bin && ln -s "$build/vitrine" build/vitrine && ln -s "$build/vitrine" bin/vitrine
PATH="$work/bin:$PATH"

# Data from outside the repository: the name on the pages, and the path in VITRINE_DATA.
missing=()
while read -r name place; do
  if [ -n "${VITRINE_DATA:-}" ] && [ -e "$VITRINE_DATA/$place" ]; then
    ln -s "$VITRINE_DATA/$place" "$name"
  else
    missing+=("$name")
  fi
done <<'DATA'
stories260K.bin models/stories260K/stories260K.bin
tok512.bin models/stories260K/tok512.bin
tok512.model models/stories260K/tok512.model
DATA

# Small substitutes for other files that pages name: a text, a training run, a translation and its reference, an answer,
# texts that differ, a model smaller than the published one.
echo "Once upon a time, there was a little girl named Lily. She loved to play outside." >story.txt
mkdir run && cp "$source/tests/metrics/metrics.jsonl" run/
ln -s "$source/models" models
echo "A dog runs on the beach." >translations.txt
echo "A dog is running on the beach." >references.txt
echo '{"prompt": "Once upon a", "completion": " time"}' >answers.jsonl
echo '{"positive": "She was happy.", "negative": "She was sad."}' >pairs.jsonl
printf '%s\n' '{"text": "She was happy.", "label": 1}' '{"text": "She was sad.", "label": 0}' >texts.jsonl
cp texts.jsonl held-out.jsonl
if grep -q 'gpt2/' "$source/$page"; then
  vitrine init gpt2 gpt2 --set d_model=48 --set n_layers=2 --set n_heads=4 --set vocab_size=5000 --seed 1 >/dev/null ||
    exit 1
fi

if grep -q 'sentiment/' "$source/$page"; then
  words='{"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{"[PAD]":0,"[CLS]":1,"[SEP]":2,"[UNK]":3,"[MASK]":4}},"post_processor":{"type":"BertProcessing","sep":["[SEP]",2],"cls":["[CLS]",1]}}'
  for name in sentiment/bert_classes reranker/distilbert_classes; do
    cp -r "$source/tests/goldens/heads/${name#*/}" "${name%/*}" && echo "$words" >"${name%/*}/tokenizer.json" || exit 1
  done
  ln -s sentiment encoder
  ln -s "$source/tests/goldens/spans/word_piece_tags" ner
  ln -s "$source/tests/goldens/spans/word_piece_answers" squad
fi

if grep -q 't5/' "$source/$page"; then
  vitrine init t5-small t5 --set d_model=16 --set n_layers=1 --set n_heads=2 --set head_dim=8 --set d_ff=32 \
    --set vocab_size=100 --seed 1 >/dev/null || exit 1
  printf '%s\n' '[5, 6, 7, 1]' '[8, 9, 1]' >ids.jsonl
fi

if grep -q 'train config.toml' "$source/$page"; then
  vitrine tokenizer train --model bytes --out bytes.json >/dev/null
  vitrine data pack story.txt --tokenizer bytes.json --out config-tokens >/dev/null
  printf '%s\n' '[model]' 'preset = "gpt2"' \
    'set = { d_model = 16, n_layers = 1, n_heads = 2, vocab_size = 256, max_seq_len = 16 }' \
    '[data]' 'train = "config-tokens"' '[train]' 'steps = 2' 'batch = 2' 'seq_len = 16' '[out]' 'folder = "config-run"' \
    >config.toml
fi

# The C library as `make install` places it.
if grep -q 'vitrine-c' "$source/$page"; then
  mkdir -p prefix/include prefix/lib/pkgconfig
  ln -s "$source/src/capi/vitrine_c.h" prefix/include/
  ln -s "$build"/libvitrine_c.so* prefix/lib/
  cp "$build/vitrine-c.pc" prefix/lib/pkgconfig/
  export PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig" LD_LIBRARY_PATH="$work/prefix/lib"
fi

n_run=0 n_skipped=0 n_failed=0
failed() { echo "docs_test: $page:$1: $2" >&2; n_failed=$((n_failed + 1)); }
trimmed() { sed -e 's/[[:space:]]*$//' | sed -e '/./,$!d' | sed -e ':a' -e '/^\n*$/{$d;N;ba' -e '}'; }

# start_server LINE COMMAND
start_server() {
  bash -c "exec $2" >server.txt 2>&1 </dev/null &
  server=$!
  for _ in $(seq 200); do
    if curl -sf "localhost:$port/health" >/dev/null; then return; fi
    sleep 0.1
  done
  failed "$1" "$2 does not serve: $(cat server.txt)"
}
stop_server() {
  if [ -z "$server" ]; then return; fi
  kill "$server"
  wait "$server" || failed "$number" "the server's exit status is not 0: $(tail -3 server.txt)"
  server=""
}

# check LINE COMMAND EXPECTED
check() {
  local line="$1" command="${2//8080/$port}" expected got pattern
  expected=$(trimmed <<<"${3//8080/$port}")
  if [[ $command == *python3\ *.py ]] && ! python3 -c 'import openai' 2>/dev/null; then
    n_skipped=$((n_skipped + 1))
    return
  fi
  if [[ " $command" == *\ hf:* ]]; then  # tests have no network
    n_skipped=$((n_skipped + 1))
    return
  fi
  for name in ${missing[@]+"${missing[@]}"}; do
    if [[ " $command " == *[\ /\"\']"$name"[\ \"\']* ]]; then
      n_skipped=$((n_skipped + 1))
      return
    fi
  done
  n_run=$((n_run + 1))
  if [[ $command == make\ * ]]; then
    make -C "$source" -n ${command#make } >/dev/null 2>&1 || failed "$line" "make has no such target: $command"
    return
  fi
  if [[ $command == "vitrine serve"* ]]; then
    stop_server
    start_server "$line" "$command"
    return
  fi
  local environment=()
  [[ $command == *" info "* ]] && environment=(VITRINE_ISA=scalar)
  if ! got=$(env ${environment[@]+"${environment[@]}"} bash -c "$command" 2>stderr.txt </dev/null); then
    failed "$line" "$command: exit status is not 0: $(tail -3 stderr.txt)"
    return
  fi
  [ -n "$expected" ] || return
  got=$(trimmed <<<"$got")
  pattern=$(sed -e 's/[][*?\\]/\\&/g' -e 's/…/*/g' <<<"$expected")
  # shellcheck disable=SC2053
  [[ $got == $pattern ]] || failed "$line" "$command
--- the page
$expected
--- the program
$got"
}

number=0 fenced=0 command="" command_line=0 expected="" going_on=0 file="" is_file=0
end_of_command() {
  if [ -n "$command" ]; then check "$command_line" "$command" "$expected"; fi
  command="" expected=""
}
while IFS= read -r line || [ -n "$line" ]; do
  number=$((number + 1))
  if [[ $line == '```'* ]]; then
    end_of_command
    fenced=$((1 - fenced)) going_on=0 file="" is_file=0
    if [ $fenced = 1 ] && [[ $line == '```toml' || $line == '```python' || $line == '```c' ]]; then is_file=1; fi
  elif [ $fenced = 0 ]; then
    continue
  elif [ $is_file = 1 ]; then
    if [[ $line =~ ^(#|/\*)\ ([a-z_]+\.(toml|py|c))(\ \*/)?$ ]]; then file=${BASH_REMATCH[2]}; fi
    if [ -n "$file" ]; then printf '%s\n' "${line//8080/$port}" >>"$file"; fi
  elif [ $going_on = 1 ]; then
    command+=" ${line%\\}"
    if [[ $line != *\\ ]]; then going_on=0; fi
  elif [[ $line == '$ '* ]]; then
    end_of_command
    command_line=$number command=${line#\$ }
    if [[ $command == *\\ ]]; then command=${command%\\} going_on=1; fi
    command=$(sed -e 's/[[:space:]][[:space:]]\+# .*$//' <<<"$command")
  elif [ -n "$command" ]; then
    expected+="$line"$'\n'
  elif [[ $line =~ ^vitrine\ ([a-z]+) ]]; then
    n_run=$((n_run + 1))
    vitrine "${BASH_REMATCH[1]}" --help 2>&1 | grep -q "^Usage: vitrine ${BASH_REMATCH[1]} " ||
      failed "$number" "there is no command ${BASH_REMATCH[1]}"
  fi
done <"$source/$page"
end_of_command
stop_server

echo "docs_test: $page: $n_run run, $n_skipped skipped without VITRINE_DATA, $n_failed failed"
[ $n_failed = 0 ] || exit 1
if [ $((n_run + n_skipped)) = 0 ] && [ "$page" = README.md ]; then exit 1; fi
if [ $n_run = 0 ] && [ $n_skipped -gt 0 ]; then exit 77; fi
