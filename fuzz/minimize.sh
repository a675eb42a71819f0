#!/usr/bin/env bash
# Reduces the corpus after long runs: fuzz/minimize.sh [TARGET…]. Of the inputs in fuzz/corpus and build-fuzz/corpus it
# keeps, in fuzz/corpus, the fewest that reach the same edges, and past findings (names that begin with `found-`).
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
build="${VITRINE_FUZZ_BUILD:-$here/../build-fuzz}"
[ $# -gt 0 ] || set -- $(cd "$here" && ls *_fuzz.cpp | sed 's/_fuzz\.cpp$//')

for target in "$@"; do
  fewest="$(mktemp -d)"
  mkdir -p "$build/corpus/$target"
  "$build/fuzz/${target}_fuzz" -set_cover_merge=1 -use_counters=0 "$fewest" "$here/corpus/$target" \
    "$build/corpus/$target" >"$fewest.log" 2>&1 || { cat "$fewest.log"; exit 1; }
  cp "$here/corpus/$target"/found-* "$fewest" 2>/dev/null || true
  rm -r "$here/corpus/$target"
  cp -r "$fewest" "$here/corpus/$target"
  chmod -R u=rwX,go=rX "$here/corpus/$target"
  rm -r "$fewest" "$fewest.log"
  echo "$target: $(ls "$here/corpus/$target" | wc -l) inputs, $(du -sb "$here/corpus/$target" | cut -f1) bytes"
done
