#!/usr/bin/env bash
# Runs fuzz targets one after the other: fuzz/run.sh [SECONDS] [TARGET…]. Without target names, it runs all targets.
#
# A finding (a crash, a hang, too much memory) ends the run with an error; its input is in build-fuzz/findings. The inputs
# of fuzz/corpus are unpacked into build-fuzz/corpus, where inputs that reach new code are added. fuzz/minimize.sh packs the
# useful ones again.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
build="${VITRINE_FUZZ_BUILD:-$here/../build-fuzz}"
seconds="${1:-10}"
shift || true
[ $# -gt 0 ] || set -- $(cd "$here" && ls *_fuzz.cpp | sed 's/_fuzz\.cpp$//')

for target in "$@"; do
  case "$target" in
    config | dictionary | generation_config | hugging_face | safetensors | shard_index) dictionary=config ;;
    gguf_model | gguf_vocab | tiktoken | tokenizer_json) dictionary=$target ;;
    template) dictionary=template ;;
    request) dictionary=request ;;
    conversation | json | metrics | train_config) dictionary=config ;;
    *) dictionary=marks ;;
  esac
  mkdir -p "$build/corpus/$target" "$build/findings"
  tar -xzf "$here/corpus/$target.tar.gz" -C "$build/corpus/$target"
  # Limits for one input: 5 s, and 300 MB in one allocation. Sanitizers make both several times larger than normal.
  "$build/fuzz/${target}_fuzz" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=600 -malloc_limit_mb=300 -max_len=8192 \
    -dict="$here/dictionaries/$dictionary.dict" -artifact_prefix="$build/findings/$target-" -print_final_stats=1 \
    "$build/corpus/$target"
done
