#!/bin/bash
# Builds vitrine for 64-bit ARM and runs the kernel tests and the golden tests in qemu: aarch64_test.sh SOURCE
# Exits with 77 (skipped) if the compiler, qemu or the libraries are missing; `make aarch64-test` installs them.
set -euo pipefail
cd "$1"
build=build-aarch64
libraries=$build/libraries/usr
missing=""
for tool in aarch64-linux-gnu-g++ qemu-aarch64; do command -v "$tool" >/dev/null || missing+=" $tool"; done
[ -d "$libraries" ] || missing+=" $libraries"
if [ -n "$missing" ]; then
  echo "aarch64_test: skipped, missing:$missing"
  exit 77
fi
cmake --preset aarch64 >$build/configure.log 2>&1 || { cat $build/configure.log; exit 1; }
cmake --build --preset aarch64 --target kernels_tests checkpoint_tests
run() { qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=$libraries/lib/aarch64-linux-gnu "$@"; }
# Death tests start themselves again, without qemu.
run $build/tests/kernels_tests --gtest_brief=1 --gtest_filter=-*DeathTest*
run $build/tests/checkpoint_tests --gtest_brief=1 --gtest_filter=*Golden*
