#!/bin/bash
# Only the objects of the AVX2 and AVX-512 kernels may use wide vector registers: all other code must run on any x86-64
# processor. These objects export only their tables, so that the linker takes no other function from them.
#   instructions_test.sh BUILD
set -euo pipefail
build="$1"
fail() { echo "instructions_test: $*" >&2; exit 1; }
count=0
while read -r object; do
  case "$object" in
    */kernels_avx512.cpp.o | */blocks_avx512vnni.cpp.o | */pairs_avx512.cpp.o | */pairs_avx512bf16.cpp.o) forbidden='^$' ;;
    */kernels_avx2.cpp.o | */blocks_avx2.cpp.o | */blocks_avxvnni.cpp.o | */pairs_avx2.cpp.o) forbidden='%zmm|%k[1-7]\b' ;;
    *) forbidden='%[yz]mm' ;;
  esac
  if objdump -d --no-show-raw-insn "$object" | grep -qE "$forbidden"; then fail "$object has instructions that not every x86-64 processor has"; fi
  count=$((count + 1))
done < <(find "$build/src" -name '*.o' | sort)
for table in kernels_avx2 kernels_avx512 blocks_avx2 blocks_avxvnni blocks_avx512vnni pairs_avx2 pairs_avx512 pairs_avx512bf16; do
  object=$(find "$build/src" -name "$table.cpp.o")
  shared=$(nm -C --defined-only "$object" | grep -E ' [A-Z] ' | grep -v ' [BDRT] vitrine::kA' || true)
  [ -z "$shared" ] || fail "$object exports: $shared"
done
[ "$count" -gt 40 ] || fail "expected the objects of the build, got $count"
echo "$count objects"
