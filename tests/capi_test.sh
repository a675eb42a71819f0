#!/bin/bash
# What libvitrine_c.so exports: only vitrine_*, at VITRINE_1, and the interface that is committed.
#   capi_test.sh LIBRARY SOURCE
# After an addition to the interface: abidw --exported-interfaces-only --drop-private-types --no-corpus-path --no-comp-dir-path --no-show-locs \
#     --headers-dir SOURCE/src/capi LIBRARY --out-file SOURCE/cmake/vitrine_c.abi
set -euo pipefail
library="$1" source="$2"
fail() { echo "capi_test: $*" >&2; exit 1; }

exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }')
[ "$(wc -l <<<"$exported")" -eq "$(grep -c '^VITRINE_API' "$source/src/capi/vitrine_c.h")" ] ||
  fail "it exports other symbols than the header declares: $exported"
if grep -v '^vitrine_[a-z]*@@VITRINE_1$' <<<"$exported"; then fail "an exported symbol is not vitrine_*@@VITRINE_1"; fi
readelf -d "$library" | grep -q 'SONAME.*libvitrine_c\.so\.1\]' || fail "the soname is not libvitrine_c.so.1"
if command -v abidiff >/dev/null; then
  abidiff --no-added-syms --headers-dir2 "$source/src/capi" "$source/cmake/vitrine_c.abi" "$library" ||
    fail "the interface differs from cmake/vitrine_c.abi"
else
  echo "capi_test: abidiff (Debian package abigail-tools) is missing: types are not compared"
fi
