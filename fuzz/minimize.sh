#!/usr/bin/env bash
# Packs the corpus after long runs: fuzz/minimize.sh [TARGET…]. Of the inputs in fuzz/corpus and build-fuzz/corpus it
# packs, into fuzz/corpus, the fewest that reach the same edges, and past findings (names that begin with `found-`).
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
build="${VITRINE_FUZZ_BUILD:-$here/../build-fuzz}"
[ $# -gt 0 ] || set -- $(cd "$here" && ls *_fuzz.cpp | sed 's/_fuzz\.cpp$//')

for target in "$@"; do
  corpus="$build/corpus/$target"
  archive="$here/corpus/$target.tar.gz"
  fewest="$(mktemp -d)"
  mkdir -p "$corpus"
  [ ! -f "$archive" ] || tar -xzf "$archive" -C "$corpus"
  "$build/fuzz/${target}_fuzz" -set_cover_merge=1 -use_counters=0 "$fewest" "$corpus" >"$fewest.log" 2>&1 ||
    { cat "$fewest.log"; exit 1; }
  cp "$corpus"/found-* "$fewest" 2>/dev/null || true
  # The same inputs give the same archive.
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -C "$fewest" -c . | gzip -n9 >"$archive"
  echo "$target: $(ls "$fewest" | wc -l) inputs, $(stat -c %s "$archive") bytes packed"
  rm -r "$fewest" "$fewest.log"
done
